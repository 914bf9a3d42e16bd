package outbox

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/outbox"
)

func newOutboxParkedCmd(a *cli.App, o *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "parked",
		Short: "Look at rows that relays have given up, and release or discard them",
		Long: `Look at rows of an outbox that relays have given up, and send them after all or delete them.

A row is parked when its queue has refused it as often as a relay tries, or when no queue would ever take it.
The reason is kept with it. A parked row holds up nothing: rows of its group that came after it are sent.

` + outboxHelp,
		Example: `  tenaq outbox parked list --db sqlite:app.db
  tenaq outbox parked show 018f3a5e
  tenaq outbox parked release --queue orders --run`,
	}
	cmd.AddCommand(newOutboxParkedListCmd(a, o), newOutboxParkedShowCmd(a, o), newOutboxParkedReleaseCmd(a, o), newOutboxParkedDiscardCmd(a, o))
	cli.AsGroup(cmd)
	return cmd
}

// parkedPage is how many parked rows are read, released or discarded at a time.
const parkedPage = 200

// eachParked calls visit with all parked rows, the oldest first, until it says stop.
func (o *openOutbox) eachParked(ctx context.Context, visit func(*outbox.ParkedRow) (stop bool)) error {
	seen := map[string]bool{} // a row that others release meanwhile is no place to go on from
	for after := ""; ; {
		rows, err := o.Parked(ctx, after, parkedPage)
		if err != nil {
			return o.place.Explain(err)
		}
		fresh := false
		for i := range rows {
			if seen[rows[i].ID] {
				continue
			}
			seen[rows[i].ID], fresh = true, true
			if visit(&rows[i]) {
				return nil
			}
		}
		if !fresh || len(rows) < parkedPage {
			return nil
		}
		after = rows[len(rows)-1].ID
	}
}

func newOutboxParkedListCmd(a *cli.App, f *flags) *cobra.Command {
	var queue string
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the parked rows of an outbox",
		Long: `List the parked rows of an outbox, the one first that was parked first, each with its reason. None is not an
error. "tenaq outbox parked show" has all about one.

` + outboxHelp,
		Example: `  tenaq outbox parked list --db sqlite:app.db
  tenaq outbox parked list --queue orders --json | jq -r '.rows[].reason' | sort | uniq -c`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return cli.Usagef("--limit: %d is negative; 0 is for no limit", limit)
			}
			o, err := f.Open(cmd.Context())
			if err != nil {
				return err
			}
			defer o.Close()
			found, more := []outboxRow{}, false
			err = o.eachParked(cmd.Context(), func(p *outbox.ParkedRow) bool {
				if queue != "" && p.Queue != queue {
					return false
				}
				if more = limit > 0 && len(found) == limit; !more {
					found = append(found, newOutboxRow(p))
				}
				return more
			})
			if err != nil {
				return err
			}
			if more {
				defer a.Note("there are more; see --limit")
			}
			if len(found) == 0 && !a.JSON {
				of := ""
				if queue != "" {
					of = " for " + queue
				}
				a.Note("no parked rows%s in %s", of, o.place)
				return nil
			}
			return printOutboxRows(a, found)
		},
	}
	cmd.Flags().StringVar(&queue, "queue", "", "list only rows for this `queue`, as the rows name it")
	cmd.Flags().IntVar(&limit, "limit", 1000, "list at most this `number` of rows; 0 for all")
	return cmd
}

// An outboxRow is a parked row as --json prints it.
type outboxRow struct {
	ID         string            `json:"id"`
	Queue      string            `json:"queue"`
	Key        string            `json:"key,omitempty"`
	Type       string            `json:"type,omitempty"`
	Group      string            `json:"group,omitempty"`
	Dedup      string            `json:"dedup,omitempty"`
	Generation int               `json:"generation,omitempty"`
	CreatedAt  *time.Time        `json:"createdAt"`
	Attempts   int               `json:"attempts"`
	Reason     string            `json:"reason"`
	ParkedAt   *time.Time        `json:"parkedAt"`
	Headers    map[string]string `json:"headers,omitempty"` // where one row is shown, as the body
	Body       *string           `json:"body,omitempty"`
}

// newOutboxRow leaves out what may be large.
func newOutboxRow(p *outbox.ParkedRow) outboxRow {
	return outboxRow{
		ID: p.ID, Queue: p.Queue, Key: p.Key, Type: p.Type, Group: p.Group, Dedup: p.Dedup, Generation: p.Generation,
		CreatedAt: cli.TimeOrNull(p.CreatedAt), Attempts: p.Attempts, Reason: p.Reason, ParkedAt: cli.TimeOrNull(p.At),
	}
}

func printOutboxRows(a *cli.App, rows []outboxRow) error {
	if a.JSON {
		return a.PrintJSON(map[string]any{"rows": rows})
	}
	now := time.Now()
	t := cli.Table{Head: []string{"ROW", "QUEUE", "KEY", "TYPE", "ATTEMPTS", "PARKED", "REASON"}}
	for _, r := range rows {
		parked := "-"
		if r.ParkedAt != nil {
			parked = cli.AgeText(now.Sub(*r.ParkedAt)) + " ago"
		}
		t.Add(r.ID, r.Queue, cli.OrDash(r.Key), cli.OrDash(r.Type), strconv.Itoa(r.Attempts), parked, cli.OrDash(cli.FirstWords(r.Reason, 120)))
	}
	return a.PrintTable(t)
}

func newOutboxParkedShowCmd(a *cli.App, f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "show ROW",
		Short: "Show all about a parked row",
		Long: `Show all about a parked row: why it was parked, its columns and its body. ROW is its id, or the beginning of
it. One that is not found is an error with exit code 3.

` + outboxHelp,
		Example: `  tenaq outbox parked show 018f3a5e --db sqlite:app.db
  tenaq outbox parked show 018f3a5e --json | jq -r .body`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.Open(cmd.Context())
			if err != nil {
				return err
			}
			defer o.Close()
			var found []outboxRow
			err = o.eachParked(cmd.Context(), func(p *outbox.ParkedRow) bool {
				if strings.HasPrefix(p.ID, args[0]) {
					r := newOutboxRow(p)
					r.Headers, r.Body = p.Headers, &p.Body
					found = append(found, r)
				}
				return len(found) > 1
			})
			if err == nil {
				err = oneRow(o.place, args[0], len(found))
			}
			if err != nil {
				return err
			}
			return printOutboxRow(a, &found[0], time.Now())
		},
	}
}

// oneRow wants exactly one row to be meant by the beginning of an id.
func oneRow(place place, id string, found int) error {
	switch {
	case found == 0 || id == "":
		return cli.Codedf(cli.ExitNotFound, "no row %q is parked in %s; see: tenaq outbox parked list", id, place)
	case found > 1:
		return cli.Usagef("the ids of several rows begin with %q; write more of it", id)
	}
	return nil
}

func printOutboxRow(a *cli.App, r *outboxRow, now time.Time) error {
	if a.JSON {
		return a.PrintJSON(r)
	}
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, cli.OneLine(value))
		}
	}
	on, off := a.Bold()
	fmt.Fprintf(&b, "%s%-10s %s%s\n", on, "row", cli.OneLine(r.ID), off)
	field("parked", cli.TimeText(r.ParkedAt, now))
	field("reason", r.Reason)
	field("queue", r.Queue)
	field("key", r.Key)
	field("type", r.Type)
	field("group", r.Group)
	field("dedup", r.Dedup)
	if r.Generation > 0 {
		field("generation", strconv.Itoa(r.Generation))
	}
	field("written", cli.TimeText(r.CreatedAt, now))
	field("attempts", strconv.Itoa(r.Attempts))
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		field("header", name+"="+r.Headers[name])
	}
	b.WriteString(cli.Shown(a.Stdout, *r.Body) + "\n")
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}
