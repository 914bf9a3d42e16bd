package producer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/records/recordstest"
)

const (
	lease  = 30 * time.Second // the default
	window = 5 * time.Minute  // of deduplication
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// A place is a server with one queue, and a store.
type place struct {
	*testing.T
	server *sqstest.Server
	store  *recordstest.Memory
	url    string
}

// at returns a new place with a queue of that name.
func at(t *testing.T, queue string) *place {
	t.Helper()
	s := sqstest.New(t)
	return &place{t, s, recordstest.NewMemory(), s.Queue(t, queue)}
}

// producer returns a producer in a process of its own: its client and its way to the store have no
// trouble but their own.
func (p *place) producer(client producer.SQS, store records.Store, cfg producer.Config) *producer.Producer {
	p.Helper()
	cfg.QueueURL, cfg.Client, cfg.Store = p.url, client, store
	if client == nil {
		cfg.Client = p.server.Client()
	}
	if store == nil {
		cfg.Store = p.store
	}
	made, err := producer.New(cfg)
	must(p, err)
	return made
}

// drain receives and deletes everything that is in the queue.
func (p *place) drain() (messages []types.Message) {
	p.Helper()
	client := p.server.Client()
	for {
		out, err := client.ReceiveMessage(p.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &p.url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		must(p, err)
		if len(out.Messages) == 0 {
			return messages
		}
		messages = append(messages, out.Messages...)
		for _, m := range out.Messages {
			_, err := client.DeleteMessage(p.Context(), &sqs.DeleteMessageInput{QueueUrl: &p.url, ReceiptHandle: m.ReceiptHandle})
			must(p, err)
		}
	}
}

// wantMessages checks how many messages are in the queue, and takes them out.
func (p *place) wantMessages(want int) []types.Message {
	p.Helper()
	messages := p.drain()
	if len(messages) != want {
		p.Errorf("%d messages in the queue, want %d", len(messages), want)
	}
	return messages
}

// file is a message as the producer of a daily batch makes it.
func file(key string) producer.Message {
	return producer.Message{Key: key, Body: `{"FileID": "` + key + `", "BatchID": 1}`, Group: "data-download-group"}
}

// send sends a message and wants no error.
func send(t testing.TB, p *producer.Producer, m producer.Message) producer.Receipt {
	t.Helper()
	r, err := p.SendOnce(t.Context(), m)
	if err != nil {
		t.Fatalf("send %s: %v", m.Key, err)
	}
	return r
}

func wantNew(t testing.TB, r producer.Receipt, want bool) {
	t.Helper()
	if r.New != want || r.MessageID == "" {
		t.Errorf("%s: new %v, message %q, want new %v", r.Key, r.New, r.MessageID, want)
	}
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want one that is %v", err, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// state is what the ledger of the registrations says about a key; "" when nothing.
func (p *place) state(key string) claims.State {
	p.Helper()
	r, err := p.producer(nil, nil, producer.Config{}).Lookup(p.Context(), key, 0)
	if err != nil && !errors.Is(err, claims.ErrNoEntry) {
		p.Fatal(err)
	}
	return r.State
}

func (p *place) wantState(key string, want claims.State) {
	p.Helper()
	if got := p.state(key); got != want {
		p.Errorf("%s is %q, want %q", key, got, want)
	}
}

// A hook is a client with something happening around its sends.
type hook struct {
	producer.SQS
	before, after func(context.Context)
}

func (h *hook) SendMessage(ctx context.Context, in *sqs.SendMessageInput, options ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	if h.before != nil {
		h.before(ctx)
	}
	out, err := h.SQS.SendMessage(ctx, in, options...)
	if h.after != nil {
		h.after(ctx)
	}
	return out, err
}

// always is a fault of every request.
func always(f sqstest.Fault) func(string) sqstest.Fault {
	return func(string) sqstest.Fault { return f }
}

// first is a fault of the first n requests.
func first(n int, f sqstest.Fault) func(string) sqstest.Fault {
	return func(string) sqstest.Fault {
		if n--; n < 0 {
			return sqstest.None
		}
		return f
	}
}

// crashes calls what panics, as the end of its process.
func crashes(t testing.TB, do func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("it was to crash")
		}
	}()
	do()
}

func text(s string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(s)}
}

// An afterPut is a store with something happening after its first write.
type afterPut struct {
	*recordstest.Memory
	do func(context.Context)
}

func (s *afterPut) Put(ctx context.Context, w records.Write) (records.Record, error) {
	r, err := s.Memory.Put(ctx, w)
	if do := s.do; do != nil {
		s.do = nil
		do(ctx)
	}
	return r, err
}
