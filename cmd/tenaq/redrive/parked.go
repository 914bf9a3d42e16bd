package redrive

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
	"tenaq/redrive"
)

func newRedriveParkedCmd(a *cli.App, r *redriveFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "parked",
		Short: "Look at what was parked, and release or discard it",
		Long: `Look at what redrivers put into a parking lot, and send it back to work or delete it.

A parked message says why it was parked, why it failed last, and where it came from. Messages that fail in one
way, but for numbers and names, are of one kind, so they can be released together when their cause is mended.

` + parkedLookHelp,
		Example: `  tenaq redrive parked list orders-parking
  tenaq redrive parked show orders-parking 1b4d8a2e-8f0e-4f43-9d8e-0d3f0c4f2d11
  tenaq redrive parked release orders-parking --kind 2p7d1xk --run`,
	}
	f := &parkedFlags{redriveFlags: r}
	cmd.PersistentFlags().IntVar(&f.limit, "limit", 1000, "look at this `number` of messages at most")
	cmd.AddCommand(newParkedListCmd(a, f), newParkedShowCmd(a, f), newParkedReleaseCmd(a, f), newParkedDiscardCmd(a, f))
	cli.AsGroup(cmd)
	return cmd
}

const parkedLookHelp = `SQS cannot show a message without handing it out. So what is looked at is hidden from others for a moment and
given back at the end, or comes back by itself after two minutes, and was received once more. A parking lot
should have no consumer, and no redrive policy, which would move on what is looked at.`

// parkedFlags say how a parking lot is looked at.
type parkedFlags struct {
	*redriveFlags
	limit int
}

// A parkedLook is a parking lot that was looked at, with what it holds in hand.
type parkedLook struct {
	*cli.Client
	lot    *redrive.ParkingLot
	name   string
	all    []*redrive.Parked
	unseen int // others that the queue counts
	store  *cli.RecordStore
}

// look takes the messages of a parking lot in hand, the oldest first.
func (f *parkedFlags) look(ctx context.Context, a *cli.App, queue string) (_ *parkedLook, err error) {
	if f.limit < 1 {
		return nil, cli.Usagef("--limit: %d is not a number of at least 1", f.limit)
	}
	l := &parkedLook{}
	if l.Client, err = f.Connect(ctx); err != nil {
		return nil, err
	}
	url, err := l.QueueURL(ctx, queue)
	if err != nil {
		return nil, err
	}
	l.name = cli.QueueNameOf(url)
	count, err := l.count(ctx, a, url)
	if err != nil {
		return nil, err
	}
	if l.store, err = f.openOptional(ctx); err != nil {
		return nil, err
	}
	lot := redrive.ParkingLotConfig{Client: l.Client, URL: url}
	if l.store != nil {
		lot.Store = l.store
	}
	if l.lot, err = redrive.NewParkingLot(lot); err != nil {
		return nil, err
	}
	l.all, err = l.lot.List(ctx, f.limit)
	l.unseen = max(0, count-len(l.all))
	if err != nil {
		l.Close()
		return nil, redrivehost.ExplainStep(l.Client, l.name, err)
	}
	slices.SortStableFunc(l.all, func(a, b *redrive.Parked) int { return a.Since.Compare(b.Since) })
	return l, nil
}

// openOptional opens the records where they are; nil when nobody named any and none are in their usual place.
// Few parked messages need them.
func (f *parkedFlags) openOptional(ctx context.Context) (*cli.RecordStore, error) {
	store, err := f.OpenExisting(ctx)
	if f.Address == "" && os.Getenv("TENAQ_RECORDS") == "" && cli.ExitCode(err) == cli.ExitNotFound {
		return nil, nil
	}
	return store, err
}

// count asks how many messages a parking lot holds, and warns when looking at them has consequences.
func (l *parkedLook) count(ctx context.Context, a *cli.App, url string) (n int, err error) {
	out, err := cli.Call(ctx, l.Client, l.GetQueueAttributes, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return 0, l.Explain("read the attributes of", l.name, err)
	}
	for _, name := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"} {
		one, _ := strconv.Atoi(out.Attributes[name])
		n += one
	}
	if out.Attributes["RedrivePolicy"] != "" {
		a.Note("warning: %s has a redrive policy, by which messages that are looked at move on; remove it with: tenaq queue set %[1]s --attribute RedrivePolicy=", l.name)
	}
	return n, nil
}

// Close gives back what is still there, also after an interrupt.
func (l *parkedLook) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), l.Timeout)
	defer cancel()
	_ = l.lot.GiveBack(ctx, l.all) // else it comes back by itself
	if l.store != nil {
		_ = l.store.Close()
	}
}

// noteUnseen says that there is more than was seen.
func (l *parkedLook) noteUnseen(a *cli.App) {
	if l.unseen > 0 {
		a.Note("%s counts about %s: they are in other hands, behind others of their group, or beyond --limit", l.name, cli.Counted(l.unseen, "more message", "more messages"))
	}
}

func newParkedListCmd(a *cli.App, f *parkedFlags) *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use:     "list QUEUE",
		Aliases: []string{"ls"},
		Short:   "List the messages of a parking lot",
		Long: `List the messages of a parking lot, the oldest first, each with why it failed last. "tenaq redrive parked
show" has all about one.

` + parkedLookHelp,
		Example: `  tenaq redrive parked list orders-parking
  tenaq redrive parked list orders-parking --kind 2p7d1xk
  tenaq redrive parked list orders-parking --json | jq -r '.messages[].kind' | sort | uniq -c`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := f.look(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			defer l.Close()
			defer l.noteUnseen(a)
			switch found := ofKind(l.all, kind); {
			case len(found) > 0 || a.JSON:
				return printParked(a, found)
			case kind != "":
				a.Note("no parked messages of the kind %s in %s", kind, l.name)
			default:
				a.Note("no parked messages in %s", l.name)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "list only messages of this `kind`")
	return cmd
}

// ofKind picks the messages of a kind; all when it is empty.
func ofKind(all []*redrive.Parked, kind string) (found []*redrive.Parked) {
	for _, p := range all {
		if kind == "" || string(p.Kind) == kind {
			found = append(found, p)
		}
	}
	return found
}

// A parkedDocument is a parked message as --json prints it.
type parkedDocument struct {
	Message    string                          `json:"messageId"`
	Kind       redrive.Fingerprint             `json:"kind"`
	Why        string                          `json:"why"` // it was parked
	Reason     string                          `json:"reason"`
	Key        string                          `json:"key,omitempty"`
	Lineage    string                          `json:"lineage,omitempty"`
	Group      string                          `json:"group,omitempty"`
	Source     string                          `json:"source,omitempty"`
	Attempts   int                             `json:"attempts"`
	Redrives   int                             `json:"redrives"`
	Strikes    int                             `json:"strikes"`
	FirstSent  *time.Time                      `json:"firstSent"`
	Since      *time.Time                      `json:"parkedSince"`
	Body       *string                         `json:"body,omitempty"`
	Attributes map[string]cli.MessageAttribute `json:"messageAttributes,omitempty"`
}

func newParkedDocument(p *redrive.Parked) parkedDocument {
	return parkedDocument{
		Message: p.ID, Kind: p.Kind, Why: p.Why, Reason: p.Reason, Key: p.Key, Lineage: p.Lineage, Group: p.Group, Source: p.Source,
		Attempts: p.Attempts, Redrives: p.Redrives, Strikes: p.Strikes,
		FirstSent: cli.TimeOrNull(p.FirstSent), Since: cli.TimeOrNull(p.Since),
	}
}

func printParked(a *cli.App, all []*redrive.Parked) error {
	if a.JSON {
		documents := []parkedDocument{}
		for _, p := range all {
			documents = append(documents, newParkedDocument(p))
		}
		return a.PrintJSON(map[string]any{"messages": documents})
	}
	now := time.Now()
	t := cli.Table{Head: []string{"MESSAGE", "KIND", "KEY", "FROM", "ATTEMPTS", "REDRIVES", "STRIKES", "PARKED", "REASON"}}
	for _, p := range all {
		t.Add(p.ID, string(p.Kind), cli.OrDash(p.Key), cli.OrDash(cli.QueueNameOf(p.Source)), strconv.Itoa(p.Attempts), strconv.Itoa(p.Redrives),
			strconv.Itoa(p.Strikes), cli.AgeText(now.Sub(p.Since))+" ago", cli.OrDash(cli.FirstWords(p.Reason, 120)))
	}
	return a.PrintTable(t)
}

func newParkedShowCmd(a *cli.App, f *parkedFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show QUEUE MESSAGE",
		Short: "Show all about a parked message",
		Long: `Show all about a parked message: why it was parked and why it failed, what work it is, its attributes and its
body. MESSAGE is its id, or the beginning of it. One that is not found is an error with exit code 3.

` + parkedLookHelp,
		Example: `  tenaq redrive parked show orders-parking 1b4d8a2e
  tenaq redrive parked show orders-parking 1b4d8a2e --json | jq -r .body`,
		Args: cli.Wants(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := f.look(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			defer l.Close()
			p, err := l.one(args[1])
			if err != nil {
				return err
			}
			return printOneParked(a, p, time.Now())
		},
	}
}

// one finds a message by the beginning of its id.
func (l *parkedLook) one(id string) (*redrive.Parked, error) {
	var found []*redrive.Parked
	for _, p := range l.all {
		if strings.HasPrefix(p.ID, id) && id != "" {
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, cli.Usagef("the ids of %d messages begin with %q; write more of it", len(found), id)
	case l.unseen > 0:
		return nil, cli.Codedf(cli.ExitNotFound, "%s is not among the %s seen in %s, which counts %d more; try again later, or with a larger --limit",
			id, cli.Counted(len(l.all), "message", "messages"), l.name, l.unseen)
	}
	return nil, cli.Codedf(cli.ExitNotFound, "%s has no message %s; see: tenaq redrive parked list %[1]s", l.name, id)
}

func printOneParked(a *cli.App, p *redrive.Parked, now time.Time) error {
	d := newParkedDocument(p)
	if a.JSON {
		d.Body, d.Attributes = &p.Body, map[string]cli.MessageAttribute{}
		for name, v := range p.Attributes {
			d.Attributes[name] = cli.MessageAttribute{Type: aws.ToString(v.DataType), String: v.StringValue, Binary: v.BinaryValue}
		}
		return a.PrintJSON(d)
	}
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, cli.OneLine(value))
		}
	}
	on, off := a.Bold()
	fmt.Fprintf(&b, "%s%-10s %s%s\n", on, "message", cli.OneLine(p.ID), off)
	field("parked", cli.TimeText(d.Since, now))
	field("because", p.Why)
	field("reason", p.Reason)
	field("kind", string(p.Kind))
	field("from", p.Source)
	field("key", p.Key)
	field("lineage", p.Lineage)
	field("group", p.Group)
	field("first sent", cli.TimeText(d.FirstSent, now))
	field("attempts", strconv.Itoa(p.Attempts))
	field("redrives", strconv.Itoa(p.Redrives))
	field("strikes", strconv.Itoa(p.Strikes))
	for _, name := range slices.Sorted(maps.Keys(p.Attributes)) {
		field("attribute", name+":"+cli.AttributeValueText(p.Attributes[name]))
	}
	b.WriteString(cli.Shown(a.Stdout, p.Body) + "\n")
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}
