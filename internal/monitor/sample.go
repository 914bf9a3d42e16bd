package monitor

import (
	"context"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/series"
	"tenaq/internal/tally"
)

// Namespaces of the metrics of queues: what SQS tells of itself, under its names, and what it does not. All have the
// dimension QueueName.
const (
	awsSQS   = "AWS/SQS"
	tenaqSQS = "Tenaq/SQS"

	queueDimension = "QueueName"
)

// sampleEvery is how often it is looked where the messages are. What is counted is read once a minute.
const sampleEvery = 5 * time.Second

// activeFor is how long after the last thing that happened to it an empty queue still has data, as in SQS. [METRIC-2]
const activeFor = 6 * time.Hour

// surveyMax is how long the writer may take to tell of all queues. Alarms on other things do not wait for it longer.
const surveyMax = 20 * time.Second

// surveyPage is how many queues the writer looks at in one go.
const surveyPage = 50

// sights are what was seen of the queues.
type sights struct {
	since  int64 // the first whole minute of data is the one after this
	minute int64 // the present one
	queues map[string]*sight
	round  int

	complete bool // all queues have been told of since the start
	leftOut  bool // data, because there are too many metrics
}

// A sight is what was seen of one queue in the present minute.
type sight struct {
	gauge   engine.Gauge // the newest
	gauges  [len(gaugeTable)]series.Set
	before  counts // at the end of the last minute
	present counts
	minute  counts // of the last minute that has ended
	sizes   series.Set
	active  time.Time // when something has happened last, by Now
	round   int       // of sampling, in which it was seen last
	busy    bool      // the last minute had data
}

// gaugeTable are the metrics that are looked at.
var gaugeTable = [...]struct {
	namespace, name, unit string
	value                 func(g *engine.Gauge) (float64, bool)
}{
	{awsSQS, nameVisible, "Count", func(g *engine.Gauge) (float64, bool) { return float64(g.Visible), true }},
	{awsSQS, nameInFlight, "Count", func(g *engine.Gauge) (float64, bool) { return float64(g.InFlight), true }},
	{awsSQS, nameDelayed, "Count", func(g *engine.Gauge) (float64, bool) { return float64(g.Delayed), true }},
	{awsSQS, "ApproximateAgeOfOldestMessage", "Seconds", func(g *engine.Gauge) (float64, bool) { return float64(g.AWSAge / 1000), true }},
	{tenaqSQS, nameAge, "Seconds", func(g *engine.Gauge) (float64, bool) { return float64(g.Age / 1000), true }},
	{tenaqSQS, nameRetentionUsed, "Percent", func(g *engine.Gauge) (float64, bool) {
		return float64(100 * g.Kept / max(g.Retention, 1)), true
	}},
}

// counts are the counters of a queue at one moment.
type counts [len(countTable)]int64

// countTable are the metrics that are counted.
var countTable = [...]struct {
	namespace, name string
	value           func(q *tally.Queue) int64
}{
	{awsSQS, nameSent, func(q *tally.Queue) int64 { return q.Sent.Value() }},
	{awsSQS, nameReceived, func(q *tally.Queue) int64 { return q.Received.Value() }},
	{awsSQS, nameDeleted, func(q *tally.Queue) int64 {
		return q.Deleted.Value() + q.DeletedStale.Value() + q.DeletedGone.Value()
	}},
	{awsSQS, "NumberOfEmptyReceives", func(q *tally.Queue) int64 { return q.Empty.Value() }},
	{awsSQS, nameDeduplicated, func(q *tally.Queue) int64 { return q.Deduplicated.Value() }},
	{tenaqSQS, nameRemoved, func(q *tally.Queue) int64 { return q.Deleted.Value() }},
	{tenaqSQS, nameStale, func(q *tally.Queue) int64 { return q.DeletedStale.Value() }},
	{tenaqSQS, nameRedelivered, func(q *tally.Queue) int64 { return q.Redelivered.Value() }},
	{tenaqSQS, nameTimedOut, func(q *tally.Queue) int64 { return q.TimedOut.Value() + q.TimedOutChanged.Value() }},
	{tenaqSQS, nameExpired, func(q *tally.Queue) int64 { return q.Expired.Value() }},
	{tenaqSQS, nameDeadLettered, func(q *tally.Queue) int64 { return q.DeadLetters.Value() }},
	{tenaqSQS, nameArrived, func(q *tally.Queue) int64 { return q.Arrived.Value() }},
}

// Names that are used in more than one place.
const (
	nameSent     = "NumberOfMessagesSent"
	nameReceived = "NumberOfMessagesReceived"
	nameDeleted  = "NumberOfMessagesDeleted"
	nameVisible  = "ApproximateNumberOfMessagesVisible"
	nameInFlight = "ApproximateNumberOfMessagesNotVisible"
	nameDelayed  = "ApproximateNumberOfMessagesDelayed"
	nameAge      = "AgeOfOldestMessage"

	// The part of its retention for which the message has been kept that expires next.
	nameRetentionUsed = "RetentionUsed"

	nameDeduplicated = "NumberOfDeduplicatedSentMessages" // of FIFO queues only
	nameRemoved      = "NumberOfMessagesRemoved"
	nameStale        = "NumberOfStaleDeletes"
	nameRedelivered  = "NumberOfMessagesRedelivered"
	nameTimedOut     = "NumberOfVisibilityTimeouts" // of deliveries, when their messages go on [METRIC-21]
	nameExpired      = "NumberOfMessagesExpired"
	nameDeadLettered = "NumberOfMessagesDeadLettered"
	nameArrived      = "NumberOfMessagesArrived"
)

// ofQueue names a metric of a queue.
func ofQueue(namespace, name, queue string) series.Metric {
	return series.Metric{Namespace: namespace, Name: name, Dimensions: []series.Dimension{{Name: queueDimension, Value: queue}}}
}

// sample looks at all queues and returns how long that took. Where it is not told where the messages are, because there is
// too much to do, the minute has fewer looks; what is counted is complete.
func (m *Monitor) sample(ctx context.Context) (cost time.Duration) {
	begun := time.Now()
	s := &m.sights
	if s.queues == nil {
		s.queues = make(map[string]*sight)
	}
	s.round++
	if m.survey(ctx) {
		s.complete = true
		for name, q := range s.queues {
			if q.round != s.round {
				delete(s.queues, name) // it was deleted
			}
		}
	}
	m.cfg.Queues.Tally().Each(func(t *tally.Queue) {
		if q := s.queues[t.Name]; q != nil && t.Account == m.cfg.Account {
			q.count(t)
		}
	})
	return time.Since(begun)
}

// survey asks where the messages are, and reports whether it was told of all queues.
func (m *Monitor) survey(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, surveyMax)
	defer cancel()
	now := m.Now()
	for after := (engine.QueueName{}); ; {
		res, err := m.cfg.Queues.Do(ctx, engine.Survey{After: after, Max: surveyPage})
		if err != nil {
			return false
		}
		for i := range res.Gauges {
			if g := &res.Gauges[i]; g.Queue.Account == m.cfg.Account {
				m.sights.see(g, now)
			}
		}
		if len(res.Queues) == 0 {
			return true
		}
		after = res.Queues[0]
	}
}

// see takes note of where the messages of a queue are.
func (s *sights) see(g *engine.Gauge, now time.Time) {
	q := s.queues[g.Queue.Name]
	if q == nil {
		q = &sight{active: now}
		s.queues[g.Queue.Name] = q
	}
	q.gauge, q.round = *g, s.round
	for i := range gaugeTable {
		if v, ok := gaugeTable[i].value(g); ok {
			// The average of a minute is what there was at its end, so that it is a whole number that somebody could have
			// seen; smallest and largest are of all samples. [METRIC-4]
			was := q.gauges[i]
			q.gauges[i] = series.Set{Min: v, Max: v, Sum: v, Count: 1}
			if was.Count > 0 {
				q.gauges[i].Min, q.gauges[i].Max = min(was.Min, v), max(was.Max, v)
			}
		}
	}
	if g.Visible+g.InFlight+g.Delayed > 0 {
		q.active = now
	}
}

// count reads the counters of a queue.
func (q *sight) count(t *tally.Queue) {
	for i := range countTable {
		q.present[i] = countTable[i].value(t)
	}
	q.sizes = q.sizes.Merge(series.Set(t.SizeExtremes.Take()))
}

// endMinute writes the minute that has ended into the series.
func (m *Monitor) endMinute() {
	s := &m.sights
	now := m.Now()
	s.leftOut = s.leftOut && len(m.series.List(series.Filter{Namespace: awsSQS, Name: nameSent})) < len(s.queues)
	for name, q := range s.queues {
		for i := range q.present {
			q.minute[i] = q.present[i] - q.before[i]
			if q.minute[i] < 0 { // it is another queue of that name
				q.minute[i] = q.present[i]
			}
			if q.minute[i] != 0 {
				q.active = now
			}
		}
		q.before = q.present
		q.busy = now.Sub(q.active) < activeFor
		if q.busy {
			m.put(name, q)
		}
		q.gauges, q.sizes = [len(gaugeTable)]series.Set{}, series.Set{}
	}
	m.series.Drop(s.minute - seriesKeep.Milliseconds())
}

// put writes the data of a queue.
func (m *Monitor) put(name string, q *sight) {
	for i, g := range gaugeTable {
		if q.gauges[i].Count > 0 {
			m.write(ofQueue(g.namespace, g.name, name), q.gauges[i], g.unit)
		}
	}
	for i, c := range countTable {
		if c.name != nameDeduplicated || q.gauge.FIFO {
			m.write(ofQueue(c.namespace, c.name, name), series.One(float64(q.minute[i])), "Count")
		}
	}
	m.write(ofQueue(awsSQS, "SentMessageSize", name), q.sizes, "Bytes") // nothing when nothing was sent [METRIC-13]
}

// write puts data into the series. That there are too many queues is said once, until there is room again.
func (m *Monitor) write(metric series.Metric, set series.Set, unit string) {
	err := m.series.Put(metric, m.sights.minute, set, unit)
	if err != nil && !m.sights.leftOut {
		m.cfg.Logger.Warn("data of queues is left out, so they have no alarms", "metric", metric.Name, "error", err)
	}
	m.sights.leftOut = m.sights.leftOut || err != nil
}
