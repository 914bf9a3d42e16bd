package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"tenaq/claims"
	"tenaq/internal/work/dedupid"
	"tenaq/internal/work/queuename"
	"tenaq/internal/work/sqslimits"
	"tenaq/internal/work/trail"
	"tenaq/offload"
)

// A directory caches the URLs of queues. It asks again after an error, and after directoryMax,
// because a queue may have been deleted and created again elsewhere.
type directory struct {
	client SQS
	names  map[string]string // Config.Queues

	mu    sync.Mutex
	known map[string]place
}

type place struct {
	url   string
	since time.Time
}

const directoryMax = 10 * time.Minute

// url returns the URL of a queue that rows name.
func (d *directory) url(ctx context.Context, queue string) (string, error) {
	name := queue
	if other, ok := d.names[queue]; ok {
		name = other
	}
	if strings.Contains(name, "://") {
		return name, nil
	}
	d.mu.Lock()
	found, ok := d.known[name]
	d.mu.Unlock()
	if ok && time.Since(found.since) < directoryMax {
		return found.url, nil
	}
	out, err := d.client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return "", fmt.Errorf("find the queue %q: %w", name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = make(map[string]place)
	}
	d.known[name] = place{aws.ToString(out.QueueUrl), time.Now()}
	return aws.ToString(out.QueueUrl), nil
}

// forget removes a URL, so that the next call asks again.
func (d *directory) forget(url string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, p := range d.known {
		if p.url == url {
			delete(d.known, name)
		}
	}
}

// entry returns the message of a row, without what depends on its queue. It returns an error if no
// queue would accept the message.
func (r *Row) entry() (types.SendMessageBatchRequestEntry, error) {
	if err := r.Check(); err != nil {
		return types.SendMessageBatchRequestEntry{}, err
	}
	text := func(s string) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: aws.String("String"),
			StringValue: aws.String(s)}
	}
	attributes := make(map[string]types.MessageAttributeValue, len(r.Headers)+2)
	for name, value := range r.Headers {
		attributes[name] = text(value)
	}
	if r.Type != "" {
		attributes[typeAttribute] = text(r.Type)
	}
	// Check has made sure that there is room.
	attributes, _ = trail.Trail{Key: r.work(), Generation: r.Generation}.Attach(attributes)
	return types.SendMessageBatchRequestEntry{MessageBody: &r.Body,
		MessageAttributes: attributes}, nil
}

// pointerMax is about the size of a message with a pointer instead of its body.
const pointerMax = 2 << 10

// inMessage returns the size in a request of an entry with size bytes, or an error if it is too
// large.
func (r *Relay) inMessage(size int) (int, error) {
	switch o := r.cfg.Offload; {
	case o != nil && size > o.Threshold():
		return min(size, pointerMax), nil
	case size > sqslimits.MessageBytesMax:
		return 0, fmt.Errorf("it has %d bytes with its attributes, SQS accepts %d: store large bodies elsewhere, with --bodies or Config.Offload",
			size, sqslimits.MessageBytesMax)
	}
	return size, nil
}

// keep stores the bodies that are too large for their messages. It returns the error of each entry,
// and the entries that can be sent.
func (r *Relay) keep(
	ctx context.Context, entries []types.SendMessageBatchRequestEntry, items []*item,
) (errs []error, sendable []types.SendMessageBatchRequestEntry) {
	errs = make([]error, len(entries))
	if r.cfg.Offload == nil {
		return errs, entries
	}
	var storing sync.WaitGroup
	for i := range entries {
		e := &entries[i]
		storing.Go(func() {
			body, attributes, err := r.cfg.Offload.Out(ctx, items[i].row.ID, *e.MessageBody,
				e.MessageAttributes)
			if errors.Is(err, offload.ErrUnfit) {
				err = &refusal{err.Error()}
			}
			e.MessageBody, e.MessageAttributes, errs[i] = &body, attributes, err
		})
	}
	storing.Wait()
	for i, e := range entries {
		if errs[i] == nil {
			sendable = append(sendable, e)
		}
	}
	return errs, sendable
}

// work names the work of the message. It is the same for every send.
func (r *Row) work() string { return cmp.Or(r.Dedup, r.ID) }

// address adds to an entry what depends on the kind of its queue.
func (r *Row) address(e *types.SendMessageBatchRequestEntry, fifo bool) {
	group := r.Group
	if fifo {
		group = cmp.Or(group, r.Key)
		e.MessageDeduplicationId = aws.String(dedupid.Of(claims.EffectKey(r.work(), r.Generation)))
	}
	if group != "" {
		e.MessageGroupId = aws.String(dedupid.Of(group))
	}
}

// requestMax is how long a request may take, including the retries of the client.
const requestMax = 30 * time.Second

// An answer is the result of a request.
type answer struct {
	queue *queue
	items []*item
	errs  []error  // by item: nil if sent, a *refusal about the message, or an error of the queue
	ids   []string // by item: message ids
	url   string
}

// A refusal says that a queue will not accept a message as it is.
type refusal struct{ reason string }

func (e *refusal) Error() string { return e.reason }

// send sends the messages of items in one request, which ends by until.
func (r *Relay) send(q *queue, items []*item, until time.Time) answer {
	a := answer{queue: q, items: items, errs: make([]error, len(items)),
		ids: make([]string, len(items))}
	all := func(err error) answer { // for the items that have no error yet
		for i := range a.errs {
			if a.errs[i] == nil {
				a.errs[i] = err
			}
		}
		return a
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	var err error
	if a.url, err = r.queues.url(ctx, q.name); err != nil {
		return all(err)
	}
	in := &sqs.SendMessageBatchInput{QueueUrl: &a.url}
	for i, it := range items {
		e := it.entry
		e.Id = aws.String(strconv.Itoa(i))
		it.row.address(&e, queuename.IsFIFO(a.url))
		in.Entries = append(in.Entries, e)
	}
	a.errs, in.Entries = r.keep(ctx, in.Entries, items)
	if len(in.Entries) == 0 {
		return a
	}
	out, err := r.cfg.Client.SendMessageBatch(ctx, in)
	if err != nil {
		if code, about := contentError(err); about {
			return all(&refusal{code})
		}
		r.queues.forget(a.url)
		return all(err)
	}
	all(errUnanswered)
	for _, f := range out.Failed {
		if i := a.index(f.Id); i >= 0 {
			text := fmt.Sprintf("%s: %s", aws.ToString(f.Code), aws.ToString(f.Message))
			if a.errs[i] = errors.New(text); f.SenderFault {
				a.errs[i] = &refusal{text}
			}
		}
	}
	for _, s := range out.Successful {
		if i := a.index(s.Id); i >= 0 {
			a.errs[i], a.ids[i] = nil, aws.ToString(s.MessageId)
		}
	}
	return a
}

// errUnanswered is the error of an entry that the answer does not mention.
var errUnanswered = errors.New("the answer of the queue does not mention the message")

func (a *answer) index(id *string) int {
	i, err := strconv.Atoi(aws.ToString(id))
	if err != nil || i < 0 || i >= len(a.items) {
		return -1
	}
	return i
}

// contentErrors are the codes of errors about the content of a request. After any other error,
// about the queue, the network or the credentials, the messages wait.
var contentErrors = []string{
	"InvalidMessageContents", "InvalidParameterValue", "InvalidAttributeValue",
	"InvalidAttributeName", "MissingParameter",
	"BatchRequestTooLong", "UnsupportedOperation", "ValidationException", "ValidationError",
}

func contentError(err error) (reason string, ok bool) {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return "", false
	}
	code := strings.TrimPrefix(api.ErrorCode(), "AWS.SimpleQueueService.")
	return fmt.Sprintf("%s: %s", code, api.ErrorMessage()), slices.Contains(contentErrors, code)
}
