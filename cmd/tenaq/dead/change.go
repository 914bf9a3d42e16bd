package dead

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/work/sqslimits"
)

// selectFlags say which messages a command is about.
type selectFlags struct {
	id, group, source, text string
	kind, reason            string
	attributes              []string
	older, younger          time.Duration
	receivesMin             int64
	receivesMax             int64
}

func (s *selectFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	cli.Text(f, &s.id, "id", "only the message with this or this lineage `id`")
	cli.Text(f, &s.group, "group", "only messages of this message `group`")
	cli.Text(f, &s.source, "source", "only messages that came from this `queue`")
	cli.Text(f, &s.text, "text", "only messages whose body contains this `text`")
	cli.Text(f, &s.kind, "kind", "only messages of this `kind` of tenaq dead list")
	cli.Text(f, &s.reason, "reason", "only messages whose reason contains this `text`")
	f.StringArrayVar(&s.attributes, "attribute", nil,
		"only messages with this attribute, `NAME=VALUE`")
	cli.Duration(f, &s.older, "older", "", "only messages of at least this `age`")
	cli.Duration(f, &s.younger, "younger", "", "only messages below this `age`")
	cli.Number(f, &s.receivesMin, "min-receives", 0, 0, 0,
		"only messages received at least `n` times")
	cli.Number(f, &s.receivesMax, "max-receives", 0, 1, 0,
		"only messages received at most `n` times")
}

// filter is what the server is asked for. Ages count by its clock.
func (s *selectFlags) filter(ctx context.Context, v *cli.V1Client) (map[string]any, error) {
	source, err := v.QueueName(ctx, s.source)
	if err != nil {
		return nil, err
	}
	f := make(map[string]any)
	putSet(f, map[string]string{"id": s.id, "group": s.group, "source": source,
		"text": s.text, "kind": s.kind, "reason": s.reason})
	putSet(f, map[string]int64{"receivesMin": s.receivesMin, "receivesMax": s.receivesMax})
	if len(s.attributes) > 0 {
		attributes, err := attributesOf(s.attributes)
		if err != nil {
			return nil, err
		}
		f["attributes"] = attributes
	}
	if s.older > 0 || s.younger > 0 {
		var server struct{ Now time.Time }
		if err := v.Get(ctx, "ask for the time", "", "", nil, &server); err != nil {
			return nil, err
		}
		if s.older > 0 {
			f["before"] = server.Now.Add(time.Millisecond - s.older)
		}
		if s.younger > 0 {
			f["from"] = server.Now.Add(time.Millisecond - s.younger)
		}
	}
	return f, nil
}

// putSet adds the values that are not zero.
func putSet[T comparable](in map[string]any, values map[string]T) {
	var zero T
	for name, value := range values {
		if value != zero {
			in[name] = value
		}
	}
}

// attributesOf reads attributes with their values.
func attributesOf(pairs []string) (map[string]string, error) {
	attributes := make(map[string]string)
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, cli.Usagef("--attribute %q is not of the form NAME=VALUE", pair)
		}
		attributes[name] = value
	}
	return attributes, nil
}

// A counted is how many messages a task would take.
type counted struct {
	Count    int64  `json:"count"`
	Bytes    int64  `json:"bytes"`
	Skipped  int64  `json:"skipped"`
	Complete bool   `json:"complete"`
	Next     string `json:"next,omitempty"`
}

func (c *counted) base() *counted { return c }

// A taskCount is what a task would take.
type taskCount struct {
	counted
	Samples []cli.Peeked `json:"samples"`
}

// samplesMax is how many messages a dry run shows.
const samplesMax = 3

func (c *taskCount) add(part *taskCount) {
	c.Samples = append(c.Samples, part.Samples...)
	c.Samples = c.Samples[:min(samplesMax, len(c.Samples))]
}

// count asks for one page after another, to the end or until there are limit messages; 0 for no
// limit. It adds up what all pages have, and add does the rest. Doing is for errors.
func count[T any, P interface {
	*T
	base() *counted
	add(part *T)
}](
	ctx context.Context, a *cli.App, v *cli.V1Client, doing string, in map[string]any, limit int64,
) (total T, err error) {
	queue := in["queue"].(string)
	p := cli.NewProgress(a.Stderr, "counting "+queue)
	defer p.Done()
	for all := P(&total).base(); ; {
		if limit > 0 {
			in["limit"] = limit - all.Count
		}
		var part T
		if err := v.Post(ctx, doing, queue, "/tasks/count", in, &part); err != nil {
			return total, err
		}
		page := P(&part).base()
		all.Count, all.Bytes, all.Skipped = all.Count+page.Count, all.Bytes+page.Bytes,
			all.Skipped+page.Skipped
		P(&total).add(&part)
		if all.Complete = page.Complete; page.Complete || limit > 0 && all.Count == limit {
			return total, nil
		}
		p.Line("%s so far", cli.Counted(all.Count, "message", "messages"))
		in["after"] = page.Next
	}
}

// startFlags say how a task runs, and whether it is started at all.
type startFlags struct {
	to, note        string
	rate, limit     int64
	yes, background bool
}

// register adds the flags, except --to. What is done with messages is in the help of --limit.
func (f *startFlags) register(cmd *cobra.Command, do string) {
	flags := cmd.Flags()
	cli.Number(flags, &f.limit, "limit", 0, 1, 0, "maximum `number` of messages to "+do)
	cli.Number(flags, &f.rate, "rate", 0, 0, 10_000, "maximum `number` of messages per second")
	flags.StringVar(&f.note, "note", "", "`text` for the task and the action log")
	flags.BoolVar(&f.yes, "yes", false, "do it; otherwise only count and show samples")
	flags.BoolVar(&f.background, "background", false, "start the task and do not wait for it")
}

// start starts the task that in describes, and waits for its end unless it runs in the background.
func (f *startFlags) start(
	ctx context.Context, a *cli.App, v *cli.V1Client, doing, queue string, in map[string]any,
) error {
	putSet(in, map[string]string{"to": f.to, "note": f.note})
	putSet(in, map[string]int64{"limit": f.limit, "rate": f.rate})
	var t task
	if err := v.Post(ctx, doing, queue, "/tasks", in, &t); err != nil {
		return err
	}
	if f.background {
		return a.Result(&t, "started %s; watch it with: tenaq task watch %[1]s", t.ID)
	}
	return wait(ctx, a, v, &t)
}

// A taskFlags is a command that starts a task.
type taskFlags struct {
	cli.ClientFlags
	selectFlags
	changeFlags
	startFlags
	do, order string
	delay     *int32 // in seconds; nil for none
	confirm   int64
}

// about names the messages.
const selecting = `Without --yes the command only counts the messages and shows three of them.
Flags select messages; messages in flight, delayed, blocked or held stay. The
task looks at each message once, the oldest or the newest first, and leaves
later arrivals alone.

An interrupt leaves the task running; see "tenaq task".`

func newRedriveCmd(a *cli.App) *cobra.Command {
	f := &taskFlags{do: "move"}
	cmd := f.command(a, &cobra.Command{
		Use:   "redrive QUEUE",
		Short: "Move selected messages back to where they came from, or elsewhere",
		Long: `Move selected messages back to the queue they came from, or to the queue --to. A
moved message is a new message with the same lineage and no receives. Its body
and attributes can be changed, except for the attribute tenaq. If the
destination would refuse a changed message, that message stays.

` + selecting + `

"tenaq redrive" brings dead letters back with judgement instead: at the pace of
their consumer, and parking those that fail again.`,
		Example: `  tenaq dead redrive orders-dlq --kind 1k2j3h
  tenaq dead redrive orders-dlq --text timeout --rate 50 --yes
  tenaq dead redrive orders-dlq --order newest --limit 10 --delay 5m --yes
  tenaq dead redrive orders-dlq --remove-attribute trial --yes
  tenaq dead redrive orders-parking --id 0b6b4c9e-... --to orders --yes`,
	})
	cli.Text(cmd.Flags(), &f.to, "to", "move all messages to this `queue`")
	cli.Value(cmd.Flags(), &f.delay, "delay", "",
		"`duration` to hide each message, at most 15m", cli.SecondsUpTo(sqslimits.DelayMax))
	f.changeFlags.register(cmd, "set-attribute", "remove-attribute")
	return cmd
}

func newParkCmd(a *cli.App) *cobra.Command {
	f := &taskFlags{do: "park"}
	cmd := f.command(a, &cobra.Command{
		Use:   "park QUEUE --to PARKING",
		Short: "Move selected messages to a parking queue",
		Long: `Move selected messages to a parking queue. They keep their ids, source and
receive count. "tenaq dead redrive PARKING" brings them back.

` + selecting,
		Example: `  tenaq dead park orders-dlq --to orders-parking --text "card expired"
  tenaq dead park orders-dlq --to orders-parking --older 7d --yes`,
	})
	cli.Text(cmd.Flags(), &f.to, "to", "move the messages to this `queue`; required")
	return cmd
}

func newDeleteCmd(a *cli.App) *cobra.Command {
	f := &taskFlags{do: "delete"}
	cmd := f.command(a, &cobra.Command{
		Use:   "delete QUEUE",
		Short: "Delete selected messages",
		Long: `Delete selected messages permanently. The task never deletes more than
--confirm: by default, the number of messages that --yes counts first.

` + selecting,
		Example: `  tenaq dead delete orders-dlq --attribute kind=test
  tenaq dead delete orders-dlq --attribute kind=test --confirm 212 --yes`,
	})
	cli.Number(cmd.Flags(), &f.confirm, "confirm", 0, 0, 0,
		"maximum `number` of messages to delete")
	return cmd
}

func (f *taskFlags) command(a *cli.App, cmd *cobra.Command) *cobra.Command {
	cmd.Args = cli.Wants(1, 1)
	cmd.RunE = f.OnQueueV1(lack, func(
		ctx context.Context, v *cli.V1Client, queue string, _ []string,
	) error {
		return f.run(ctx, a, v, queue)
	})
	f.ClientFlags.Register(cmd)
	f.selectFlags.register(cmd)
	f.startFlags.register(cmd, "take")
	cli.Choice(cmd, &f.order, "order", "oldest", "`order`: oldest or newest",
		"oldest", "newest")
	return cmd
}

func (f *taskFlags) run(
	ctx context.Context, a *cli.App, v *cli.V1Client, queue string,
) error {
	if f.do == "park" && f.to == "" {
		return cli.Usagef("name the parking queue with --to")
	}
	to, err := v.QueueName(ctx, f.to)
	if err != nil {
		return err
	}
	f.to = to
	filter, err := f.filter(ctx, v)
	if err != nil {
		return err
	}
	edit, err := f.change(a)
	if err != nil {
		return err
	}
	asked := map[string]any{"queue": queue, "filter": filter}
	if f.order == "newest" {
		asked["order"] = f.order
	}
	if len(edit) > 0 {
		asked["edit"] = edit
	}
	in := maps.Clone(asked)
	asked["back"] = f.do == "move" && f.to == ""
	if f.to != "" {
		asked["to"] = f.to
	}
	found, err := count[taskCount](ctx, a, v, "count the messages of", asked, f.limit)
	if err != nil {
		return err
	}
	if !f.yes {
		return f.dryRun(a, queue, &found)
	}
	if found.Count == 0 {
		return a.Result(&found, "no messages in %s to %s%s", queue, f.do,
			stay(queue, found.Skipped))
	}
	in["do"], in["expected"] = f.do, found.Count
	if f.delay != nil {
		in["delayMs"] = int64(*f.delay) * 1000
	}
	if f.do == "delete" {
		in["confirm"] = cmp.Or(f.confirm, found.Count)
	}
	return f.start(ctx, a, v, f.do+" messages of", queue, in)
}

// stay says why messages stay. A move also skips those whose source is not known or gone.
func stay(queue string, skipped int64) string {
	if skipped == 0 {
		return ""
	}
	return fmt.Sprintf("; %s in flight, delayed, blocked or held, or can go nowhere: see tenaq peek %s",
		cli.Counted(skipped, "message is", "messages are"), queue)
}

// dryRun says what a task would do.
func (f *taskFlags) dryRun(a *cli.App, queue string, found *taskCount) error {
	if a.JSON {
		return a.PrintJSON(found)
	}
	to := f.to
	if f.do == "move" {
		to = cmp.Or(to, "the source queue")
	}
	if err := a.Result(nil, "would %s %s from %s%s (%s)%s", f.do,
		cli.Counted(found.Count, "message", "messages"), queue, cli.OrEmpty(to != "", " to "+to),
		cli.HumanSize(found.Bytes), stay(queue, found.Skipped)); err != nil {
		return err
	}
	if len(found.Samples) > 0 {
		head, edited := []string{"SAMPLE", "RECEIVES", "SOURCE", "BODY"}, f.edits()
		if edited {
			head = append(head, "ATTRIBUTES")
		}
		t := cli.Table{Head: head}
		for i := range found.Samples {
			m := &found.Samples[i]
			cells := []string{m.ID, fmt.Sprint(m.Receives), cli.OrDash(cli.QueueNameOf(m.Source)),
				cli.FirstWords(m.Beginning(), cli.PeekReasonTable)}
			if edited {
				cells = append(cells, cli.OrDash(attributesText(m.Attributes)))
			}
			t.Add(cells...)
		}
		if err := a.PrintTable(t); err != nil {
			return err
		}
	}
	a.Note("nothing was changed; add --yes to do it")
	return nil
}

// attributesText shows the attributes of a sample. Bytes are shown by their number alone.
func attributesText(attributes map[string]cli.PeekedAttribute) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := attributes[name]
		if len(a.Base64) > 0 {
			a.Value = cli.HumanSize(int64(len(a.Base64)))
		}
		list = append(list, name+"="+cli.FirstWords(a.Value, cli.PeekReasonTable))
	}
	return strings.Join(list, " ")
}
