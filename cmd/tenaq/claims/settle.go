package claims

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/worker"
)

// movedLetters finds the messages that queues have moved to these dead-letter queues by themselves. A tenaq server
// shows them without a receive.
func movedLetters(f *cli.ClientFlags, ctx context.Context, deadLetters []string) (letters map[string]string, err error) {
	letters = make(map[string]string)
	for _, queue := range deadLetters {
		name := cli.QueueNameOf(queue)
		peeks := false
		if !cli.IsAmazonURL(queue) {
			if peeks, err = peekMoved(f, ctx, queue, letters); err != nil {
				return nil, err
			}
		}
		if peeks {
			continue
		}
		c, err := f.Connect(ctx)
		if err != nil {
			return nil, err
		}
		u, err := c.QueueURL(ctx, queue)
		if err != nil {
			return nil, err
		}
		err = worker.MovedLetters(ctx, c.Client, u, func(m types.Message) error {
			letters[aws.ToString(m.MessageId)] = name
			return nil
		})
		if err != nil {
			return nil, c.Explain("look at", queue, err)
		}
	}
	return letters, nil
}

// peekMoved is movedLetters for a queue of a tenaq server. It reports false where the server is another one.
func peekMoved(f *cli.ClientFlags, ctx context.Context, queue string, letters map[string]string) (ok bool, err error) {
	v, err := f.ConnectV1(ctx, cli.PeekLack)
	if err != nil {
		return false, nil // connect says why, or it is Amazon
	}
	for after := ""; ; {
		query := url.Values{"limit": {strconv.Itoa(cli.PeekPage)}}
		if after != "" {
			query.Set("after", after)
		}
		var page cli.PeekedList
		err := v.Get(ctx, "look at", queue, "/queues/"+url.PathEscape(cli.QueueNameOf(queue))+"/messages", query, &page)
		switch {
		case cli.ExitCode(err) == cli.ExitUsage: // it has no such look
			return false, nil
		case err != nil:
			return false, err
		}
		for _, m := range page.Messages {
			if m.Source != "" {
				letters[m.ID] = cli.QueueNameOf(queue)
			}
		}
		if after = page.Next; after == "" {
			return true, nil
		}
	}
}

// movedWork is the row of an entry whose message its queue has moved by itself; nil when it has not.
func (f *finder) movedWork(e claims.Entry) *stuckWork {
	queue := f.letters[e.Message]
	if e.Message == "" || queue == "" {
		return nil
	}
	w := &stuckWork{
		Key: e.Key, State: string(e.State), Age: cli.AgeDocument(e.Age), Owner: e.Owner, Attempts: e.Attempts, Message: e.Message,
		Queue: queue, Action: actionSettle, Why: worker.MovedReason(queue), age: e.Age, entry: &e,
	}
	if !e.Stranded() {
		w.leave("its message is in " + queue + ", but its lease may still run")
	}
	return w
}

// settleAll settles the claims of messages that queues have moved, and notes with each what came of it.
func (s *sweeper) settleAll(ctx context.Context, found []*stuckWork) {
	for _, w := range found {
		if w.Action != actionSettle {
			continue
		}
		var err error
		switch w.Settled, err = s.work.GiveUp(ctx, w.Key, w.Message, w.Why); {
		case err != nil:
			w.Error = fmt.Sprint(err)
		case !w.Settled:
			w.leave("it changed meanwhile")
		}
	}
}
