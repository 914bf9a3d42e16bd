package messages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/work/sqslimits"
)

func NewDeleteCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	cmd := &cobra.Command{
		Use:   "delete QUEUE HANDLE...",
		Short: "Delete received messages by their receipt handles",
		Long: `Delete received messages by their receipt handles. Deleting a message twice is
not an error.

If only some messages could be deleted, the command reports the others and exits
with 5. A FIFO queue refuses to delete a message after its visibility timeout,
with exit code 4.`,
		Example: `  tenaq delete orders AQEB...
  tenaq receive orders --json | jq -r .receiptHandle | xargs tenaq delete orders`,
		Args: cli.Wants(2, -1),
		RunE: f.OnQueue(func(
			ctx context.Context, c *cli.Client, url string, handles []string,
		) error {
			var err error
			if len(handles) == 1 {
				_, err = cli.Ask(ctx, c, "delete from", url, c.DeleteMessage,
					&sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: &handles[0]})
				if refused := refusedByState(err); refused != err { // only FIFO queues do that
					err = fmt.Errorf("%w; the message becomes visible again: receive it again",
						refused)
				}
			} else {
				err = deleteMany(ctx, a, c, url, handles)
			}
			if err != nil {
				return err
			}
			return a.Result(map[string]int{"deleted": len(handles)}, "deleted %d", len(handles))
		}),
	}
	f.Register(cmd)
	return cmd
}

// refusedByState turns a wrong-parameter error of SQS into a refusal by state: the handle was valid
// once, but its message is deleted or no longer in flight.
func refusedByState(err error) error {
	answer, ok := errors.AsType[smithy.APIError](err)
	if ok && cli.ErrorKind(answer) == "InvalidParameterValue" {
		return cli.Codedf(cli.ExitRefused, "%w", err)
	}
	return err
}

// deleteMany deletes in batches. It continues after a failed request, but not after an interrupt.
func deleteMany(
	ctx context.Context, a *cli.App, c *cli.Client, url string, handles []string,
) error {
	deleted := 0
	for batch := range slices.Chunk(handles, sqslimits.BatchMax) {
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &url}
		for i, handle := range batch {
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &handle})
		}
		out, err := cli.Ask(ctx, c, "delete from", url, c.DeleteMessageBatch, in)
		if err != nil {
			a.Complain(err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		deleted += len(out.Successful)
		for _, e := range out.Failed {
			i, _ := strconv.Atoi(aws.ToString(e.Id))
			a.Complain(fmt.Errorf("handle %q: %w", shorten(batch[min(i, len(batch)-1)]),
				entryError(e)))
		}
	}
	return cli.Partly(deleted, len(handles)-deleted, "deleted")
}

func entryError(e types.BatchResultErrorEntry) error {
	return fmt.Errorf("%s (%s)", strings.TrimSuffix(aws.ToString(e.Message), "."),
		aws.ToString(e.Code))
}

func shorten(handle string) string {
	if len(handle) <= 24 {
		return handle
	}
	return handle[:12] + "..." + handle[len(handle)-8:]
}

func NewVisibilityCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	cmd := &cobra.Command{
		Use:   "visibility QUEUE HANDLE DURATION",
		Short: "Change how long a received message stays hidden",
		Long: `Change how long a received message stays hidden, counted from now.

With 0 the message becomes visible at once. SQS hides a message for at most 12
hours after it was received. If the message is deleted or no longer in flight,
the exit code is 4.`,
		Example: `  tenaq visibility orders AQEB... 5m
  tenaq visibility orders AQEB... 0`,
		Args: cli.Wants(3, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			seconds, err := cli.ParseSeconds(args[2], sqslimits.VisibilityMax)
			if err != nil {
				return cli.Usagef("%v", err)
			}
			return f.OnQueue(func(
				ctx context.Context, c *cli.Client, url string, args []string,
			) error {
				if _, err := cli.Ask(ctx, c, "change the visibility in", url,
					c.ChangeMessageVisibility, &sqs.ChangeMessageVisibilityInput{
						QueueUrl: &url, ReceiptHandle: &args[0], VisibilityTimeout: seconds,
					}); err != nil {
					return refusedByState(err)
				}
				text := "hidden for " + cli.HumanDuration(time.Duration(seconds)*time.Second)
				if seconds == 0 {
					text = "visible again"
				}
				return a.Result(map[string]any{"visibilityTimeout": seconds}, "%s", text)
			})(cmd, args)
		},
	}
	f.Register(cmd)
	return cmd
}
