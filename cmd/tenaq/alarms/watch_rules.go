package alarms

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

// A watchNotice is a change as --json prints it and actions get it: the one that a server of ours sends.
type watchNotice = monitor.Notice

const watchAlarm = alarm.Alarm

// watchLimits are from when on something is wrong.
type watchLimits struct {
	interval   time.Duration
	ageMax     time.Duration
	flightMax  int64
	backlogMin int64
}

// period is how long a period of one reading is, in seconds: whole minutes, and none without a reading.
func (l watchLimits) period() int64 {
	return int64((l.interval + time.Minute - 1) / time.Minute * 60)
}

// A watchedQueue is what a reading tells of a queue.
type watchedQueue struct {
	name                     string
	visible, hidden, delayed int64
	dead                     bool // it is where dead letters go, or a parking lot
	age                      *time.Duration

	sent, deleted []series.Interval // of the latest minutes, if somebody tells
}

// A watchKind is an alarm that each queue can have.
type watchKind struct {
	name    string
	applies func(q *watchedQueue) bool
	rule    func(l watchLimits, queue string) alarm.Rule
	says    func(l watchLimits, q *watchedQueue) string // why it is in alarm
	well    string                                      // and why it is not any more
	show    []string                                    // commands that show more; QUEUE is the name of the queue

	// needs is how long the readings have to go on until it is decided; zero when one is enough.
	needs time.Duration
}

// What is measured, in the namespace of this command.
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
	return series.Metric{Namespace: watchSpace, Name: name, Dimensions: []series.Dimension{{Name: "QueueName", Value: queue}}}
}

// Periods of alarms that take longer than a reading.
const (
	flightPeriods = 5
	growthPeriod  = 300 // seconds; a backlog has grown when the least of it did, in each of growthSteps such periods
	growthSteps   = 3
	ratioPeriod   = 900
	ratioMost     = 1.05
)

// watchRule is a rule on one metric, or on an expression if there is one.
func watchRule(threshold float64, periods int, period int64, expression string, queries ...alarm.Query) alarm.Rule {
	r := alarm.Rule{Periods: periods, Operator: alarm.Above, Threshold: threshold, Missing: alarm.TreatIgnore}
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
		rule: func(l watchLimits, queue string) alarm.Rule {
			return watchRule(0, 1, l.period(), "", watchQuery("m", metricAll, queue, series.Maximum))
		},
		says: func(_ watchLimits, q *watchedQueue) string {
			return cli.Counted(int(q.visible+q.hidden+q.delayed), "dead letter", "dead letters")
		},
		well: "no dead letters any more",
		show: []string{"tenaq peek QUEUE --state visible", "tenaq redrive plan QUEUE"},
	},
	{
		name:    "oldest-age",
		applies: func(q *watchedQueue) bool { return !q.dead && q.age != nil },
		rule: func(l watchLimits, queue string) alarm.Rule {
			return watchRule(l.ageMax.Seconds(), 1, l.period(), "", watchQuery("m", metricAge, queue, series.Maximum))
		},
		says: func(l watchLimits, q *watchedQueue) string {
			return fmt.Sprintf("the oldest message is %s old, more than %s", cli.AgeText(*q.age), cli.HumanDuration(l.ageMax))
		},
		well: "no message is that old any more",
		show: []string{"tenaq peek QUEUE --limit 10", "tenaq claims stuck"},
	},
	{
		name:    "in-flight-limit",
		applies: func(q *watchedQueue) bool { return true },
		rule: func(l watchLimits, queue string) alarm.Rule {
			return watchRule(float64(l.flightMax), flightPeriods, l.period(), "", watchQuery("m", metricHidden, queue, series.Minimum))
		},
		says: func(l watchLimits, q *watchedQueue) string {
			return fmt.Sprintf("%s in flight, for %s more than %d: at the limit of SQS receives are refused", cli.Counted(q.hidden, "message", "messages"), cli.HumanDuration(time.Duration(l.period()*flightPeriods)*time.Second), l.flightMax)
		},
		well:  "fewer are in flight again",
		show:  []string{"tenaq peek QUEUE --state in_flight", "tenaq claims stuck"},
		needs: flightPeriods * time.Minute,
	},
	{
		name:    "backlog-grows",
		applies: func(q *watchedQueue) bool { return !q.dead },
		rule: func(l watchLimits, queue string) alarm.Rule {
			return watchRule(0, growthSteps, max(growthPeriod, l.period()), fmt.Sprintf("IF(m >= %d, DIFF(m), 0)", l.backlogMin),
				watchQuery("m", metricVisible, queue, series.Minimum))
		},
		says: func(l watchLimits, q *watchedQueue) string {
			return fmt.Sprintf("%s, and the number has grown for %s", cli.Counted(q.visible, "message waits", "messages wait"), cli.HumanDuration(time.Duration(max(growthPeriod, l.period())*growthSteps)*time.Second))
		},
		well:  "it does not grow any more",
		show:  []string{"tenaq peek QUEUE --state in_flight", "tenaq doctor QUEUE"},
		needs: (growthSteps + 1) * growthPeriod * time.Second,
	},
	{
		name:    "double-deletes",
		applies: func(q *watchedQueue) bool { return !q.dead && q.deleted != nil },
		rule: func(l watchLimits, queue string) alarm.Rule {
			return watchRule(ratioMost, 1, ratioPeriod, "IF(s > 0, d / s, 0)",
				watchQuery("s", metricSent, queue, series.Sum), watchQuery("d", metricDeleted, queue, series.Sum))
		},
		says: func(_ watchLimits, q *watchedQueue) string {
			return fmt.Sprintf("within 15 min %.0f were deleted and %.0f sent: work is done twice, or a backlog is worked off", total(q.deleted), total(q.sent))
		},
		well: "deletes and sends are even again",
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

// A watchJudge knows what the alarms are like. It is for one goroutine.
type watchJudge struct {
	kinds  []*watchKind
	limits watchLimits
	data   *series.Store
	states map[string]alarm.State // by name of the alarm
	lost   alarm.State            // whether readings succeed

	commands func(templates []string, queue string) []string
}

func newWatchJudge(kinds []*watchKind, limits watchLimits, commands func(templates []string, queue string) []string) *watchJudge {
	return &watchJudge{kinds: kinds, limits: limits, commands: commands, data: series.New(series.Config{Keep: 24 * time.Hour}), states: map[string]alarm.State{}, lost: alarm.OK}
}

// reading takes what the queues are like now, and returns what has changed by it.
func (j *watchJudge) reading(now time.Time, queues []*watchedQueue) []watchNotice {
	var changes []watchNotice
	if j.lost == alarm.Alarm {
		changes = append(changes, watchNotice{Alarm: "endpoint/unreachable", State: alarm.OK, Was: j.lost, Reason: "the queues can be read again", At: now})
	}
	j.lost = alarm.OK
	at := now.UnixMilli()
	end := at - at%series.Minute + series.Minute // the minute that is not over counts: what is known is said now
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
				changes = append(changes, watchNotice{
					Alarm: name, Queue: q.name, State: is, Was: was, Reason: k.says(j.limits, q), At: now, Commands: j.commands(k.show, q.name),
				})
			case is == alarm.OK && was == alarm.Alarm:
				changes = append(changes, watchNotice{Alarm: name, Queue: q.name, State: is, Was: was, Reason: k.well, At: now})
			}
		}
	}
	return append(changes, j.forget(now, seen)...)
}

// forget ends the alarms of which nothing is known any more: the queue is gone, or what it depends on.
func (j *watchJudge) forget(now time.Time, seen map[string]bool) []watchNotice {
	var changes []watchNotice
	for _, name := range slices.Sorted(maps.Keys(j.states)) {
		if seen[name] {
			continue
		}
		if j.states[name] == alarm.Alarm {
			queue, _, _ := strings.Cut(name, "/")
			changes = append(changes, watchNotice{
				Alarm: name, Queue: queue, State: alarm.Insufficient, Was: alarm.Alarm, Reason: "nothing is known of it any more: the queue is gone, or is not read any more", At: now,
			})
		}
		delete(j.states, name)
	}
	return changes
}

// put adds a reading. What others count minute by minute comes late and changes, so all of it is put again.
func (j *watchJudge) put(at int64, q *watchedQueue) {
	one := func(name string, v float64) {
		_ = j.data.Put(watchMetric(name, q.name), at, series.One(v), "") // it is finite and of now, and there is room
	}
	one(metricVisible, float64(q.visible))
	one(metricHidden, float64(q.hidden))
	one(metricAll, float64(q.visible+q.hidden+q.delayed))
	if q.age != nil {
		one(metricAge, q.age.Seconds())
	}
	for name, minutes := range map[string][]series.Interval{metricSent: q.sent, metricDeleted: q.deleted} {
		m := watchMetric(name, q.name)
		j.data.Forget(m)
		for _, i := range minutes {
			_ = j.data.Put(m, i.At, i.Set, "")
		}
	}
}

// watchTries is how many readings in a row may fail.
const watchTries = 3

// unreachable takes that a reading has failed.
func (j *watchJudge) unreachable(now time.Time, times int, err error) []watchNotice {
	if j.lost == alarm.Alarm || times < watchTries {
		return nil
	}
	was := j.lost
	j.lost = alarm.Alarm
	return []watchNotice{{
		Alarm: "endpoint/unreachable", State: alarm.Alarm, Was: was, At: now, Commands: []string{"tenaq doctor"},
		Reason: fmt.Sprintf("%d readings in a row have failed: %v", times, err),
	}}
}

// inAlarm is how many alarms there are.
func (j *watchJudge) inAlarm() int {
	n := 0
	for _, s := range j.states {
		if s == alarm.Alarm {
			n++
		}
	}
	return n
}
