package outbox

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/outbox"
)

func newOutboxStatusCmd(a *cli.App, f *flags) *cobra.Command {
	var older string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how much is waiting in an outbox",
		Long: `Show how many rows of an outbox are not sent yet, how many of them could be sent now, for how long the oldest
of those has been waiting, and how many are parked.

Pending are rows that are committed and not sent. Due are those of them that relays could send now. The rest
waits for its time, for the next attempt, or for a row before it in its group, or is in the hands of a relay.
When rows are due and the oldest gets older, no relay runs, or a queue takes no messages: the log of the
relay says which.

With --fail-if-older the exit code is 4 when the oldest row that is due has been due for longer than that,
for probes and alarms. An outbox that cannot be asked has another exit code, 1 or 3.

` + outboxHelp,
		Example: `  tenaq outbox status --db postgres://app@db.example.com/app
  tenaq outbox status --db sqlite:app.db --json | jq .parked
  tenaq outbox status --fail-if-older 5m      # a probe`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			bound := time.Duration(0)
			if older != "" {
				var err error
				if bound, err = cli.SomeDuration(older); err != nil {
					return cli.Usagef("--fail-if-older: %v", err)
				}
			}
			o, err := f.Open(cmd.Context())
			if err != nil {
				return err
			}
			defer o.Close()
			s, err := o.Stats(cmd.Context())
			if err != nil {
				return o.place.Explain(err)
			}
			if err := printOutboxStatus(a, o.place, &s); err != nil {
				return err
			}
			if bound > 0 && s.Due > 0 && s.Oldest > bound {
				return cli.Codedf(cli.ExitRefused, "a row has been due for %s, which is more than %s; see that a relay runs, and what it logs", cli.AgeText(s.Oldest), older)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&older, "fail-if-older", "", "fail with exit code 4 when a row has been due for longer than this `duration`")
	return cmd
}

// An outboxStatus is the state of an outbox as --json prints it.
type outboxStatus struct {
	Outbox  string   `json:"outbox"`
	Pending int      `json:"pending"`
	Due     int      `json:"due"`
	Oldest  *float64 `json:"oldestSeconds"` // null when nothing is due
	Parked  int      `json:"parked"`
}

func printOutboxStatus(a *cli.App, place place, s *outbox.Stats) error {
	d := outboxStatus{Outbox: place.String(), Pending: s.Pending, Due: s.Due, Parked: s.Parked}
	if s.Due > 0 {
		seconds := s.Oldest.Seconds()
		d.Oldest = &seconds
	}
	if a.JSON {
		return a.PrintJSON(d)
	}
	var b strings.Builder
	field := func(name, value string) { fmt.Fprintf(&b, "%-8s %s\n", name, value) }
	field("outbox", cli.OneLine(d.Outbox))
	field("pending", strconv.Itoa(s.Pending))
	due := strconv.Itoa(s.Due)
	if s.Due > 0 {
		due += ", the oldest for " + cli.AgeText(s.Oldest)
	}
	field("due", due)
	parked := strconv.Itoa(s.Parked)
	if s.Parked > 0 {
		parked += "; see: tenaq outbox parked list"
	}
	field("parked", parked)
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}
