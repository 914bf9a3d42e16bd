package watch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/series"
)

// A Notice is a change of an alarm, as --json prints it and actions receive it. A tenaq server
// sends the same.
type Notice = monitor.Notice

// Limits are the thresholds of the alarms.
type Limits struct {
	Interval    time.Duration // between two readings
	AgeMax      time.Duration // of the oldest message
	InFlightMax int64         // messages of a queue
	BacklogMin  int64         // messages below which a backlog may grow
}

// period is the period of one reading in seconds: whole minutes, none without a reading.
func (l Limits) period() int64 {
	return int64((l.Interval + time.Minute - 1) / time.Minute * 60)
}

// A watchedQueue is a reading of a queue.
type watchedQueue struct {
	name                     string
	visible, hidden, delayed int64
	dead                     bool // it is where dead letters go, or a parking lot
	age                      *time.Duration

	sent, deleted []series.Interval // of the latest minutes, from CloudWatch
}

// A watchKind is an alarm that each queue can have.
type watchKind struct {
	name    string
	applies func(q *watchedQueue) bool
	rule    func(l Limits, queue string) alarm.Rule
	says    func(l Limits, q *watchedQueue) string // why it is in alarm
	well    string                                 // why it no longer is
	// commands that show more; QUEUE is the name of the queue
	show []string

	// needs is the time of readings until it is decided; 0 if one reading is enough
	needs time.Duration
}

// The metrics, in the namespace of this command.
const (
	watchSpace    = "tenaq watch"
	metricVisible = "visible"
	metricHidden  = "in-flight"
	metricAll     = "messages"
	metricAge     = "age"
	metricSent    = "sent"
	metricDeleted = "deleted"
)

func watchMetric(name, queue string) series.Metric {
	return series.Metric{Namespace: watchSpace, Name: name,
		Dimensions: []series.Dimension{{Name: "QueueName", Value: queue}}}
}

// Periods of alarms that take longer than a reading.
const (
	flightPeriods = 5
	// seconds; a backlog has grown when the least of it did, in each of growthSteps such periods
	growthPeriod = 300
	growthSteps  = 3
	ratioPeriod  = 900
	ratioMost    = 1.05
)

// watchRule is a rule on one metric, or on an expression if there is one.
func watchRule(
	threshold float64, periods int, period int64, expression string, queries ...alarm.Query,
) alarm.Rule {
	r := alarm.Rule{Periods: periods, Operator: alarm.Above, Threshold: threshold,
		Missing: alarm.TreatIgnore}
	for _, q := range queries {
		q.Period, q.Return = period, expression == ""
		r.Queries = append(r.Queries, q)
	}
	if expression != "" {
		r.Queries = append(r.Queries, alarm.Query{ID: "e", Expression: expression, Return: true})
	}
	return r
}

func watchQuery(id, name, queue string, stat series.Stat) alarm.Query {
	return alarm.Query{ID: id, Metric: watchMetric(name, queue), Stat: stat}
}

var watchKinds = []watchKind{
	{
		name:    "dead-letters",
		applies: func(q *watchedQueue) bool { return q.dead },
		rule: func(l Limits, queue string) alarm.Rule {
			return watchRule(0, 1, l.period(), "",
				watchQuery("m", metricAll, queue, series.Maximum))
		},
		says: func(_ Limits, q *watchedQueue) string {
			return cli.Counted(int(q.visible+q.hidden+q.delayed), "dead letter", "dead letters")
		},
		well: "there are no dead letters now",
		show: []string{"tenaq peek QUEUE --state visible", "tenaq redrive plan QUEUE"},
	},
	{
		name:    "oldest-age",
		applies: func(q *watchedQueue) bool { return !q.dead && q.age != nil },
		rule: func(l Limits, queue string) alarm.Rule {
			return watchRule(l.AgeMax.Seconds(), 1, l.period(), "",
				watchQuery("m", metricAge, queue, series.Maximum))
		},
		says: func(l Limits, q *watchedQueue) string {
			return fmt.Sprintf("the oldest message is %s old, more than %s", cli.AgeText(*q.age),
				cli.HumanDuration(l.AgeMax))
		},
		well: "no message is that old now",
		show: []string{"tenaq peek QUEUE --limit 10", "tenaq claims stuck"},
	},
	{
		name:    "in-flight-limit",
		applies: func(q *watchedQueue) bool { return true },
		rule: func(l Limits, queue string) alarm.Rule {
			return watchRule(float64(l.InFlightMax), flightPeriods, l.period(), "",
				watchQuery("m", metricHidden, queue, series.Minimum))
		},
		says: func(l Limits, q *watchedQueue) string {
			return fmt.Sprintf("%s in flight, for %s more than %d: at its limit, SQS refuses receives", cli.Counted(q.hidden, "message", "messages"), cli.HumanDuration(time.Duration(l.period()*flightPeriods)*time.Second), l.InFlightMax)
		},
		well:  "fewer messages are in flight",
		show:  []string{"tenaq peek QUEUE --state in_flight", "tenaq claims stuck"},
		needs: flightPeriods * time.Minute,
	},
	{
		name:    "backlog-grows",
		applies: func(q *watchedQueue) bool { return !q.dead },
		rule: func(l Limits, queue string) alarm.Rule {
			return watchRule(0, growthSteps, max(growthPeriod, l.period()),
				fmt.Sprintf("IF(m >= %d, DIFF(m), 0)", l.BacklogMin),
				watchQuery("m", metricVisible, queue, series.Minimum))
		},
		says: func(l Limits, q *watchedQueue) string {
			return fmt.Sprintf("%s, and the number has grown for %s",
				cli.Counted(q.visible, "message waits",
					"messages wait"), cli.HumanDuration(time.Duration(max(growthPeriod,
					l.period())*growthSteps)*time.Second))
		},
		well:  "the backlog no longer grows",
		show:  []string{"tenaq peek QUEUE --state in_flight", "tenaq doctor QUEUE"},
		needs: (growthSteps + 1) * growthPeriod * time.Second,
	},
	{
		name:    "double-deletes",
		applies: func(q *watchedQueue) bool { return !q.dead && q.deleted != nil },
		rule: func(l Limits, queue string) alarm.Rule {
			return watchRule(ratioMost, 1, ratioPeriod, "IF(s > 0, d / s, 0)",
				watchQuery("s", metricSent, queue, series.Sum), watchQuery("d", metricDeleted,
					queue, series.Sum))
		},
		says: func(_ Limits, q *watchedQueue) string {
			return fmt.Sprintf("within 15 min %.0f were deleted and %.0f sent: work is done twice, or a backlog is worked off", total(q.deleted), total(q.sent))
		},
		well: "deletes match sends again",
		show: []string{"tenaq doctor QUEUE", "tenaq queue show QUEUE"},
	},
}

func total(minutes []series.Interval) float64 {
	var sum float64
	for _, m := range minutes[max(0, len(minutes)-ratioPeriod/60):] {
		sum += m.Set.Sum
	}
	return sum
}

// A judge has the states of the alarms. It is for one goroutine.
type judge struct {
	kinds  []*watchKind
	limits Limits
	data   *series.Store
	states map[string]alarm.State // by name of the alarm
	lost   alarm.State            // whether readings succeed

	commands func(templates []string, queue string) []string
}

func newJudge(
	kinds []*watchKind, limits Limits, commands func(templates []string, queue string) []string,
) *judge {
	return &judge{kinds: kinds, limits: limits, commands: commands,
		data: series.New(series.Config{Keep: 24 * time.Hour}), states: map[string]alarm.State{},
		lost: alarm.OK}
}

// reading evaluates a reading and returns the changes.
func (j *judge) reading(now time.Time, queues []*watchedQueue) []Notice {
	var changes []Notice
	if j.lost == alarm.Alarm {
		changes = append(changes,
			Notice{Alarm: "endpoint/unreachable", State: alarm.OK, Was: j.lost,
				Reason: "the queues can be read again", At: now})
	}
	j.lost = alarm.OK
	at := now.UnixMilli()
	// the current minute counts, so alarms are not late
	end := at - at%series.Minute + series.Minute
	j.data.Drop(end - (24 * time.Hour).Milliseconds())
	seen := map[string]bool{}
	for _, q := range queues {
		j.put(at, q)
		for _, k := range j.kinds {
			if !k.applies(q) {
				continue
			}
			name := q.name + "/" + k.name
			seen[name] = true
			was, ok := j.states[name]
			if !ok {
				was = alarm.Insufficient
			}
			rule := k.rule(j.limits, q.name)
			is := rule.Evaluate(j.data, end, was).State
			j.states[name] = is
			switch {
			case is == alarm.Alarm && was != alarm.Alarm:
				changes = append(changes, Notice{
					Alarm: name, Queue: q.name, State: is, Was: was, Reason: k.says(j.limits, q),
					At: now, Commands: j.commands(k.show, q.name),
				})
			case is == alarm.OK && was == alarm.Alarm:
				changes = append(changes,
					Notice{Alarm: name, Queue: q.name, State: is, Was: was, Reason: k.well,
						At: now})
			}
		}
	}
	return append(changes, j.forget(now, seen)...)
}

// forget ends the alarms whose queue was not read.
func (j *judge) forget(now time.Time, seen map[string]bool) []Notice {
	var changes []Notice
	for _, name := range slices.Sorted(maps.Keys(j.states)) {
		if seen[name] {
			continue
		}
		if j.states[name] == alarm.Alarm {
			queue, _, _ := strings.Cut(name, "/")
			changes = append(changes, Notice{
				Alarm: name, Queue: queue, State: alarm.Insufficient, Was: alarm.Alarm,
				Reason: "nothing is known about it: the queue was deleted, or is no longer read",
				At:     now,
			})
		}
		delete(j.states, name)
	}
	return changes
}

// put adds a reading. Minutes of CloudWatch come late and change, so all of them are put again.
func (j *judge) put(at int64, q *watchedQueue) {
	one := func(name string, v float64) {
		// it is finite and of now, and there is room
		_ = j.data.Put(watchMetric(name, q.name), at, series.One(v), "")
	}
	one(metricVisible, float64(q.visible))
	one(metricHidden, float64(q.hidden))
	one(metricAll, float64(q.visible+q.hidden+q.delayed))
	if q.age != nil {
		one(metricAge, q.age.Seconds())
	}
	for name, minutes := range map[string][]series.Interval{metricSent: q.sent,
		metricDeleted: q.deleted} {
		m := watchMetric(name, q.name)
		j.data.Forget(m)
		for _, i := range minutes {
			_ = j.data.Put(m, i.At, i.Set, "")
		}
	}
}

const triesMax = 3

// unreachable records a failed reading.
func (j *judge) unreachable(now time.Time, times int, err error) []Notice {
	if j.lost == alarm.Alarm || times < triesMax {
		return nil
	}
	was := j.lost
	j.lost = alarm.Alarm
	return []Notice{{
		Alarm: "endpoint/unreachable", State: alarm.Alarm, Was: was, At: now,
		Commands: []string{"tenaq doctor"},
		Reason:   fmt.Sprintf("%d readings in a row failed: %v", times, err),
	}}
}

func (j *judge) inAlarm() int {
	n := 0
	for _, s := range j.states {
		if s == alarm.Alarm {
			n++
		}
	}
	return n
}
