package queues

import (
	"context"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/work/extension"
)

const pauseLack = "cannot pause queues: this needs a tenaq server of this version"

func newPauseCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "pause QUEUE",
		Short: "Stop delivering the messages of a queue until it is resumed",
		Long: `Stop delivering the messages of a queue until it is resumed. This sets the
tag tenaq:paused.

Sends and deletes continue, and messages that are in flight stay with their
consumers. Receives return no message, and long polls wait for the end of the
pause. Messages still expire. Tasks and moves still take messages out.`,
		Example: `  tenaq queue pause orders
  tenaq queue resume orders`,
		Args: cli.Wants(1, 1),
		RunE: onPausable(f, func(ctx context.Context, c *cli.Client, q *pausable) error {
			err := setTags(ctx, c, q.URL, map[string]string{extension.Paused: "true"})
			if err != nil {
				return err
			}
			return a.Result(map[string]any{"url": q.URL, "paused": true},
				"paused %s: %s, %d in flight, %d delayed", q.Name,
				cli.Counted(q.Visible, "message waits", "messages wait"), q.InFlight, q.Delayed)
		}),
	}
}

func newResumeCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "resume QUEUE",
		Short: "Deliver the messages of a queue again after a pause",
		Long: `Deliver the messages of a queue again after a pause. This removes the tag
tenaq:paused. Waiting polls get messages at once. It is not an error if the
queue is not paused.`,
		Example: `  tenaq queue resume orders`,
		Args:    cli.Wants(1, 1),
		RunE: onPausable(f, func(ctx context.Context, c *cli.Client, q *pausable) error {
			if _, err := cli.Ask(ctx, c, "resume queue", q.URL, c.UntagQueue,
				&sqs.UntagQueueInput{QueueUrl: &q.URL,
					TagKeys: []string{extension.Paused}}); err != nil {
				return err
			}
			return a.Result(map[string]any{"url": q.URL, "paused": false}, "resumed %s", q.Name)
		}),
	}
}

// A pausable is a queue of a server that knows the tag.
type pausable struct {
	Name     string `json:"name"`
	URL      string `json:"url"`
	Visible  int    `json:"visible"`
	InFlight int    `json:"inFlight"`
	Delayed  int    `json:"delayed"`
}

// onPausable asks the server for the queue under /v1 before the tag is set or removed: another
// server would store the tag, and go on delivering.
func onPausable(
	f *cli.ClientFlags, do func(context.Context, *cli.Client, *pausable) error,
) func(*cobra.Command, []string) error {
	return f.RunV1(pauseLack, func(ctx context.Context, v *cli.V1Client, args []string) error {
		if cli.IsAmazonURL(args[0]) {
			return cli.Usagef("%s is a queue of Amazon, which cannot pause it", args[0])
		}
		queue, err := v.QueueName(ctx, args[0])
		if err != nil {
			return err
		}
		var q pausable
		if err := v.Get(ctx, "look up", queue, "/queues/"+url.PathEscape(queue), nil,
			&q); err != nil {
			return err
		}
		return do(ctx, v.C, &q)
	})
}
