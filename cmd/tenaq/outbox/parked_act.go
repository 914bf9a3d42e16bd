package outbox

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/outbox"
)

func newOutboxParkedReleaseCmd(a *cli.App, f *flags) *cobra.Command {
	p := &outboxPick{flags: f}
	cmd := &cobra.Command{
		Use:   "release [ROW...]",
		Short: "Have parked rows sent after all",
		Long: `Have parked rows sent after all, with all their attempts before them. Which is said by their ids, or the
beginnings of these, by --queue, or by --all.

They go to the ends of their groups: what came after them in the order was sent already. A row whose content
no queue takes is parked again; discard it, and have the program write it anew.

Without --run several rows are only listed; one is released at once.

` + outboxHelp,
		Example: `  tenaq outbox parked release 018f3a5e --db sqlite:app.db
  tenaq outbox parked release --queue orders           # says what it would release
  tenaq outbox parked release --queue orders --run`,
		Args: cli.Wants(0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.act(cmd.Context(), a, args, &outboxAct{name: "release", done: "released", do: outbox.Box.Release})
		},
	}
	p.register(cmd, "release")
	return cmd
}

func newOutboxParkedDiscardCmd(a *cli.App, f *flags) *cobra.Command {
	p := &outboxPick{flags: f}
	cmd := &cobra.Command{
		Use:   "discard [ROW...]",
		Short: "Delete parked rows",
		Long: `Delete parked rows for ever. Their messages are never sent, and nobody is told. Which is said by their ids, or
the beginnings of these, by --queue, or by --all.

Without --run they are only listed.

` + outboxHelp,
		Example: `  tenaq outbox parked discard 018f3a5e --db sqlite:app.db --run
  tenaq outbox parked discard --queue orders           # says what it would delete
  tenaq outbox parked discard --queue orders --run`,
		Args: cli.Wants(0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.act(cmd.Context(), a, args, &outboxAct{name: "discard", done: "discarded", always: true, do: outbox.Box.Discard})
		},
	}
	p.register(cmd, "delete")
	return cmd
}

// An outboxPick says which parked rows are meant.
type outboxPick struct {
	*flags
	queue    string
	all, run bool
}

func (p *outboxPick) register(cmd *cobra.Command, what string) {
	flags := cmd.Flags()
	flags.StringVar(&p.queue, "queue", "", what+" all rows for this `queue`, as the rows name it")
	flags.BoolVar(&p.all, "all", false, what+" all rows")
	flags.BoolVar(&p.run, "run", false, "do it, and do not only say what would be done")
}

// check wants one way of picking.
func (p *outboxPick) check(cmd string, args []string) error {
	ways := 0
	for _, given := range []bool{len(args) > 0, p.queue != "", p.all} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return cli.Usagef("say what to %s: the ids of rows, --queue or --all, and one of them only", cmd)
	}
	return nil
}

// pick finds the rows that are meant, those that were parked first before others.
func (p *outboxPick) pick(ctx context.Context, o *openOutbox, args []string) (found []outboxRow, err error) {
	matches := make([]int, len(args))
	err = o.eachParked(ctx, func(r *outbox.ParkedRow) bool {
		meant := p.all || p.queue != "" && r.Queue == p.queue
		for i, id := range args {
			if strings.HasPrefix(r.ID, id) {
				matches[i]++
				meant = true
			}
		}
		if meant {
			found = append(found, newOutboxRow(r))
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	for i, id := range args {
		if err := oneRow(o.place, id, matches[i]); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 && p.queue != "" {
		return nil, cli.Codedf(cli.ExitNotFound, "no row for %q is parked in %s; see: tenaq outbox parked list", p.queue, o.place)
	}
	return found, nil
}

// An outboxAct is what is to be done with parked rows.
type outboxAct struct {
	name, done string
	always     bool // wants --run for a single row too
	do         func(outbox.Box, context.Context, ...string) (int, error)
}

// act does something with the rows that are meant, or says what it would do.
func (p *outboxPick) act(ctx context.Context, a *cli.App, args []string, act *outboxAct) error {
	if err := p.check(act.name, args); err != nil {
		return err
	}
	o, err := p.Open(ctx)
	if err != nil {
		return err
	}
	defer o.Close()
	found, err := p.pick(ctx, o, args)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return a.Result(map[string]any{"rows": []any{}}, "no rows are parked in %s", o.place)
	case !p.run && (act.always || len(found) > 1):
		return act.preview(a, found)
	}
	return act.carryOut(ctx, a, o, found)
}

// preview says what would be done.
func (act *outboxAct) preview(a *cli.App, found []outboxRow) error {
	var err error
	if a.JSON {
		err = a.PrintJSON(map[string]any{"rows": found, "run": false})
	} else {
		err = printOutboxRows(a, found)
	}
	if err == nil {
		a.Note("nothing was done; %s these %d with --run", act.name, len(found))
	}
	return err
}

// carryOut does it, some rows at a time.
func (act *outboxAct) carryOut(ctx context.Context, a *cli.App, o *openOutbox, found []outboxRow) error {
	done := 0
	for rows := range slices.Chunk(found, parkedPage) {
		ids := make([]string, len(rows))
		for i := range rows {
			ids[i] = rows[i].ID
		}
		n, err := act.do(o.Box, ctx, ids...)
		done += n
		switch {
		case err != nil && done > 0:
			return cli.Codedf(cli.ExitPartly, "%w; %d of %d were %s before", o.place.Explain(err), done, len(found), act.done)
		case err != nil:
			return o.place.Explain(err)
		}
	}
	if gone := len(found) - done; gone > 0 {
		a.Note("%d were not parked any more when their turn came", gone)
	}
	return a.Result(map[string]any{"rows": found, "run": true, act.done: done}, "%s %s", act.done, rowsText(done))
}
