package outbox

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func newStatusCmd(a *cli.App, f *flags) *cobra.Command {
	var older string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how many rows of an outbox wait",
		Long: `Show how many rows of an outbox wait:

  pending   committed and not sent
  due       pending rows that relays could send now; the others wait for their
            time, their next attempt or a row before them in their group, or a
            relay is sending them
  parked    rows that relays have set aside

If rows are due and the oldest gets older, no relay runs or a queue takes no
messages: the log of the relay says which.

--fail-if-older is for probes and alarms. An outbox that cannot be read has
another exit code than 4: 1 or 3.`,
		Example: `  tenaq outbox status --db postgres://app@db.example.com/app
  tenaq outbox status --db sqlite:app.db --json | jq .parked
  tenaq outbox status --fail-if-older 5m      # a probe`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			bound := time.Duration(0)
			if older != "" {
				var err error
				if bound, err = cli.SomeDuration(older); err != nil {
					return cli.Usagef("--fail-if-older: %v", err)
				}
			}
			return f.with(func(ctx context.Context, o *openOutbox, _ []string) error {
				s, err := o.Stats(ctx)
				if err != nil {
					return explain(o.place, err)
				}
				d := status{Outbox: o.place.String(), Pending: s.Pending, Due: s.Due,
					Parked: s.Parked}
				due, parked := strconv.Itoa(s.Due), strconv.Itoa(s.Parked)
				if s.Due > 0 {
					seconds := s.Oldest.Seconds()
					d.Oldest = &seconds
					due += ", the oldest for " + cli.AgeText(s.Oldest)
				}
				if s.Parked > 0 {
					parked += "; see: tenaq outbox parked list"
				}
				if err := a.PrintCard(d, "", [][2]string{
					{"outbox", d.Outbox}, {"pending", strconv.Itoa(s.Pending)}, {"due", due},
					{"parked", parked},
				}...); err != nil {
					return err
				}
				if bound > 0 && s.Due > 0 && s.Oldest > bound {
					return cli.Codedf(cli.ExitRefused,
						"a row has been due for %s, which is longer than %s; check that a relay runs, and its log", cli.AgeText(s.Oldest), older)
				}
				return nil
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&older, "fail-if-older", "",
		"exit code 4 if a row is due longer, a `duration`")
	return cmd
}

// A status is the state of an outbox as --json prints it.
type status struct {
	Outbox  string   `json:"outbox"`
	Pending int      `json:"pending"`
	Due     int      `json:"due"`
	Oldest  *float64 `json:"oldestSeconds"` // null if nothing is due
	Parked  int      `json:"parked"`
}
