package queues

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

// A queueState is what SQS reports about a queue.
type queueState struct {
	cli.QueueRef
	Attributes map[string]string `json:"attributes"`
	Tags       map[string]string `json:"tags"`

	// only where it was asked for, and there are some
	DeadLetters *deadLetters `json:"deadLetters,omitempty"`
}

func newQueueShowCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show QUEUE",
		Short: "Show the attributes, dead-letter queues and tags of a queue",
		Long: `Show the attributes, dead-letter queues and tags of a queue: where failing
messages go, which queues send theirs here, and the active move task.

The counts are the server's at this moment. Those of Amazon are approximate, and
a minute old or more.`,
		Example: `  tenaq queue show orders
  tenaq queue show orders --json | jq -r .attributes.ApproximateNumberOfMessages`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.Connect(cmd.Context())
			if err != nil {
				return err
			}
			q, err := state(c, cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if q.DeadLetters, err = findDeadLetters(c, cmd.Context(), q); err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(q)
			}
			return printQueue(a, q, time.Now())
		},
	}
}

// state reads the attributes and tags of a queue.
func state(c *cli.Client, ctx context.Context, queue string) (queueState, error) {
	url, err := c.QueueURL(ctx, queue)
	if err != nil {
		return queueState{}, err
	}
	attributes, err := cli.Call(ctx, c, c.GetQueueAttributes, &sqs.GetQueueAttributesInput{
		QueueUrl:       &url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return queueState{}, c.Explain("read the attributes of", queue, err)
	}
	tags, err := cli.Call(ctx, c, c.ListQueueTags, &sqs.ListQueueTagsInput{QueueUrl: &url})
	if err != nil {
		return queueState{}, c.Explain("read the tags of", queue, err)
	}
	q := queueState{QueueRef: cli.QueueRef{Name: cli.QueueNameOf(url), URL: url},
		Attributes: attributes.Attributes, Tags: tags.Tags}
	if q.Attributes == nil {
		q.Attributes = map[string]string{}
	}
	if q.Tags == nil {
		q.Tags = map[string]string{}
	}
	return q, nil
}

func printQueue(a *cli.App, q queueState, now time.Time) error {
	if _, err := fmt.Fprintf(a.Stdout, "%s\n%s\n\n", cli.OneLine(q.Name),
		cli.OneLine(q.URL)); err != nil {
		return err
	}
	t := cli.Table{Head: []string{"ATTRIBUTE", "VALUE", "MEANS"}}
	for _, name := range attributeOrder(q.Attributes) {
		value := q.Attributes[name]
		t.Add(name, value, cli.HumanAttribute(name, value, now))
	}
	if err := a.PrintTable(t); err != nil {
		return err
	}
	if q.DeadLetters != nil {
		fmt.Fprintln(a.Stdout)
		if err := a.PrintTable(q.DeadLetters.table(now)); err != nil {
			return err
		}
	}
	if len(q.Tags) == 0 {
		return nil
	}
	fmt.Fprintln(a.Stdout)
	t = cli.Table{Head: []string{"TAG", "VALUE"}}
	for _, key := range slices.Sorted(maps.Keys(q.Tags)) {
		t.Add(key, q.Tags[key])
	}
	return a.PrintTable(t)
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
