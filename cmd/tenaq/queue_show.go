package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/spf13/cobra"
)

// A queueState is all that SQS tells about a queue.
type queueState struct {
	queueRef
	Attributes map[string]string `json:"attributes"`
	Tags       map[string]string `json:"tags"`

	DeadLetters *deadLetters `json:"deadLetters,omitempty"` // only where it was asked for, and there are some
}

func newQueueShowCmd(a *app, f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show QUEUE",
		Short: "Show the attributes, dead-letter queues and tags of a queue",
		Long: `Show the attributes, dead-letter queues and tags of a queue: where messages go that were received too
often, which queues send theirs here, and the move task that is active.

The counts are what the server says at this moment; Amazon's are approximate, a minute old and more.`,
		Example: `  tenaq queue show orders
  tenaq queue show orders --json | jq -r .attributes.ApproximateNumberOfMessages`,
		Args: wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			q, err := c.state(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if q.DeadLetters, err = c.deadLetters(cmd.Context(), q); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(q)
			}
			return a.printQueue(q, time.Now())
		},
	}
}

// state reads the attributes and tags of a queue.
func (c *client) state(ctx context.Context, queue string) (queueState, error) {
	url, err := c.queueURL(ctx, queue)
	if err != nil {
		return queueState{}, err
	}
	attributes, err := call(ctx, c, c.GetQueueAttributes, &sqs.GetQueueAttributesInput{
		QueueUrl:       &url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return queueState{}, c.explain("read the attributes of", queue, err)
	}
	tags, err := call(ctx, c, c.ListQueueTags, &sqs.ListQueueTagsInput{QueueUrl: &url})
	if err != nil {
		return queueState{}, c.explain("read the tags of", queue, err)
	}
	q := queueState{queueRef: queueRef{queueNameOf(url), url}, Attributes: attributes.Attributes, Tags: tags.Tags}
	if q.Attributes == nil {
		q.Attributes = map[string]string{}
	}
	if q.Tags == nil {
		q.Tags = map[string]string{}
	}
	return q, nil
}

func (a *app) printQueue(q queueState, now time.Time) error {
	if _, err := fmt.Fprintf(a.stdout, "%s\n%s\n\n", oneLine(q.Name), oneLine(q.URL)); err != nil {
		return err
	}
	t := table{head: []string{"ATTRIBUTE", "VALUE", "MEANS"}}
	for _, name := range attributeOrder(q.Attributes) {
		value := q.Attributes[name]
		t.add(name, value, humanAttribute(name, value, now))
	}
	if err := a.printTable(t); err != nil {
		return err
	}
	if q.DeadLetters != nil {
		fmt.Fprintln(a.stdout)
		if err := a.printTable(q.DeadLetters.table(now)); err != nil {
			return err
		}
	}
	if len(q.Tags) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout)
	t = table{head: []string{"TAG", "VALUE"}}
	for _, key := range slices.Sorted(maps.Keys(q.Tags)) {
		t.add(key, q.Tags[key])
	}
	return a.printTable(t)
}

// attributeOrder returns the names in attributes: the known ones in their order, then the others.
func attributeOrder(attributes map[string]string) []string {
	var names []string
	for _, a := range queueAttributes {
		if _, ok := attributes[a.name]; ok {
			names = append(names, a.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
