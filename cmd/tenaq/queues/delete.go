package queues

import (
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func newQueueDeleteCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete QUEUE",
		Short: "Delete a queue and its messages",
		Long: `Delete a queue with its messages, attributes and tags, even if it is not empty.

This cannot be undone. The command asks first on a terminal, and requires --yes
elsewhere. The name is reserved for 60 seconds after that.`,
		Example: `  tenaq queue delete orders
  tenaq queue delete orders --yes`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, url, err := confirmed(a, cmd.Context(), f, args[0], yes,
				"Delete the queue with them")
			if err != nil {
				return err
			}
			if _, err := cli.Call(cmd.Context(), c, c.DeleteQueue,
				&sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
				return c.Explain("delete queue", args[0], err)
			}
			return a.Result(map[string]any{"url": url, "deleted": true}, "deleted queue %s",
				cli.QueueNameOf(url))
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
