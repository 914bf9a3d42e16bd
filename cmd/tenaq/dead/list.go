package dead

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

// listLack ends the error for servers that cannot group messages.
const listLack = "does not keep the reasons of dead letters; use a tenaq server of this version"

func newListCmd(a *cli.App) *cobra.Command {
	var f cli.ClientFlags
	var limit int
	list := &cobra.Command{
		Use:     "list QUEUE",
		Aliases: []string{"ls"},
		Short:   "Group the messages of a dead-letter queue by their reason",
		Long: `Group the messages of a dead-letter queue by their reason, the largest group
first. Nothing is received, hidden or moved.

The reason is what the consumer said when it gave the message back, or what a
tenaq worker wrote into the message. Reasons that differ only in numbers,
identifiers, quotations and addresses are one kind; # stands for these parts.
Messages without a reason are of the kind unknown. HOLDS counts those that hold
their group in the source queue: no message of the group is delivered until they
are back or gone. "tenaq dead redrive", "park" and "delete" select the messages
of a kind with --kind. NOTE is what "tenaq dead note" wrote about the kind.`,
		Example: `  tenaq dead list orders-dlq
  tenaq dead list orders-dlq --json | jq -r '.kinds[] | "\(.count) \(.reason)"'`,
		Args: cli.Wants(1, 1),
		RunE: f.OnQueueV1(listLack, func(
			ctx context.Context, v *cli.V1Client, queue string, _ []string,
		) error {
			found, err := reasonsOf(ctx, v, queue, limit)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(found)
			}
			return found.print(a, time.Now())
		}),
	}
	f.Register(list)
	cli.Number(list.Flags(), &limit, "limit", 10_000, 1, 1_000_000,
		"maximum `number` of messages to look at")
	return list
}

// A reasonList is what --json prints.
type reasonList struct {
	Queue    string `json:"queue"`
	Grouped  int    `json:"grouped"`
	Complete bool   `json:"complete"`
	Kinds    []kind `json:"kinds"`
}

// A kind is the messages that failed for the same reason.
type kind struct {
	Kind     string    `json:"kind"`
	Count    int       `json:"count"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Receives struct {
		Min int64 `json:"min"`
		Max int64 `json:"max"`
	} `json:"receives"`
	Holding int    `json:"holding,omitempty"` // those that hold a group
	Reason  string `json:"reason"`
	Sample  struct {
		ID      string `json:"messageId"`
		Lineage string `json:"lineageId"`
		Reason  string `json:"reason,omitempty"`
	} `json:"sample"`
	Note *note `json:"note,omitempty"`
}

// A note is what an operator wrote about a kind.
type note struct {
	Text string    `json:"text"`
	By   string    `json:"by"`
	At   time.Time `json:"at"`
}

func (n *note) String() string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s (%s, %s)", cli.FirstWords(n.Text, cli.PeekReasonTable), n.By,
		n.At.UTC().Format(time.DateOnly))
}

// reasonsOf groups up to limit messages of a queue.
func reasonsOf(
	ctx context.Context, v *cli.V1Client, queue string, limit int,
) (*reasonList, error) {
	list := &reasonList{Queue: queue, Kinds: []kind{}}
	path := "/queues/" + url.PathEscape(list.Queue) + "/reasons"
	query := url.Values{}
	for list.Grouped < limit && !list.Complete {
		query.Set("limit", strconv.Itoa(min(1000, limit-list.Grouped)))
		var page struct {
			reasonList
			Next string
		}
		if err := v.Get(ctx, "look at", queue, path, query, &page); err != nil {
			return nil, err
		}
		list.add(&page.reasonList)
		query.Set("after", page.Next)
	}
	return list, nil
}

// add adds the kinds of a page.
func (l *reasonList) add(page *reasonList) {
	l.Grouped, l.Complete = l.Grouped+page.Grouped, page.Complete
	for _, k := range page.Kinds {
		i := slices.IndexFunc(l.Kinds, func(known kind) bool { return known.Kind == k.Kind })
		if i < 0 {
			l.Kinds = append(l.Kinds, k)
			continue
		}
		known := &l.Kinds[i]
		known.Count += k.Count
		known.Holding += k.Holding
		known.Receives.Min = min(known.Receives.Min, k.Receives.Min)
		known.Receives.Max = max(known.Receives.Max, k.Receives.Max)
		if k.First.Before(known.First) {
			known.First = k.First
		}
		if !k.Last.Before(known.Last) {
			known.Last, known.Sample = k.Last, k.Sample
		}
	}
	slices.SortStableFunc(l.Kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind))
	})
}

// receives says how often the messages were received.
func (k *kind) receives() string {
	least := strconv.FormatInt(k.Receives.Min, 10)
	if k.Receives.Max == k.Receives.Min {
		return least
	}
	return least + "-" + strconv.FormatInt(k.Receives.Max, 10)
}

func (l *reasonList) print(a *cli.App, now time.Time) error {
	if l.Grouped == 0 {
		a.Note("no messages in %s", l.Queue)
		return nil
	}
	t := cli.TableOf(l.Kinds, []cli.Column[kind]{
		cli.Always("COUNT", func(k *kind) string { return strconv.Itoa(k.Count) }),
		cli.Always("FIRST", func(k *kind) string { return cli.HumanTime(k.First, now) }),
		cli.Always("LAST", func(k *kind) string { return cli.HumanTime(k.Last, now) }),
		cli.Always("RECEIVES", (*kind).receives),
		cli.IfAny("HOLDS", func(k *kind) string {
			return cli.OrEmpty(k.Holding > 0, strconv.Itoa(k.Holding))
		}),
		cli.Always("KIND", func(k *kind) string { return k.Kind }),
		cli.Always("REASON", func(k *kind) string {
			return cli.OrDash(cli.FirstWords(k.Reason, cli.PeekReasonTable))
		}),
		cli.IfAny("NOTE", func(k *kind) string { return k.Note.String() }),
		cli.Always("SAMPLE", func(k *kind) string { return k.Sample.ID }),
	})
	if err := a.PrintTable(t); err != nil {
		return err
	}
	if !l.Complete {
		a.Note("grouped the first %s; look at more with --limit",
			cli.Counted(int64(l.Grouped), "message", "messages"))
	}
	return nil
}
