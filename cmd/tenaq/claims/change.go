package claims

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/internal/cli"
)

func newClaimsReleaseCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	var reason string
	var force bool
	cmd := &cobra.Command{
		Use:   "release KEY --reason TEXT",
		Short: "Let a key be claimed again, whatever state it is in",
		Long: `Let a key be claimed again at once: parked work after somebody has found out that it can be done again, work
whose holder is known to be dead although its lease still runs. The attempts begin at one.

Nothing is sent: the next delivery of the message does the work. When there is none any more, send it again;
"tenaq claims sweep" says whether it is known.

Two things need --force: to release a key whose lease still runs, because a holder that is alive after all
loses its claim and another one begins meanwhile; and one that is completed, because then the work is done
again. Otherwise they are refused with exit code 4.`,
		Example: `  tenaq claims release order-17 --reason 'the bank knows nothing of it'
  tenaq claims release order-17 --reason 'host w3 is switched off' --force`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(f, cmd.Context(), args[0], reason, force, func(ctx context.Context, l *cli.Ledger, e *claims.Entry) error {
				if err := l.Reopen(ctx, e.Key, reason); err != nil {
					return err
				}
				return a.Result(changed(e, claims.Released, reason), "released %s, which was %s", cli.OneLine(e.Key), stateText(e))
			})
		},
	}
	registerChange(f, cmd, &reason, &force)
	return cmd
}

func newClaimsSettleCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	var reason, result, file string
	var force bool
	cmd := &cobra.Command{
		Use:   "settle KEY --reason TEXT",
		Short: "Record that the work of a key is done",
		Long: `Record that the work of a key is done, by the word of a person: of parked work after somebody has found out
that it was done, of work that was done by hand. It is not done again, and who asks for the result gets the
one given here.

A key whose lease still runs, or that is completed already, needs --force; otherwise it is refused with exit
code 4.`,
		Example: `  tenaq claims settle order-17 --reason 'the bank has it' --result '{"charge": "ch_1"}'
  tenaq claims settle order-17 --reason 'done by hand' --result-file charge.json`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			content := []byte(result)
			if file != "" {
				var err error
				if content, err = os.ReadFile(file); err != nil {
					return cli.Usagef("--result-file: %v", err)
				}
				if cmd.Flags().Changed("result") {
					return cli.Usagef("--result and --result-file exclude each other")
				}
			}
			return change(f, cmd.Context(), args[0], reason, force, func(ctx context.Context, l *cli.Ledger, e *claims.Entry) error {
				if err := l.Settle(ctx, e.Key, content, reason); err != nil {
					return err
				}
				return a.Result(changed(e, claims.Completed, reason), "settled %s, which was %s", cli.OneLine(e.Key), stateText(e))
			})
		},
	}
	registerChange(f, cmd, &reason, &force)
	cmd.Flags().StringVar(&result, "result", "", "what came of the work, as `text`")
	cmd.Flags().StringVar(&file, "result-file", "", "read what came of the work from this `file`")
	return cmd
}

func registerChange(f *cli.ClaimsFlags, cmd *cobra.Command, reason *string, force *bool) {
	f.RegisterRetention(cmd)
	cmd.Flags().StringVar(reason, "reason", "", "why, as `text` for who looks at the entry later")
	cmd.Flags().BoolVar(force, "force", false, "do it although the lease still runs, or the work is completed")
}

// change does something to an entry by the word of a person.
func change(f *cli.ClaimsFlags, ctx context.Context, key, reason string, force bool, do func(context.Context, *cli.Ledger, *claims.Entry) error) error {
	if reason == "" {
		return cli.Usagef("there is no reason; add --reason, for who looks at the entry later")
	}
	l, err := f.Open(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	e, err := l.Entry(ctx, key)
	if err == nil && !force {
		err = objection(&e)
	}
	if err == nil {
		err = do(ctx, l, &e)
	}
	if err != nil && cli.ExitCode(err) != cli.ExitRefused {
		return Explain(l, err)
	}
	return err
}

// objection says why an entry had better stay as it is; nil when nothing speaks against a change.
func objection(e *claims.Entry) error {
	switch left, known := e.Remaining(); {
	case e.State == claims.Completed:
		return cli.Codedf(cli.ExitRefused, "%q is completed by %s; to change that all the same add --force", e.Key, e.Owner)
	case e.State == claims.Held && !known:
		return cli.Codedf(cli.ExitRefused, "%q is held by %s, and nobody knows whether its lease is over, because the store has no clock; "+
			"if that one is dead add --force", e.Key, e.Owner)
	case e.State == claims.Held && left > 0:
		return cli.Codedf(cli.ExitRefused, "%q is held by %s, whose lease runs for another %s; wait, or if that one is dead add --force",
			e.Key, e.Owner, cli.HumanDuration(left))
	}
	return nil
}

// changed is what --json prints about a change.
func changed(e *claims.Entry, to claims.State, reason string) map[string]any {
	return map[string]any{"key": e.Key, "was": e.State, "state": to, "reason": reason}
}
