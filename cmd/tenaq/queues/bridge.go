package queues

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"tenaq/internal/cli"
	"tenaq/internal/work/sqslimits"
)

const bridgeHelp = `Move messages from a queue of one server to a queue of another, such as from
Amazon SQS to tenaq, or back. The command sends a copy and then deletes the
original, so a message is in one of the queues at any moment. It continues until
it is stopped; --until-empty ends it when the source holds no messages.

FROM is a queue of the server that other commands use: --endpoint-url, --aws or
the environment. TO is a queue of the server at --to-endpoint-url. Both are
standard queues, or both are FIFO queues. Bodies, attributes, trace headers and
message groups stay the same, and so does the order within a group. Message ids,
send times and receive counts are new.

A copy can be sent twice if its answer is lost or the command is killed before
it deletes the original. The destination recognizes the second one by the id of
the original:

  FIFO queue        its deduplication id, for five minutes
  standard queue    on tenaq, with the tag tenaq:dedup-window, for as long as
                    the tag says; otherwise both copies stay, as on SQS

While the destination cannot be reached, the messages that were received stay
hidden, and the command tries again. A message that the destination refuses
stays in the source, where its redrive policy applies. SIGTERM and SIGINT let
requests in progress end.`

type bridgeFlags struct {
	from, to   cli.ClientFlags
	untilEmpty bool
	receives   int
}

func NewBridgeCmd(a *cli.App) *cobra.Command {
	f := &bridgeFlags{}
	cmd := &cobra.Command{
		Use:   "bridge FROM TO --to-endpoint-url URL",
		Short: "Move messages to a queue of another server",
		Long:  bridgeHelp,
		Example: `  tenaq bridge orders orders --aws --to-endpoint-url http://127.0.0.1:9324
  tenaq bridge orders orders --to-endpoint-url aws --to-region eu-west-1
  tenaq bridge line.fifo line.fifo --to-endpoint-url http://b:9324 --until-empty`,
		Args: cli.Wants(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.to.EndpointURL == "" {
				return cli.Usagef("add --to-endpoint-url, the server of the queue %s; aws is Amazon SQS",
					args[1])
			}
			b := &bridge{a: a}
			if err := b.connect(cmd.Context(), f, args[0], args[1]); err != nil {
				return err
			}
			return b.run(cmd.Context(), f)
		},
	}
	f.from.Register(cmd)
	flags := cmd.Flags()
	cli.Text(flags, &f.to.EndpointURL, "to-endpoint-url", "SQS API `URL` of TO, or aws")
	cli.Text(flags, &f.to.Region, "to-region", "sign for this `region` at TO (default as for FROM)")
	flags.BoolVar(&f.untilEmpty, "until-empty", false, "exit when the source holds no messages")
	cli.Number(flags, &f.receives, "receives", 4, 1, 100, "receive with this `number` of requests")
	return cmd
}

// A bridge moves messages between two queues.
type bridge struct {
	a              *cli.App
	from, to       *cli.Client
	fromURL, toURL string
	fifo           bool          // both are
	remembers      bool          // the destination recognizes copies by an attribute
	wait           time.Duration // of a receive

	moved atomic.Int64
	last  atomic.Int64 // when an error was printed last, in Unix milliseconds
}

// dedupAttribute is where a standard queue with a deduplication window finds the id. [EXT-30]
const (
	dedupAttribute = "tenaq.dedup-id"
	dedupTag       = "tenaq:dedup-window"
)

// bridgeHidden is for how long a message is hidden while it is copied. A copy takes one request.
const bridgeHidden = 2 * time.Minute

func (b *bridge) connect(ctx context.Context, f *bridgeFlags, from, to string) (err error) {
	f.to.Timeout = f.from.Timeout
	if f.to.Region == "" {
		f.to.Region = f.from.Region
	}
	if b.from, err = f.from.Connect(ctx); err != nil {
		return err
	}
	if b.to, err = f.to.Connect(ctx); err != nil {
		return err
	}
	if b.fromURL, err = b.from.QueueURL(ctx, from); err != nil {
		return err
	}
	if b.toURL, err = b.to.QueueURL(ctx, to); err != nil {
		return err
	}
	b.fifo = strings.HasSuffix(b.fromURL, ".fifo")
	switch {
	case b.fifo != strings.HasSuffix(b.toURL, ".fifo"):
		return cli.Usagef("%s and %s must both be FIFO queues, or both standard queues", from, to)
	case b.fromURL == b.toURL && b.from.Endpoint.URL == b.to.Endpoint.URL:
		return cli.Usagef("%s would be moved to itself: name another queue or server", from)
	}
	tags, err := cli.Call(ctx, b.to, b.to.ListQueueTags,
		&sqs.ListQueueTagsInput{QueueUrl: &b.toURL})
	b.remembers = err == nil && tags.Tags[dedupTag] != ""
	if !b.fifo && !b.remembers && !b.to.Endpoint.IsAmazon() {
		b.a.Note("%s has no tag %s: a copy that is sent twice is stored twice. On a tenaq server, add it with: tenaq queue tag %s %s=7d",
			to, dedupTag, to, dedupTag)
	}
	return nil
}

func (b *bridge) run(ctx context.Context, f *bridgeFlags) error {
	b.wait = sqslimits.WaitMax
	if f.untilEmpty {
		b.wait = time.Second // an empty answer is what it waits for
	}
	// Stopping ends the receives. What was received by then is still moved.
	receiving, stop := context.WithCancel(ctx)
	defer stop()
	line := cli.NewProgress(b.a.Stderr, "bridge")
	defer line.Done()
	var receivers sync.WaitGroup
	for range f.receives {
		receivers.Go(func() {
			pause := time.Duration(0)
			for receiving.Err() == nil {
				n, err := b.batch(receiving)
				pause = b.after(receiving, err, pause)
				line.Line("%s", cli.Counted(b.moved.Load(), "message", "messages"))
				if f.untilEmpty && n == 0 && err == nil && b.empty(receiving) {
					stop()
				}
			}
		})
	}
	receivers.Wait()
	line.Done()
	moved := b.moved.Load()
	return b.a.Result(map[string]int64{"moved": moved}, "moved %s from %s to %s at %s",
		cli.Counted(moved, "message", "messages"), cli.QueueNameOf(b.fromURL),
		cli.QueueNameOf(b.toURL), b.to.Endpoint)
}

// The pause after a failure doubles up to bridgePauseMax.
const (
	bridgePauseMin = 500 * time.Millisecond
	bridgePauseMax = 30 * time.Second
)

// after reports an error and waits before the next receive. Of errors that come together one is
// printed. It returns the pause that it made.
func (b *bridge) after(ctx context.Context, err error, last time.Duration) time.Duration {
	if err == nil || ctx.Err() != nil {
		return 0
	}
	now, printed := time.Now().UnixMilli(), b.last.Load()
	if now-printed >= bridgePauseMin.Milliseconds() && b.last.CompareAndSwap(printed, now) {
		b.a.Complain(err)
	}
	pause := min(max(2*last, bridgePauseMin), bridgePauseMax)
	cli.Pause(ctx, pause/2+rand.N(pause/2))
	return pause
}

// batch receives messages and moves them. It returns how many it received.
func (b *bridge) batch(ctx context.Context) (n int, err error) {
	bounded, cancel := b.from.Bound(ctx, b.wait)
	defer cancel()
	out, err := b.from.ReceiveMessage(bounded, &sqs.ReceiveMessageInput{
		QueueUrl: &b.fromURL, MaxNumberOfMessages: sqslimits.ReceiveMax,
		WaitTimeSeconds: int32(b.wait.Seconds()), VisibilityTimeout: int32(bridgeHidden.Seconds()),
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	})
	if err != nil {
		return 0, b.from.Explain("receive from", b.fromURL, cli.WithCause(bounded, err))
	}
	lines := make(map[string][]types.Message) // messages that are moved one after the other
	for _, m := range out.Messages {
		key := aws.ToString(m.MessageId)
		if b.fifo {
			key = m.Attributes["MessageGroupId"]
		}
		lines[key] = append(lines[key], m)
	}
	var moving errgroup.Group
	for _, line := range lines {
		moving.Go(func() error { return b.line(ctx, line) })
	}
	return len(out.Messages), moving.Wait()
}

// line moves messages one after the other. What was received is moved even if ctx ends: then it is
// only not tried again. While the destination is away the messages stay hidden, because each
// receive counts, and their redrive policy must not take them for poison.
func (b *bridge) line(ctx context.Context, line []types.Message) error {
	requests, pause := context.WithoutCancel(ctx), time.Duration(0)
	for i := 0; i < len(line); {
		err := b.move(requests, line[i])
		switch {
		case err == nil:
			i++
			continue
		case ctx.Err() != nil || isRefusal(err):
			return errors.Join(err, b.hide(requests, line[i:], giveBackAfter))
		}
		pause = b.after(ctx, err, pause)
		if err := b.hide(requests, line[i:], bridgeHidden); err != nil {
			return err
		}
	}
	return nil
}

// isRefusal reports whether the destination refuses a message for what it is, so that another
// attempt would fail too.
func isRefusal(err error) bool {
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return false
	}
	switch cli.ErrorKind(answer) {
	case "InvalidMessageContents", "InvalidParameterValue", "InvalidParameterCombination",
		"MissingParameter":
		return true
	}
	return false
}

// move sends a copy of a message and deletes the message.
func (b *bridge) move(ctx context.Context, m types.Message) error {
	in := &sqs.SendMessageInput{QueueUrl: &b.toURL, MessageBody: m.Body,
		MessageAttributes: m.MessageAttributes}
	if trace := m.Attributes["AWSTraceHeader"]; trace != "" {
		in.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: &trace}}
	}
	if group := m.Attributes["MessageGroupId"]; group != "" {
		in.MessageGroupId = &group
	}
	_, given := m.MessageAttributes[dedupAttribute]
	switch {
	case b.fifo:
		// Not the id of the source: it may be used again after five minutes, and a backlog is moved
		// faster than that.
		in.MessageDeduplicationId = m.MessageId
	case b.remembers && !given:
		in.MessageAttributes = maps.Clone(m.MessageAttributes)
		if in.MessageAttributes == nil {
			in.MessageAttributes = make(map[string]types.MessageAttributeValue)
		}
		in.MessageAttributes[dedupAttribute] = types.MessageAttributeValue{
			DataType: aws.String("String"), StringValue: m.MessageId}
	}
	id := aws.ToString(m.MessageId)
	_, err := cli.Ask(ctx, b.to, "send message "+id+" to", b.toURL, b.to.SendMessage, in)
	if err != nil {
		return err
	}
	b.moved.Add(1)
	_, err = cli.Ask(ctx, b.from, "message "+id+" was copied; delete it from", b.fromURL,
		b.from.DeleteMessage,
		&sqs.DeleteMessageInput{QueueUrl: &b.fromURL, ReceiptHandle: m.ReceiptHandle})
	return err
}

// giveBackAfter is when a message that was not moved is visible again.
const giveBackAfter = 5 * time.Second

// hide sets for how long messages stay hidden. The last comes first: otherwise a later one could
// pass an earlier one.
func (b *bridge) hide(ctx context.Context, left []types.Message, d time.Duration) error {
	for i := len(left) - 1; i >= 0; i-- {
		_, err := cli.Ask(ctx, b.from, "hide a message of", b.fromURL,
			b.from.ChangeMessageVisibility, &sqs.ChangeMessageVisibilityInput{QueueUrl: &b.fromURL,
				ReceiptHandle: left[i].ReceiptHandle, VisibilityTimeout: int32(d.Seconds())})
		if err != nil {
			return err
		}
	}
	return nil
}

// empty reports whether the source holds no messages, hidden and delayed ones included.
func (b *bridge) empty(ctx context.Context) bool {
	attributes, err := b.from.AllAttributes(ctx, b.fromURL)
	if err != nil {
		return false // the next receive reports it
	}
	visible, hidden, delayed := cli.CountsOf(attributes)
	return visible+hidden+delayed == 0
}
