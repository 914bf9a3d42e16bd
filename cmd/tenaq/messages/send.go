// Package messages has the commands that send, receive, look at, delete and hide messages. Each
// works on any SQS endpoint; only peek needs a tenaq server.
package messages

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/work/extension"
	"tenaq/internal/work/sqslimits"
	"tenaq/offload"
)

// A letter is a message without its body.
type letter struct {
	attributes map[string]types.MessageAttributeValue
	delay      int32
	group      *string
	dedupID    *string
	zeros      cli.Zeros
}

type sent struct {
	MessageID      string `json:"messageId"`
	MD5            string `json:"md5OfBody"`
	SequenceNumber string `json:"sequenceNumber,omitempty"`
	Line           int    `json:"line,omitempty"`
	Duplicate      bool   `json:"duplicate,omitempty"` // of an earlier message, whose id this is
}

type sendFlags struct {
	cli.ClientFlags
	cli.BodiesFlags
	file           string
	delay          *int32 // seconds; nil unless set
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

On a tenaq server, tags that begin with tenaq: give a queue message attributes
that SQS does not have, such as tenaq.delay and tenaq.priority: see
docs/extensions.md.

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
			return f.OnQueue(func(
				ctx context.Context, c *cli.Client, url string, _ []string,
			) error {
				if f.once.once {
					return sendOnce(ctx, a, f, l, bodies, c, url, body)
				}
				return sendOne(ctx, a, l, bodies, c, url, body)
			})(cmd, args)
		},
	}
	f.ClientFlags.Register(cmd)
	f.BodiesFlags.Register(cmd)
	f.once.register(cmd)
	f.once.Connect = f.ClientFlags.Connect
	flags := cmd.Flags()
	flags.StringVar(&f.file, "file", "", "read the body from this `file`")
	cli.Value(flags, &f.delay, "delay", "", "delay the delivery by this `duration`", delayOf)
	flags.StringArrayVar(&f.attributes, "attribute", nil,
		"attribute, `NAME=VALUE` or NAME:TYPE=VALUE")
	flags.StringVar(&f.group, "group", "", "message group `id`, required for a FIFO queue")
	flags.StringVar(&f.dedupID, "dedup-id", "", "deduplication `id` for a FIFO queue")
	flags.BoolVar(&f.lines, "lines", false, "send each line of standard input as a message")
	return cmd
}

// delayOf reads a delay, and says how a longer one is possible.
func delayOf(v string) (*int32, error) {
	n, err := cli.SecondsUpTo(sqslimits.DelayMax)(v)
	if d, wrong := cli.ParseDuration(v); wrong == nil && d > sqslimits.DelayMax {
		err = fmt.Errorf("%w; on a queue with %s use --attribute tenaq.delay=%s", err,
			extension.DelayMaxTag, v)
	}
	return n, err
}

func sendOne(
	ctx context.Context, a *cli.App, l letter, bodies *offload.Offloader, c *cli.Client,
	url, body string,
) error {
	kept, attributes, err := cli.NewKeeper(bodies, url, l.dedupID).Keep(ctx, body, l.attributes)
	if err != nil {
		return err
	}
	out, err := cli.Call(ctx, c, c.SendMessage, &sqs.SendMessageInput{
		QueueUrl: &url, MessageBody: &kept, MessageAttributes: attributes, DelaySeconds: l.delay,
		MessageGroupId: l.group, MessageDeduplicationId: l.dedupID,
	}, l.zeros.Option())
	if err != nil {
		return cli.AdviseBodies(explainSend(c, url, err), body, bodies)
	}
	id := aws.ToString(out.MessageId)
	duplicate := duplicates(out.ResultMetadata) == "true"
	if duplicate && !a.JSON {
		a.Note("a duplicate: the message with this deduplication id was sent before, and is not sent again")
	}
	return a.Result(sent{MessageID: id, MD5: aws.ToString(out.MD5OfMessageBody),
		SequenceNumber: aws.ToString(out.SequenceNumber), Duplicate: duplicate}, "%s", id)
}

// duplicates is what the answer to a send says of duplicates: true, or the ids of the entries of a
// batch. [EXT-32]
func duplicates(answer middleware.Metadata) string {
	if raw, ok := awsmiddleware.GetRawResponse(answer).(*smithyhttp.Response); ok {
		return raw.Header.Get("Tenaq-Duplicate")
	}
	return ""
}

// explainSend explains why a message was not sent, and names the flag that a FIFO queue asks for.
func explainSend(c *cli.Client, queue string, err error) error {
	explained := c.Explain("send to", queue, err)
	answer, ok := errors.AsType[smithy.APIError](err)
	switch {
	case !ok:
	case strings.Contains(answer.ErrorMessage(), "must contain the parameter MessageGroupId"):
		return fmt.Errorf("%w; name a group with --group", explained)
	case strings.Contains(answer.ErrorMessage(),
		"ContentBasedDeduplication enabled or MessageDeduplicationId"):
		return fmt.Errorf("%w; set the first on the queue, or pass the second with --dedup-id",
			explained)
	}
	return explained
}

func (f *sendFlags) letter(cmd *cobra.Command) (l letter, err error) {
	if l.attributes, err = cli.ParseMessageAttributes("--attribute", f.attributes); err != nil {
		return l, err
	}
	if f.delay != nil {
		l.delay = *f.delay
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
