package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"
)

const (
	delayMax = 15 * time.Minute // what SQS allows

	// bodyMax bounds what is read from a file or standard input, and what --bodies keeps and fetches: more
	// than any server accepts, so that the server's own limit is the one that is heard of.
	bodyMax = 64 << 20
)

// A letter is everything about a message but its body.
type letter struct {
	attributes map[string]types.MessageAttributeValue
	delay      int32
	group      *string
	dedupID    *string
	zeros      zeros
}

// A sent message, as --json prints it.
type sent struct {
	MessageID      string `json:"messageId"`
	MD5            string `json:"md5OfBody"`
	SequenceNumber string `json:"sequenceNumber,omitempty"`
	Line           int    `json:"line,omitempty"`
}

type sendFlags struct {
	clientFlags
	bodiesFlags
	file, delay    string
	group, dedupID string
	attributes     []string
	lines          bool
	once           onceFlags
}

func newSendCmd(a *app) *cobra.Command {
	f := &sendFlags{}
	cmd := &cobra.Command{
		Use:   "send QUEUE [BODY|-]",
		Short: "Send a message, or each line of standard input as one",
		Long: `Send a message and print its id.

The body is the argument, standard input when the argument is -, or a file. It is sent byte for byte, a
final line break included, and must be UTF-8.

With --lines each line of standard input is a message, without its line break; empty lines are skipped.
Lines are sent in batches of up to ten, as soon as they arrive. Lines that fail are reported by number
and the exit code is 5 when others were sent. With --group the first failure ends it, because later
messages of the group must not overtake the one that failed.

` + onceHelp + `

` + recordsHelp + `

` + bodiesHelp,
		Example: `  tenaq send orders '{"id": 1}'
  tenaq send orders --file order.json --delay 30s
  tenaq send orders hello --attribute trace=abc --attribute retries:Number=3 --attribute key:Binary=@key.der
  tenaq send orders.fifo '{"id": 1}' --group customer-7 --dedup-id order-1
  jq -c '.[]' orders.json | tenaq send orders --lines
  tenaq send invoices --once --key accounts-2026-02-28 --file accounts.json    # again: nothing is sent
  tenaq send accounts --file accounts.csv --bodies 'dir:/mnt/bodies?bucket=accounts'`,
		Args: wants(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := f.letter(cmd)
			if err == nil {
				err = f.checkOnce(cmd.Flags())
			}
			if err != nil {
				return err
			}
			bodies, err := f.offloader()
			if err != nil {
				return err
			}
			if f.lines {
				return a.runSendLines(cmd, f, l, bodies, args)
			}
			body, err := a.readBody(cmd.Context(), args[1:], f.file)
			if err != nil {
				return err
			}
			if f.once.once {
				return a.sendOnce(cmd.Context(), f, l, bodies, args[0], body)
			}
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			url, err := c.queueURL(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			kept, attributes, err := newKeeper(bodies, url, l.dedupID).keep(cmd.Context(), body, l.attributes)
			if err != nil {
				return err
			}
			out, err := call(cmd.Context(), c, c.SendMessage, &sqs.SendMessageInput{
				QueueUrl:               &url,
				MessageBody:            &kept,
				MessageAttributes:      attributes,
				DelaySeconds:           l.delay,
				MessageGroupId:         l.group,
				MessageDeduplicationId: l.dedupID,
			}, l.zeros.option())
			if err != nil {
				return adviseBodies(c.explainSend(args[0], err), body, bodies)
			}
			id := aws.ToString(out.MessageId)
			return a.result(sent{
				MessageID:      id,
				MD5:            aws.ToString(out.MD5OfMessageBody),
				SequenceNumber: aws.ToString(out.SequenceNumber),
			}, "%s", id)
		},
	}
	f.clientFlags.register(cmd)
	f.bodiesFlags.register(cmd)
	f.once.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.file, "file", "", "read the body from this `file`")
	flags.StringVar(&f.delay, "delay", "", "hide the message for this `duration` first, such as 30s (default: what the queue says)")
	flags.StringArrayVar(&f.attributes, "attribute", nil, "a message attribute, as `NAME[:TYPE]=VALUE`, where Binary takes @FILE or base64; may be repeated")
	flags.StringVar(&f.group, "group", "", "the message group `id`; a FIFO queue wants one")
	flags.StringVar(&f.dedupID, "dedup-id", "", "the deduplication `id` on a FIFO queue without content-based deduplication")
	flags.BoolVar(&f.lines, "lines", false, "send each line of standard input as a message")
	return cmd
}

// explainSend explains why a message was not sent, and names the flag that a FIFO queue asks for.
func (c *client) explainSend(queue string, err error) error {
	explained := c.explain("send to", queue, err)
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return explained
	}
	switch message := answer.ErrorMessage(); {
	case strings.Contains(message, "must contain the parameter MessageGroupId"):
		return fmt.Errorf("%w; name a group with --group", explained)
	case strings.Contains(message, "ContentBasedDeduplication enabled or MessageDeduplicationId"):
		return fmt.Errorf("%w; set the one on the queue, or give the other with --dedup-id", explained)
	}
	return explained
}

// letter reads the flags that say how a message is sent.
func (f *sendFlags) letter(cmd *cobra.Command) (letter, error) {
	var l letter
	var err error
	if l.attributes, err = parseMessageAttributes(f.attributes); err != nil {
		return l, err
	}
	if f.delay != "" {
		if l.delay, err = parseSeconds(f.delay, delayMax); err != nil {
			return l, usagef("--delay: %v", err)
		}
		l.zeros.add("DelaySeconds", l.delay)
	}
	// A flag that is given but empty goes to the server, which knows better why that is wrong.
	if cmd.Flags().Changed("group") {
		l.group = &f.group
	}
	if cmd.Flags().Changed("dedup-id") {
		l.dedupID = &f.dedupID
	}
	return l, nil
}

// readBody finds the body of the one message that is to be sent.
func (a *app) readBody(ctx context.Context, args []string, file string) (string, error) {
	switch {
	case len(args) == 1 && file != "":
		return "", usagef("the body is given twice: as an argument and with --file")
	case file != "":
		f, err := os.Open(file)
		if err != nil {
			return "", usagef("--file: %v", err)
		}
		defer f.Close()
		return readText(f, file)
	case len(args) == 0:
		return "", usagef("there is no body; give it as an argument, - for standard input, or with --file")
	case args[0] == "-":
		return unlessInterrupted(ctx, func() (string, error) { return readText(a.stdin, "standard input") })
	}
	return checkBody(args[0], "the body")
}

func readText(r io.Reader, name string) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, bodyMax+1))
	switch {
	case err != nil:
		return "", codedf(exitFailed, "read %s: %v", name, err)
	case len(b) > bodyMax:
		return "", usagef("%s is longer than %s, and so than any message", name, humanSize(bodyMax))
	}
	return checkBody(string(b), name)
}

// checkBody refuses what would be damaged on the way: the SDK would replace bytes that are not UTF-8.
func checkBody(body, name string) (string, error) {
	if body == "" {
		return "", usagef("%s is empty; a message has at least one character", name)
	}
	if err := checkUTF8(body); err != nil {
		return "", usagef("%s %v", name, err)
	}
	return body, nil
}

func checkUTF8(body string) error {
	if !utf8.ValidString(body) {
		return fmt.Errorf("is not valid UTF-8; encode it, for instance with base64, or send it as a Binary attribute")
	}
	return nil
}
