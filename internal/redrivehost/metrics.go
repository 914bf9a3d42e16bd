package redrivehost

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/observe/metric"
	"tenaq/internal/observe/monitor"
	"tenaq/redrive"
	"tenaq/redrive/breaker"
)

// Metrics report the latest step of each redriver of a process, and count what its steps did. The
// depth of a parking lot is asked for, because people empty it between two steps.
type Metrics struct {
	parked cli.Asked[[]parkingDepth]

	mu     sync.Mutex
	host   *Host // nil while there is none
	queues []*queueMetrics
}

// A queueMetrics is what is known of the redriving of one dead-letter queue.
type queueMetrics struct {
	name    string
	parking string // name, URL or ARN

	steps, decisions, outcomes *cli.WordCount

	last    time.Time // of the latest step without an error; of the start if there was none
	failing bool      // the latest step has failed
	known   bool      // state is
	state   redrive.State
	count   bool // depth, drain and held are known
	depth   int
	drain   time.Duration
	held    map[redrive.HoldCause]int
}

// parkingKeep is how long the answer of a parking lot is used. On Amazon each question costs a
// request.
const parkingKeep = 30 * time.Second

func NewMetrics(specs []Spec) *Metrics {
	m := &Metrics{}
	m.parked = cli.Asked[[]parkingDepth]{Ask: m.askParking, Keep: parkingKeep}
	for _, s := range specs {
		m.queues = append(m.queues, &queueMetrics{
			name: cli.QueueNameOf(s.DeadLetter), parking: s.Parking, last: time.Now(),
			steps: cli.NewWordCount("done", "overlap", "failed"),
			decisions: cli.NewWordCount(string(redrive.Redrive), string(redrive.Park),
				string(redrive.Hold)),
			outcomes: cli.NewWordCount("succeeded", "failed"),
		})
	}
	return m
}

// Reach sets the host through which parking lots are asked; nil for none.
func (m *Metrics) Reach(h *Host) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host = h
}

// Note takes over a step.
func (m *Metrics) Note(s Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.queues, func(q *queueMetrics) bool { return q.name == s.Queue })
	if i >= 0 {
		m.queues[i].note(s)
	}
}

func (q *queueMetrics) note(s Step) {
	r := &s.Report
	for _, action := range []redrive.Action{redrive.Redrive, redrive.Park, redrive.Hold} {
		q.decisions.Add(string(action), r.Count(action))
	}
	succeeded, failed := OutcomeCounts(r)
	q.outcomes.Add("succeeded", succeeded)
	q.outcomes.Add("failed", failed)
	if r.State.Breaker.State != "" { // also after an error, unless the records could not be read
		q.state, q.known = r.State, true
	}
	q.failing = s.Err != nil && !IsOverlap(s.Err)
	switch {
	case IsOverlap(s.Err):
		q.steps.Add("overlap", 1)
		q.last = s.Ended
		return
	case s.Err != nil:
		q.steps.Add("failed", 1)
		return
	}
	q.steps.Add("done", 1)
	q.last, q.count, q.depth, q.drain = s.Ended, true, r.Depth, s.Drain
	q.held = make(map[redrive.HoldCause]int)
	for _, d := range r.Decisions {
		if d.Action == redrive.Hold {
			q.held[d.Held]++
		}
	}
}

type redriveReading struct {
	queues  []queueMetrics
	parking []parkingDepth
	now     time.Time
}

// queueValue writes a value for each queue that has one.
func queueValue(
	of func(*queueMetrics, time.Time) (v float64, ok bool),
) func(*metric.Writer, redriveReading) {
	return func(w *metric.Writer, r redriveReading) {
		for i := range r.queues {
			if v, ok := of(&r.queues[i], r.now); ok {
				w.Value(v, r.queues[i].name)
			}
		}
	}
}

// stateValue writes a part of the state of each queue, if the state is known.
func stateValue(of func(*redrive.State) float64) func(*metric.Writer, redriveReading) {
	return queueValue(func(q *queueMetrics, _ time.Time) (float64, bool) {
		return of(&q.state), q.known
	})
}

// words writes what is counted by words.
func words(of func(*queueMetrics) *cli.WordCount) func(*metric.Writer, redriveReading) {
	return func(w *metric.Writer, r redriveReading) {
		for i := range r.queues {
			of(&r.queues[i]).Write(w, r.queues[i].name)
		}
	}
}

// MetricTable has all metrics of redrivers: those of "tenaq redrive run" and those in a server.
var MetricTable = []cli.MetricRow[redriveReading]{
	cli.Counter("tenaq_redrive_steps_total",
		"Steps of a redriver, by result: done, overlap with that of another redriver, or failed",
		words(func(q *queueMetrics) *cli.WordCount { return q.steps }), "queue", "result"),
	cli.Counter("tenaq_redrive_decisions_total",
		"Decisions about dead letters, by action: redrive, park or hold; a held one is decided about again",
		words(func(q *queueMetrics) *cli.WordCount { return q.decisions }), "queue", "action"),
	cli.Counter("tenaq_redrive_outcomes_total",
		"Outcomes of redriven messages: succeeded or failed again",
		words(func(q *queueMetrics) *cli.WordCount { return q.outcomes }), "queue", "result"),
	cli.Gauge("tenaq_redrive_last_step_age_seconds",
		"Time since the latest step without an error; since the start if there was none",
		queueValue(func(q *queueMetrics, now time.Time) (float64, bool) {
			return max(0, now.Sub(q.last)).Seconds(), true
		}), "queue"),

	cli.Gauge("tenaq_redrive_breaker_state", "The circuit breaker: 0 closed, 1 open, 2 half open",
		stateValue(func(s *redrive.State) float64 { return float64(s.Breaker.State.Gauge()) }),
		"queue"),
	cli.Gauge("tenaq_redrive_on_their_way", "Redriven messages whose outcome is not known yet",
		stateValue(func(s *redrive.State) float64 { return float64(len(s.Flights)) }), "queue"),
	cli.Gauge("tenaq_redrive_rate", "Messages that may be on their way at once",
		stateValue(func(s *redrive.State) float64 { return float64(s.Rate) }), "queue"),
	cli.Gauge("tenaq_redrive_paused", "1 while the redriver is paused by a person",
		stateValue(func(s *redrive.State) float64 { return cli.OneIf(s.Paused != "") }), "queue"),
	cli.Gauge("tenaq_redrive_kinds",
		"Kinds of failures, by the breaker of each kind: closed, open or half_open",
		func(w *metric.Writer, r redriveReading) {
			for _, q := range r.queues {
				for _, s := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen} {
					if q.known {
						w.Value(float64(q.kinds(s)), q.name, strings.ToLower(string(s)))
					}
				}
			}
		}, "queue", "breaker"),

	cli.Gauge("tenaq_redrive_dead_letters", "Dead letters when the latest step began",
		queueValue(func(q *queueMetrics, _ time.Time) (float64, bool) {
			return float64(q.depth), q.count
		}), "queue"),
	cli.Gauge("tenaq_redrive_held",
		"Dead letters that the latest step held, by why: paused, breaker, unsure (whether others succeed), rate, group, kind (of failure), delay, ledger or other",
		func(w *metric.Writer, r redriveReading) {
			for _, q := range r.queues {
				for _, cause := range redrive.HoldCauses {
					if q.count {
						w.Value(float64(q.held[cause]), q.name, string(cause))
					}
				}
			}
		}, "queue", "why"),
	cli.Gauge("tenaq_redrive_drain_seconds",
		"How long the dead letters will take at the pace of the last hour; absent if unknown, and while the breaker is open or the redriver paused",
		queueValue(func(q *queueMetrics, _ time.Time) (float64, bool) {
			stands := q.state.Breaker.State == breaker.Open || q.state.Paused != ""
			return q.drain.Seconds(), q.count && !stands && (q.drain > 0 || q.depth == 0)
		}), "queue"),
	cli.Gauge("tenaq_redrive_parked_messages",
		"Messages in a parking lot, which await a person's decision",
		func(w *metric.Writer, r redriveReading) {
			for _, p := range r.parking {
				w.Value(float64(p.depth), p.name)
			}
		}, "parking"),
}

func (q *queueMetrics) kinds(state breaker.State) (n int) {
	for _, k := range q.state.Kinds {
		if cmp.Or(k.Breaker.State, breaker.Closed) == state {
			n++
		}
	}
	return n
}

func (m *Metrics) Write(w *metric.Writer) {
	r := redriveReading{now: time.Now()}
	r.parking, _ = m.parked.Get()
	m.mu.Lock()
	for _, q := range m.queues {
		r.queues = append(r.queues, *q) // what is behind its pointers is counted on, or replaced
	}
	m.mu.Unlock()
	cli.WriteMetrics(w, MetricTable, r)
}

// Pushed is what the server gets for its alarms. A step that has not been taken yet has not failed,
// but what the breaker is in the records only a step finds out. [ALARM-51]
func (m *Metrics) Pushed() (numbers []cli.Pushed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.queues {
		numbers = append(numbers,
			cli.Pushed{Name: monitor.StepFailed, About: q.name, Value: cli.OneIf(q.failing)})
		if q.known {
			numbers = append(numbers, cli.Pushed{Name: monitor.BreakerState, About: q.name,
				Value: float64(q.state.Breaker.State.Gauge())})
		}
	}
	return append(numbers, m.Lots()...)
}

// Lots tells the server which queues are parking lots. It needs no lock, because none is added.
func (m *Metrics) Lots() (numbers []cli.Pushed) {
	for _, q := range m.queues {
		numbers = append(numbers,
			cli.Pushed{Name: monitor.ParkingLot, About: cli.QueueNameOf(q.parking), Value: 1})
	}
	return numbers
}

type parkingDepth struct {
	name  string
	depth int
}

// askParking asks each parking lot once. One that cannot be asked is left out: the next step will
// say why.
func (m *Metrics) askParking(ctx context.Context) (found []parkingDepth, _ error) {
	m.mu.Lock()
	h := m.host
	m.mu.Unlock()
	if h == nil {
		return nil, nil
	}
	for _, q := range m.queues {
		name := cli.QueueNameOf(q.parking)
		if slices.ContainsFunc(found, func(p parkingDepth) bool { return p.name == name }) {
			continue
		}
		if depth, _, err := Depth(ctx, h.Client, q.parking); err == nil {
			found = append(found, parkingDepth{name, depth})
		}
	}
	return found, nil
}

// Depth counts the messages of a queue, hidden and delayed ones included. It also returns the
// attributes of the queue.
func Depth(
	ctx context.Context, c *cli.Client, queue string,
) (n int, attributes map[string]string, err error) {
	url, err := c.QueueURL(ctx, queue)
	if err != nil {
		return 0, nil, err
	}
	if attributes, err = c.AllAttributes(ctx, url); err != nil {
		return 0, nil, err
	}
	visible, hidden, delayed := cli.CountsOf(attributes)
	return int(visible + hidden + delayed), attributes, nil
}
