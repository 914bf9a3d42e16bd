package pipe

import (
	"context"
	"errors"
	"sync"
	"time"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/internal/observe/metric"
	"tenaq/worker"
)

// workerMetrics count the events of the messages of one worker, from worker.Events.
type workerMetrics struct {
	queue       string
	concurrency int

	received, deadLettered, lost, givenBack metric.Counter

	claims, attempts, handled, renewals, queueErrors *cli.WordCount

	took *metric.Histogram

	mu      sync.Mutex
	running map[*worker.Message]time.Time // since when
}

func NewMetrics(queue string, concurrency int) *workerMetrics {
	return &workerMetrics{
		queue: queue, concurrency: concurrency,
		claims:   cli.NewWordCount("won", "busy", "done", "exhausted", "parked", "unknown"),
		attempts: cli.NewWordCount("first", "repeated"),
		handled: cli.NewWordCount("succeeded", "failed", "poison", "given_back", "lost",
			"abandoned"),
		renewals:    cli.NewWordCount("renewed", "failed"),
		queueErrors: cli.NewWordCount("receive", "delete", "visibility", "dead_letter", "other"),
		took:        metric.NewHistogram(metric.Ages...),
		running:     make(map[*worker.Message]time.Time),
	}
}

// Table has all metrics of "tenaq pipe".
var Table = []cli.MetricRow[*workerMetrics]{
	cli.Counter("tenaq_worker_received_total", "Messages received",
		count(func(m *workerMetrics) *metric.Counter { return &m.received }), "queue"),
	cli.Counter("tenaq_worker_claims_total",
		"Claims by outcome: won, busy, done before, exhausted, awaiting a decision, or unknown",
		words(func(m *workerMetrics) *cli.WordCount { return m.claims }), "queue", "outcome"),
	cli.Counter("tenaq_worker_attempts_total", "Handler starts, by attempt: first or repeated",
		words(func(m *workerMetrics) *cli.WordCount { return m.attempts }), "queue", "attempt"),
	cli.Counter("tenaq_worker_handled_total",
		"Messages whose handler ended, by result: succeeded, failed, poison, given back, lost to another worker, or abandoned because the handler does not return",
		words(func(m *workerMetrics) *cli.WordCount { return m.handled }), "queue", "result"),
	cli.Histogram("tenaq_worker_handling_seconds", "Duration of handlers, whatever the result",
		func(w *metric.Writer, m *workerMetrics) { w.Histogram(m.took, m.queue) }, "queue"),
	cli.Gauge("tenaq_worker_running", "Messages in handlers, without abandoned ones",
		func(w *metric.Writer, m *workerMetrics) { w.Value(float64(m.runs()), m.queue) }, "queue"),
	cli.Gauge("tenaq_worker_concurrency",
		"Maximum number of concurrent handlers, each with a message or a batch",
		func(w *metric.Writer, m *workerMetrics) { w.Value(float64(m.concurrency), m.queue) },
		"queue"),
	cli.Counter("tenaq_worker_given_back_total",
		"Messages given back without counting an attempt, except busy ones",
		count(func(m *workerMetrics) *metric.Counter { return &m.givenBack }), "queue"),
	cli.Counter("tenaq_worker_lost_total", "Messages whose lease or claim was lost",
		count(func(m *workerMetrics) *metric.Counter { return &m.lost }), "queue"),
	cli.Counter("tenaq_worker_dead_lettered_total",
		"Messages that this worker moved to the dead-letter queue",
		count(func(m *workerMetrics) *metric.Counter { return &m.deadLettered }), "queue"),
	cli.Counter("tenaq_worker_lease_renewals_total", "Lease renewals, by result: renewed or failed",
		words(func(m *workerMetrics) *cli.WordCount { return m.renewals }), "queue", "result"),
	cli.Counter("tenaq_worker_queue_errors_total",
		"Failed requests to queues, by operation: receive, delete, visibility, dead_letter or other",
		words(func(m *workerMetrics) *cli.WordCount { return m.queueErrors }), "queue", "operation"),
}

func count(of func(*workerMetrics) *metric.Counter) func(*metric.Writer, *workerMetrics) {
	return func(w *metric.Writer, m *workerMetrics) { w.Value(float64(of(m).Value()), m.queue) }
}

func words(of func(*workerMetrics) *cli.WordCount) func(*metric.Writer, *workerMetrics) {
	return func(w *metric.Writer, m *workerMetrics) { of(m).Write(w, m.queue) }
}

func (m *workerMetrics) Write(w *metric.Writer) { cli.WriteMetrics(w, Table, m) }

// events counts events and forwards them to the log, which must set all callbacks that are called
// here.
func (m *workerMetrics) events(log worker.Events) worker.Events {
	return worker.Events{
		Received: func(msg *worker.Message) {
			m.received.Add(1)
			log.Received(msg)
		},
		Claimed: func(_ *worker.Message, err error) { m.claims.Add(claimOutcome(err), 1) },
		Outcome: func(msg *worker.Message, o worker.Outcome) {
			m.outcome(msg, o)
			log.Outcome(msg, o)
		},
		Renewed: func(messages int, err error) {
			if err != nil {
				m.renewals.Add("failed", messages)
				return
			}
			m.renewals.Add("renewed", messages)
		},
		QueueError: func(operation string, _ int, _ error) {
			m.queueErrors.Add(operationWords[operation], 1)
		},
	}
}

// outcome counts what became of a message.
func (m *workerMetrics) outcome(msg *worker.Message, o worker.Outcome) {
	switch o.Kind {
	case worker.Done:
		m.ended(msg)
		m.handled.Add("succeeded", 1)
	case worker.Failed:
		m.ended(msg)
		if worker.IsPoison(o.Err) {
			m.handled.Add("poison", 1)
		} else {
			m.handled.Add("failed", 1)
		}
	case worker.Deferred:
		m.givenBack.Add(1)
		if m.ended(msg) {
			m.handled.Add("given_back", 1)
		}
	case worker.DeadLettered:
		m.deadLettered.Add(1)
	case worker.Lost:
		m.lost.Add(1)
		if m.ended(msg) {
			m.handled.Add("lost", 1)
		}
	case worker.Abandoned:
		if m.ended(msg) {
			m.handled.Add("abandoned", 1)
		}
	}
}

// operationWords are labels for what package worker calls operations.
var operationWords = map[string]string{
	"receive": "receive", "delete": "delete", "change the visibility": "visibility",
	"send to the dead-letter queue": "dead_letter",
}

// claimOutcomes are the words for why the ledger gave no claim.
var claimOutcomes = map[claims.Refusal]string{
	claims.Busy: "busy", claims.Done: "done", claims.UsedUp: "exhausted",
	claims.NeedsPerson: "parked",
}

// claimOutcome is the word for what the ledger answered.
func claimOutcome(err error) string {
	if err == nil {
		return "won"
	}
	if refused, ok := errors.AsType[*claims.Refused](err); ok {
		return claimOutcomes[refused.Why]
	}
	return "unknown"
}

// around is the worker.Middleware that notes which handlers run.
func (m *workerMetrics) around(
	ctx context.Context, messages []*worker.Message, next func(context.Context) error,
) error {
	for _, msg := range messages {
		m.started(msg)
	}
	return next(ctx)
}

// started notes that the handler of a message has begun. It may be called again for the same one.
func (m *workerMetrics) started(msg *worker.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.running[msg]; ok {
		return
	}
	m.running[msg] = time.Now()
	if msg.Attempt() > 1 {
		m.attempts.Add("repeated", 1)
	} else {
		m.attempts.Add("first", 1)
	}
}

// ended records that the handler of a message has ended. It is false if none had begun, or if that
// is known.
func (m *workerMetrics) ended(msg *worker.Message) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, ok := m.running[msg]
	if ok {
		delete(m.running, msg)
		m.took.Observe(time.Since(since).Seconds())
	}
	return ok
}

// runs is the number of messages in handlers.
func (m *workerMetrics) runs() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.running)
}
