package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/testing/faultproxy"
	"tenaq/records/recordstest"
	"tenaq/worker"
)

// Trouble between a worker and the queue, and between a ledger and its store. Changes of visibility
// have most of it: heartbeats are what leases live on.
var (
	queueTrouble = map[string]faultproxy.Chances{
		"ReceiveMessage": {Drop: .03, Lose: .04, Twice: .02, Fail: .02, Unavailable: .02, Throttle: .02, Slow: .1, DelayMax: 600 * time.Millisecond},
		"ChangeMessageVisibilityBatch": {Drop: .05, Lose: .05, Late: .03, Twice: .05, Partly: .08, Fail: .03, Unavailable: .02, Throttle: .03,
			Slow: .15, DelayMax: 600 * time.Millisecond},
		"DeleteMessageBatch": {Drop: .05, Lose: .1, Late: .03, Twice: .05, Partly: .08, Fail: .03, Unavailable: .02, Throttle: .02,
			Slow: .1, DelayMax: 600 * time.Millisecond},
		"SendMessage": {Drop: .15, Lose: .1, Late: .05, Twice: .05, Fail: .15, Throttle: .1, Slow: .1, DelayMax: 600 * time.Millisecond},
		"":            {Fail: .1},
	}
	storeTrouble = recordstest.Chances{Before: .02, After: .03, Late: .01, Slow: .1, DelayMax: 300 * time.Millisecond}
)

// A seat is a place for a worker, with its own ways to the queue and to the ledger.
type seat struct {
	*world
	name   string
	rng    *rand.Rand
	proxy  *faultproxy.Proxy // or, in a bubble:
	wire   *wire
	client *spy
	ledger *claims.Ledger
	ill    atomic.Int32 // the store cannot be used: a recordstest.How

	runs sync.Map // *worker.Message to *run

	mu   sync.Mutex
	stop func()
}

func (w *world) newSeat(i int) *seat {
	w.Helper()
	s := &seat{world: w, name: fmt.Sprint("worker-", i), rng: rand.New(rand.NewPCG(w.seed, uint64(i)+1))}
	trouble := faultproxy.Sometimes(w.seed+uint64(i), queueTrouble)
	plan := func(r faultproxy.Request) (f faultproxy.Fault) {
		if !w.calm.Load() && !w.ledgerOnly {
			f = trouble(r)
		}
		return f
	}
	if w.virtual {
		s.wire = &wire{server: w.bubble.Client(), plan: plan, requests: make(map[string]int)}
		w.Cleanup(s.wire.late.Wait)
		s.client = newSpy("http://127.0.0.1:9324", 1+2*(i%2), w.oracle, s.wire) // every other client tries once only
	} else {
		var err error
		s.proxy, err = faultproxy.Start(faultproxy.Config{Target: w.target, Plan: plan})
		must(w.T, err)
		w.Cleanup(s.proxy.Close)
		s.client = newSpy(s.proxy.URL(), 1+2*(i%2), w.oracle, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}})
	}
	s.ledger = w.newLedger(&recordstest.Faulty{Store: w.store(), NoClock: w.noClock, Fault: s.storeFault(i)})
	return s
}

// outage begins or ends an outage of the queue.
func (s *seat) outage(on bool) {
	if s.virtual {
		s.wire.out.Store(on)
	} else {
		s.proxy.Outage(on)
	}
}

// storeFault is what goes wrong with a call of the store.
func (s *seat) storeFault(i int) func(recordstest.Call) recordstest.Fault {
	rng := rand.New(rand.NewPCG(s.seed, 1000+uint64(i)))
	c := storeTrouble
	return func(recordstest.Call) (f recordstest.Fault) {
		p, slow, delay, late := rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64()
		if s.calm.Load() {
			return f
		}
		switch ill := recordstest.How(s.ill.Load()); {
		case ill != recordstest.Works:
			f.How = ill
		case p < c.Before:
			f.How = recordstest.Before
		case p < c.Before+c.After:
			f.How = recordstest.After
		case p < c.Before+c.After+c.Late:
			f.How = recordstest.Late
			f.LateBy = time.Duration(late * float64(c.DelayMax))
		}
		if slow < c.Slow {
			f.Delay = time.Duration(delay * float64(c.DelayMax))
		}
		return f
	}
}

// start runs a worker until stopWorker.
func (s *seat) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			w, err := worker.New(s.config())
			if err != nil {
				s.Error(err)
				return
			}
			// It ends by itself when it cannot look at its queues at the start.
			if err := w.Run(ctx); err != nil && ctx.Err() == nil {
				s.Logf("%s: %v", s.name, err)
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
	s.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
}

// stopWorker ends the worker, which gives its handlers time, and waits for it.
func (s *seat) stopWorker() {
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	stop()
}

// outcome tells the oracle what became of a message.
func (s *seat) outcome(m *worker.Message, o worker.Outcome) {
	switch o.Kind {
	case worker.Busy, worker.DeadLettered:
		s.oracle.event(string(o.Kind))
	case worker.Duplicate:
		s.oracle.event("duplicates")
	case worker.Done:
		s.oracle.done(s.runOf(m))
	case worker.Failed, worker.Deferred:
		s.oracle.tell(s.runOf(m), string(o.Kind))
	case worker.Lost, worker.Abandoned:
		if s.runOf(m) == nil && o.Kind == worker.Lost {
			s.oracle.event("lost before a handler began")
		}
		s.oracle.lose(s.runOf(m), s.client.handleOf(m), string(o.Kind), o.Err)
	}
}

// config is that of the worker. What it does and says goes to the oracle.
func (s *seat) config() worker.Config {
	cfg := worker.Config{
		Client: s.client, QueueURL: s.url, Claims: s.ledger,
		Concurrency: 8, Prefetch: s.prefetch, Lease: lease, Drain: drain, Attempts: attempts,
		RetryBase: 100 * time.Millisecond, RetryMax: time.Second,
		Logger: slog.New(slog.DiscardHandler),
		Events: worker.Events{
			Received: func(*worker.Message) { s.oracle.event("received") },
			Outcome:  s.outcome,
		},
	}
	if s.noLedger {
		cfg.Claims, cfg.NoClaims = nil, true
	}
	if !s.fifo {
		cfg.Key = func(m *worker.Message) (string, error) {
			o, err := bodyOf(m)
			return o.Key, err
		}
	}
	if cfg.Handler = worker.HandlerFunc(s.handle); s.batches > 1 {
		cfg.Handler, cfg.BatchSize, cfg.Concurrency = batchHandler{cfg.Handler, s}, s.batches, 4
	}
	return cfg
}

// runOf is the handler that had a message; nil when none had.
func (s *seat) runOf(m *worker.Message) *run {
	r, _ := s.runs.Load(m)
	run, _ := r.(*run)
	return run
}

// begin notes a handler that begins on a message.
func (s *seat) begin(ctx context.Context, m *worker.Message) *run {
	r := &run{
		worker: s.name, id: m.ID, key: m.EffectKey(), attempt: m.Attempt(), fence: m.Fence(), takeover: m.TakenOver() != nil, ctx: ctx,
	}
	if c := m.Claim(); c != nil {
		r.deadline = c.Deadline
	}
	s.runs.Store(m, r)
	s.oracle.begin(r)
	return r
}

// handle does the work of a message.
func (s *seat) handle(ctx context.Context, m *worker.Message) (err error) {
	r := s.begin(ctx, m)
	return s.work(r, m)
}

func (s *seat) work(r *run, m *worker.Message) (err error) {
	out := failed // when it panics
	defer func() { s.oracle.end(r, out) }()
	o, err := bodyOf(m)
	if err != nil {
		return err
	}
	err = act(s.oracle, r, o.play(s.seed, m, s.long))
	out = outcomeOf(r.ctx, o, err)
	return err
}

// A batchHandler does the work of its messages one after the other. On a FIFO queue it stops at the
// first that does not succeed.
type batchHandler struct {
	worker.Handler
	*seat
}

func (h batchHandler) HandleBatch(ctx context.Context, batch []*worker.Message) error {
	var runs []*run
	for _, m := range batch {
		runs = append(runs, h.begin(ctx, m))
	}
	failures := make(worker.Failures)
	for i, m := range batch {
		if h.fifo && len(failures) > 0 {
			failures[m.ID] = errSick
			h.oracle.end(runs[i], failed)
			continue
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					failures[m.ID] = errSick
				}
			}()
			if err := h.work(runs[i], m); err != nil {
				failures[m.ID] = err
			}
		}()
	}
	if len(failures) > 0 {
		return failures
	}
	return nil
}

// A spy is a client that sees which receipt handles come and are used.
type spy struct {
	*sqs.Client
	oracle  *oracle
	http    sqs.HTTPClient
	handles sync.Map // of deliveries, by message id and number of receives
}

func newSpy(endpoint string, tries int, o *oracle, way sqs.HTTPClient) *spy {
	s := &spy{oracle: o, http: way}
	s.Client = connect(endpoint, tries, s)
	return s
}

// ReceiveMessage is the Client's.
func (s *spy) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, options ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	out, err := s.Client.ReceiveMessage(ctx, in, options...)
	if err == nil {
		for _, m := range out.Messages {
			s.handles.Store(aws.ToString(m.MessageId)+" "+m.Attributes["ApproximateReceiveCount"], aws.ToString(m.ReceiptHandle))
		}
	}
	return out, err
}

// handleOf is the receipt handle of a delivery.
func (s *spy) handleOf(m *worker.Message) string {
	h, _ := s.handles.Load(fmt.Sprint(m.ID, " ", m.Receives))
	handle, _ := h.(string)
	return handle
}

// Do sends one request. A call of the client makes several when it retries.
func (s *spy) Do(r *http.Request) (*http.Response, error) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if operation == "DeleteMessageBatch" || operation == "ChangeMessageVisibilityBatch" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var request struct {
			Entries []struct{ ReceiptHandle string }
		}
		if err := json.Unmarshal(body, &request); err != nil {
			return nil, err
		}
		for _, e := range request.Entries {
			s.oracle.touch(operation, e.ReceiptHandle)
		}
	}
	return s.http.Do(r)
}
