package claims

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/internal/cli"
)

type change struct {
	to     claims.State
	done   string
	reason string
	force  bool
}

func newReleaseCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	c := &change{to: claims.Released, done: "released"}
	return c.command(a, f, &cobra.Command{
		Use:   "release KEY --reason TEXT",
		Short: "Let a key be claimed again",
		Long: `Let a key be claimed again at once, in any state: for work that awaits a
decision and can be repeated, or work whose holder is known to be dead while its
lease still runs. The count of attempts starts again.

Nothing is sent: the next delivery of the message does the work. If there is
none, send the message again; "tenaq claims sweep" says whether it is known.

Two cases are refused with exit code 4 unless you add --force. If the lease
still runs, a holder that is alive loses its claim while another one begins. If
the work is completed, it is done again.`,
		Example: `  tenaq claims release order-17 --reason 'the bank knows nothing of it'
  tenaq claims release order-17 --reason 'host w3 is switched off' --force`,
	}, func(ctx context.Context, l *cli.Ledger, seen claims.Entry) error {
		return l.ReopenSeen(ctx, seen, c.reason)
	})
}

func newSettleCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	c := &change{to: claims.Completed, done: "settled"}
	var result, file string
	cmd := c.command(a, f, &cobra.Command{
		Use:   "settle KEY --reason TEXT",
		Short: "Record that the work of a key is done",
		Long: `Record that the work of a key is done: for work that awaits a decision and
turned out to be done, or was done by hand. It is not done again, and --result
becomes its result.

A key whose lease still runs, or whose work is completed already, is refused
with exit code 4 unless you add --force.`,
		Example: `  tenaq claims settle order-17 --reason 'the bank has it' --result '{"charge": "ch_1"}'
  tenaq claims settle order-17 --reason 'done by hand' --result-file charge.json`,
	}, func(ctx context.Context, l *cli.Ledger, seen claims.Entry) error {
		return l.SettleSeen(ctx, seen, []byte(result), c.reason)
	})
	settle := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if file != "" {
			if cmd.Flags().Changed("result") {
				return cli.Usagef("--result and --result-file exclude each other; leave one out")
			}
			content, err := os.ReadFile(file)
			if err != nil {
				return cli.Usagef("--result-file: %v", err)
			}
			result = string(content)
		}
		return settle(cmd, args)
	}
	cmd.Flags().StringVar(&result, "result", "", "result of the work, as `text`")
	cli.Text(cmd.Flags(), &file, "result-file", "read the result of the work from this `file`")
	return cmd
}

func newUndoCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undo KEY",
		Short: "Take back the last decision about a key",
		Long: `Take back the last "settle" or "release" of a key: its entry is again what it
was. If a worker has claimed the key since, or the decision ended a claim whose
lease might have run, the exit code is 4 and nothing is changed.

A worker that has seen the work settled has deleted its message. It does not
come back: send it again.`,
		Example: `  tenaq claims undo order-17`,
		Args:    cli.Wants(1, 1),
		RunE: with(f, func(ctx context.Context, l *cli.Ledger, args []string) error {
			e, err := l.Entry(ctx, args[0])
			if err == nil {
				err = l.Undo(ctx, args[0], e.Fence)
			}
			was := newDocument(&e)
			if err == nil {
				e, err = l.Entry(ctx, args[0])
			}
			switch {
			case errors.Is(err, claims.ErrFinal), errors.Is(err, claims.ErrChanged):
				return cli.Codedf(cli.ExitRefused, "%w; see: tenaq claims show", err)
			case err != nil:
				return explain(l, err)
			}
			d := newDocument(&e)
			return a.Result(map[string]any{"key": e.Key, "was": was.State, "state": e.State},
				"took back that %s was %s; it is %s again", cli.OneLine(e.Key), was.state(), d.state())
		}),
	}
	f.RegisterRetention(cmd)
	return cmd
}

func (c *change) command(
	a *cli.App, f *cli.ClaimsFlags, cmd *cobra.Command,
	do func(ctx context.Context, l *cli.Ledger, seen claims.Entry) error,
) *cobra.Command {
	cmd.Args = cli.Wants(1, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if c.reason == "" {
			return cli.Usagef("the reason is missing; add --reason TEXT, for people who look at the entry later")
		}
		return with(f, func(ctx context.Context, l *cli.Ledger, args []string) error {
			e, err := l.Entry(ctx, args[0])
			if err == nil && !c.force {
				if err := objection(&e); err != nil {
					return err
				}
			}
			if err == nil {
				err = do(ctx, l, e)
			}
			if err != nil {
				return explain(l, err)
			}
			d := newDocument(&e)
			return a.Result(map[string]any{"key": e.Key, "was": e.State, "state": c.to,
				"reason": c.reason}, "%s %s, which was %s", c.done, cli.OneLine(e.Key), d.state())
		})(cmd, args)
	}
	f.RegisterRetention(cmd)
	cmd.Flags().StringVar(&c.reason, "reason", "", "`text` that says why; recorded in the entry")
	cmd.Flags().BoolVar(&c.force, "force", false, "act even if the lease is valid or work is done")
	return cmd
}

// objection returns why an entry should stay as it is, or nil.
func objection(e *claims.Entry) error {
	switch left, known := e.Remaining(); {
	case e.State == claims.Completed:
		return cli.Codedf(cli.ExitRefused,
			"%q is completed by %s; to change that anyway, add --force", e.Key, e.Owner)
	case e.State == claims.Held && !known:
		return cli.Codedf(cli.ExitRefused,
			"%q is held by %s, and it is unknown whether its lease has expired, because the store has no clock; if the holder is dead, add --force", e.Key, e.Owner)
	case e.State == claims.Held && left > 0:
		return cli.Codedf(cli.ExitRefused,
			"%q is held by %s, whose lease expires in %s; wait, or if the holder is dead, add --force",
			e.Key, e.Owner, cli.HumanDuration(left))
	}
	return nil
}
