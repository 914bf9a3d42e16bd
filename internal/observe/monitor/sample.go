package monitor

import (
	"context"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/observe/series"
	"tenaq/internal/observe/tally"
)

// Namespaces of the metrics of queues: those of SQS, and those that only tenaq has. All have the
// dimension QueueName.
const (
	awsSQS   = "AWS/SQS"
	tenaqSQS = "Tenaq/SQS"

	queueDimension = "QueueName"
)

// sampleEvery is how often gauges are sampled. Counters are read once a minute.
const sampleEvery = 5 * time.Second

// activeFor is how long an empty queue still has data after its last event, as in SQS. [METRIC-2]
const activeFor = 6 * time.Hour

// surveyMax is how long the writer may take to report all queues, because all other alarms wait for
// it.
const surveyMax = 20 * time.Second

// surveyPage is the number of queues that the writer reports in one turn. With small pages, a
// hundred thousand queues on a slow disk would take longer than surveyMax.
const surveyPage = 250

// unusedMax is how many queues without an event since the start have data, besides those that
// alarms watch. [METRIC-2]
const unusedMax = 1000

// sights are what was seen of the queues. Run alone writes them, with Monitor.seen held; others may
// read them with it held.
type sights struct {
	since  int64     // the first whole minute of data is the one after this
	minute int64     // the present one
	at     time.Time // when they were seen
	queues map[string]*sight
	round  int // of sampling
	past   int // the last round of the last minute, or a later one that has failed
	unused int // queues that count for unusedMax

	sorted []*sight // by name; nil after queues have come or gone

	complete bool // all queues were reported since the start
	lost     bool // a report since then, so all queues must be reported again
	leftOut  bool // data of this minute, because there are too many metrics
	wasOut   bool // data of the last one
}

// A sight is what was seen of one queue. There may be very many to which nothing ever happens.
type sight struct {
	name   string
	row    int    // in sights.sorted
	target string // where its dead letters go
	fifo   bool
	paused bool
	round  int   // of its last report
	data   *data // nil when it has none [METRIC-2]
}

// data is what was seen of a queue in the present minute.
type data struct {
	unused  bool         // counts for unusedMax
	gauge   engine.Gauge // the newest
	gauges  [len(gaugeTable)]series.Set
	quiet   [len(quietTable)]series.Set // of a fair queue
	before  counts                      // at the end of the last minute
	present counts
	minute  counts // of the last minute that has ended
	sizes   series.Set
	active  time.Time // when something has happened last, by Now
	busy    bool      // the last minute had data
}

// gaugeTable are the metrics that are sampled.
var gaugeTable = [...]struct {
	namespace, name, unit string
	value                 func(g *engine.Gauge) int64
}{
	{awsSQS, nameVisible, "Count", func(g *engine.Gauge) int64 { return g.Visible }},
	{awsSQS, nameInFlight, "Count", func(g *engine.Gauge) int64 { return g.InFlight }},
	{awsSQS, nameDelayed, "Count", func(g *engine.Gauge) int64 { return g.Delayed }},
	{awsSQS, "ApproximateAgeOfOldestMessage", "Seconds",
		func(g *engine.Gauge) int64 { return g.AWSAge / 1000 }},
	{tenaqSQS, nameAge, "Seconds", func(g *engine.Gauge) int64 { return g.Age / 1000 }},
	{tenaqSQS, nameRetentionUsed, "Percent",
		func(g *engine.Gauge) int64 { return 100 * g.Kept / max(g.Retention, 1) }},
}

// quietTable are the metrics that are sampled of fair queues. [METRIC-16]
var quietTable = [...]struct {
	name  string
	value func(g *engine.Gauge) int64
}{
	{"ApproximateNumberOfNoisyGroups", func(g *engine.Gauge) int64 { return g.Noisy }},
	{nameVisible + "InQuietGroups", func(g *engine.Gauge) int64 { return g.Quiet.Visible }},
	{nameInFlight + "InQuietGroups", func(g *engine.Gauge) int64 { return g.Quiet.InFlight }},
	{nameDelayed + "InQuietGroups", func(g *engine.Gauge) int64 { return g.Quiet.Delayed }},
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
	{tenaqSQS, nameTimedOut, func(q *tally.Queue) int64 {
		return q.TimedOut.Value() + q.TimedOutChanged.Value()
	}},
	{tenaqSQS, nameTimedOutKept, func(q *tally.Queue) int64 { return q.TimedOut.Value() }},
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
	// of deliveries, when their messages go on [METRIC-21]
	nameTimedOut     = "NumberOfVisibilityTimeouts"
	nameTimedOutKept = "NumberOfVisibilityTimeoutsKept"
	nameExpired      = "NumberOfMessagesExpired"
	nameDeadLettered = "NumberOfMessagesDeadLettered"
	nameArrived      = "NumberOfMessagesArrived"
)

func ofQueue(namespace, name, queue string) series.Metric {
	return series.Metric{Namespace: namespace, Name: name,
		Dimensions: []series.Dimension{{Name: queueDimension, Value: queue}}}
}

// sample samples all queues and returns how long that took. If the writer is too busy to report,
// the minute has fewer samples; counters are always complete.
func (m *Monitor) sample(ctx context.Context) (cost time.Duration) {
	begun := time.Now()
	s := &m.sights
	m.seen.Lock()
	if s.queues == nil {
		s.queues = make(map[string]*sight)
	}
	s.round++
	m.seen.Unlock()
	m.survey(ctx)
	m.seen.Lock()
	defer m.seen.Unlock()
	s.at = m.Now()
	m.cfg.Queues.Tally().Each(func(t *tally.Queue) {
		if q := s.queues[t.Name]; q != nil && t.Account == m.cfg.Account {
			s.begin(q, s.round > s.past).count(t)
		}
	})
	return time.Since(begun)
}

// watched returns the queues that alarms watch.
func (m *Monitor) watched() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make(map[string]bool)
	for _, e := range m.alarms {
		for i := range e.Rule.Queries {
			for _, d := range e.Rule.Queries[i].Metric.Dimensions {
				if d.Name == queueDimension {
					found[d.Value] = true
				}
			}
		}
	}
	return found
}

// survey asks the writer where the messages are: of all queues once, and then of queues that may
// have changed.
func (m *Monitor) survey(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, surveyMax)
	defer cancel()
	s, now := &m.sights, m.Now()
	switch {
	case !s.complete || s.lost:
		if !m.surveyAll(ctx, now) {
			s.past = s.round
			return
		}
		m.seen.Lock()
		defer m.seen.Unlock()
		for name, q := range s.queues {
			if q.round != s.round {
				s.forget(name) // it was deleted
			}
		}
		s.complete, s.lost = true, false
	case !m.surveyNews(ctx, now):
		s.lost, s.past = true, s.round
		return
	default:
		m.seen.Lock()
		defer m.seen.Unlock()
	}
	for name := range m.watched() {
		if q := s.queues[name]; q != nil && q.data == nil {
			q.data = &data{active: now}
			q.data.see(&engine.Gauge{FIFO: q.fifo})
		}
	}
	for _, q := range s.queues {
		if q.data != nil && q.round != s.round {
			q.data.see(&q.data.gauge) // it is as it was, without messages
		}
	}
}

// surveyNews asks for the queues that have changed, and reports whether all were reported.
func (m *Monitor) surveyNews(ctx context.Context, now time.Time) bool {
	for op := (&engine.News{Max: surveyPage}); ; {
		if err := m.cfg.Queues.Do(ctx, op); err != nil {
			return false
		}
		m.seeAll(op.Gauges, now)
		m.seen.Lock()
		for _, gone := range op.Gone {
			if gone.Account == m.cfg.Account {
				m.sights.forget(gone.Name)
			}
		}
		m.seen.Unlock()
		if !op.More {
			return true
		}
	}
}

// surveyAll asks for all queues, and reports whether all were reported.
func (m *Monitor) surveyAll(ctx context.Context, now time.Time) bool {
	for op := (&engine.Survey{Max: surveyPage, Watch: true}); ; op.After = op.Last {
		if err := m.cfg.Queues.Do(ctx, op); err != nil {
			return false
		}
		m.seeAll(op.Gauges, now)
		if !op.More {
			return true
		}
	}
}

func (m *Monitor) seeAll(gauges []engine.Gauge, now time.Time) {
	m.seen.Lock()
	defer m.seen.Unlock()
	for i := range gauges {
		if g := &gauges[i]; g.Queue.Account == m.cfg.Account {
			m.sights.see(g, now)
		}
	}
}

// see takes note of where the messages of a queue are.
func (s *sights) see(g *engine.Gauge, now time.Time) {
	q := s.queues[g.Queue.Name]
	looked := q != nil && s.round-1 > s.past
	if q == nil {
		q = &sight{name: g.Queue.Name}
		s.queues[q.name], s.sorted = q, nil
		if s.unused < unusedMax {
			s.unused++
			q.data = &data{active: now, unused: true}
		}
	}
	q.round, q.target, q.fifo, q.paused = s.round, g.DeadLetterTarget, g.FIFO, g.Paused
	if g.Visible+g.InFlight+g.Delayed > 0 {
		s.begin(q, looked).active = now
	}
	if q.data != nil {
		q.data.see(g)
	}
}

func (s *sights) forget(name string) {
	if q := s.queues[name]; q != nil && q.data != nil && q.data.unused {
		s.unused--
	}
	delete(s.queues, name)
	s.sorted = nil
}

// begin returns the data of a queue that has had an event. Looked says that this minute had samples
// before: if the data begins now, they found the queue empty.
func (s *sights) begin(q *sight, looked bool) *data {
	switch {
	case q.data == nil:
		q.data = &data{}
		if looked {
			q.data.see(&engine.Gauge{FIFO: q.fifo})
		}
	case q.data.unused:
		q.data.unused = false
		s.unused--
	}
	return q.data
}

// see takes note of where the messages of the queue are.
func (q *data) see(g *engine.Gauge) {
	q.gauge = *g
	for i := range gaugeTable {
		sample(&q.gauges[i], gaugeTable[i].value(g))
	}
	for i := range quietTable {
		if g.Fair {
			sample(&q.quiet[i], quietTable[i].value(g))
		}
	}
}

// sample adds a value to a minute. The average of a minute is the value at its end, so that it is a
// whole number that was really there. Minimum and maximum are of all samples. [METRIC-4]
func sample(set *series.Set, value int64) {
	v, was := float64(value), *set
	*set = series.One(v)
	if was.Count > 0 {
		set.Min, set.Max = min(was.Min, v), max(was.Max, v)
	}
}

func (q *data) count(t *tally.Queue) {
	for i := range countTable {
		q.present[i] = countTable[i].value(t)
	}
	q.sizes = q.sizes.Merge(series.Set(t.SizeExtremes.Take()))
}

// endMinute writes the minute that has ended into the series.
func (m *Monitor) endMinute() {
	s := &m.sights
	now := m.Now()
	s.wasOut, s.leftOut, s.past = s.leftOut, false, s.round
	for name, seen := range s.queues {
		q := seen.data
		if q == nil {
			continue
		}
		m.seen.Lock()
		for i := range q.present {
			q.minute[i] = q.present[i] - q.before[i]
			if q.minute[i] < 0 { // it is another queue of that name
				q.minute[i] = q.present[i]
			}
			if q.minute[i] != 0 {
				q.active = now
			}
		}
		m.seen.Unlock()
		q.before = q.present
		q.busy = now.Sub(q.active) < activeFor
		if q.busy {
			m.put(name, q)
		}
		q.gauges, q.sizes = [len(gaugeTable)]series.Set{}, series.Set{}
		q.quiet = [len(quietTable)]series.Set{}
	}
	m.series.Drop(s.minute - seriesKeep.Milliseconds())
}

func (m *Monitor) put(name string, q *data) {
	for i, g := range gaugeTable {
		if q.gauges[i].Count > 0 {
			m.write(ofQueue(g.namespace, g.name, name), q.gauges[i], g.unit)
		}
	}
	for i, g := range quietTable {
		if q.quiet[i].Count > 0 {
			m.write(ofQueue(awsSQS, g.name, name), q.quiet[i], "Count")
		}
	}
	for i, c := range countTable {
		if c.name != nameDeduplicated || q.gauge.FIFO {
			m.write(ofQueue(c.namespace, c.name, name), series.One(float64(q.minute[i])), "Count")
		}
	}
	// nothing when nothing was sent [METRIC-13]
	m.write(ofQueue(awsSQS, "SentMessageSize", name), q.sizes, "Bytes")
}

// write puts data into the series. It logs once that there are too many queues, until a minute has
// room for all data.
func (m *Monitor) write(metric series.Metric, set series.Set, unit string) {
	err := m.series.Put(metric, m.sights.minute, set, unit)
	if err != nil && !m.sights.leftOut && !m.sights.wasOut {
		m.cfg.Logger.Warn("too many metrics: some queues have no data and no alarms", "metric",
			metric.Name, "error", err)
	}
	m.sights.leftOut = m.sights.leftOut || err != nil
}
