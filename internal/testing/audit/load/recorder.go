package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"tenaq/internal/testing/audit"
)

// A recorder carries out operations and records them. Its methods return an error only when the
// queue refused something that it has no reason to refuse.
type recorder struct {
	api   *sqs.Client
	v1    v1Client
	start time.Time
	old   bool // old handles may be refused

	mu       sync.Mutex
	history  audit.History
	batches  int // of sends
	receives int // that were answered with messages

	oldHandles int // that were refused
}

// A queue is one of those that are used.
type queue struct {
	url   *string
	name  string
	fifo  bool
	delay time.Duration // its DelaySeconds
}

func newQueue(url string, fifo bool) *queue {
	return &queue{url: &url, name: path.Base(url), fifo: fifo}
}

// A message is one to send; group and deduplication ID are for FIFO queues.
type message struct {
	body, group, dedup string
	delay              time.Duration // its own; zero for that of the queue
}

// text returns the parameter of a request, or none.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Times of requests. An attempt that is cut off by attemptMax may be carried out later all the
// same.
const (
	attemptMax = 6 * time.Second
	backoffMax = 200 * time.Millisecond
	attempts   = 25 // which with backoffMax bridges the few seconds that a restart may take
)

func newRecorder(cfg Config) *recorder {
	retryer := func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = attempts
			o.MaxBackoff = backoffMax
			o.RateLimiter = ratelimit.None // the budget of retries is made for outages that last
		})
	}
	api := sqs.NewFromConfig(cfg.AWS, func(o *sqs.Options) {
		o.BaseEndpoint = nil
		if cfg.Endpoint != "" {
			o.BaseEndpoint = &cfg.Endpoint
		}
		o.Retryer = retryer()
		o.HTTPClient = &counting{HTTPClient: awshttp.NewBuildableClient().WithTimeout(attemptMax).WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = 100
		}), nodes: cfg.Nodes}
	})
	return &recorder{api: api, v1: newV1Client(cfg.Endpoint), start: time.Now(),
		old: cfg.RefusesOldHandles}
}

func (r *recorder) now() time.Duration { return time.Since(r.start) }

// A call is one operation of the SDK, of several attempts perhaps.
type call struct {
	r        *recorder
	span     audit.Span
	attempts int
	last     time.Duration // when the last attempt began
	err      error
}

type callKey struct{}

// counting is an HTTP client that counts the attempts of a call, and spreads them over the nodes of
// a cluster.
type counting struct {
	aws.HTTPClient
	nodes []string // none for a single server
	turn  atomic.Uint64
}

func (c *counting) Do(request *http.Request) (*http.Response, error) {
	if k, ok := request.Context().Value(callKey{}).(*call); ok {
		k.attempts++ // one after the other, by the goroutine of the call
		k.last = k.r.now()
	}
	if len(c.nodes) > 0 {
		node, err := url.Parse(c.nodes[c.turn.Add(1)%uint64(len(c.nodes))])
		if err != nil {
			return nil, err
		}
		there := *request.URL
		there.Scheme, there.Host = node.Scheme, node.Host
		request.Host = cmp.Or(request.Host, request.URL.Host) // which the signature covers
		request.URL = &there
	}
	return c.HTTPClient.Do(request)
}

// do carries out one operation.
func do[In, Out any](
	ctx context.Context, r *recorder,
	op func(context.Context, In, ...func(*sqs.Options)) (Out, error),
	in In, options ...func(*sqs.Options),
) (Out, *call) {
	k := &call{r: r, span: audit.Span{Call: r.now()}}
	var out Out
	out, k.err = op(context.WithValue(ctx, callKey{}, k), in, options...)
	k.span.Return = r.now()
	return out, k
}

// outcome classifies the answer, and reports a refusal for which there is no reason.
func (k *call) outcome() (audit.Outcome, error) {
	var answer smithy.APIError
	var response *awshttp.ResponseError
	switch {
	case k.err == nil:
		return audit.Done, nil
	case !errors.As(k.err, &answer) || !errors.As(k.err, &response) ||
		response.HTTPStatusCode() >= 500:
		return audit.Unknown, nil
	}
	o := audit.Unknown // the refusal says nothing about the attempts before it
	if k.attempts == 1 {
		o = audit.Refused
	}
	if answer.ErrorCode() == "RequestThrottled" {
		return o, nil
	}
	return o, fmt.Errorf("the queue refused a request: %w", k.err)
}

// entryOutcome classifies the failure of one entry of a batch that was answered.
func (k *call) entryOutcome(e types.BatchResultErrorEntry) (audit.Outcome, error) {
	if !e.SenderFault {
		return audit.Unknown, nil
	}
	o := audit.Unknown
	if k.attempts == 1 {
		o = audit.Refused
	}
	return o, fmt.Errorf("the queue refused an entry of a batch: %s: %s", aws.ToString(e.Code),
		aws.ToString(e.Message))
}

// once makes a request to a FIFO queue without retries, so that it stays without an answer at
// times.
func (q *queue) once(o *sqs.Options) {
	if q.fifo {
		o.RetryMaxAttempts = 1
	}
}

// send sends messages, more than one as a batch, and returns those that were not acknowledged.
func (r *recorder) send(
	ctx context.Context, q *queue, messages []message,
) (left []message, err error) {
	sends := make([]audit.Send, len(messages))
	for i, m := range messages {
		sends[i] = audit.Send{Queue: q.name, Body: m.body, Group: m.group, Dedup: m.dedup,
			Delay: cmp.Or(m.delay, q.delay)}
	}
	if len(messages) == 1 {
		m := messages[0]
		out, k := do(ctx, r, r.api.SendMessage, &sqs.SendMessageInput{
			QueueUrl: q.url, MessageBody: &m.body, MessageGroupId: text(m.group),
			MessageDeduplicationId: text(m.dedup),
			DelaySeconds:           int32(m.delay / time.Second),
		}, q.once)
		sends[0].Span, sends[0].Attempts = k.span, k.attempts
		sends[0].Outcome, err = k.outcome()
		if k.err == nil {
			sends[0].MessageID, sends[0].Sequence = aws.ToString(out.MessageId),
				aws.ToString(out.SequenceNumber)
		}
	} else {
		err = r.sendBatch(ctx, q, messages, sends)
	}
	for i, s := range sends {
		if s.Outcome != audit.Done {
			left = append(left, messages[i])
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches++
	for i := range sends {
		sends[i].Batch = r.batches
	}
	r.history.Sends = append(r.history.Sends, sends...)
	return left, err
}

func (r *recorder) sendBatch(
	ctx context.Context, q *queue, messages []message, sends []audit.Send,
) error {
	in := &sqs.SendMessageBatchInput{QueueUrl: q.url}
	for i, m := range messages {
		in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), MessageBody: &m.body, MessageGroupId: text(m.group),
			MessageDeduplicationId: text(m.dedup),
			DelaySeconds:           int32(m.delay / time.Second),
		})
	}
	out, k := do(ctx, r, r.api.SendMessageBatch, in, q.once)
	o, err := k.outcome()
	for i := range sends {
		sends[i].Span, sends[i].Attempts, sends[i].Outcome = k.span, k.attempts, o
		if o == audit.Done {
			sends[i].Outcome = audit.Unknown // until the answer mentions it
		}
	}
	if k.err != nil {
		return err
	}
	for _, e := range out.Successful {
		if i, bad := index(e.Id, sends); bad != nil {
			err = bad
		} else {
			sends[i].Outcome = audit.Done
			sends[i].MessageID, sends[i].Sequence = aws.ToString(e.MessageId),
				aws.ToString(e.SequenceNumber)
		}
	}
	for _, e := range out.Failed {
		if i, bad := index(e.Id, sends); bad != nil {
			err = bad
		} else {
			sends[i].Outcome, bad = k.entryOutcome(e)
			err = errors.Join(err, bad)
		}
	}
	return err
}

// index finds the entry of a batch that an answer speaks of.
func index[T any](id *string, entries []T) (int, error) {
	i, err := strconv.Atoi(aws.ToString(id))
	if err != nil || i < 0 || i >= len(entries) {
		return 0, fmt.Errorf("the answer to a batch speaks of entry %q, of which there is none",
			aws.ToString(id))
	}
	return i, nil
}

// receive receives up to most messages.
func (r *recorder) receive(
	ctx context.Context, q *queue, most, waitSeconds int, visibility time.Duration,
) ([]audit.Delivery, error) {
	out, k := do(ctx, r, r.api.ReceiveMessage, &sqs.ReceiveMessageInput{
		QueueUrl:                    q.url,
		MaxNumberOfMessages:         int32(most),
		WaitTimeSeconds:             int32(waitSeconds),
		VisibilityTimeout:           int32(visibility / time.Second),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if k.err != nil {
		_, err := k.outcome()
		return nil, err
	}
	var got []audit.Delivery
	for _, m := range out.Messages {
		got = append(got, audit.Delivery{
			// The messages came with the last attempt.
			Span:         audit.Span{Call: k.last, Return: k.span.Return},
			Queue:        q.name,
			Body:         aws.ToString(m.Body),
			MessageID:    aws.ToString(m.MessageId),
			Handle:       aws.ToString(m.ReceiptHandle),
			Count:        int(number(m, types.MessageSystemAttributeNameApproximateReceiveCount)),
			Sent:         number(m, types.MessageSystemAttributeNameSentTimestamp),
			FirstReceive: number(m, types.MessageSystemAttributeNameApproximateFirstReceiveTimestamp),
			Visibility:   visibility,
			Group:        m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)],
			Dedup:        m.Attributes[string(types.MessageSystemAttributeNameMessageDeduplicationId)],
			Sequence:     m.Attributes[string(types.MessageSystemAttributeNameSequenceNumber)],
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.receives++
	for i := range got {
		got[i].Receive = r.receives
	}
	r.history.Deliveries = append(r.history.Deliveries, got...)
	return got, nil
}

// number reads a system attribute; -1 when it is missing or no number, which the audit objects to.
func number(m types.Message, name types.MessageSystemAttributeName) int64 {
	n, err := strconv.ParseInt(m.Attributes[string(name)], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// change changes the visibility timeout of a delivery.
func (r *recorder) change(ctx context.Context, q *queue, handle string, to time.Duration) error {
	_, k := do(ctx, r, r.api.ChangeMessageVisibility, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: q.url, ReceiptHandle: &handle, VisibilityTimeout: int32(to / time.Second),
	})
	c := audit.Change{Span: k.span, Handle: handle, Visibility: to}
	var err error
	c.Outcome, err = k.outcome()
	refused := !isHandleRefused(k.err) && r.isOldHandle(errorCode(k.err))
	if gone := new(types.MessageNotInflight); errors.As(k.err, &gone) || isHandleRefused(k.err) ||
		refused {
		err = nil // another worker was faster and deleted it, or its timeout has ended
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused {
		r.oldHandles++
	}
	r.history.Changes = append(r.history.Changes, c)
	if c.Outcome == audit.Done && k.attempts > 1 {
		c.Outcome = audit.Unknown
		r.history.Changes = append(r.history.Changes, c)
	}
	return err
}

// handleRefused is the answer to a change of a message that is deleted, and, on FIFO queues, to
// whatever is done with a handle that is not good any more.
const handleRefused = "InvalidParameterValue"

func isHandleRefused(err error) bool { return errorCode(err) == handleRefused }

// isEntryExpired tells whether an entry of a batch of deletes was refused because its handle has
// expired. [BATCH-23]
func isEntryExpired(e types.BatchResultErrorEntry) bool {
	code := aws.ToString(e.Code)
	return code == handleRefused || code == "ReceiptHandleIsInvalid" &&
		aws.ToString(e.Message) == "The receipt handle has expired"
}

// errorCode is the code of an answer; empty when there was none.
func errorCode(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}

// isOldHandle tells whether a code refuses a handle, from a server that may do so.
func (r *recorder) isOldHandle(code string) bool {
	return r.old && (code == handleRefused || code == "ReceiptHandleIsInvalid")
}

// delete deletes messages, more than one as a batch, and returns how many deletes were
// acknowledged.
func (r *recorder) delete(ctx context.Context, q *queue, handles []string) (done int, err error) {
	deletes := make([]audit.Delete, len(handles))
	refused := 0
	if len(handles) == 1 {
		_, k := do(ctx, r, r.api.DeleteMessage,
			&sqs.DeleteMessageInput{QueueUrl: q.url, ReceiptHandle: &handles[0]})
		deletes[0] = audit.Delete{Span: k.span, Handle: handles[0]}
		if deletes[0].Outcome, err = k.outcome(); q.fifo && isHandleRefused(k.err) {
			err = nil
		} else if r.isOldHandle(errorCode(k.err)) {
			refused, err = 1, nil
		}
	} else {
		refused, err = r.deleteBatch(ctx, q, handles, deletes)
	}
	for _, d := range deletes {
		if d.Outcome == audit.Done {
			done++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Deletes = append(r.history.Deletes, deletes...)
	r.oldHandles += refused
	return done, err
}

// deleteBatch returns how many old handles were refused.
func (r *recorder) deleteBatch(
	ctx context.Context, q *queue, handles []string, deletes []audit.Delete,
) (refused int, err error) {
	in := &sqs.DeleteMessageBatchInput{QueueUrl: q.url}
	for i := range handles {
		in.Entries = append(in.Entries,
			types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)),
				ReceiptHandle: &handles[i]})
	}
	out, k := do(ctx, r, r.api.DeleteMessageBatch, in)
	o, err := k.outcome()
	for i := range deletes {
		deletes[i] = audit.Delete{Span: k.span, Handle: handles[i], Outcome: o}
		if o == audit.Done {
			deletes[i].Outcome = audit.Unknown
		}
	}
	if k.err != nil {
		return 0, err
	}
	for _, e := range out.Successful {
		if i, bad := index(e.Id, deletes); bad != nil {
			err = bad
		} else {
			deletes[i].Outcome = audit.Done
		}
	}
	for _, e := range out.Failed {
		if i, bad := index(e.Id, deletes); bad != nil {
			err = bad
		} else {
			if deletes[i].Outcome, bad = k.entryOutcome(e); q.fifo && isEntryExpired(e) {
				bad = nil
			} else if r.isOldHandle(aws.ToString(e.Code)) {
				refused, bad = refused+1, nil
			}
			err = errors.Join(err, bad)
		}
	}
	return refused, err
}

// isMissingAny tells whether a message would be lost if nothing more came.
func (r *recorder) isMissingAny() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.history
	h.Drained, h.End = true, r.now()
	return audit.Check(&h, audit.Options{}).Count(audit.Lost) > 0
}

// left adds up the counters of the queue.
func (r *recorder) left(ctx context.Context, q *queue) (int, error) {
	counters := []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}
	out, k := do(ctx, r, r.api.GetQueueAttributes,
		&sqs.GetQueueAttributesInput{QueueUrl: q.url, AttributeNames: counters})
	if k.err != nil {
		return 0, k.err
	}
	sum := 0
	for _, name := range counters {
		n, err := strconv.Atoi(out.Attributes[string(name)])
		if err != nil {
			return 0, fmt.Errorf("the queue says %q of its %s", out.Attributes[string(name)], name)
		}
		sum += n
	}
	return sum, nil
}
