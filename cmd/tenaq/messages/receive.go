package messages

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/work/extension"
	"tenaq/internal/work/sqslimits"
	"tenaq/offload"
)

type receiveFlags struct {
	cli.ClientFlags
	cli.BodiesFlags
	max              int
	wait, visibility *int32 // seconds; nil unless set
	delete, follow   bool
}

func NewReceiveCmd(a *cli.App) *cobra.Command {
	f := &receiveFlags{}
	cmd := &cobra.Command{
		Use:   "receive QUEUE",
		Short: "Receive messages and print them with their receipt handles",
		Long: `Receive messages and print them with their receipt handles.

A received message is hidden for its visibility timeout and then becomes visible
again, unless it is deleted: by --delete after printing, or later by "tenaq
delete". It is not an error if no message arrives in time.

The command prints no message twice. Without --follow it ends when a printed
message comes back. With --follow it reports that once and continues; each
delivery counts as a receive, so such messages may move to the dead-letter
queue. With --visibility 0 it sends a single request for at most 10 messages. To
look at messages without receiving them, use "tenaq peek".

With --follow the command runs until interrupted, or until --max messages have
arrived. It polls for 20 s at a time, and retries while the server is away. With
--json each message is one line.

A message whose body is kept beside the queue is printed with that body. If the
body cannot be read, the message is neither printed nor deleted.

` + cli.BodiesHelp,
		Example: `  tenaq receive orders
  tenaq receive orders --max 10 --wait 20s --visibility 5m
  tenaq receive orders --follow --delete --json | jq .body
  tenaq receive accounts --bodies dir:/mnt/bodies`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.receiver(a, cmd)
			if err != nil {
				return err
			}
			if r.bodies, err = f.Offloader(); err != nil {
				return err
			}
			return f.OnQueue(func(
				ctx context.Context, c *cli.Client, url string, _ []string,
			) error {
				r.c, r.url = c, url
				return r.run(ctx)
			})(cmd, args)
		},
	}
	f.ClientFlags.Register(cmd)
	f.BodiesFlags.Register(cmd)
	flags := cmd.Flags()
	cli.Number(flags, &f.max, "max", 1, 1, 0, "maximum `number` of messages")
	cli.Value(flags, &f.wait, "wait", "", "wait for up to this `duration`, at most 20s",
		cli.SecondsUpTo(sqslimits.WaitMax))
	cli.Value(flags, &f.visibility, "visibility", "", "hide received messages for this `duration`",
		cli.SecondsUpTo(sqslimits.VisibilityMax))
	flags.BoolVar(&f.delete, "delete", false, "delete messages after printing them")
	flags.BoolVar(&f.follow, "follow", false, "run until interrupted")
	return cmd
}

type receiver struct {
	*cli.App
	c   *cli.Client
	url string

	bodies *offload.Offloader // nil when pointers are printed as they are

	in     sqs.ReceiveMessageInput
	zeros  cli.Zeros
	left   int // how many messages may still be received; negative means any number
	delete bool
	follow bool

	once   bool            // send one request: what it receives stays visible
	seen   map[string]bool // ids of received messages that may come back: whether they were printed
	warned bool            // the return of a message was reported

	got       int // messages received
	unseen    int // of them, those whose bodies could not be fetched
	undeleted int // of them, those that could not be deleted
}

func (f *receiveFlags) receiver(a *cli.App, cmd *cobra.Command) (*receiver, error) {
	r := &receiver{App: a, left: f.max, delete: f.delete, follow: f.follow, seen: map[string]bool{}}
	if f.follow {
		r.in.WaitTimeSeconds = int32(sqslimits.WaitMax / time.Second)
		if !cmd.Flags().Changed("max") {
			r.left = -1
		}
	}
	if f.wait != nil {
		r.in.WaitTimeSeconds = *f.wait
		r.zeros.Add("WaitTimeSeconds", *f.wait)
	}
	if f.visibility != nil {
		r.in.VisibilityTimeout = *f.visibility
		r.zeros.Add("VisibilityTimeout", *f.visibility)
		// A second request would receive the same messages, and count that.
		r.once = *f.visibility == 0
	}
	if r.once && (f.follow || f.max > sqslimits.ReceiveMax) {
		return nil, cli.Usagef("--visibility 0 hides nothing, so each request would receive the same messages; " +
			"leave it out, receive at most 10 without --follow, or use: tenaq peek QUEUE")
	}
	r.in.MessageSystemAttributeNames = []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll}
	r.in.MessageAttributeNames = []string{"All"}
	return r, nil
}

func (r *receiver) run(ctx context.Context) error {
	answered := false // a server that never answered is a configuration error: do not wait for it
	for r.left != 0 {
		messages, err := r.receive(ctx)
		switch {
		case ctx.Err() != nil && r.follow:
			return r.verdict()
		case err != nil:
			explained := r.c.Explain("receive from", r.url, err)
			if !r.follow || !answered || !cli.IsPassing(err) {
				return explained
			}
			r.Complain(fmt.Errorf("%w; retrying", explained))
			cli.Pause(ctx, retryPause)
			continue
		}
		if r.follow && !answered && len(messages) == 0 && !r.JSON {
			r.explainNone(ctx)
		}
		answered = true
		again := 0
		for _, m := range messages {
			// With --follow a message that could not be printed is tried again.
			if printed, ok := r.seen[aws.ToString(m.MessageId)]; ok && (printed || !r.follow) {
				again++
				r.refuse(ctx, m)
				continue
			}
			if err := r.handle(ctx, m); err != nil {
				return err
			}
		}
		switch {
		case r.follow && again > 0 && again == len(messages):
			cli.Pause(ctx, retryPause) // the queue may hide nothing; do not poll it in a tight loop
		case !r.follow && (len(messages) == 0 || again > 0 || r.once):
			return r.end(ctx)
		}
	}
	return r.end(ctx)
}

// end reports the result of a receive without --follow, or one that has all its messages.
func (r *receiver) end(ctx context.Context) error {
	if r.got == 0 && !r.JSON {
		r.Note("no messages")
		r.explainNone(ctx)
	}
	return r.verdict()
}

// explainNone says that the queue is paused. It asks only when no message arrived; another server,
// or one that refuses, is not reported.
func (r *receiver) explainNone(ctx context.Context) {
	if r.c.Endpoint.IsAmazon() {
		return
	}
	v := &cli.V1Client{C: r.c, HTTP: r.c.Options().HTTPClient}
	name := cli.QueueNameOf(r.url)
	var q struct {
		Tags map[string]string `json:"tags"`
	}
	err := v.Get(ctx, "look up", name, "/queues/"+url.PathEscape(name), nil, &q)
	if err == nil && extension.Explain(extension.Paused, q.Tags[extension.Paused]) != "" {
		r.Note("%s is paused; end that with: tenaq queue resume %[1]s", name)
	}
}

const retryPause = time.Second

// receive makes one request. The queue's own waiting time counts when --wait was not given, so the
// bound allows for the longest.
func (r *receiver) receive(ctx context.Context) ([]types.Message, error) {
	ctx, cancel := r.c.Bound(ctx, sqslimits.WaitMax)
	defer cancel()
	in := r.in
	in.QueueUrl = &r.url
	in.MaxNumberOfMessages = sqslimits.ReceiveMax
	if r.left > 0 {
		in.MaxNumberOfMessages = int32(min(sqslimits.ReceiveMax, r.left))
	}
	out, err := r.c.ReceiveMessage(ctx, &in, r.zeros.Option())
	if err != nil {
		return nil, cli.WithCause(ctx, err)
	}
	return out.Messages, nil
}

// handle prints a message and then deletes it, so that a message that could not be printed comes
// back.
func (r *receiver) handle(ctx context.Context, m types.Message) error {
	r.got++
	r.left--
	if err := r.fetch(ctx, &m); err != nil {
		r.unseen++
		r.seen[aws.ToString(m.MessageId)] = false
		r.Complain(fmt.Errorf("message %s is not printed and comes back: %w; --bodies none prints its pointer", aws.ToString(m.MessageId), err))
		return nil
	}
	if err := r.print(m); err != nil {
		return fmt.Errorf("print message %s: %w", aws.ToString(m.MessageId), err)
	}
	r.seen[aws.ToString(m.MessageId)] = true
	if !r.delete {
		return nil
	}
	if err := r.remove(ctx, m); err != nil {
		r.undeleted++
		r.Complain(fmt.Errorf("message %s was received but not deleted and will come back: %w",
			aws.ToString(m.MessageId), r.c.Explain("delete from", r.url, err)))
	}
	return nil
}

func (r *receiver) remove(ctx context.Context, m types.Message) error {
	// An interrupt between printing and deleting must not keep the message in the queue.
	_, err := cli.Call(context.WithoutCancel(ctx), r.c, r.c.DeleteMessage,
		&sqs.DeleteMessageInput{QueueUrl: &r.url, ReceiptHandle: m.ReceiptHandle})
	if err == nil && r.follow {
		delete(r.seen, aws.ToString(m.MessageId)) // otherwise the map would grow without bound
	}
	return err
}

// refuse handles a message that is received again; it is not printed twice. If it could not be
// deleted before, it is deleted now.
func (r *receiver) refuse(ctx context.Context, m types.Message) {
	if r.delete && r.seen[aws.ToString(m.MessageId)] {
		if r.remove(ctx, m) == nil && r.undeleted > 0 {
			r.undeleted--
		}
	}
	if r.follow && !r.delete && !r.warned {
		r.warned = true
		r.Complain(fmt.Errorf("message %s came back and is not printed again; each delivery counts as a receive: "+
			"delete messages with --delete, hide them for longer with --visibility, or use tenaq peek", aws.ToString(m.MessageId)))
	}
}

func (r *receiver) fetch(ctx context.Context, m *types.Message) error {
	if r.bodies == nil {
		return nil
	}
	body, attributes, err := r.bodies.In(ctx, aws.ToString(m.Body), m.MessageAttributes)
	m.Body, m.MessageAttributes = &body, attributes
	return err
}

func (r *receiver) verdict() error {
	switch {
	case r.unseen > 0 && r.unseen == r.got:
		return cli.Codedf(cli.ExitFailed, "none of %d received messages was printed; see above",
			r.got)
	case r.unseen > 0:
		return cli.Codedf(cli.ExitPartly,
			"%d of %d received messages were not printed, %d not deleted; see above", r.unseen,
			r.got, r.undeleted)
	case r.undeleted > 0:
		return cli.Codedf(cli.ExitPartly, "%d of %d received messages were not deleted",
			r.undeleted, r.got)
	}
	return nil
}

type received struct {
	MessageID     string                          `json:"messageId"`
	ReceiptHandle string                          `json:"receiptHandle"`
	Body          string                          `json:"body"`
	System        map[string]string               `json:"systemAttributes,omitempty"`
	Attributes    map[string]cli.MessageAttribute `json:"messageAttributes,omitempty"`
}

// print prints a message: one line of JSON, or a block that ends with an empty line.
func (r *receiver) print(m types.Message) error {
	if r.JSON {
		v := received{MessageID: aws.ToString(m.MessageId), Body: aws.ToString(m.Body),
			ReceiptHandle: aws.ToString(m.ReceiptHandle), System: m.Attributes}
		v.Attributes, _ = cli.MessageAttributes(m.MessageAttributes)
		return r.PrintJSONLine(v)
	}
	_, err := io.WriteString(r.Stdout, r.text(m, time.Now()))
	return err
}

// text describes a message for people; the body comes last because it may be long.
func (r *receiver) text(m types.Message, now time.Time) string {
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-9s %s\n", name, cli.OneLine(value))
		}
	}
	on, off := r.Bold()
	fmt.Fprintf(&b, "%s%-9s %s%s\n", on, "message", cli.OneLine(aws.ToString(m.MessageId)), off)
	if ms, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64); err == nil {
		field("sent", cli.HumanTime(time.UnixMilli(ms), now))
	}
	for _, f := range [][2]string{{"receives", "ApproximateReceiveCount"},
		{"group", "MessageGroupId"}, {"dedup-id", "MessageDeduplicationId"},
		{"sequence", "SequenceNumber"}, {"from", "DeadLetterQueueSourceArn"}} {
		field(f[0], m.Attributes[f[1]])
	}
	_, attributes := cli.MessageAttributes(m.MessageAttributes)
	for _, f := range attributes {
		field(f[0], f[1])
	}
	field("handle", aws.ToString(m.ReceiptHandle))
	b.WriteString(cli.Shown(r.Stdout, cmp.Or(aws.ToString(m.Body), "(empty)")) + "\n\n")
	return b.String()
}
