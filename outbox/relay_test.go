package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"tenaq/internal/testing/proof"
	"tenaq/internal/testing/sqstest"
	"tenaq/offload"
	"tenaq/offload/offloadtest"
	"tenaq/outbox"
	"tenaq/outbox/outboxtest"
)

// A rig is a server, a box in memory and relays, in a bubble.
type rig struct {
	t      *testing.T
	server *sqstest.Server
	box    *outboxtest.Memory

	mu  sync.Mutex
	log []string // of events
}

func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &rig{t: t, server: sqstest.New(t), box: outboxtest.NewMemory()})
	})
}

func (r *rig) enqueue(messages ...outbox.Message) {
	r.t.Helper()
	if err := r.box.Enqueue(messages...); err != nil {
		r.t.Fatal(err)
	}
}

// start runs a relay; stop ends it and waits.
func (r *rig) start(change func(*outbox.Config)) (stop func()) {
	r.t.Helper()
	cfg := outbox.Config{
		Box: r.box, Client: r.server.Client(), Logger: slog.New(slog.DiscardHandler),
		Events: outbox.Events{
			Sent:   func(row outbox.Row, _ string) { r.note("sent %s", row.Body) },
			Failed: func(row outbox.Row, reason string, _ time.Duration) { r.note("failed %s: %s", row.Body, reason) },
			Parked: func(row outbox.Row, reason string) { r.note("parked %s: %s", row.Body, reason) },
			Lost:   func(row outbox.Row) { r.note("lost %s", row.Body) },
		},
	}
	if change != nil {
		change(&cfg)
	}
	relay, err := outbox.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// count is how many events began with a word.
func (r *rig) count(word string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.log {
		if strings.HasPrefix(l, word) {
			n++
		}
	}
	return n
}

func (r *rig) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// received takes everything out of a queue, in the order in which it comes.
func (r *rig) received(url string) (messages []types.Message) {
	r.t.Helper()
	client := r.server.Client()
	for {
		out, err := client.ReceiveMessage(r.t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			r.t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return messages
		}
		messages = append(messages, out.Messages...)
		for _, m := range out.Messages {
			if _, err := client.DeleteMessage(r.t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

func bodies(messages []types.Message) (b []string) {
	for _, m := range messages {
		b = append(b, aws.ToString(m.Body))
	}
	return b
}

func (r *rig) wantStats(pending, parked int) {
	r.t.Helper()
	s, err := r.box.Stats(r.t.Context())
	if err != nil || s.Pending != pending || s.Parked != parked {
		r.t.Errorf("%d rows are pending and %d parked, error %v; want %d and %d", s.Pending, s.Parked, err, pending, parked)
	}
}

// What a row says becomes what the message says.
func TestMessageOfRow_FD12_FD15(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		standard, fifo := r.server.Queue(t, "jobs"), r.server.Queue(t, "orders.fifo")
		const id = "01890a5d-ac96-774b-bcce-b302099a8057"
		r.enqueue(
			outbox.Message{
				ID: id, Queue: "jobs", Key: "job-1", Type: "transcode_requested", Body: `{"video": "ü"}`,
				Headers: map[string]string{"traceparent": "00-4bf92f"},
			},
			outbox.Message{Queue: "orders.fifo", Key: "order-1", Body: "paid", Dedup: "pay-1", Generation: 2},
		)
		r.start(nil)
		r.sleep(time.Second)
		got := r.received(standard)
		if len(got) != 1 || aws.ToString(got[0].Body) != `{"video": "ü"}` {
			t.Fatalf("got %+v", got)
		}
		want := map[string]string{"type": "transcode_requested", "traceparent": "00-4bf92f", "tenaq": "v=1&key=" + id}
		if len(got[0].MessageAttributes) != len(want) {
			t.Errorf("got attributes %v", got[0].MessageAttributes)
		}
		for name, value := range want {
			if v := aws.ToString(got[0].MessageAttributes[name].StringValue); v != value {
				t.Errorf("attribute %s is %q, want %q", name, v, value)
			}
		}
		got = r.received(fifo)
		if len(got) != 1 {
			t.Fatalf("got %+v", got)
		}
		for name, value := range map[string]string{"MessageGroupId": "order-1", "MessageDeduplicationId": "pay-1#2"} {
			if v := got[0].Attributes[name]; v != value {
				t.Errorf("%s is %q, want %q", name, v, value)
			}
		}
		if v := aws.ToString(got[0].MessageAttributes["tenaq"].StringValue); v != "v=1&generation=2&key=pay-1" {
			t.Errorf("the identity is %q", v)
		}
		r.wantStats(0, 0)
	})
}

// Two relays, calls of the database and of the queue that fail, are carried out twice or lose their
// answers: everything arrives, what shares a group in its order, and the queue sees no row as two
// messages.
func TestStorm_FD1_FD2(t *testing.T) {
	seed := proof.Seed(t)
	for i := range uint64(3) {
		inBubble(t, func(t *testing.T, r *rig) {
			url := r.server.Queue(t, "orders.fifo")
			standard := r.server.Queue(t, "mails")
			dice := &dice{random: rand.New(rand.NewPCG(seed, i))}
			r.box.SetFault(func(call string) error {
				if dice.one(8) {
					return outboxtest.ErrInjected
				}
				return nil
			})
			var stops []func()
			run := func() {
				client := r.server.Client()
				client.SetFault(func(string) sqstest.Fault {
					if !dice.one(6) {
						return sqstest.None
					}
					return []sqstest.Fault{sqstest.Dropped, sqstest.Unanswered, sqstest.Broken, sqstest.Throttled, sqstest.Doubled}[dice.die(5)]
				})
				slow := &slowly{client, func(*sqs.SendMessageBatchInput) error {
					time.Sleep(time.Duration(dice.die(200)) * time.Millisecond)
					return nil
				}}
				stops = append(stops, r.start(func(c *outbox.Config) { c.Client, c.Parallel, c.Rows = slow, 3, 20 }))
			}
			run()
			run()
			want := make(map[string][]string)
			n := 0
			for range 80 {
				for range dice.die(20) {
					group, body := fmt.Sprint("g", dice.die(6)), fmt.Sprint(n)
					n++
					want[group] = append(want[group], body)
					r.enqueue(outbox.Message{Queue: "orders.fifo", Key: group, Body: body}, outbox.Message{Queue: "mails", Body: body})
				}
				r.sleep(time.Duration(dice.die(300)) * time.Millisecond)
				if dice.one(20) { // one ends, another begins
					stops[0]()
					stops = stops[1:]
					run()
				}
			}
			dice.end()
			r.sleep(2 * time.Minute)
			r.wantStats(0, 0)
			got := make(map[string][]string)
			for _, m := range r.received(url) {
				g := m.Attributes["MessageGroupId"]
				got[g] = append(got[g], aws.ToString(m.Body))
			}
			mails := make(map[string]bool)
			for _, b := range bodies(r.received(standard)) {
				mails[b] = true
			}
			if len(mails) != n {
				t.Errorf("case %d: %d mails of %d were sent", i, len(mails), n)
			}
			for group := range want {
				if !slices.Equal(got[group], want[group]) {
					t.Errorf("case %d: %s received %v\nwant %v", i, group, got[group], want[group])
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

// dice is thrown by several goroutines, until the trouble is over.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
	over   bool
}

func (d *dice) die(sides int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.IntN(sides)
}

// one is true one time in so many.
func (d *dice) one(in int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.over && d.random.IntN(in) == 0
}

func (d *dice) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
}

// A row that the queue refuses is tried again, holds up its group alone, and is parked with the
// reason. Then its group goes on. Released, it is sent if it can be.
func TestRefusedRow_FD5(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "orders.fifo")
		const bad = "not XML: \x01"
		r.enqueue(
			outbox.Message{Queue: "orders.fifo", Key: "a", Body: "a1"},
			outbox.Message{Queue: "orders.fifo", Key: "a", Body: bad},
			outbox.Message{Queue: "orders.fifo", Key: "a", Body: "a3"},
			outbox.Message{Queue: "orders.fifo", Key: "b", Body: "b1"},
		)
		r.start(func(c *outbox.Config) { c.Attempts, c.RetryBase = 3, time.Minute })
		r.sleep(time.Second)
		if got := bodies(r.received(url)); !slices.Equal(got, []string{"a1", "b1"}) {
			t.Errorf("received %q at first", got)
		}
		r.wantStats(2, 0)
		r.sleep(20 * time.Minute)
		if got := bodies(r.received(url)); !slices.Equal(got, []string{"a3"}) {
			t.Errorf("received %q when the row was parked", got)
		}
		r.wantStats(0, 1)
		if n := r.count("failed"); n != 2 {
			t.Errorf("it failed %d times before it was parked, want 2", n)
		}
		parked, err := r.box.Parked(t.Context(), "", 10)
		if err != nil || len(parked) != 1 || parked[0].Body != bad || !strings.Contains(parked[0].Reason, "InvalidMessageContents") {
			t.Errorf("parked are %+v, error %v", parked, err)
		}
	})
}

// What no queue would take is parked at once.
func TestHopelessRow(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs")
		r.enqueue(
			outbox.Message{Queue: "jobs", Body: strings.Repeat("x", 1<<20)},
			outbox.Message{Queue: "jobs", Body: "good"},
		)
		r.start(nil)
		r.sleep(time.Second)
		r.wantStats(0, 1)
		if got := bodies(r.received(url)); !slices.Equal(got, []string{"good"}) {
			t.Errorf("received %q", got)
		}
	})
}

// A queue that is not there keeps its rows waiting and no others. When it is there they are sent;
// none is parked, however long that took.
func TestQueueMissing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs")
		for i := range 500 {
			r.enqueue(outbox.Message{Queue: "nowhere", Body: fmt.Sprint("n", i)})
		}
		r.start(nil)
		r.sleep(time.Minute)
		for i := range 20 {
			r.enqueue(outbox.Message{Queue: "jobs", Body: fmt.Sprint("j", i)})
		}
		r.sleep(30 * time.Second)
		if got := len(r.received(url)); got != 20 {
			t.Errorf("%d of the others were sent, want 20", got)
		}
		r.sleep(time.Duration(proof.Count(20, 180, 180, 180)) * time.Minute)
		r.wantStats(500, 0)
		nowhere := r.server.Queue(t, "nowhere")
		r.sleep(2 * time.Minute)
		if got := len(r.received(nowhere)); got != 500 {
			t.Errorf("%d were sent when the queue was there, want 500", got)
		}
	})
}

// A row is sent when its time has come, and not before.
func TestDeliverAfter(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs")
		r.start(nil)
		r.sleep(time.Hour)
		r.enqueue(outbox.Message{Queue: "jobs", Body: "later", After: time.Now().Add(42 * time.Second)})
		r.sleep(41 * time.Second)
		if n := r.count("sent"); n != 0 {
			t.Error("it was sent too early")
		}
		r.sleep(2 * time.Second)
		if got := bodies(r.received(url)); len(got) != 1 {
			t.Errorf("received %q", got)
		}
	})
}

// A relay that ends gives back what it has not sent; the next one need not wait for a lease.
func TestStopGivesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs")
		client := r.slow(time.Second)
		client.SetFault(func(operation string) sqstest.Fault {
			if operation == "SendMessageBatch" {
				return sqstest.Throttled
			}
			return sqstest.None
		})
		stop := r.start(func(c *outbox.Config) { c.Client, c.Parallel = client, 2 })
		for i := range 100 {
			r.enqueue(outbox.Message{Queue: "jobs", Body: fmt.Sprint(i)})
		}
		r.sleep(500 * time.Millisecond)
		stop()
		r.start(nil)
		r.sleep(time.Second)
		if got := len(r.received(url)); got != 100 {
			t.Errorf("%d were sent at once, want 100", got)
		}
	})
}

// While the database cannot be reached nothing is sent that may not be the relay's, and afterwards
// all of it is, once.
func TestDatabaseDown(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs.fifo")
		r.start(nil)
		for i := range 30 {
			r.enqueue(outbox.Message{Queue: "jobs.fifo", Key: "k", Body: fmt.Sprint("a", i)})
		}
		down := func(string) error { return errors.New("no route to host") }
		r.box.SetFault(down)
		r.sleep(3 * time.Minute)
		r.box.SetFault(nil)
		r.sleep(time.Minute)
		r.wantStats(0, 0)
		var want []string
		for i := range 30 {
			want = append(want, fmt.Sprint("a", i))
		}
		if got := bodies(r.received(url)); !slices.Equal(got, want) {
			t.Errorf("received %q", got)
		}
	})
}

// A slowly is a client that does something before each request.
type slowly struct {
	*sqstest.Client
	before func(in *sqs.SendMessageBatchInput) error
}

func (c *slowly) SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	if err := c.before(in); err != nil {
		return nil, err
	}
	return c.Client.SendMessageBatch(ctx, in, options...)
}

// slow is a client that takes its time.
func (r *rig) slow(d time.Duration) *slowly {
	return &slowly{r.server.Client(), func(*sqs.SendMessageBatchInput) error { time.Sleep(d); return nil }}
}

// Leases are renewed for as long as rows wait for those before them.
func TestLongStream(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs.fifo")
		r.start(func(c *outbox.Config) { c.Client = r.slow(5 * time.Second) })
		for i := range 50 {
			r.enqueue(outbox.Message{Queue: "jobs.fifo", Key: "k", Body: fmt.Sprint(i)})
		}
		r.sleep(5 * time.Minute)
		if n := r.count("lost"); n != 0 {
			t.Errorf("%d were lost", n)
		}
		if got := bodies(r.received(url)); len(got) != 50 {
			t.Errorf("received %q", got)
		}
	})
}

// A box that one relay cannot reach while others can.
type cutOff struct {
	outbox.Box
	mu  sync.Mutex
	cut bool
}

func (b *cutOff) set(cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = cut
}

func (b *cutOff) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut {
		return outboxtest.ErrInjected
	}
	return nil
}

func (b *cutOff) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error) {
	if err := b.err(); err != nil {
		return nil, 0, err
	}
	return b.Box.Claim(ctx, c)
}

func (b *cutOff) Renew(ctx context.Context, relay string, lease time.Duration) ([]string, error) {
	if err := b.err(); err != nil {
		return nil, err
	}
	return b.Box.Renew(ctx, relay, lease)
}

func (b *cutOff) Settle(ctx context.Context, relay string, outcomes []outbox.Outcome) error {
	if err := b.err(); err != nil {
		return err
	}
	return b.Box.Settle(ctx, relay, outcomes)
}

// A relay that is cut off from the database stops sending before its leases end. Another one goes
// on, and the first one learns that it has lost its rows.
func TestTakenOver(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs.fifo")
		box := &cutOff{Box: r.box}
		var last time.Time
		first := r.slow(5 * time.Second)
		slowly := first.before
		first.before = func(in *sqs.SendMessageBatchInput) error {
			err := slowly(in)
			r.mu.Lock()
			defer r.mu.Unlock()
			last = time.Now()
			return err
		}
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint(i))
			r.enqueue(outbox.Message{Queue: "jobs.fifo", Key: "k", Body: want[i]})
		}
		// It is started when all are there, so that it has more of them than the first.
		r.start(func(c *outbox.Config) { c.Box, c.Client = box, first })
		r.sleep(time.Second)
		box.set(true)
		cut := time.Now()
		r.start(nil)
		r.sleep(time.Minute)
		box.set(false)
		r.sleep(2 * time.Minute)
		if r.mu.Lock(); last.Sub(cut) > 30*time.Second {
			t.Errorf("it sent %v after it was cut off", last.Sub(cut))
		}
		r.mu.Unlock()
		if r.count("lost") == 0 {
			t.Error("nothing was lost")
		}
		if got := bodies(r.received(url)); !slices.Equal(got, want) {
			t.Errorf("received %q", got)
		}
		r.wantStats(0, 0)
	})
}

// A relay that stood still for longer than its leases may be given its own rows again.
func TestOwnRowsAgain(t *testing.T) {
	for range 20 {
		inBubble(t, func(t *testing.T, r *rig) {
			url := r.server.Queue(t, "jobs.fifo")
			box := &cutOff{Box: r.box}
			r.start(func(c *outbox.Config) { c.Box, c.Client, c.Lease = box, r.slow(time.Second), 3*time.Second })
			var want []string
			for i := range 20 {
				want = append(want, fmt.Sprint(i))
				r.enqueue(outbox.Message{Queue: "jobs.fifo", Key: "k", Body: want[i]})
			}
			r.sleep(5 * time.Second)
			box.set(true)
			r.sleep(time.Duration(rand.IntN(20_000)) * time.Millisecond)
			box.set(false)
			r.sleep(time.Minute)
			if got := bodies(r.received(url)); !slices.Equal(got, want) {
				t.Errorf("received %q", got)
			}
			r.wantStats(0, 0)
		})
	}
}

// When a queue refuses a request as a whole because of one message, this one is to blame, and no
// other.
func TestRefusedAsAWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs")
		c := &slowly{r.server.Client(), func(in *sqs.SendMessageBatchInput) error {
			if slices.ContainsFunc(in.Entries, func(e types.SendMessageBatchRequestEntry) bool { return *e.MessageBody == "bad" }) {
				return &smithy.GenericAPIError{Code: "InvalidMessageContents", Message: "no"}
			}
			return nil
		}}
		for i := range 30 {
			if i == 15 {
				r.enqueue(outbox.Message{Queue: "jobs", Body: "bad"})
			}
			r.enqueue(outbox.Message{Queue: "jobs", Body: fmt.Sprint(i)})
		}
		r.start(func(cfg *outbox.Config) { cfg.Client, cfg.Attempts = c, 1 })
		r.sleep(time.Second)
		if got := len(r.received(url)); got != 30 {
			t.Errorf("%d were sent, want 30", got)
		}
		r.wantStats(0, 1)
	})
}

// A claim that took effect, and whose answer was lost, holds its rows for one lease, or less.
func TestClaimUnheard(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs")
		unheard := true
		r.box.SetFault(func(call string) error {
			if call == "Claim+" && unheard {
				unheard = false
				return outboxtest.ErrInjected
			}
			return nil
		})
		r.enqueue(outbox.Message{Queue: "jobs", Body: "unheard of"})
		r.start(func(c *outbox.Config) { c.Client = r.slow(5 * time.Second) })
		for i := range 60 { // there is always something in hand, and leases are renewed
			r.enqueue(outbox.Message{Queue: "jobs", Body: fmt.Sprint(i)})
			r.sleep(time.Second)
		}
		if got := bodies(r.received(url)); !slices.Contains(got, "unheard of") {
			t.Errorf("it was not sent within a minute; %d others were", len(got))
		}
	})
}

// Requests are filled to ten messages, and to what SQS allows.
func TestBatches_FD3(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.server.Queue(t, "jobs")
		for range 100 {
			r.enqueue(outbox.Message{Queue: "jobs", Body: "small"})
		}
		client := r.server.Client()
		stop := r.start(func(c *outbox.Config) { c.Client = client })
		r.sleep(time.Second)
		if n := client.Calls("SendMessageBatch"); n != 10 {
			t.Errorf("%d requests for 100 messages, want 10", n)
		}
		stop()
		for range 12 {
			r.enqueue(outbox.Message{Queue: "jobs", Body: strings.Repeat("x", 300_000)})
		}
		client = r.server.Client()
		r.start(func(c *outbox.Config) { c.Client = client })
		r.sleep(time.Second)
		if n := client.Calls("SendMessageBatch"); n != 4 {
			t.Errorf("%d requests for 12 messages of 300 kB, want 4", n)
		}
		r.wantStats(0, 0)
	})
}

// With a place for them, bodies that are too large for a message travel beside it. What the place
// cannot take is parked, and nothing is because it cannot be used for a while.
func TestLargeBodies(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs")
		store := offloadtest.NewMemory("bodies")
		o, err := offload.New(offload.Config{Store: store, BodyMax: 3 << 20})
		if err != nil {
			t.Fatal(err)
		}
		large := strings.Repeat("x", 2<<20)
		r.enqueue(
			outbox.Message{Queue: "jobs", Body: large},
			outbox.Message{Queue: "jobs", Body: strings.Repeat("x", 4<<20)},
			outbox.Message{Queue: "jobs", Body: "small"},
		)
		store.SetFault(func(context.Context, string, string) error { return outboxtest.ErrInjected })
		r.start(func(c *outbox.Config) { c.Offload = o })
		r.sleep(time.Hour)
		r.wantStats(1, 1)
		store.SetFault(nil)
		r.sleep(2 * time.Minute)
		r.wantStats(0, 1)
		var got []int
		for _, m := range r.received(url) {
			body, attributes, err := o.In(t.Context(), aws.ToString(m.Body), m.MessageAttributes)
			if err != nil {
				t.Fatal(err)
			}
			if len(attributes) != 1 {
				t.Errorf("the attributes are %v", attributes)
			}
			got = append(got, len(body))
		}
		slices.Sort(got)
		if !slices.Equal(got, []int{len("small"), len(large)}) {
			t.Errorf("received bodies of %v bytes", got)
		}
	})
}

// Rows that were sent stay for as long as they are to, and no longer.
func TestSweep_FD10(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.server.Queue(t, "jobs")
		id := outbox.NewID()
		r.enqueue(outbox.Message{ID: id, Queue: "jobs", Body: "a"})
		r.start(func(c *outbox.Config) { c.Keep = time.Hour })
		r.sleep(50 * time.Minute)
		if err := r.box.Enqueue(outbox.Message{ID: id, Queue: "jobs", Body: "b"}); err == nil {
			t.Error("the row was removed too early")
		}
		r.sleep(15 * time.Minute)
		if err := r.box.Enqueue(outbox.Message{ID: id, Queue: "jobs", Body: "b"}); err != nil {
			t.Errorf("the row is still there: %v", err)
		}
	})
}
