package monitor

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

const account = "000000000000"

// A world is a monitor on a broker on a store in memory, all inside a bubble.
type world struct {
	*Monitor
	t      *testing.T
	broker *broker.Broker
	cfg    Config
	dir    string // of the file with the alarms
	log    *safeBuffer
	stop   func() // the monitor
}

// A safeBuffer may be read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// bubble runs f on a monitor over an empty store.
func bubble(t *testing.T, cfg Config, f func(w *world)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, log: &safeBuffer{}, cfg: cfg, dir: dir}
		var err error
		w.broker, err = broker.New(broker.Config{Store: kv.NewMemory(), Engine: engine.Config{
			Region: "us-east-1", InFlightMax: 120_000, Fault: func(sentence string) { panic(sentence) },
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { w.broker.Run(ctx) })
		defer func() {
			if w.stop != nil {
				w.stop()
			}
			cancel()
			running.Wait()
		}()
		w.cfg.Queues, w.cfg.Account, w.cfg.Keeper = w.broker, account, File(dir)
		w.cfg.Logger = slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		w.start()
		f(w)
	})
}

// start starts a monitor, the first or one after a restart of the process.
func (w *world) start() {
	w.t.Helper()
	m, err := New(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Monitor = m
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	w.stop = func() { cancel(); <-done }
}

func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.stop = nil
	w.start()
}

// minutes lets minutes pass, and what comes of their end happen.
func (w *world) minutes(n int) {
	for range n {
		now := time.Now()
		time.Sleep(now.Truncate(time.Minute).Add(time.Minute + 10*time.Millisecond).Sub(now))
		synctest.Wait()
	}
}

func (w *world) do(op engine.Op) {
	w.t.Helper()
	if err := w.broker.Do(context.Background(), op); err != nil {
		w.t.Fatalf("%T: %v", op, err)
	}
}

// do is world.do and returns the operation with its answer.
func do[O engine.Op](w *world, op O) O {
	w.t.Helper()
	w.do(op)
	return op
}

func queueNamed(name string) engine.QueueName { return engine.QueueName{Account: account, Name: name} }

func (w *world) create(queue string, attributes ...string) {
	w.t.Helper()
	op := &engine.CreateQueue{Queue: queueNamed(queue), NameSet: true, Attributes: make(map[string]string)}
	for pair := range slices.Chunk(attributes, 2) {
		op.Attributes[pair[0]] = pair[1]
	}
	w.do(op)
}

func (w *world) send(queue, body string, attributes ...engine.EntryAttribute) {
	w.t.Helper()
	w.do(&engine.SendMessage{Queue: queueNamed(queue), Draft: engine.NewDraft(engine.Entry{Body: engine.Text{Value: body, Set: true}, Attributes: attributes})})
}

// take receives a message and hides it for some seconds.
func (w *world) take(queue string, seconds int64) engine.Handle {
	w.t.Helper()
	res := do(w, &engine.ReceiveMessage{Queue: queueNamed(queue), Wait: engine.Int{Set: true}, Visibility: engine.Int{Value: seconds, Set: true}}).Received
	if len(res.Messages) != 1 {
		w.t.Fatalf("got %d messages of %s, want 1", len(res.Messages), queue)
	}
	m := res.Messages[0]
	return engine.Handle{
		Text: fmt.Sprint(m.Seq, m.Generation), Valid: true, Incarnation: res.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation,
	}
}

func (w *world) remove(queue string, h engine.Handle) {
	w.t.Helper()
	w.do(&engine.DeleteMessage{Queue: queueNamed(queue), Handle: h})
}

// giveBack hides a message for some more seconds, as a worker does before a retry.
func (w *world) giveBack(queue string, h engine.Handle, seconds int64) {
	w.t.Helper()
	w.do(&engine.ChangeMessageVisibility{Queue: queueNamed(queue), Handle: h, Timeout: engine.Int{Value: seconds, Set: true}})
}

// changes are the states that alarms came into, in order.
func (w *world) changes() string {
	var all []string
	for _, c := range w.History() {
		all = append(all, c.Alarm+"="+string(c.State))
	}
	return strings.Join(all, " ")
}

func (w *world) wantChanges(want string) {
	w.t.Helper()
	if got := w.changes(); got != want {
		w.t.Errorf("got changes %q, want %q", got, want)
	}
}

// notices are those that went to the queue that the tests use for them, the oldest first.
func (w *world) notices() (bodies []string) {
	w.t.Helper()
	for {
		res := do(w, &engine.ReceiveMessage{Queue: queueNamed(noticeQueue), Wait: engine.Int{Set: true}, Max: engine.Int{Value: 10, Set: true}}).Received
		if len(res.Messages) == 0 {
			return bodies
		}
		for _, m := range res.Messages {
			content, ok := w.broker.ReadContent(m)
			if !ok {
				w.t.Fatal("a notice has no content")
			}
			bodies = append(bodies, content.Body)
			w.remove(noticeQueue, engine.Handle{Text: "x", Valid: true, Incarnation: res.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation})
		}
	}
}

const noticeQueue = "notices"

// toQueue is a configuration whose alarms send their notices to a queue.
func toQueue() Config {
	return Config{Actions: map[string]Action{"copy": {Queue: noticeQueue}}, ShippedActions: []string{"copy"}}
}
