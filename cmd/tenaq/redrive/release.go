package redrive

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
	"tenaq/redrive"
)

func newParkedReleaseCmd(a *cli.App, f *parkedFlags) *cobra.Command {
	p := &parkedPick{}
	var to string
	cmd := &cobra.Command{
		Use:   "release QUEUE [MESSAGE | --kind KIND | --all]",
		Short: "Send parked messages back to work",
		Long: `Send parked messages back to the queue they came from, or to another one, and take them out of the parking
lot.

A released message begins anew, with all attempts and no strikes. It is the same work as before: it keeps its
key and its generation, so work that is recorded as completed is not done again. When the command ends between
the sending and the deleting, the message is in both queues, and can be released again.

One message is released at once. More than one are only listed, until --run is given. The exit code is 5 when
some could not be released, 1 when none could.

` + parkedLookHelp,
		Example: `  tenaq redrive parked release orders-parking 1b4d8a2e
  tenaq redrive parked release orders-parking --kind 2p7d1xk           # says what it would release
  tenaq redrive parked release orders-parking --kind 2p7d1xk --run
  tenaq redrive parked release orders-parking --all --to orders-by-hand --run`,
		Args: cli.Wants(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			act := parkedAct{name: "release", done: "released", to: to}
			act.do = func(ctx context.Context, l *parkedLook, one *redrive.Parked) error {
				if act.url == "" && one.Source == "" {
					return cli.Usagef("nobody knows which queue %s came from; name one with --to", one.ID)
				}
				return l.lot.Release(ctx, one, act.url)
			}
			return f.act(cmd.Context(), a, args, p, &act)
		},
	}
	p.register(cmd, "send back")
	cmd.Flags().StringVar(&to, "to", "", "send them to this `queue` (default: where each came from)")
	return cmd
}

func newParkedDiscardCmd(a *cli.App, f *parkedFlags) *cobra.Command {
	p := &parkedPick{}
	cmd := &cobra.Command{
		Use:   "discard QUEUE [MESSAGE | --kind KIND | --all] --run",
		Short: "Delete parked messages",
		Long: `Delete parked messages. Nothing remains of them: their work is not done, and nobody is told.

Without --run they are only listed. The exit code is 5 when some could not be deleted, 1 when none could.

` + parkedLookHelp,
		Example: `  tenaq redrive parked discard orders-parking 1b4d8a2e --run
  tenaq redrive parked discard orders-parking --kind 2p7d1xk           # says what it would delete
  tenaq redrive parked discard orders-parking --kind 2p7d1xk --run`,
		Args: cli.Wants(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd.Context(), a, args, p, &parkedAct{
				name: "discard", done: "discarded", always: true,
				do: func(ctx context.Context, l *parkedLook, one *redrive.Parked) error { return l.lot.Discard(ctx, one) },
			})
		},
	}
	p.register(cmd, "delete")
	return cmd
}

// A parkedPick says which messages are meant.
type parkedPick struct {
	kind     string
	all, run bool
}

func (p *parkedPick) register(cmd *cobra.Command, what string) {
	flags := cmd.Flags()
	flags.StringVar(&p.kind, "kind", "", what+" all messages of this `kind`")
	flags.BoolVar(&p.all, "all", false, what+" all messages")
	flags.BoolVar(&p.run, "run", false, "do it, and do not only say what would be done")
}

// check wants one way of picking.
func (p *parkedPick) check(cmd string, args []string) error {
	ways := 0
	for _, given := range []bool{len(args) == 2, p.kind != "", p.all} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return cli.Usagef("say what to %s: the id of a message, --kind or --all, and one of them only", cmd)
	}
	return nil
}

// pick finds the messages that are meant.
func (p *parkedPick) pick(l *parkedLook, args []string) ([]*redrive.Parked, error) {
	if len(args) == 2 {
		one, err := l.one(args[1])
		return []*redrive.Parked{one}, err
	}
	found := ofKind(l.all, p.kind)
	if len(found) == 0 && p.kind != "" {
		return nil, cli.Codedf(cli.ExitNotFound, "%s has no message of the kind %q among %d; see: tenaq redrive parked list %[1]s", l.name, p.kind, len(l.all))
	}
	return found, nil
}

// A parkedAct is what is to be done with parked messages.
type parkedAct struct {
	name, done string
	always     bool   // wants --run for a single message too
	to, url    string // of the queue they go to; empty is where each came from, or nowhere
	do         func(context.Context, *parkedLook, *redrive.Parked) error
}

// An actDocument is what became of a message, or would, as --json prints it.
type actDocument struct {
	parkedDocument
	Action string `json:"action"` // what is to be done, or was; "" after an error
	Error  string `json:"error,omitempty"`
}

// act does something with the messages that are meant, or says what it would do.
func (f *parkedFlags) act(ctx context.Context, a *cli.App, args []string, p *parkedPick, act *parkedAct) error {
	if err := p.check(act.name, args); err != nil {
		return err
	}
	l, err := f.look(ctx, a, args[0])
	if err != nil {
		return err
	}
	defer l.Close()
	if act.to != "" {
		if act.url, err = l.QueueURL(ctx, act.to); err != nil {
			return err
		}
	}
	found, err := p.pick(l, args)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return a.Result(map[string]any{"messages": []any{}}, "no messages are parked in %s", l.name)
	case !p.run && (act.always || len(found) > 1):
		return l.preview(a, found, act)
	}
	return l.carryOut(ctx, a, found, act)
}

// preview says what would be done.
func (l *parkedLook) preview(a *cli.App, found []*redrive.Parked, act *parkedAct) error {
	if a.JSON {
		documents := []actDocument{}
		for _, one := range found {
			documents = append(documents, actDocument{parkedDocument: newParkedDocument(one), Action: act.name})
		}
		if err := a.PrintJSON(map[string]any{"messages": documents, "run": false}); err != nil {
			return err
		}
	} else if err := printParked(a, found); err != nil {
		return err
	}
	a.Note("nothing was done; %s %s with --run", act.name, cli.Counted(len(found), "message", "messages"))
	l.noteUnseen(a)
	return nil
}

// carryOut does it with one message after the other, while they are in hand.
func (l *parkedLook) carryOut(ctx context.Context, a *cli.App, found []*redrive.Parked, act *parkedAct) error {
	documents := []actDocument{}
	failed := 0
	var last error
	for _, one := range found {
		d := actDocument{parkedDocument: newParkedDocument(one), Action: act.done}
		if err := act.do(ctx, l, one); err != nil {
			last = redrivehost.ExplainStep(l.Client, l.name, err)
			failed++
			d.Action, d.Error = "", last.Error()
			if len(found) > 1 {
				a.Complain(last)
			}
		} else if !a.JSON {
			_ = a.PrintText(fmt.Sprintf("%s %s%s\n", act.done, one.ID, act.where(one)))
		}
		documents = append(documents, d)
		if ctx.Err() != nil {
			break
		}
	}
	if a.JSON {
		if err := a.PrintJSON(map[string]any{"messages": documents, "run": true}); err != nil {
			return err
		}
	}
	l.noteUnseen(a)
	switch {
	case ctx.Err() != nil:
		return cli.Codedf(cli.ExitPartly, "interrupted after %d of %d", len(documents)-failed, len(found))
	case failed > 0 && len(found) == 1:
		return last
	case failed == len(found):
		return cli.Codedf(cli.ExitFailed, "none of %d was %s; see above", failed, act.done)
	case failed > 0:
		return cli.Codedf(cli.ExitPartly, "%d %s, %d not; see above", len(found)-failed, act.done, failed)
	}
	return nil
}

// where says where a message went.
func (act *parkedAct) where(one *redrive.Parked) string {
	switch {
	case act.url != "":
		return " to " + cli.QueueNameOf(act.url)
	case act.name == "release":
		return " to " + cli.QueueNameOf(one.Source)
	}
	return ""
}
