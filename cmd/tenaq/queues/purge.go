package queues

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func newQueuePurgeCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "purge QUEUE",
		Short: "Delete all messages of a queue",
		Long: `Delete all messages of a queue, including those in flight and delayed.

This cannot be undone. The command asks first on a terminal, and requires --yes
elsewhere. A queue can be purged once in 60 seconds; an earlier second purge is
refused with exit code 4.`,
		Example: `  tenaq queue purge orders
  tenaq queue purge orders --yes`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, url, err := confirmed(a, cmd.Context(), f, args[0], yes, "Delete them")
			if err != nil {
				return err
			}
			if _, err := cli.Call(cmd.Context(), c, c.PurgeQueue,
				&sqs.PurgeQueueInput{QueueUrl: &url}); err != nil {
				return c.Explain("purge queue", args[0], err)
			}
			return a.Result(map[string]any{"url": url, "purged": true}, "purged %s",
				cli.QueueNameOf(url))
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// confirmed finds a queue and, unless yes is set, asks whether to destroy its messages. The
// question names their number and the server, so that an operator notices the wrong queue in time.
func confirmed(
	a *cli.App, ctx context.Context, f *cli.ClientFlags, queue string, yes bool, what string,
) (*cli.Client, string, error) {
	if !yes && !cli.IsTerminal(a.Stdin) {
		return nil, "", confirm(a, ctx, yes, "")
	}
	c, err := f.Connect(ctx)
	if err != nil {
		return nil, "", err
	}
	if yes {
		url, err := c.QueueURL(ctx, queue)
		return c, url, err
	}
	q, err := state(c, ctx, queue)
	if err != nil {
		return nil, "", err
	}
	question := fmt.Sprintf("%s at %s holds about %s, %s in flight, %s delayed. %s?",
		cli.OneLine(q.Name), c.Endpoint,
		cli.CountedText(q.Attributes["ApproximateNumberOfMessages"], "message", "messages"),
		q.Attributes["ApproximateNumberOfMessagesNotVisible"],
		q.Attributes["ApproximateNumberOfMessagesDelayed"], what)
	return c, q.URL, confirm(a, ctx, yes, question)
}
