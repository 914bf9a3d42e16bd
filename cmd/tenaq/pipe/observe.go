package pipe

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/internal/observe/metric"
	"tenaq/worker"
)

// An observer logs and counts the events of the messages of one worker.
type observer struct {
	log         *slog.Logger
	queue       string
	concurrency int

	received, deadLettered, lost, givenBack metric.Counter

	claims, attempts, handled, renewals, queueErrors *cli.WordCount

	outcomes *cli.WordCount // for the summary
	took     *metric.Histogram

	mu      sync.Mutex
	running map[*worker.Message]time.Time // since when
}

func NewObserver(log *slog.Logger, queue string, concurrency int) *observer {
	return &observer{
		log: log, queue: queue, concurrency: concurrency,
		claims:   cli.NewWordCount("won", "busy", "done", "exhausted", "parked", "unknown"),
		attempts: cli.NewWordCount("first", "repeated"),
		handled: cli.NewWordCount("succeeded", "failed", "poison", "given_back", "lost",
			"abandoned"),
		renewals:    cli.NewWordCount("renewed", "failed"),
		queueErrors: cli.NewWordCount("receive", "delete", "visibility", "dead_letter", "other"),
		outcomes: cli.NewWordCount("received", string(worker.Done), string(worker.Failed),
			string(worker.Deferred), string(worker.Busy), string(worker.Duplicate),
			string(worker.DeadLettered), string(worker.Lost), string(worker.Abandoned)),
		took:    metric.NewHistogram(metric.Ages...),
		running: make(map[*worker.Message]time.Time),
	}
}

// Table has all metrics of "tenaq pipe".
var Table = []cli.MetricRow[*observer]{
	cli.Counter("tenaq_worker_received_total", "Messages received",
		count(func(m *observer) *metric.Counter { return &m.received }), "queue"),
	cli.Counter("tenaq_worker_claims_total",
		"Claims by outcome: won, busy, done before, exhausted, awaiting a decision, or unknown",
		words(func(m *observer) *cli.WordCount { return m.claims }), "queue", "outcome"),
	cli.Counter("tenaq_worker_attempts_total", "Handler starts, by attempt: first or repeated",
		words(func(m *observer) *cli.WordCount { return m.attempts }), "queue", "attempt"),
	cli.Counter("tenaq_worker_handled_total",
		"Messages whose handler ended, by result: succeeded, failed, poison, given back, lost to another worker, or abandoned because the handler does not return",
		words(func(m *observer) *cli.WordCount { return m.handled }), "queue", "result"),
	cli.Histogram("tenaq_worker_handling_seconds", "Duration of handlers, whatever the result",
		func(w *metric.Writer, m *observer) { w.Histogram(m.took, m.queue) }, "queue"),
	cli.Gauge("tenaq_worker_running", "Messages in handlers, without abandoned ones",
		func(w *metric.Writer, m *observer) { w.Value(float64(m.runs()), m.queue) }, "queue"),
	cli.Gauge("tenaq_worker_concurrency",
		"Maximum number of concurrent handlers, each with a message or a batch",
		func(w *metric.Writer, m *observer) { w.Value(float64(m.concurrency), m.queue) },
		"queue"),
	cli.Counter("tenaq_worker_given_back_total",
		"Messages given back without counting an attempt, except busy ones",
		count(func(m *observer) *metric.Counter { return &m.givenBack }), "queue"),
	cli.Counter("tenaq_worker_lost_total", "Messages whose lease or claim was lost",
		count(func(m *observer) *metric.Counter { return &m.lost }), "queue"),
	cli.Counter("tenaq_worker_dead_lettered_total",
		"Messages that this worker moved to the dead-letter queue",
		count(func(m *observer) *metric.Counter { return &m.deadLettered }), "queue"),
	cli.Counter("tenaq_worker_lease_renewals_total", "Lease renewals, by result: renewed or failed",
		words(func(m *observer) *cli.WordCount { return m.renewals }), "queue", "result"),
	cli.Counter("tenaq_worker_queue_errors_total",
		"Failed requests to queues, by operation: receive, delete, visibility, dead_letter or other",
		words(func(m *observer) *cli.WordCount { return m.queueErrors }), "queue", "operation"),
}

func count(of func(*observer) *metric.Counter) func(*metric.Writer, *observer) {
	return func(w *metric.Writer, m *observer) { w.Value(float64(of(m).Value()), m.queue) }
}

func words(of func(*observer) *cli.WordCount) func(*metric.Writer, *observer) {
	return func(w *metric.Writer, m *observer) { of(m).Write(w, m.queue) }
}

func (m *observer) Write(w *metric.Writer) { cli.WriteMetrics(w, Table, m) }

// summary logs how many messages had each outcome.
func (m *observer) summary() {
	attributes := []any{"received", m.received.Value()}
	for _, kind := range []worker.Kind{worker.Done, worker.Failed, worker.Deferred, worker.Busy,
		worker.Duplicate, worker.DeadLettered, worker.Lost} {
		attributes = append(attributes, kindWords[kind], m.outcomes.Value(string(kind)))
	}
	m.log.Info("stopped", attributes...)
}

// kindWords are the words of the summary for outcomes.
var kindWords = map[worker.Kind]string{
	worker.Done: "done", worker.Failed: "failed", worker.Deferred: "given_back",
	worker.Busy: "busy", worker.Duplicate: "duplicate", worker.DeadLettered: "dead_lettered",
	worker.Lost: "lost",
}

// events log and count, and tell end which messages were given back. It sees deletes as the client
// of the worker.
func (m *observer) events(end *pipeEnd) worker.Events {
	return worker.Events{
		Received: func(msg *worker.Message) {
			m.received.Add(1)
			m.about(msg).Info("received", "receives", msg.Receives)
		},
		Claimed: func(_ *worker.Message, err error) { m.claims.Add(claimOutcome(err), 1) },
		Outcome: func(msg *worker.Message, o worker.Outcome) {
			m.outcome(msg, o)
			switch o.Kind {
			case worker.Done, worker.Duplicate, worker.DeadLettered: // it is deleted next
			default:
				end.givenBack(msg.ID)
			}
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

func (m *observer) about(msg *worker.Message) *slog.Logger {
	return m.log.With("key", msg.Key, "message", msg.ID)
}

func (m *observer) outcome(msg *worker.Message, o worker.Outcome) {
	m.outcomes.Add(string(o.Kind), 1)
	ran, log := m.ended(msg), m.about(msg)
	handled := func(word string) {
		if ran {
			m.handled.Add(word, 1)
		}
	}
	refused := new(claims.Refused)
	if r, ok := errors.AsType[*claims.Refused](o.Err); ok {
		refused = r
	}
	switch o.Kind {
	case worker.Done:
		m.handled.Add("succeeded", 1)
		log.Info("done", "attempt", msg.Attempt(), "took", o.Took.Round(time.Millisecond))
	case worker.Failed:
		if worker.IsPoison(o.Err) {
			m.handled.Add("poison", 1)
		} else {
			m.handled.Add("failed", 1)
		}
		log.Warn("failed", "attempt", msg.Attempt(), "took", o.Took.Round(time.Millisecond),
			"error", o.Err)
	case worker.Deferred:
		m.givenBack.Add(1)
		handled("given_back")
		log.Info("given back", "for", o.After.Round(time.Millisecond), "reason", o.Reason)
	case worker.Busy:
		log.Info("busy", "owner", refused.Owner, "retry_in", o.After.Round(time.Millisecond))
		m.checkMemo(log, refused.Memo)
	case worker.Duplicate:
		log.Info("duplicate", "done_by", refused.Owner)
		m.checkMemo(log, refused.Memo)
	case worker.DeadLettered:
		m.deadLettered.Add(1)
		log.Warn("dead-lettered", "reason", o.Reason, "dead_letter", o.DeadID)
	case worker.Lost:
		m.lost.Add(1)
		handled("lost")
		log.Warn("lost", "error", o.Err)
	case worker.Abandoned:
		handled("abandoned")
	}
}

// checkMemo warns of a key that was first claimed for another queue. That is right if the message
// moved here from there. If two queues use one key for different work, the second piece of work is
// never done.
func (m *observer) checkMemo(log *slog.Logger, text []byte) {
	var memo pipeMemo
	if json.Unmarshal(text, &memo) == nil && memo.Queue != "" && memo.Queue != m.queue {
		log.Warn("this key was first claimed for another queue; if that was different work, give one of the queues a --ledger of its own",
			"other_queue", memo.Queue)
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
func (m *observer) around(
	ctx context.Context, messages []*worker.Message, next func(context.Context) error,
) error {
	for _, msg := range messages {
		m.started(msg)
	}
	return next(ctx)
}

// started notes that the handler of a message has begun. It may be called again for the same one.
func (m *observer) started(msg *worker.Message) {
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
func (m *observer) ended(msg *worker.Message) bool {
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
func (m *observer) runs() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.running)
}
