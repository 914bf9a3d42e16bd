// Package messages has the commands that send, receive, look at, delete and hide messages. Each
// works on any SQS endpoint; only peek needs a tenaq server.
package messages

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/work/sqslimits"
)

// A letter is a message without its body.
type letter struct {
	attributes map[string]types.MessageAttributeValue
	delay      int32
	group      *string
	dedupID    *string
	zeros      cli.Zeros
}

// A sent message, as --json prints it.
type sent struct {
	MessageID      string `json:"messageId"`
	MD5            string `json:"md5OfBody"`
	SequenceNumber string `json:"sequenceNumber,omitempty"`
	Line           int    `json:"line,omitempty"`
}

type sendFlags struct {
	cli.ClientFlags
	cli.BodiesFlags
	file, delay    string
	group, dedupID string
	attributes     []string
	lines          bool
	once           onceFlags
}

func NewSendCmd(a *cli.App) *cobra.Command {
	f := &sendFlags{}
	cmd := &cobra.Command{
		Use:   "send QUEUE [BODY|-]",
		Short: "Send a message, or each line of standard input as one",
		Long: `Send a message and print its id.

The body is the argument, standard input if the argument is -, or a file. It is
sent byte for byte, including a final line break, and must be UTF-8.

With --lines each line of standard input is a message, without its line break;
empty lines are skipped. Lines are sent as they arrive, in batches of up to ten.
The command reports failed lines by number, and exits with 5 if others were
sent. With --group it stops at the first failure, because later messages of the
group must not overtake it.

` + onceHelp + `

` + cli.RecordsHelp + `

` + cli.BodiesHelp,
		Example: `  tenaq send orders '{"id": 1}'
  tenaq send orders --file order.json --delay 30s
  tenaq send orders hello --attribute retries:Number=3
  tenaq send orders hello --attribute key:Binary=@key.der
  tenaq send orders.fifo '{"id": 1}' --group customer-7 --dedup-id order-1
  jq -c '.[]' orders.json | tenaq send orders --lines
  tenaq send invoices --once --key accounts-2026-02-28 --file accounts.json
  tenaq send accounts --file a.csv --bodies 'dir:/mnt/bodies?bucket=accounts'`,
		Args: cli.Wants(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := f.letter(cmd)
			if err == nil {
				err = f.checkOnce(cmd.Flags())
			}
			if err != nil {
				return err
			}
			bodies, err := f.Offloader()
			if err != nil {
				return err
			}
			if f.lines {
				return runSendLines(a, cmd, f, l, bodies, args)
			}
			body, err := a.ReadBody(cmd.Context(), args[1:], f.file)
			if err != nil {
				return err
			}
			if f.once.once {
				return sendOnce(a, cmd.Context(), f, l, bodies, args[0], body)
			}
			c, err := f.Connect(cmd.Context())
			if err != nil {
				return err
			}
			url, err := c.QueueURL(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			kept, attributes, err := cli.NewKeeper(bodies, url, l.dedupID).Keep(cmd.Context(), body,
				l.attributes)
			if err != nil {
				return err
			}
			out, err := cli.Call(cmd.Context(), c, c.SendMessage, &sqs.SendMessageInput{
				QueueUrl:               &url,
				MessageBody:            &kept,
				MessageAttributes:      attributes,
				DelaySeconds:           l.delay,
				MessageGroupId:         l.group,
				MessageDeduplicationId: l.dedupID,
			}, l.zeros.Option())
			if err != nil {
				return cli.AdviseBodies(explainSend(c, args[0], err), body, bodies)
			}
			id := aws.ToString(out.MessageId)
			return a.Result(sent{
				MessageID:      id,
				MD5:            aws.ToString(out.MD5OfMessageBody),
				SequenceNumber: aws.ToString(out.SequenceNumber),
			}, "%s", id)
		},
	}
	f.ClientFlags.Register(cmd)
	f.BodiesFlags.Register(cmd)
	f.once.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.file, "file", "", "read the body from this `file`")
	flags.StringVar(&f.delay, "delay", "", "delay the delivery by this `duration`")
	flags.StringArrayVar(&f.attributes, "attribute", nil,
		"attribute, `NAME=VALUE` or NAME:TYPE=VALUE")
	flags.StringVar(&f.group, "group", "", "message group `id`, required for a FIFO queue")
	flags.StringVar(&f.dedupID, "dedup-id", "", "deduplication `id` for a FIFO queue")
	flags.BoolVar(&f.lines, "lines", false, "send each line of standard input as a message")
	return cmd
}

// explainSend explains why a message was not sent, and names the flag that a FIFO queue asks for.
func explainSend(c *cli.Client, queue string, err error) error {
	explained := c.Explain("send to", queue, err)
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return explained
	}
	switch message := answer.ErrorMessage(); {
	case strings.Contains(message, "must contain the parameter MessageGroupId"):
		return fmt.Errorf("%w; name a group with --group", explained)
	case strings.Contains(message, "ContentBasedDeduplication enabled or MessageDeduplicationId"):
		return fmt.Errorf("%w; set the first on the queue, or pass the second with --dedup-id",
			explained)
	}
	return explained
}

// letter reads the flags that say how a message is sent.
func (f *sendFlags) letter(cmd *cobra.Command) (letter, error) {
	var l letter
	var err error
	if l.attributes, err = cli.ParseMessageAttributes(f.attributes); err != nil {
		return l, err
	}
	if f.delay != "" {
		if l.delay, err = cli.ParseSeconds(f.delay, sqslimits.DelayMax); err != nil {
			return l, cli.Usagef("--delay: %v", err)
		}
		l.zeros.Add("DelaySeconds", l.delay)
	}
	// The server explains best why an empty flag is wrong.
	if cmd.Flags().Changed("group") {
		l.group = &f.group
	}
	if cmd.Flags().Changed("dedup-id") {
		l.dedupID = &f.dedupID
	}
	return l, nil
}
