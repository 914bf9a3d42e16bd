package outbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/outbox"
)

func newParkedCmd(a *cli.App, f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "parked",
		Short: "Show rows that relays set aside, and release or discard them",
		Long: `Show the rows of an outbox that relays have set aside, and send or delete them.

A relay sets a row aside, with the reason, when its queue has refused it
--attempts times, or when no queue could ever accept it. Such a row delays no
other: later rows of its group are sent.

ROW is the id of a row, or the beginning of one.

If you cannot reach the database, name the outbox with --relay, as "tenaq outbox
relay" reports it to a tenaq server and the console shows it. list shows what
was reported last. release and discard order it over the server, if the relay
takes such orders (--orders): the relay carries them out within ten seconds.`,
		Example: `  tenaq outbox parked list --db sqlite:app.db
  tenaq outbox parked show 018f3a5e
  tenaq outbox parked release --queue orders --run`,
	}
	cmd.AddCommand(newParkedListCmd(a, f), newParkedShowCmd(a, f),
		newActCmd(a, f, &act{
			Pick: cli.Pick{Verb: "release"}, done: "released", do: outbox.Decider.ReleaseSeen,
			short: "Send rows that were set aside",
			long: `Send rows that were set aside. They get all their attempts again, and go to the
end of their groups, because later rows have already been sent. A row that no
queue can accept is set aside again: discard it, and write a correct one.

A single row is released at once. Several are only listed unless you add --run.`,
		}),
		newActCmd(a, f, &act{
			Pick: cli.Pick{Verb: "discard", Always: true}, done: "discarded",
			do:    outbox.Decider.DiscardSeen,
			short: "Delete rows that were set aside",
			long: `Delete rows that were set aside. Their messages are never sent.

The rows are only listed unless you add --run.`,
		}))
	cli.AsGroup(cmd)
	return cmd
}

// parkedPage is how many rows are read, released or discarded at a time.
const parkedPage = 200

const parkedList = "tenaq outbox parked list"

// parked returns the rows that were set aside and that wanted accepts, the oldest first, and with a
// limit whether there are more.
func (o *openOutbox) parked(
	ctx context.Context, limit int, wanted func(*outbox.ParkedRow) bool,
) (found []outbox.ParkedRow, more bool, err error) {
	// if another command releases the row of a page's end, the pages begin anew
	seen := map[string]bool{}
	for after := ""; ; {
		rows, err := o.Parked(ctx, after, parkedPage)
		if err != nil {
			return nil, false, explain(o.place, err)
		}
		fresh := false
		for _, r := range rows {
			if seen[r.ID] {
				continue
			}
			seen[r.ID], fresh = true, true
			if wanted(&r) {
				if limit > 0 && len(found) == limit {
					return found, true, nil
				}
				found = append(found, r)
			}
		}
		if !fresh || len(rows) < parkedPage {
			return found, false, nil
		}
		after = rows[len(rows)-1].ID
	}
}

func newParkedListCmd(a *cli.App, f *flags) *cobra.Command {
	var queue string
	var limit int
	far := remote{a: a}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the rows that were set aside",
		Long: `List the rows that were set aside, with the reasons, the earliest first. If
there are none, the exit code is 0.`,
		Example: `  tenaq outbox parked list --db sqlite:app.db
  tenaq outbox parked list --queue orders --json | jq -r '.rows[].reason' | sort | uniq -c`,
		Args: cli.Wants(0, 0),
		RunE: f.asides(&far, func(ctx context.Context, from asides, _ []string) error {
			found, more, err := from.parked(ctx, limit, func(r *outbox.ParkedRow) bool {
				return queue == "" || r.Queue == queue
			})
			if err != nil {
				return err
			}
			if more {
				defer a.Note("there are more; see --limit")
			}
			return printRows(a, documents(found), fmt.Sprintf("no rows%s are set aside in %s",
				cli.OrEmpty(queue != "", " for "+queue), from))
		}),
	}
	far.register(cmd)
	cmd.Flags().StringVar(&queue, "queue", "",
		"list only rows for this `queue`, as the rows name it")
	cli.Number(cmd.Flags(), &limit, "limit", 1000, 0, 0, "list at most this `number`; 0 for all")
	return cmd
}

type row struct {
	ID         string     `json:"id"`
	Queue      string     `json:"queue"`
	Key        string     `json:"key,omitempty"`
	Type       string     `json:"type,omitempty"`
	Group      string     `json:"group,omitempty"`
	Dedup      string     `json:"dedup,omitempty"`
	Generation int        `json:"generation,omitempty"`
	CreatedAt  *time.Time `json:"createdAt"`
	Attempts   int        `json:"attempts"`
	Reason     string     `json:"reason"`
	ParkedAt   *time.Time `json:"parkedAt"`
	// only where a single row is shown, like the body
	Headers map[string]string `json:"headers,omitempty"`
	Body    *string           `json:"body,omitempty"`
}

// documents leave out what may be large.
func documents(rows []outbox.ParkedRow) []row {
	all := []row{}
	for _, p := range rows {
		all = append(all, row{
			ID: p.ID, Queue: p.Queue, Key: p.Key, Type: p.Type, Group: p.Group, Dedup: p.Dedup,
			Generation: p.Generation,
			CreatedAt:  cli.TimeOrNull(p.CreatedAt), Attempts: p.Attempts, Reason: p.Reason,
			ParkedAt: cli.TimeOrNull(p.At),
		})
	}
	return all
}

func printRows(a *cli.App, rows []row, none string) error {
	now := time.Now()
	return cli.PrintList(a, "rows", rows, none,
		[]string{"ROW", "QUEUE", "KEY", "TYPE", "ATTEMPTS", "SET ASIDE", "REASON"},
		func(r *row) []string {
			return []string{r.ID, r.Queue, cli.OrDash(r.Key), cli.OrDash(r.Type),
				strconv.Itoa(r.Attempts), cli.AgoText(r.ParkedAt, now),
				cli.OrDash(cli.FirstWords(r.Reason, 120))}
		})
}

func newParkedShowCmd(a *cli.App, f *flags) *cobra.Command {
	pick := (&act{}).pick()
	var far remote // which shows no bodies
	return &cobra.Command{
		Use:   "show ROW",
		Short: "Show a row that was set aside",
		Long: `Show a row that was set aside: the reason, its columns and its body. If there is
no such row the exit code is 3.`,
		Example: `  tenaq outbox parked show 018f3a5e --db sqlite:app.db
  tenaq outbox parked show 018f3a5e --json | jq -r .body`,
		Args: cli.Wants(1, 1),
		RunE: f.withPick(&pick, &far, func(
			_ context.Context, _ asides, found []outbox.ParkedRow,
		) error {
			r, now := documents(found)[0], time.Now()
			r.Headers, r.Body = found[0].Headers, &found[0].Body
			generation := cli.OrEmpty(r.Generation > 0, strconv.Itoa(r.Generation))
			fields := [][2]string{
				{"row", r.ID}, {"set aside", cli.TimeText(r.ParkedAt, now)}, {"reason", r.Reason},
				{"queue", r.Queue}, {"key", r.Key}, {"type", r.Type},
				{"group", r.Group}, {"dedup", r.Dedup}, {"generation", generation},
				{"written", cli.TimeText(r.CreatedAt, now)},
				{"attempts", strconv.Itoa(r.Attempts)},
			}
			for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
				fields = append(fields, [2]string{"header", name + "=" + r.Headers[name]})
			}
			return a.PrintCard(r, *r.Body, fields...)
		}),
	}
}

// An asides is where rows were set aside: a database, or the reports of its relays.
type asides interface {
	parked(ctx context.Context, limit int, wanted func(*outbox.ParkedRow) bool) (
		found []outbox.ParkedRow, more bool, err error)

	// carryOut does something to rows that parked has returned, and says so.
	carryOut(ctx context.Context, a *cli.App, c *act, found []outbox.ParkedRow) error

	String() string
}

func (o *openOutbox) String() string { return o.place.String() }

// asides opens the outbox, or finds the server that knows the reports of its relays.
func (f *flags) asides(
	far *remote, do func(context.Context, asides, []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if far.outbox == "" {
			return f.with(func(ctx context.Context, o *openOutbox, args []string) error {
				return do(ctx, o, args)
			})(cmd, args)
		}
		if f.address != "" || f.table != "" {
			return cli.Usagef("--relay orders over the server, and --db and --table name a database; leave out one of them")
		}
		return far.RunV1(relayLack, func(
			ctx context.Context, v *cli.V1Client, args []string,
		) error {
			return do(ctx, &reported{far, v}, args)
		})(cmd, args)
	}
}

// withPick finds the rows that the command line means. A mistake in the command line is reported
// before the database is asked.
func (f *flags) withPick(
	p *cli.Pick, far *remote, do func(context.Context, asides, []outbox.ParkedRow) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := p.Choose(args); err != nil {
			return err
		}
		return f.asides(far, func(ctx context.Context, from asides, _ []string) error {
			found, _, err := from.parked(ctx, 0, func(r *outbox.ParkedRow) bool {
				return p.Wants(r.ID, r.Queue)
			})
			if err == nil {
				err = p.Check(from.String(), len(found), "")
			}
			if err != nil {
				return err
			}
			return do(ctx, from, found)
		})(cmd, args)
	}
}

type act struct {
	cli.Pick
	done        string
	do          func(outbox.Decider, context.Context, ...outbox.Seen) (int, error)
	short, long string
}

func (c *act) pick() cli.Pick {
	p := c.Pick
	p.One, p.Many, p.By, p.List = "row", "rows", "queue", parkedList
	return p
}

func newActCmd(a *cli.App, f *flags, c *act) *cobra.Command {
	c.Pick = c.pick()
	far := remote{a: a}
	cmd := &cobra.Command{
		Use:   c.Verb + " [ROW...]",
		Short: c.short,
		Long:  c.long,
		Example: fmt.Sprintf("  tenaq outbox parked %s 018f3a5e --run\n"+
			"  tenaq outbox parked %[1]s --queue orders           # lists the rows\n"+
			"  tenaq outbox parked %[1]s --queue orders --run", c.Verb),
		Args: cli.Wants(0, -1),
		RunE: f.withPick(&c.Pick, &far, func(
			ctx context.Context, from asides, found []outbox.ParkedRow,
		) (err error) {
			switch rows := documents(found); {
			case len(found) == 0:
				return a.Result(map[string]any{"rows": []any{}}, "no rows are set aside in %s",
					from)
			case !c.Previews(len(found)):
				return from.carryOut(ctx, a, c, found)
			case a.JSON:
				err = a.PrintJSON(map[string]any{"rows": rows, "run": false})
			default:
				err = printRows(a, rows, "")
			}
			c.NotePreview(a, len(found))
			return err
		}),
	}
	c.Register(cmd.Flags(), c.Verb)
	far.register(cmd)
	return cmd
}

func (o *openOutbox) carryOut(
	ctx context.Context, a *cli.App, c *act, found []outbox.ParkedRow,
) error {
	done := 0
	for rows := range slices.Chunk(found, parkedPage) {
		seen := make([]outbox.Seen, len(rows))
		for i := range rows {
			seen[i] = rows[i].Seen()
		}
		n, err := c.do(o, ctx, seen...)
		done += n
		switch {
		case err != nil && done > 0:
			return cli.Codedf(cli.ExitPartly, "%w; %d of %s were %s before", explain(o.place, err),
				done, rowsText(len(found)), c.done)
		case err != nil:
			return explain(o.place, err)
		}
	}
	if gone := len(found) - done; gone > 0 {
		a.Note("left out %s that another command had released or discarded", rowsText(gone))
	}
	return a.Result(map[string]any{"rows": documents(found), "run": true, c.done: done}, "%s %s",
		c.done, rowsText(done))
}
