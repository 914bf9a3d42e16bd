package messages

import (
	"context"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

type historyFlags struct {
	cli.ClientFlags
	id, lineage, key, group string
	from, to                time.Time
	outcome                 string
	attribute, text         string
	oldest                  bool
	limit                   int
	bodies                  bool
	after                   string
}

// historyTable is how many outcomes a table shows unless --limit says otherwise.
const historyTable = 20

func NewHistoryCmd(a *cli.App) *cobra.Command {
	f := &historyFlags{}
	cmd := &cobra.Command{
		Use:   "history QUEUE",
		Short: "Search messages that have ended: deleted, expired or moved",
		Long: `Search the history of a queue: the messages that have ended, newest first.

A queue keeps a history when it has the tag tenaq:history. Its value is an age,
a size, or both: 7d, 1GiB, 7d/1GiB. Anything beyond that is dropped.

The outcome of a message is one of these:
  deleted        a consumer deleted it
  expired        its retention period ended
  dead_lettered  it moved to the dead-letter queue
  moved, parked  a task moved it to another queue, or parked it
  replaced       it was edited and sent as another message
  removed        a task deleted it

--id, --lineage, --key and --group use an index, except with --oldest. All other
searches read every outcome of the period, so limit it with --from and --to.

With --json, every outcome is one line of JSON with its body and attributes,
and all pages are printed unless --limit is given. This needs a tenaq server.`,
		Example: `  tenaq queue tag orders tenaq:history=7d/1GiB
  tenaq history orders --outcome expired
  tenaq history orders --key order-17 --body
  tenaq history orders --from 2h --text '"customer":42'
  tenaq history orders --json --oldest > orders.ndjson`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.RunV1(cli.HistoryLack, func(
				ctx context.Context, v *cli.V1Client, args []string,
			) error {
				if !f.from.IsZero() && !f.to.IsZero() && !f.from.Before(f.to) {
					return cli.Usagef("--from %s is not before --to %s; pass an earlier --from",
						f.from.UTC().Format(time.RFC3339), f.to.UTC().Format(time.RFC3339))
				}
				if cli.IsAmazonURL(args[0]) {
					return cli.Usagef("%s is a queue of Amazon, which keeps no history", args[0])
				}
				queue, err := v.QueueName(ctx, args[0])
				switch {
				case err != nil:
					return err
				case !a.JSON:
					return f.table(ctx, a, v, queue)
				}
				if !cmd.Flags().Changed("limit") {
					f.limit = math.MaxInt
				}
				return f.export(ctx, a, v, queue)
			})(cmd, args)
		},
	}
	f.ClientFlags.Register(cmd)
	flags := cmd.Flags()
	cli.Text(flags, &f.id, "id", "show the message with this `id`")
	cli.Text(flags, &f.lineage, "lineage", "show messages of this lineage `id`")
	cli.Text(flags, &f.key, "key", "show messages of the work with this `key`")
	cli.Text(flags, &f.group, "group", "show messages of this message group `id`")
	cli.Value(flags, &f.from, "from", "", "ended at this `time` or later; 2h is two hours ago",
		cli.ParseTimeOrAgo)
	cli.Value(flags, &f.to, "to", "", "ended before this `time`; 2h is two hours ago",
		cli.ParseTimeOrAgo)
	cli.Text(flags, &f.outcome, "outcome", "show only this `outcome`")
	flags.StringVar(&f.attribute, "attribute", "", "show messages with this `name` or name=value")
	cli.Text(flags, &f.text, "text", "show messages with this `text` in the body")
	flags.BoolVar(&f.oldest, "oldest", false, "show the oldest first")
	cli.Number(flags, &f.limit, "limit", historyTable, 1, 0, "maximum `number` of messages")
	flags.BoolVar(&f.bodies, "body", false, "show the beginning of each body in the table")
	flags.StringVar(&f.after, "after", "", "continue at this `place`, printed before")
	cli.Completes(cmd, "outcome", "deleted", "expired", "dead_lettered", "moved", "parked",
		"replaced", "removed")
	return cmd
}

// query returns the parameters of the request.
func (f *historyFlags) query() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"id": f.id, "lineage": f.lineage, "key": f.key,
		"group": f.group, "outcome": f.outcome, "attribute": f.attribute, "text": f.text,
		"after": f.after} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"from": f.from, "to": f.to} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if f.oldest {
		query.Set("order", "oldest")
	}
	return query
}

// export prints every outcome on a line of its own.
func (f *historyFlags) export(
	ctx context.Context, a *cli.App, v *cli.V1Client, queue string,
) error {
	query := f.query()
	query.Set("body", strconv.Itoa(cli.PeekBodyMax))
	query.Set("attributes", "1")
	_, err := v.History(ctx, queue, query, f.limit, func(page []cli.Outcome) error {
		for i := range page {
			if err := a.PrintJSONLine(&page[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func (f *historyFlags) table(
	ctx context.Context, a *cli.App, v *cli.V1Client, queue string,
) error {
	query := f.query()
	if f.bodies {
		query.Set("body", strconv.Itoa(cli.PeekBodyTable))
	}
	var all []cli.Outcome
	next, err := v.History(ctx, queue, query, f.limit, func(o []cli.Outcome) error {
		all = append(all, o...)
		return nil
	})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		a.Note("no messages")
	} else if err := a.PrintTable(outcomeTable(all)); err != nil {
		return err
	}
	if next != "" {
		a.Note("there may be more; continue with --after %s", next)
	}
	return nil
}

func outcomeTable(outcomes []cli.Outcome) cli.Table {
	return cli.TableOf(outcomes, []cli.Column[cli.Outcome]{
		cli.Always("ENDED", func(o *cli.Outcome) string { return o.Ended.Format(time.RFC3339) }),
		cli.Always("OUTCOME", func(o *cli.Outcome) string { return o.Outcome }),
		cli.Always("MESSAGE", func(o *cli.Outcome) string { return o.ID }),
		cli.Always("LIVED", func(o *cli.Outcome) string {
			return cli.RoughDuration(o.Ended.Sub(o.Sent))
		}),
		cli.Always("RECEIVES", func(o *cli.Outcome) string {
			return strconv.FormatInt(o.Receives, 10)
		}),
		cli.Always("SIZE", func(o *cli.Outcome) string { return strconv.FormatInt(o.Size, 10) }),
		cli.IfAny("TO", func(o *cli.Outcome) string { return o.To }),
		cli.IfAny("GROUP", func(o *cli.Outcome) string { return o.Group }),
		cli.IfAny("KEY", func(o *cli.Outcome) string { return o.Key }),
		cli.IfAny("REASON", func(o *cli.Outcome) string {
			return cli.FirstWords(o.Reason, cli.PeekReasonTable)
		}),
		cli.IfAny("BODY", (*cli.Outcome).Beginning),
	})
}
