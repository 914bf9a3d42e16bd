package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
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

// The columns of a row become the parts of the message.
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

// A row that the queue refuses is tried again, holds up its group alone, and is parked with the
// reason. Then its group continues. Released, it is sent if it can be.
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

// A row that no queue would accept is set aside at once.
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

// A relay that ends returns its unsent rows, so the next one does not wait for a lease.
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

// With a place for them, bodies that are too large for a message travel beside it. A body that the
// place cannot take is parked; none is parked because the place is unavailable for a while.
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
