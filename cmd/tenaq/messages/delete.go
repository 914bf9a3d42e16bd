package messages

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
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
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, err := f.Connect(ctx)
			if err != nil {
				return err
			}
			url, err := c.QueueURL(ctx, args[0])
			if err != nil {
				return err
			}
			handles := args[1:]
			if len(handles) == 1 {
				if _, err := cli.Call(ctx, c, c.DeleteMessage,
					&sqs.DeleteMessageInput{QueueUrl: &url,
						ReceiptHandle: &handles[0]}); err != nil {
					return explainDelete(c, args[0], err)
				}
				return resultDeleted(a, 1)
			}
			return deleteMany(a, ctx, c, url, handles)
		},
	}
	f.Register(cmd)
	return cmd
}

// explainDelete explains why a message was not deleted. Only FIFO queues refuse an expired handle.
func explainDelete(c *cli.Client, queue string, err error) error {
	explained := c.Explain("delete from", queue, err)
	if refused := refusedByState(explained, err); refused != explained {
		return fmt.Errorf("%w; the message becomes visible again: receive it again", refused)
	}
	return explained
}

func resultDeleted(a *cli.App, n int) error {
	return a.Result(map[string]int{"deleted": n}, "deleted %d", n)
}

// deleteMany deletes in batches. It continues after a failed request, but not after an interrupt.
func deleteMany(
	a *cli.App, ctx context.Context, c *cli.Client, url string, handles []string,
) error {
	deleted := 0
	for batch := range slices.Chunk(handles, sqslimits.BatchMax) {
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &url}
		for i, handle := range batch {
			in.Entries = append(in.Entries,
				types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)),
					ReceiptHandle: &handle})
		}
		out, err := cli.Call(ctx, c, c.DeleteMessageBatch, in)
		if err != nil {
			a.Complain(c.Explain("delete from", url, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		deleted += len(out.Successful)
		for _, e := range out.Failed {
			i, _ := strconv.Atoi(aws.ToString(e.Id))
			a.Complain(fmt.Errorf("handle %q: %s (%s)", shorten(batch[min(i, len(batch)-1)]),
				strings.TrimSuffix(aws.ToString(e.Message), "."), aws.ToString(e.Code)))
		}
	}
	switch {
	case deleted == len(handles):
		return resultDeleted(a, deleted)
	case deleted == 0:
		return cli.Codedf(cli.ExitFailed, "none of %d was deleted; see above", len(handles))
	}
	return cli.Codedf(cli.ExitPartly, "%d deleted, %d not deleted; see above", deleted,
		len(handles)-deleted)
}

// shorten abbreviates a receipt handle for an error.
func shorten(handle string) string {
	if len(handle) <= 24 {
		return handle
	}
	return handle[:12] + "..." + handle[len(handle)-8:]
}
