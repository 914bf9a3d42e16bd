//go:build unix

package bench

import (
	"context"
	"errors"
	"testing"

	"tenaq/internal/cli"
)

// One line says why a comparison failed, and an interrupt is no failure of the servers.
func TestOutcome(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	refused, ended := errors.New("connection refused"), errors.New("the server ended: exit status 1")
	for _, tt := range []struct {
		ctx         context.Context
		err, closed error
		want        string
	}{
		{t.Context(), nil, nil, ""},
		{t.Context(), refused, nil, "connection refused"},
		{t.Context(), nil, ended, "the server ended: exit status 1"},
		{t.Context(), refused, ended, "connection refused; the server ended: exit status 1"},
		{interrupted, refused, ended, "bench: interrupted"},
	} {
		got := ""
		if err := outcome(tt.ctx, tt.err, tt.closed); err != nil {
			got = err.Error()
			if cli.ExitCode(err) != cli.ExitFailed {
				t.Errorf("%s: got exit code %d", got, cli.ExitCode(err))
			}
		}
		if got != tt.want {
			t.Errorf("%v and %v: got %q, want %q", tt.err, tt.closed, got, tt.want)
		}
	}
}
