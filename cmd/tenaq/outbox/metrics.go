package outbox

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/cli"
	"tenaq/internal/observe/metric"
	"tenaq/internal/observe/monitor"
	"tenaq/outbox"
)

// Metrics count what a relay does, and ask its outbox how many rows there are. No label says which queue a
// row was for: that is what programs have written into rows, and may be anything.
type Metrics struct {
	sent, refused, parked, lost metric.Counter

	batches *cli.WordCount
	sizes   *metric.Histogram
	waited  *metric.Histogram

	stats cli.Asked[outbox.Stats]
}

// StatsKeep is how long what the outbox answered is told again. It may have to read all pending rows.
const StatsKeep = 5 * time.Second

func NewMetrics(box outbox.Box) *Metrics {
	return &Metrics{
		batches: cli.NewWordCount("answered", "failed"),
		sizes:   metric.NewHistogram(1, 2, 4, 6, 8, 10),
		waited:  metric.NewHistogram(metric.Ages...),
		stats:   cli.Asked[outbox.Stats]{Ask: box.Stats, Keep: StatsKeep},
	}
}

// An outboxReading is what is told in one answer.
type outboxReading struct {
	*Metrics
	now outbox.Stats
	up  bool // now is known
}

// Table is all that "tenaq outbox relay" tells.
var Table = []cli.MetricRow[outboxReading]{
	ofOutbox("tenaq_outbox_sent_total", "Rows that their queues have", func(r outboxReading) *metric.Counter { return &r.sent }),
	ofOutbox("tenaq_outbox_refused_total", "Refusals of rows by their queues, to be tried again", func(r outboxReading) *metric.Counter { return &r.refused }),
	ofOutbox("tenaq_outbox_parked_total", "Rows that this relay gave up", func(r outboxReading) *metric.Counter { return &r.parked }),
	ofOutbox("tenaq_outbox_lost_total", "Rows whose lease ended in the hands of this relay", func(r outboxReading) *metric.Counter { return &r.lost }),
	{Family: metric.Family{Name: "tenaq_outbox_batches_total", Help: "Requests that sent rows, by result: answered, which may be a refusal of some, or failed", Kind: metric.KindCounter, Labels: []string{"result"}},
		Write: func(w *metric.Writer, r outboxReading) { r.batches.Write(w) }},
	{Family: metric.Family{Name: "tenaq_outbox_batch_rows", Help: "Rows in one request", Kind: metric.KindHistogram},
		Write: func(w *metric.Writer, r outboxReading) { w.Histogram(r.sizes) }},
	{Family: metric.Family{Name: "tenaq_outbox_wait_seconds", Help: "From the write of a row to its send, by the clocks of the database and of the relay; with the delay that the row asked for", Kind: metric.KindHistogram},
		Write: func(w *metric.Writer, r outboxReading) { w.Histogram(r.waited) }},

	{Family: metric.Family{Name: "tenaq_outbox_up", Help: "1 when the outbox has answered how many rows there are, 0 when not", Kind: metric.KindGauge},
		Write: func(w *metric.Writer, r outboxReading) { w.Value(cli.OneIf(r.up)) }},
	ofRows("tenaq_outbox_pending_rows", "Rows that are not sent, those that are due and those whose time has not come; of all relays, like the next ones", func(s *outbox.Stats) float64 { return float64(s.Pending) }),
	ofRows("tenaq_outbox_due_rows", "Rows that could be sent now", func(s *outbox.Stats) float64 { return float64(s.Due) }),
	ofRows("tenaq_outbox_parked_rows", "Rows that were given up and wait for a person", func(s *outbox.Stats) float64 { return float64(s.Parked) }),
	ofRows("tenaq_outbox_oldest_due_age_seconds", "How long the row has been due that has been due for longest; 0 when none is", func(s *outbox.Stats) float64 { return s.Oldest.Seconds() }),
}

// ofOutbox is a row of a counter.
func ofOutbox(name, help string, of func(outboxReading) *metric.Counter) cli.MetricRow[outboxReading] {
	return cli.MetricRow[outboxReading]{Family: metric.Family{Name: name, Help: help, Kind: metric.KindCounter},
		Write: func(w *metric.Writer, r outboxReading) { w.Value(float64(of(r).Value())) }}
}

// ofRows is a row of what the outbox answered. It has no value when it did not.
func ofRows(name, help string, of func(*outbox.Stats) float64) cli.MetricRow[outboxReading] {
	return cli.MetricRow[outboxReading]{Family: metric.Family{Name: name, Help: help, Kind: metric.KindGauge},
		Write: func(w *metric.Writer, r outboxReading) {
			if r.up {
				w.Value(of(&r.now))
			}
		}}
}

func (m *Metrics) Write(w *metric.Writer) {
	s, err := m.stats.Get()
	cli.WriteMetrics(w, Table, outboxReading{m, s, err == nil})
}

// pushed is what the server is told for its alarms; nothing when the outbox does not answer, which is silence too.
func (m *Metrics) pushed(name string) func() []cli.Pushed {
	return func() []cli.Pushed {
		s, err := m.stats.Get()
		if err != nil {
			return nil
		}
		return []cli.Pushed{{Name: monitor.DueAge, About: name, Value: s.Oldest.Seconds()}, {Name: monitor.ParkedRows, About: name, Value: float64(s.Parked)}}
	}
}

// events counts what happens, and tells it to the log.
func (m *Metrics) events(log outbox.Events) outbox.Events {
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
func (m *Metrics) client(c outbox.SQS) outbox.SQS { return countingClient{c, m} }

// A countingClient is a client whose requests are counted.
type countingClient struct {
	outbox.SQS
	m *Metrics
}

func (c countingClient) SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	out, err := c.SQS.SendMessageBatch(ctx, in, options...)
	c.m.sizes.Observe(float64(len(in.Entries)))
	if err != nil {
		c.m.batches.Add("failed", 1)
	} else {
		c.m.batches.Add("answered", 1)
	}
	return out, err
}
