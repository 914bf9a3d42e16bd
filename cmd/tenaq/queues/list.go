package queues

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func newQueueListCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List all queues",
		Long: `List all queues, or those whose names begin with --prefix. An empty list is not
an error.`,
		Example: `  tenaq queue list
  tenaq queue list --prefix orders-
  tenaq queue list --json | jq -r '.queues[].url'`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.Connect(cmd.Context())
			if err != nil {
				return err
			}
			// Without MaxResults SQS answers the first thousand and no token to go on with.
			in := &sqs.ListQueuesInput{MaxResults: aws.Int32(1000)}
			if prefix != "" {
				in.QueueNamePrefix = &prefix
			}
			queues := []cli.QueueRef{}
			for {
				out, err := cli.Call(cmd.Context(), c, c.ListQueues, in)
				if err != nil {
					return c.Explain("list queues", "", err)
				}
				for _, url := range out.QueueUrls {
					queues = append(queues, cli.QueueRef{Name: cli.QueueNameOf(url), URL: url})
				}
				if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
					break
				}
			}
			switch {
			case a.JSON:
				return a.PrintJSON(map[string]any{"queues": queues})
			case len(queues) == 0:
				a.Note("no queues at %s", c.Endpoint)
				return nil
			}
			t := cli.Table{Head: []string{"QUEUE", "URL"}}
			for _, q := range queues {
				t.Add(q.Name, q.URL)
			}
			if err := a.PrintTable(t); err != nil {
				return fmt.Errorf("print the list: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "list only names that begin with this `text`")
	return cmd
}
