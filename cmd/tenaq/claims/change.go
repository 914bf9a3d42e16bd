package claims

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/internal/cli"
)

// A change is what a person decides about an entry.
type change struct {
	reason string
	force  bool
	to     claims.State
}

func newReleaseCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	c := &change{to: claims.Released}
	cmd := &cobra.Command{
		Use:   "release KEY --reason TEXT",
		Short: "Let a key be claimed again",
		Long: `Let a key be claimed again at once, whatever state it is in: work that awaits a
decision and can be done again, or work whose holder is known to be dead
although its lease still runs. The attempts start again.

Nothing is sent: the next delivery of the message does the work. If there is
none, send the message again; "tenaq claims sweep" says whether it is known.

Two cases are refused with exit code 4 unless you add --force. If the lease
still runs, a holder that is alive loses its claim while another one begins. If
the work is completed, it is done again.`,
		Example: `  tenaq claims release order-17 --reason 'the bank knows nothing of it'
  tenaq claims release order-17 --reason 'host w3 is switched off' --force`,
		Args: cli.Wants(1, 1),
	}
	cmd.RunE = c.run(f, func(ctx context.Context, l *cli.Ledger, e *claims.Entry) error {
		if err := l.Reopen(ctx, e.Key, c.reason); err != nil {
			return err
		}
		return c.print(a, e, "released")
	})
	c.register(f, cmd)
	return cmd
}

func newSettleCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	c := &change{to: claims.Completed}
	var result, file string
	cmd := &cobra.Command{
		Use:   "settle KEY --reason TEXT",
		Short: "Record that the work of a key is done",
		Long: `Record that the work of a key is done: work that awaits a decision and turned
out to be done, or work that was done by hand. It is not done again, and the
result given here is its result.

A key whose lease still runs, or whose work is completed already, is refused
with exit code 4 unless you add --force.`,
		Example: `  tenaq claims settle order-17 --reason 'the bank has it' --result '{"charge": "ch_1"}'
  tenaq claims settle order-17 --reason 'done by hand' --result-file charge.json`,
		Args: cli.Wants(1, 1),
	}
	settle := c.run(f, func(ctx context.Context, l *cli.Ledger, e *claims.Entry) error {
		if err := l.Settle(ctx, e.Key, []byte(result), c.reason); err != nil {
			return err
		}
		return c.print(a, e, "settled")
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if file != "" {
			if cmd.Flags().Changed("result") {
				return cli.Usagef("--result and --result-file exclude each other")
			}
			content, err := os.ReadFile(file)
			if err != nil {
				return cli.Usagef("--result-file: %v", err)
			}
			result = string(content)
		}
		return settle(cmd, args)
	}
	c.register(f, cmd)
	cmd.Flags().StringVar(&result, "result", "", "result of the work, as `text`")
	cmd.Flags().StringVar(&file, "result-file", "", "read the result of the work from this `file`")
	return cmd
}

func (c *change) register(f *cli.ClaimsFlags, cmd *cobra.Command) {
	f.RegisterRetention(cmd)
	cmd.Flags().StringVar(&c.reason, "reason", "", "reason, recorded in the entry, as `text`")
	cmd.Flags().BoolVar(&c.force, "force", false, "although the lease runs or the work is done")
}

// run changes the entry whose key is the argument.
func (c *change) run(
	f *cli.ClaimsFlags, do func(context.Context, *cli.Ledger, *claims.Entry) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if c.reason == "" {
			return cli.Usagef("the reason is missing; add --reason TEXT, for people who look at the entry later")
		}
		return with(f, func(ctx context.Context, l *cli.Ledger, args []string) error {
			e, err := l.Entry(ctx, args[0])
			if err == nil && !c.force {
				err = objection(&e)
			}
			if err == nil {
				err = do(ctx, l, &e)
			}
			if err != nil && cli.ExitCode(err) != cli.ExitRefused {
				return explain(l, err)
			}
			return err
		})(cmd, args)
	}
}

// objection returns why an entry should stay as it is, or nil.
func objection(e *claims.Entry) error {
	switch left, known := e.Remaining(); {
	case e.State == claims.Completed:
		return cli.Codedf(cli.ExitRefused,
			"%q is completed by %s; to change that anyway, add --force", e.Key, e.Owner)
	case e.State == claims.Held && !known:
		return cli.Codedf(cli.ExitRefused,
			"%q is held by %s, and it is unknown whether its lease is over, because the store has no clock; "+
				"if the holder is dead, add --force", e.Key, e.Owner)
	case e.State == claims.Held && left > 0:
		return cli.Codedf(cli.ExitRefused,
			"%q is held by %s, whose lease runs for another %s; wait, or if the holder is dead, add --force",
			e.Key, e.Owner, cli.HumanDuration(left))
	}
	return nil
}

// print reports the change.
func (c *change) print(a *cli.App, e *claims.Entry, done string) error {
	d := newDocument(e)
	return a.Result(map[string]any{"key": e.Key, "was": e.State, "state": c.to, "reason": c.reason},
		"%s %s, which was %s", done, cli.OneLine(e.Key), d.state())
}
