package queues

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/work/extension"
	"tenaq/internal/work/sqsqueue"
)

type queueState struct {
	cli.QueueRef
	Attributes map[string]string `json:"attributes"`
	Tags       map[string]string `json:"tags"`
	Extensions map[string]string `json:"extensions,omitempty"` // what tags switch on, in words

	// only in "tenaq queue show"
	DeadLetters *deadLetters `json:"deadLetters,omitempty"`
	HeldGroups  int          `json:"heldGroups,omitempty"` // at most cli.HeldGroupsMax
	Handling    *handling    `json:"handling,omitempty"`
}

func newShowCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show QUEUE",
		Short: "Show the attributes, dead-letter queues and tags of a queue",
		Long: `Show the attributes, dead-letter queues and tags of a queue: where failing
messages go, which queues send theirs here, and the active move task. The table
of tags explains the tags that switch on features of a tenaq server. Such a
server also shows, beside the visibility timeout, how long consumers take from a
receive to its delete: rough bounds at first, and measured times if you repeat
the command within ten minutes.

The counts are the server's at this moment. Those of Amazon are approximate, and
a minute old or more.`,
		Example: `  tenaq queue show orders
  tenaq queue show orders --json | jq -r .attributes.ApproximateNumberOfMessages`,
		Args: cli.Wants(1, 1),
		RunE: f.OnQueue(func(ctx context.Context, c *cli.Client, url string, _ []string) error {
			q, err := readState(ctx, c, url)
			if err != nil {
				return err
			}
			if q.DeadLetters, err = findDeadLetters(ctx, c, q); err != nil {
				return err
			}
			v := &cli.V1Client{C: c, HTTP: c.Options().HTTPClient}
			if !c.Endpoint.IsAmazon() {
				q.Handling = findHandling(ctx, v, q.Name)
			}
			if _, ok := q.Extensions[extension.OnDeadLetter]; ok {
				q.HeldGroups, _ = v.HeldGroups(ctx, q.Name) // none on another server
			}
			if a.JSON {
				return a.PrintJSON(q)
			}
			if err := printQueue(a, q, time.Now()); err != nil {
				return err
			}
			q.Handling.note(a, q.Name, q.Attributes["VisibilityTimeout"])
			if q.HeldGroups == 0 {
				return nil
			}
			a.Note("%s%s for dead letters; see them with: tenaq group list %s --locked",
				cli.Counted(q.HeldGroups, "message group waits", "message groups wait"),
				cli.OrEmpty(q.HeldGroups == cli.HeldGroupsMax, " or more"), q.Name)
			return nil
		}),
	}
}

func readState(ctx context.Context, c *cli.Client, url string) (queueState, error) {
	q := queueState{QueueRef: cli.QueueRef{Name: cli.QueueNameOf(url), URL: url},
		Tags: map[string]string{}}
	var err error
	if q.Attributes, err = c.AllAttributes(ctx, url); err != nil {
		return q, err
	}
	out, err := cli.Ask(ctx, c, "read the tags of", url, c.ListQueueTags,
		&sqs.ListQueueTagsInput{QueueUrl: &url})
	if err != nil {
		return q, err
	}
	maps.Copy(q.Tags, out.Tags)
	if !c.Endpoint.IsAmazon() { // where they are tags like any others
		q.Extensions = explain(q.Tags, q.Attributes["FifoQueue"] == "true", time.Now())
	}
	return q, nil
}

// explain says what tags switch on on a tenaq server, and when a schedule has its next tick.
// [TAG-15, SCHED-12]
func explain(tags map[string]string, fifo bool, now time.Time) map[string]string {
	says := map[string]string{}
	for key, value := range tags { // order does not matter: each by itself
		if text := extension.ExplainOn(key, value, fifo); text != "" {
			if _, ok := extension.ScheduleName(key); ok {
				plan, _ := extension.ReadSchedule(value)
				next, _ := plan.Next(now.UnixMilli())
				text += "; the next is " + extension.SayTick(next)
			}
			says[key] = text
		}
	}
	return says
}

func printQueue(a *cli.App, q queueState, now time.Time) error {
	attributes := cli.Table{Head: []string{"ATTRIBUTE", "VALUE", "MEANS"}}
	for _, name := range attributeOrder(q.Attributes) {
		value := q.Attributes[name]
		attributes.Add(name, value, cli.HumanAttribute(name, value, now))
	}
	tags := cli.Table{Head: []string{"TAG", "VALUE"}}
	if len(q.Extensions) > 0 {
		tags.Head = append(tags.Head, "MEANS")
	}
	for _, key := range slices.Sorted(maps.Keys(q.Tags)) {
		tags.Add([]string{key, q.Tags[key], q.Extensions[key]}[:len(tags.Head)]...)
	}
	between := cli.OneLine(q.Name) + "\n" + cli.OneLine(q.URL) + "\n\n"
	handled := q.Handling.table(q.Attributes["VisibilityTimeout"], now)
	for _, t := range []cli.Table{attributes, handled, q.DeadLetters.table(now), tags} {
		if len(t.Rows) == 0 {
			continue
		}
		fmt.Fprint(a.Stdout, between)
		between = "\n"
		if err := a.PrintTable(t); err != nil {
			return err
		}
	}
	return nil
}

// attributeOrder returns the names in attributes: the known ones in their order, then the others.
func attributeOrder(attributes map[string]string) []string {
	var names []string
	for _, a := range cli.QueueAttributes {
		if _, ok := attributes[a.Name]; ok {
			names = append(names, a.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// deadLetters are the relations of a queue: its dead letters go to Target, those of Sources come
// here, and Move takes messages out.
type deadLetters struct {
	Target      string    `json:"target,omitempty"` // ARN
	MaxReceives int       `json:"maxReceiveCount,omitempty"`
	Sources     []string  `json:"sources,omitempty"`  // URLs
	Move        *moveTask `json:"moveTask,omitempty"` // the active one
}

// findDeadLetters finds these relations; nil if there are none. A server may refuse to tell some.
func findDeadLetters(ctx context.Context, c *cli.Client, q queueState) (*deadLetters, error) {
	policy, _ := sqsqueue.PolicyOf(q.Attributes) // one that cannot be read is among the attributes
	d := &deadLetters{Target: policy.Target, MaxReceives: policy.Receives}
	refused := func(err error) bool {
		_, refused := errors.AsType[smithy.APIError](err)
		return refused
	}
	var err error
	if d.Sources, err = c.Sources(ctx, q.URL); err == nil {
		var tasks []moveTask
		tasks, err = moveTasks(ctx, c, q.Attributes["QueueArn"], 1)
		if len(tasks) > 0 && tasks[0].active() {
			d.Move = &tasks[0]
		}
		err = c.Explain("list the move tasks of", q.Name, err)
	}
	switch {
	case err != nil && !refused(err):
		return nil, err
	case d.Target == "" && len(d.Sources) == 0 && d.Move == nil:
		return nil, nil
	}
	return d, nil
}

const sourcesShown = 10

func (d *deadLetters) table(now time.Time) cli.Table {
	t := cli.Table{Head: []string{"DEAD LETTERS", "QUEUE", "MEANS"}}
	if d == nil {
		return t
	}
	if d.Target != "" {
		t.Add("go to", cli.QueueNameOf(d.Target),
			fmt.Sprintf("what was received and not deleted, maxReceiveCount %d", d.MaxReceives))
	}
	for i, url := range d.Sources {
		if i == sourcesShown {
			t.Add("come from", fmt.Sprintf("%d more", len(d.Sources)-i))
			break
		}
		t.Add("come from", cli.QueueNameOf(url))
	}
	if d.Move != nil {
		t.Add("move to", d.Move.destination(),
			fmt.Sprintf("%s, %s, started %s", d.Move.Status, d.Move.messages(),
				cli.HumanTime(d.Move.Started, now)))
	}
	return t
}
