package claims

import (
	"bytes"
	"strings"
	"testing"

	"tenaq/internal/cli"
	"tenaq/internal/ops/sweep"
)

// The exit code says whether all, some or none could be sent and settled.
func TestVerdict(t *testing.T) {
	sent := &sweep.Work{Key: "a", Action: sweep.Resend, Sent: "m1"}
	unsent := &sweep.Work{Key: "b", Action: sweep.Resend, Error: "throttled"}
	unsettled := &sweep.Work{Key: "c", Action: sweep.Settle, Error: "no answer"}
	left := &sweep.Work{Key: "d", Action: sweep.None}
	for _, tt := range []struct {
		run   bool
		found []*sweep.Work
		code  int
		text  string
	}{
		{true, []*sweep.Work{sent, left}, cli.ExitOK, ""},
		{true, nil, cli.ExitOK, ""},
		{true, []*sweep.Work{unsent, left}, cli.ExitFailed, "none of 1 was sent;"},
		{true, []*sweep.Work{sent, unsent}, cli.ExitPartly, "1 sent, 1 not;"},
		{true, []*sweep.Work{unsent, unsettled}, cli.ExitFailed, "none of 2 was sent or settled;"},
		{true, []*sweep.Work{sent, unsettled, left}, cli.ExitPartly, "1 sent or settled, 1 not;"},
		{false, []*sweep.Work{{Action: sweep.Resend}, {Action: sweep.Settle}}, cli.ExitOK, ""},
	} {
		var notes bytes.Buffer
		err := verdict(&cli.App{Stderr: &notes}, tt.found, tt.run)
		if cli.ExitCode(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%v: got %v with exit code %d, want %q with %d", tt.found, err, cli.ExitCode(err), tt.text, tt.code)
		}
		if !tt.run && strings.Count(notes.String(), "add --run") != 2 {
			t.Errorf("got notes %q, want one for each action", &notes)
		}
	}
}
