package main

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"
)

// A queueRef is a queue as a listing shows it.
type queueRef struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

func newQueueListCmd(a *app, f *clientFlags) *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List all queues",
		Long:    `List all queues, or those whose names begin with a prefix. An empty list is not an error.`,
		Example: `  tenaq queue list
  tenaq queue list --prefix orders-
  tenaq queue list --json | jq -r '.queues[].url'`,
		Args: wants(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			// Without MaxResults SQS answers the first thousand and no token to go on with.
			in := &sqs.ListQueuesInput{MaxResults: aws.Int32(1000)}
			if prefix != "" {
				in.QueueNamePrefix = &prefix
			}
			queues := []queueRef{}
			for {
				out, err := call(cmd.Context(), c, c.ListQueues, in)
				if err != nil {
					return c.explain("list queues", "", err)
				}
				for _, url := range out.QueueUrls {
					queues = append(queues, queueRef{queueNameOf(url), url})
				}
				if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
					break
				}
			}
			switch {
			case a.json:
				return a.printJSON(map[string]any{"queues": queues})
			case len(queues) == 0:
				a.note("no queues at %s", c.endpoint)
				return nil
			}
			t := table{head: []string{"QUEUE", "URL"}}
			for _, q := range queues {
				t.add(q.Name, q.URL)
			}
			if err := a.printTable(t); err != nil {
				return fmt.Errorf("print the list: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "list only names that begin with this `text`")
	return cmd
}
