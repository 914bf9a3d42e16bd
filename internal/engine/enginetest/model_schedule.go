package enginetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tenaq/internal/engine"
)

const scheduleTag = "tenaq:schedule"

// modelTicks are the schedules that a Generator uses: whether a minute is a tick of each.
var modelTicks = map[string]func(t time.Time) bool{
	"@hourly":     func(t time.Time) bool { return t.Minute() == 0 },
	"x/5 x x x x": func(t time.Time) bool { return t.Minute()%5 == 0 },
	"7+31 1-23/2 x x x": func(t time.Time) bool {
		return (t.Minute() == 7 || t.Minute() == 31) && t.Hour()%2 == 1
	},
	"0 12 2 x MON": func(t time.Time) bool {
		return t.Minute() == 0 && t.Hour() == 12 && (t.Day() == 2 || t.Weekday() == time.Monday)
	},
}

// isTick reports whether a schedule has a tick at a time of whole seconds.
func isTick(value string, second int64) bool {
	when, _, _ := strings.Cut(value, " body=")
	if every, ok := strings.CutPrefix(when, "@every "); ok {
		d, _ := time.ParseDuration(every)
		return second%int64(d.Seconds()) == 0
	}
	return second%60 == 0 && modelTicks[when](time.Unix(second, 0).UTC())
}

// tickAround is the nearest tick to a time in a direction, the time itself included, in seconds.
func tickAround(value string, second, direction int64) int64 {
	for !isTick(value, second) {
		second += direction
	}
	return second
}

// reschedule follows a change of tags: what is new begins with the next tick. [SCHED-8]
func (q *modelQueue) reschedule(old []engine.Tag, now int64) {
	due := make(map[string]int64)
	for _, t := range q.tags {
		name, ok := strings.CutPrefix(t.Key+".default", scheduleTag+".")
		if !ok {
			continue
		}
		if name, ok = strings.CutSuffix(name, ".default"); !ok {
			name = "default"
		}
		if due[name] = 1000 * tickAround(t.Value, now/1000+1, 1); slices.Contains(old, t) {
			due[name] = q.ticks[name]
		}
	}
	q.ticks = due
}

// tick sends the message of the schedule that has been due for longest. [SCHED-4 to SCHED-7]
func (m *Model) tick(op *engine.Tick) {
	type turn struct {
		at   int64
		q    *modelQueue
		name string
	}
	var turns []turn
	for _, q := range m.queues { // order does not matter: sorted below
		for name, at := range q.ticks {
			if at <= m.now {
				turns = append(turns, turn{at, q, name})
			}
		}
	}
	if op.Due = len(turns) > 0; !op.Due {
		return
	}
	first := slices.MinFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.q.name.Account, b.q.name.Account),
			strings.Compare(a.q.name.Name, b.q.name.Name), strings.Compare(a.name, b.name))
	})
	q, tag := first.q, scheduleTag+"."+first.name
	if first.name == "default" {
		tag = scheduleTag
	}
	value, _ := q.tagged(tag)
	tick := time.Unix(tickAround(value, m.now/1000, -1), 0).UTC().Format("2006-01-02T15:04:05Z")
	q.ticks[first.name] = 1000 * tickAround(value, m.now/1000+1, 1)
	str := func(s string) engine.Text { return engine.Text{Value: s, Set: true} }
	_, body, ok := strings.Cut(value, " body=")
	if !ok {
		body = fmt.Sprintf(`{"schedule":"%s","tick":"%s"}`, first.name, tick)
	}
	e := engine.Entry{Body: str(body), Sender: q.name.Account, Attributes: []engine.EntryAttribute{
		{Name: "tenaq.schedule", Type: str("String"), String: str(first.name)},
		{Name: "tenaq.tick", Type: str("String"), String: str(tick)}}}
	if q.fifo() {
		e.Group, e.Dedup = str(first.name), str(first.name+"/"+tick)
	}
	op.Queue, op.Entry, op.Sent = q.name, e, m.send(q, e, "are invalid")
}
