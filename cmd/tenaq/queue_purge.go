package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"
)

func newQueuePurgeCmd(a *app, f *clientFlags) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "purge QUEUE",
		Short: "Delete all messages of a queue",
		Long: `Delete all messages of a queue: those that wait, those that are in flight and those that are delayed.

This cannot be undone. The command asks first on a terminal, and elsewhere wants --yes. A queue can be
purged once in 60 seconds; an earlier second purge is refused with exit code 4.`,
		Example: `  tenaq queue purge orders
  tenaq queue purge orders --yes`,
		Args: wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, url, err := a.confirmed(cmd.Context(), f, args[0], yes, "Delete them")
			if err != nil {
				return err
			}
			if _, err := call(cmd.Context(), c, c.PurgeQueue, &sqs.PurgeQueueInput{QueueUrl: &url}); err != nil {
				return c.explain("purge queue", args[0], err)
			}
			return a.result(map[string]any{"url": url, "purged": true}, "purged %s", queueNameOf(url))
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// confirmed finds a queue and asks, unless yes, whether its messages may be destroyed. The question says
// how many they are and where, so that the wrong queue or server is noticed in time.
func (a *app) confirmed(ctx context.Context, f *clientFlags, queue string, yes bool, what string) (*client, string, error) {
	if !yes && !isTerminal(a.stdin) {
		return nil, "", a.confirm(ctx, yes, "")
	}
	c, err := f.connect(ctx)
	if err != nil {
		return nil, "", err
	}
	if yes {
		url, err := c.queueURL(ctx, queue)
		return c, url, err
	}
	q, err := c.state(ctx, queue)
	if err != nil {
		return nil, "", err
	}
	question := fmt.Sprintf("%s at %s holds about %s, %s in flight, %s delayed. %s?", oneLine(q.Name), c.endpoint,
		countedText(q.Attributes["ApproximateNumberOfMessages"], "message", "messages"), q.Attributes["ApproximateNumberOfMessagesNotVisible"],
		q.Attributes["ApproximateNumberOfMessagesDelayed"], what)
	return c, q.URL, a.confirm(ctx, yes, question)
}
