package main

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/metric"
	"tenaq/internal/monitor"
	"tenaq/outbox"
)

// outboxMetrics count what a relay does, and ask its outbox how many rows there are. No label says which queue a
// row was for: that is what programs have written into rows, and may be anything.
type outboxMetrics struct {
	sent, refused, parked, lost metric.Counter

	batches *wordCount
	sizes   *metric.Histogram
	waited  *metric.Histogram

	stats asked[outbox.Stats]
}

// outboxStatsKeep is how long what the outbox answered is told again. It may have to read all pending rows.
const outboxStatsKeep = 5 * time.Second

func newOutboxMetrics(box outbox.Box) *outboxMetrics {
	return &outboxMetrics{
		batches: newWordCount("answered", "failed"),
		sizes:   metric.NewHistogram(1, 2, 4, 6, 8, 10),
		waited:  metric.NewHistogram(metric.Ages...),
		stats:   asked[outbox.Stats]{ask: box.Stats, keep: outboxStatsKeep},
	}
}

// An outboxReading is what is told in one answer.
type outboxReading struct {
	*outboxMetrics
	now outbox.Stats
	up  bool // now is known
}

// outboxTable is all that "tenaq outbox relay" tells.
var outboxTable = []metricRow[outboxReading]{
	ofOutbox("tenaq_outbox_sent_total", "Rows that their queues have", func(r outboxReading) *metric.Counter { return &r.sent }),
	ofOutbox("tenaq_outbox_refused_total", "Refusals of rows by their queues, to be tried again", func(r outboxReading) *metric.Counter { return &r.refused }),
	ofOutbox("tenaq_outbox_parked_total", "Rows that this relay gave up", func(r outboxReading) *metric.Counter { return &r.parked }),
	ofOutbox("tenaq_outbox_lost_total", "Rows whose lease ended in the hands of this relay", func(r outboxReading) *metric.Counter { return &r.lost }),
	{metric.Family{Name: "tenaq_outbox_batches_total", Help: "Requests that sent rows, by result: answered, which may be a refusal of some, or failed", Kind: metric.KindCounter, Labels: []string{"result"}},
		func(w *metric.Writer, r outboxReading) { r.batches.write(w) }},
	{metric.Family{Name: "tenaq_outbox_batch_rows", Help: "Rows in one request", Kind: metric.KindHistogram},
		func(w *metric.Writer, r outboxReading) { w.Histogram(r.sizes) }},
	{metric.Family{Name: "tenaq_outbox_wait_seconds", Help: "From the write of a row to its send, by the clocks of the database and of the relay; with the delay that the row asked for", Kind: metric.KindHistogram},
		func(w *metric.Writer, r outboxReading) { w.Histogram(r.waited) }},

	{metric.Family{Name: "tenaq_outbox_up", Help: "1 when the outbox has answered how many rows there are, 0 when not", Kind: metric.KindGauge},
		func(w *metric.Writer, r outboxReading) { w.Value(oneIf(r.up)) }},
	ofRows("tenaq_outbox_pending_rows", "Rows that are not sent, those that are due and those whose time has not come; of all relays, like the next ones", func(s *outbox.Stats) float64 { return float64(s.Pending) }),
	ofRows("tenaq_outbox_due_rows", "Rows that could be sent now", func(s *outbox.Stats) float64 { return float64(s.Due) }),
	ofRows("tenaq_outbox_parked_rows", "Rows that were given up and wait for a person", func(s *outbox.Stats) float64 { return float64(s.Parked) }),
	ofRows("tenaq_outbox_oldest_due_age_seconds", "How long the row has been due that has been due for longest; 0 when none is", func(s *outbox.Stats) float64 { return s.Oldest.Seconds() }),
}

// ofOutbox is a row of a counter.
func ofOutbox(name, help string, of func(outboxReading) *metric.Counter) metricRow[outboxReading] {
	return metricRow[outboxReading]{metric.Family{Name: name, Help: help, Kind: metric.KindCounter},
		func(w *metric.Writer, r outboxReading) { w.Value(float64(of(r).Value())) }}
}

// ofRows is a row of what the outbox answered. It has no value when it did not.
func ofRows(name, help string, of func(*outbox.Stats) float64) metricRow[outboxReading] {
	return metricRow[outboxReading]{metric.Family{Name: name, Help: help, Kind: metric.KindGauge},
		func(w *metric.Writer, r outboxReading) {
			if r.up {
				w.Value(of(&r.now))
			}
		}}
}

func (m *outboxMetrics) write(w *metric.Writer) {
	s, err := m.stats.get()
	writeMetrics(w, outboxTable, outboxReading{m, s, err == nil})
}

// pushed is what the server is told for its alarms; nothing when the outbox does not answer, which is silence too.
func (m *outboxMetrics) pushed(name string) func() []pushed {
	return func() []pushed {
		s, err := m.stats.get()
		if err != nil {
			return nil
		}
		return []pushed{{monitor.DueAge, name, s.Oldest.Seconds()}, {monitor.ParkedRows, name, float64(s.Parked)}}
	}
}

// events counts what happens, and tells it to the log.
func (m *outboxMetrics) events(log outbox.Events) outbox.Events {
	return outbox.Events{
		Sent: func(r outbox.Row, messageID string) {
			m.sent.Add(1)
			m.waited.Observe(max(0, time.Since(r.CreatedAt)).Seconds())
			log.Sent(r, messageID)
		},
		Failed: func(r outbox.Row, reason string, after time.Duration) {
			m.refused.Add(1)
			log.Failed(r, reason, after)
		},
		Parked: func(r outbox.Row, reason string) {
			m.parked.Add(1)
			log.Parked(r, reason)
		},
		Lost: func(r outbox.Row) {
			m.lost.Add(1)
			log.Lost(r)
		},
	}
}

// client counts the requests that send.
func (m *outboxMetrics) client(c outbox.SQS) outbox.SQS { return countingClient{c, m} }

// A countingClient is a client whose requests are counted.
type countingClient struct {
	outbox.SQS
	m *outboxMetrics
}

func (c countingClient) SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	out, err := c.SQS.SendMessageBatch(ctx, in, options...)
	c.m.sizes.Observe(float64(len(in.Entries)))
	if err != nil {
		c.m.batches.add("failed", 1)
	} else {
		c.m.batches.add("answered", 1)
	}
	return out, err
}
