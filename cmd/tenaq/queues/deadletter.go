package queues

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"tenaq/internal/cli"
)

// deadLetters is what a queue has to do with dead letters: its own go to Target, those of Sources
// come here, and Move takes them out.
type deadLetters struct {
	Target      string    `json:"target,omitempty"` // ARN
	MaxReceives int       `json:"maxReceiveCount,omitempty"`
	Sources     []string  `json:"sources,omitempty"`  // URLs
	Move        *moveTask `json:"moveTask,omitempty"` // the one that is active
}

// findDeadLetters finds out about the dead letters of a queue; nil when there is nothing to say. A
// server that does not know the actions, or does not allow them, says nothing.
func findDeadLetters(c *cli.Client, ctx context.Context, q queueState) (*deadLetters, error) {
	var policy struct {
		Target      string      `json:"deadLetterTargetArn"`
		MaxReceives json.Number `json:"maxReceiveCount"` // takes a text of digits too
	}
	d := &deadLetters{}
	if json.Unmarshal([]byte(q.Attributes["RedrivePolicy"]), &policy) == nil {
		n, _ := policy.MaxReceives.Int64()
		d.Target, d.MaxReceives = policy.Target, int(n)
	}
	var refusal smithy.APIError
	// Without MaxResults SQS answers the first thousand and no token to go on with.
	in := &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: &q.URL, MaxResults: aws.Int32(1000)}
	for {
		out, err := cli.Call(ctx, c, c.ListDeadLetterSourceQueues, in)
		switch {
		case errors.As(err, &refusal):
			return d.orNil(), nil
		case err != nil:
			return nil, c.Explain("find the sources of", q.Name, err)
		}
		d.Sources = append(d.Sources, out.QueueUrls...)
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
			break
		}
	}
	tasks, err := moveTasks(c, ctx, q.Attributes["QueueArn"], 1)
	switch {
	case errors.As(err, &refusal):
	case err != nil:
		return nil, c.Explain("list the move tasks of", q.Name, err)
	case len(tasks) > 0 && tasks[0].active():
		d.Move = &tasks[0]
	}
	return d.orNil(), nil
}

func (d *deadLetters) orNil() *deadLetters {
	if d.Target == "" && len(d.Sources) == 0 && d.Move == nil {
		return nil
	}
	return d
}

// sourcesShown is how many sources a table names.
const sourcesShown = 10

func (d *deadLetters) table(now time.Time) cli.Table {
	t := cli.Table{Head: []string{"DEAD LETTERS", "QUEUE", "MEANS"}}
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
