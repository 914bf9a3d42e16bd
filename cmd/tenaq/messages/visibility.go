package messages

import (
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/work/sqslimits"
)

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
			ctx, queue, handle := cmd.Context(), args[0], args[1]
			seconds, err := cli.ParseSeconds(args[2], sqslimits.VisibilityMax)
			if err != nil {
				return cli.Usagef("%v", err)
			}
			c, err := f.Connect(ctx)
			if err != nil {
				return err
			}
			url, err := c.QueueURL(ctx, queue)
			if err != nil {
				return err
			}
			_, err = cli.Call(ctx, c, c.ChangeMessageVisibility, &sqs.ChangeMessageVisibilityInput{
				QueueUrl: &url, ReceiptHandle: &handle, VisibilityTimeout: seconds,
			})
			if err != nil {
				return refusedByState(c.Explain("change the visibility in", queue, err), err)
			}
			text := "hidden for " + cli.HumanDuration(time.Duration(seconds)*time.Second)
			if seconds == 0 {
				text = "visible again"
			}
			return a.Result(map[string]any{"visibilityTimeout": seconds}, "%s", text)
		},
	}
	f.Register(cmd)
	return cmd
}

// refusedByState turns a wrong-parameter error of SQS into a refusal by state: the handle was valid
// once, but its message is deleted or no longer in flight.
func refusedByState(explained, err error) error {
	var answer smithy.APIError
	if errors.As(err, &answer) && cli.ErrorKind(answer) == "InvalidParameterValue" {
		return cli.Codedf(cli.ExitRefused, "%w", explained)
	}
	return explained
}
