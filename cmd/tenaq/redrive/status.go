package redrive

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
)

func newRedriveStatusCmd(a *cli.App, r *redriveFlags) *cobra.Command {
	var policy redrivehost.PolicyFlags
	cmd := &cobra.Command{
		Use:   "status QUEUE",
		Short: "Show what the redrivers of a dead-letter queue know",
		Long: `Show what the redrivers of a dead-letter queue know: the circuit breaker, how much may be on its way, what
kinds of failures there are, when things succeeded, and how long the dead letters will take.

  breaker   CLOSED: messages go. OPEN: their consumer is sick, nothing goes until the time shown.
            HALF_OPEN: single messages find out whether it is well again
  drains    dead letters, divided by how many came to an end lately, as work that was done or in the parking
            lot. Lately is the last hour at most; new dead letters are not foreseen. It is unknown when
            nothing came to an end
  kinds     failures that are the same but for numbers and names, and how many messages fail so, up to 3

No message is received for it. Give it the flags of the policy that "tenaq redrive run" is given: the
records do not have them.

` + cli.RecordsHelp,
		Example: `  tenaq redrive status orders-dlq
  tenaq redrive status orders-dlq --json | jq .breaker.gauge     # 0 closed, 1 open, 2 half open`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec := redrivehost.Spec{DeadLetter: args[0], Schedule: redrivehost.Schedule{Every: redrivehost.RateMost}}
			var err error
			if spec.Policy, err = policy.Policy(); err != nil {
				return err
			}
			v, err := r.view(cmd.Context(), a, &spec)
			if err != nil {
				return err
			}
			defer v.Close()
			s, err := v.Status(cmd.Context(), &spec.Policy)
			switch {
			case err != nil:
				return err
			case a.JSON:
				return a.PrintJSON(s)
			}
			return printRedriveStatus(a, s, time.Now())
		},
	}
	policy.Register(cmd.Flags())
	return cmd
}

func printRedriveStatus(a *cli.App, s *redrivehost.Status, now time.Time) error {
	var b strings.Builder
	on, off := a.Bold()
	fmt.Fprintf(&b, "%s%-10s %s%s\n", on, "queue", cli.OneLine(s.Queue), off)
	for _, f := range s.Fields(now) {
		fmt.Fprintf(&b, "%-10s %s\n", f[0], cli.OneLine(f[1]))
	}
	if _, err := io.WriteString(a.Stdout, b.String()); err != nil {
		return err
	}
	if len(s.Kinds) > 0 {
		fmt.Fprintln(a.Stdout)
		if err := a.PrintTable(s.KindTable(now)); err != nil {
			return err
		}
	}
	for _, w := range s.Warnings {
		a.Note("warning: %s", cli.OneLine(w))
	}
	return nil
}
