package main

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/breaker"
	"tenaq/internal/metric"
	"tenaq/internal/monitor"
	"tenaq/redrive"
)

// redriveMetrics know the latest step of each redriver of a process, and count what all of its steps did. What they
// tell of a queue is as of its latest step. That of the parking lots is asked for, because people empty them.
type redriveMetrics struct {
	parked asked[[]parkingDepth]

	mu     sync.Mutex
	host   *redriveHost // nil as long as there is none
	queues []*redriveQueue
}

// A redriveQueue is what is known of the redriving of one dead-letter queue.
type redriveQueue struct {
	name    string
	parking string // name, URL or ARN

	steps, decisions, outcomes *wordCount

	last    time.Time // the latest step without an error; of this start, when there was none
	failing bool      // the latest step has failed
	known   bool      // state is
	state   redrive.State
	count   bool // depth, drain and held are known
	depth   int
	drain   time.Duration
	held    map[string]int // by reason
}

// parkingKeep is how long what a parking lot answered is told again. On Amazon each question costs a request.
const parkingKeep = 30 * time.Second

func newRedriveMetrics(specs []redriveSpec) *redriveMetrics {
	m := &redriveMetrics{}
	m.parked = asked[[]parkingDepth]{ask: m.askParking, keep: parkingKeep}
	for _, s := range specs {
		m.queues = append(m.queues, &redriveQueue{
			name: queueNameOf(s.deadLetter), parking: s.parking, last: time.Now(),
			steps:     newWordCount("done", "overlap", "failed"),
			decisions: newWordCount(string(redrive.Redrive), string(redrive.Park), string(redrive.Hold)),
			outcomes:  newWordCount("succeeded", "failed"),
		})
	}
	return m
}

// reach says how the parking lots can be asked.
func (m *redriveMetrics) reach(h *redriveHost) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host = h
}

// note takes over a step.
func (m *redriveMetrics) note(s redriveStep) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.queues, func(q *redriveQueue) bool { return q.name == s.queue })
	if i >= 0 {
		m.queues[i].note(s)
	}
}

func (q *redriveQueue) note(s redriveStep) {
	r := &s.report
	for _, action := range []redrive.Action{redrive.Redrive, redrive.Park, redrive.Hold} {
		q.decisions.add(string(action), r.Count(action))
	}
	succeeded, failed := outcomeCounts(r)
	q.outcomes.add("succeeded", succeeded)
	q.outcomes.add("failed", failed)
	if r.State.Breaker.State != "" { // also after an error, unless the records could not be read
		q.state, q.known = r.State, true
	}
	q.failing = s.err != nil && !isOverlap(s.err)
	switch {
	case isOverlap(s.err):
		q.steps.add("overlap", 1)
		q.last = s.ended
		return
	case s.err != nil:
		q.steps.add("failed", 1)
		return
	}
	q.steps.add("done", 1)
	q.last, q.count, q.depth, q.drain = s.ended, true, r.Depth, s.drain
	q.held = make(map[string]int)
	for _, d := range r.Decisions {
		if d.Action == redrive.Hold {
			q.held[holdReason(d.Why)]++
		}
	}
}

// holdReasons are words for why dead letters are left where they are, by what the redriver says. The rest is other:
// above all that nobody knows where a message came from.
var holdReasons = []struct {
	says *regexp.Regexp
	word string
}{
	{regexp.MustCompile(`^paused: `), "paused"},
	{regexp.MustCompile(`^the breaker is open `), "breaker"},
	{regexp.MustCompile(`^whether others succeed is not known|^others are tried first`), "unsure"},
	{regexp.MustCompile(`^\d+ messages are on their way$`), "rate"},
	{regexp.MustCompile(`^an? (earlier )?message of its group `), "group"},
	{regexp.MustCompile(`^what it needs seems to be down |^another one finds out whether what it needs `), "kind"},
	{regexp.MustCompile(`^it waits for its time$`), "delay"},
	{regexp.MustCompile(`^the ledger cannot be asked now`), "ledger"},
}

const holdOther = "other"

func holdReason(why string) string {
	for _, r := range holdReasons {
		if r.says.MatchString(why) {
			return r.word
		}
	}
	return holdOther
}

// A redriveReading is what is told in one answer.
type redriveReading struct {
	queues  []redriveQueue
	parking []parkingDepth
	now     time.Time
}

// each calls f with each queue.
func (r redriveReading) each(f func(*redriveQueue)) {
	for i := range r.queues {
		f(&r.queues[i])
	}
}

// redriveTable is all that redrivers tell: those of "tenaq redrive run" and those in a server.
var redriveTable = []metricRow[redriveReading]{
	ofSteps("tenaq_redrive_steps_total", "Steps of a redriver, by result: done, overlap with that of another redriver, or failed", "result",
		func(q *redriveQueue) *wordCount { return q.steps }),
	ofSteps("tenaq_redrive_decisions_total", "Decisions about dead letters, by action: redrive, park or hold; one that is held is decided about again", "action",
		func(q *redriveQueue) *wordCount { return q.decisions }),
	ofSteps("tenaq_redrive_outcomes_total", "What became of redriven messages: succeeded or failed again", "result",
		func(q *redriveQueue) *wordCount { return q.outcomes }),
	{metric.Family{Name: "tenaq_redrive_last_step_age_seconds", Help: "How long ago the latest step was taken without an error; since the start when none was", Kind: metric.KindGauge, Labels: deadLabel},
		func(w *metric.Writer, r redriveReading) {
			r.each(func(q *redriveQueue) { w.Value(max(0, r.now.Sub(q.last)).Seconds(), q.name) })
		}},

	ofState("tenaq_redrive_breaker_state", "The circuit breaker: 0 closed, 1 open, 2 half open", func(s *redrive.State) float64 { return float64(s.Breaker.State.Gauge()) }),
	ofState("tenaq_redrive_on_their_way", "Messages that were redriven and of which it is not known yet what became of them", func(s *redrive.State) float64 { return float64(len(s.Flights)) }),
	ofState("tenaq_redrive_rate", "Messages that may be on their way at once", func(s *redrive.State) float64 { return float64(s.Rate) }),
	ofState("tenaq_redrive_paused", "1 while a person has paused the redriver", func(s *redrive.State) float64 { return oneIf(s.Paused != "") }),
	{metric.Family{Name: "tenaq_redrive_kinds", Help: "Kinds of failures that were seen, by the breaker of each kind: closed, open or half_open", Kind: metric.KindGauge, Labels: []string{"queue", "breaker"}},
		func(w *metric.Writer, r redriveReading) {
			r.each(func(q *redriveQueue) {
				for _, state := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen} {
					if n := q.kinds(state); q.known {
						w.Value(float64(n), q.name, strings.ToLower(string(state)))
					}
				}
			})
		}},

	{metric.Family{Name: "tenaq_redrive_dead_letters", Help: "Dead letters when the latest step began", Kind: metric.KindGauge, Labels: deadLabel},
		func(w *metric.Writer, r redriveReading) {
			r.each(func(q *redriveQueue) {
				if q.count {
					w.Value(float64(q.depth), q.name)
				}
			})
		}},
	{metric.Family{Name: "tenaq_redrive_held", Help: "Dead letters that the latest step looked at and left where they are, by why: paused, breaker, unsure whether others succeed, rate, group, kind of failure, delay, ledger or other",
		Kind: metric.KindGauge, Labels: []string{"queue", "why"}},
		func(w *metric.Writer, r redriveReading) {
			r.each(func(q *redriveQueue) {
				for _, reason := range holdReasons {
					if q.count {
						w.Value(float64(q.held[reason.word]), q.name, reason.word)
					}
				}
				if q.count {
					w.Value(float64(q.held[holdOther]), q.name, holdOther)
				}
			})
		}},
	{metric.Family{Name: "tenaq_redrive_drain_seconds", Help: "How long the dead letters will take at the pace of the last hour; nothing when nobody knows, and while the breaker is open or the redriver paused", Kind: metric.KindGauge, Labels: deadLabel},
		func(w *metric.Writer, r redriveReading) {
			r.each(func(q *redriveQueue) {
				stands := q.state.Breaker.State == breaker.Open || q.state.Paused != ""
				if q.count && !stands && (q.drain > 0 || q.depth == 0) {
					w.Value(q.drain.Seconds(), q.name)
				}
			})
		}},
	{metric.Family{Name: "tenaq_redrive_parked_messages", Help: "Messages in a parking lot, which wait for a person", Kind: metric.KindGauge, Labels: []string{"parking"}},
		func(w *metric.Writer, r redriveReading) {
			for _, p := range r.parking {
				w.Value(float64(p.depth), p.name)
			}
		}},
}

var deadLabel = []string{"queue"}

// ofSteps is a row of what is counted by words.
func ofSteps(name, help, label string, of func(*redriveQueue) *wordCount) metricRow[redriveReading] {
	return metricRow[redriveReading]{metric.Family{Name: name, Help: help, Kind: metric.KindCounter, Labels: []string{"queue", label}},
		func(w *metric.Writer, r redriveReading) {
			r.each(func(q *redriveQueue) { of(q).write(w, q.name) })
		}}
}

// ofState is a row of a part of the state. It has no value before the first step.
func ofState(name, help string, of func(*redrive.State) float64) metricRow[redriveReading] {
	return metricRow[redriveReading]{metric.Family{Name: name, Help: help, Kind: metric.KindGauge, Labels: deadLabel},
		func(w *metric.Writer, r redriveReading) {
			r.each(func(q *redriveQueue) {
				if q.known {
					w.Value(of(&q.state), q.name)
				}
			})
		}}
}

// kinds is how many kinds of failures have a breaker in a state.
func (q *redriveQueue) kinds(state breaker.State) (n int) {
	for _, k := range q.state.Kinds {
		if cmp.Or(k.Breaker.State, breaker.Closed) == state {
			n++
		}
	}
	return n
}

func (m *redriveMetrics) write(w *metric.Writer) {
	r := redriveReading{now: time.Now()}
	r.parking, _ = m.parked.get()
	m.mu.Lock()
	for _, q := range m.queues {
		r.queues = append(r.queues, *q) // what is behind its pointers is counted on, or replaced
	}
	m.mu.Unlock()
	writeMetrics(w, redriveTable, r)
}

// pushed is what the server is told for its alarms. A step that has not been taken yet has not failed.
func (m *redriveMetrics) pushed() (numbers []pushed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.queues {
		numbers = append(numbers,
			pushed{monitor.BreakerState, q.name, float64(q.state.Breaker.State.Gauge())},
			pushed{monitor.StepFailed, q.name, oneIf(q.failing)})
	}
	return append(numbers, m.lots()...)
}

// lots says which queues are parking lots. It needs no lock: none is added.
func (m *redriveMetrics) lots() (numbers []pushed) {
	for _, q := range m.queues {
		numbers = append(numbers, pushed{monitor.ParkingLot, queueNameOf(q.parking), 1})
	}
	return numbers
}

// A parkingDepth is how many messages a parking lot has.
type parkingDepth struct {
	name  string
	depth int
}

// askParking asks each parking lot once. One that cannot be asked is left out: the next step will say why.
func (m *redriveMetrics) askParking(ctx context.Context) (found []parkingDepth, _ error) {
	m.mu.Lock()
	h := m.host
	m.mu.Unlock()
	if h == nil {
		return nil, nil
	}
	for _, q := range m.queues {
		name := queueNameOf(q.parking)
		if slices.ContainsFunc(found, func(p parkingDepth) bool { return p.name == name }) {
			continue
		}
		if depth, err := h.client.depth(ctx, q.parking); err == nil {
			found = append(found, parkingDepth{name, depth})
		}
	}
	return found, nil
}

// depth is how many messages a queue has, hidden and delayed ones included.
func (c *client) depth(ctx context.Context, queue string) (n int, err error) {
	url, err := c.queueURL(ctx, queue)
	if err != nil {
		return 0, err
	}
	counts := []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}
	out, err := call(ctx, c, c.GetQueueAttributes, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: counts})
	if err != nil {
		return 0, c.explain("read the attributes of", queue, err)
	}
	for _, name := range counts {
		one, _ := strconv.Atoi(out.Attributes[string(name)])
		n += one
	}
	return n, nil
}
