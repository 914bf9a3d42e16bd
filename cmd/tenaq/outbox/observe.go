package outbox

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/cli"
	"tenaq/internal/observe/metric"
	"tenaq/internal/observe/monitor"
	"tenaq/outbox"
)

// Metrics count what a relay does, for Prometheus, the log and the verdict, and ask the outbox how
// many rows it has. No label names the queue of a row, because programs may write anything there.
type Metrics struct {
	sent, refused, parked, lost metric.Counter

	batches *cli.WordCount
	sizes   *metric.Histogram
	waited  *metric.Histogram

	stats cli.Asked[outbox.Stats]

	mu      sync.Mutex
	pending map[string]bool // rows that were refused, and neither sent nor set aside since
}

// StatsKeep is how long an answer of the outbox is used. The outbox may read all pending rows for
// it.
const StatsKeep = 5 * time.Second

func NewMetrics(box outbox.Box) *Metrics {
	return &Metrics{
		batches: cli.NewWordCount("answered", "failed"),
		sizes:   metric.NewHistogram(1, 2, 4, 6, 8, 10),
		waited:  metric.NewHistogram(metric.Ages...),
		stats:   cli.Asked[outbox.Stats]{Ask: box.Stats, Keep: StatsKeep},
		pending: map[string]bool{},
	}
}

// events count, and log each row at level debug.
func (m *Metrics) events(log *slog.Logger) outbox.Events {
	count := func(r outbox.Row, n *metric.Counter, refused bool) *slog.Logger {
		n.Add(1)
		m.mu.Lock()
		defer m.mu.Unlock()
		if delete(m.pending, r.ID); refused {
			m.pending[r.ID] = true
		}
		return log.With("id", r.ID, "queue", r.Queue, "key", r.Key)
	}
	return outbox.Events{
		Sent: func(r outbox.Row, messageID string) {
			waited := max(0, time.Since(r.CreatedAt))
			m.waited.Observe(waited.Seconds())
			count(r, &m.sent, false).Debug("sent", "message", messageID, "after",
				waited.Round(time.Millisecond))
		},
		Failed: func(r outbox.Row, reason string, after time.Duration) {
			count(r, &m.refused, true).Debug("refused", "attempt", r.Attempts+1, "again_in",
				after.Round(time.Millisecond), "reason", reason)
		},
		Parked: func(r outbox.Row, reason string) {
			count(r, &m.parked, false).Debug("set aside", "reason", reason)
		},
		Lost: func(r outbox.Row) {
			count(r, &m.lost, false).Debug("lost: its lease expired, and another relay sends it")
		},
	}
}

type relayed struct{ sent, refused, parked, lost int64 }

func (m *Metrics) relayed() relayed {
	return relayed{m.sent.Value(), m.refused.Value(), m.parked.Value(), m.lost.Value()}
}

func (n relayed) attributes() []any {
	return []any{"sent", n.sent, "refused", n.refused, "parked", n.parked, "lost", n.lost}
}

// summaries logs at each tick what happened since the one before, if anything did.
func (m *Metrics) summaries(ctx context.Context, log *slog.Logger, ticks <-chan time.Time) {
	var last relayed
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			n := m.relayed()
			if n != last {
				log.Info("relayed", relayed{n.sent - last.sent, n.refused - last.refused,
					n.parked - last.parked, n.lost - last.lost}.attributes()...)
			}
			last = n
		}
	}
}

type reading struct {
	*Metrics
	now outbox.Stats
	up  bool // now is known
}

// Table has all metrics of "tenaq outbox relay".
var Table = []cli.MetricRow[reading]{
	cli.Counter("tenaq_outbox_sent_total", "Rows whose messages their queues accepted",
		count(func(r reading) *metric.Counter { return &r.sent })),
	cli.Counter("tenaq_outbox_refused_total",
		"Refusals of rows by their queues that are tried again",
		count(func(r reading) *metric.Counter { return &r.refused })),
	cli.Counter("tenaq_outbox_parked_total", "Rows that this relay set aside",
		count(func(r reading) *metric.Counter { return &r.parked })),
	cli.Counter("tenaq_outbox_lost_total", "Rows whose lease expired while this relay had them",
		count(func(r reading) *metric.Counter { return &r.lost })),
	cli.Counter("tenaq_outbox_batches_total",
		"Requests that sent rows, by result: answered (also with refusals) or failed",
		func(w *metric.Writer, r reading) { r.batches.Write(w) }, "result"),
	cli.Histogram("tenaq_outbox_batch_rows", "Rows in one request",
		func(w *metric.Writer, r reading) { w.Histogram(r.sizes) }),
	cli.Histogram("tenaq_outbox_wait_seconds",
		"Time from the write of a row to its send, by the clocks of the database and of the relay; includes the delay of the row",
		func(w *metric.Writer, r reading) { w.Histogram(r.waited) }),

	cli.Gauge("tenaq_outbox_up", "1 if the outbox has answered how many rows it has, otherwise 0",
		func(w *metric.Writer, r reading) { w.Value(cli.OneIf(r.up)) }),
	cli.Gauge("tenaq_outbox_pending_rows",
		"Rows that are not sent, due or not; this and the following metrics cover all relays",
		now(func(s *outbox.Stats) float64 { return float64(s.Pending) })),
	cli.Gauge("tenaq_outbox_due_rows", "Rows that could be sent now",
		now(func(s *outbox.Stats) float64 { return float64(s.Due) })),
	cli.Gauge("tenaq_outbox_parked_rows",
		"Rows that were set aside and await a person's decision",
		now(func(s *outbox.Stats) float64 { return float64(s.Parked) })),
	cli.Gauge("tenaq_outbox_oldest_due_age_seconds",
		"Time for which the oldest due row has been due; 0 if none is",
		now(func(s *outbox.Stats) float64 { return s.Oldest.Seconds() })),
}

func count(of func(reading) *metric.Counter) func(*metric.Writer, reading) {
	return func(w *metric.Writer, r reading) { w.Value(float64(of(r).Value())) }
}

// now writes what the outbox answered, if it did.
func now(of func(*outbox.Stats) float64) func(*metric.Writer, reading) {
	return func(w *metric.Writer, r reading) {
		if r.up {
			w.Value(of(&r.now))
		}
	}
}

func (m *Metrics) Write(w *metric.Writer) {
	s, err := m.stats.Get()
	cli.WriteMetrics(w, Table, reading{m, s, err == nil})
}

// pushed returns what the server gets for its alarms and its console; nothing if the outbox does
// not answer, because silence has an alarm, too.
func (m *Metrics) pushed(name string) func() []cli.Pushed {
	return func() []cli.Pushed {
		s, err := m.stats.Get()
		if err != nil {
			return nil
		}
		return []cli.Pushed{{Name: monitor.DueAge, About: name, Value: s.Oldest.Seconds()},
			{Name: monitor.ParkedRows, About: name, Value: float64(s.Parked)},
			{Name: monitor.PendingRows, About: name, Value: float64(s.Pending)},
			{Name: monitor.DueRows, About: name, Value: float64(s.Due)}}
	}
}

// A client bounds the requests of a relay, counts them, and explains their errors in one sentence.
type client struct {
	c *cli.Client
	m *Metrics
}

func (r client) SendMessageBatch(
	ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options),
) (*sqs.SendMessageBatchOutput, error) {
	out, err := cli.Call(ctx, r.c, r.c.SendMessageBatch, in, options...)
	r.m.count(len(in.Entries), err)
	return out, r.explain("send to", aws.ToString(in.QueueUrl), err)
}

func (m *Metrics) count(rows int, err error) {
	m.sizes.Observe(float64(rows))
	if err != nil {
		m.batches.Add("failed", 1)
	} else {
		m.batches.Add("answered", 1)
	}
}

func (r client) GetQueueUrl(
	ctx context.Context, in *sqs.GetQueueUrlInput, options ...func(*sqs.Options),
) (*sqs.GetQueueUrlOutput, error) {
	out, err := cli.Call(ctx, r.c, r.c.GetQueueUrl, in, options...)
	return out, r.explain(findQueue, aws.ToString(in.QueueName), err)
}

// findQueue begins a sentence that the relay begins itself.
const findQueue = "cannot find queue"

// explain removes the beginning of a sentence that the relay writes itself. The relay also reads
// the chain of the error.
func (r client) explain(doing, queue string, err error) error {
	if err == nil {
		return nil
	}
	text := r.c.Explain(doing, queue, err).Error()
	return &explained{errors.New(strings.TrimPrefix(text, findQueue+" "+queue+": ")), err}
}

type explained struct {
	error
	chain error
}

func (e *explained) Unwrap() error { return e.chain }
