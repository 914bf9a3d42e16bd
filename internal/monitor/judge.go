package monitor

import (
	"encoding/json"
	"slices"
	"time"

	"tenaq/internal/alarm"
	"tenaq/internal/series"
)

// An entry is an alarm that is known. Those that every queue has are entries only while there is something about them
// to know.
type entry struct {
	Status
	told  alarm.State // the state that its actions have been given last
	done  alarm.State // the state that they were given and have finished with; what is stored
	last  time.Time   // when they were
	acked bool        // somebody knows; until the state changes
	from  int64       // the first minute from which it has data: a restart is no reason to change a state

	notices []time.Time // of late
	changes int         // of the state, since the last notice
}

// A Change is an alarm that came into another state.
type Change struct {
	Alarm  string      `json:"alarm"`
	Queue  string      `json:"queue,omitempty"`
	Was    alarm.State `json:"was"`
	State  alarm.State `json:"state"`
	Reason string      `json:"reason"`
	At     time.Time   `json:"at"`
}

// judge evaluates all alarms at the end of a minute.
func (m *Monitor) judge(at int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := m.judgeShipped(at)
	for _, name := range m.names() {
		changed = m.judgeOne(m.alarms[name], at) || changed
	}
	if changed {
		m.saveLocked()
	}
}

// judgeOne evaluates one alarm.
func (m *Monitor) judgeOne(e *entry, at int64) (changed bool) {
	if at < e.from+e.span() {
		return false // the minutes before the start would count as missing
	}
	v := e.Rule.Evaluate(m.series, at, e.State)
	if v.State == e.State {
		return false
	}
	m.change(e, v.State, v.Reason, recentJSON(v.Recent))
	return true
}

// span is how long the periods are, in milliseconds, that decide an alarm.
func (e *entry) span() int64 {
	period := int64(60)
	for _, q := range e.Rule.Queries {
		period = max(period, q.Period)
	}
	return int64(e.Rule.Periods) * period * 1000
}

// judgeShipped evaluates the alarms that every queue has.
func (m *Monitor) judgeShipped(at int64) (changed bool) {
	if m.cfg.NoShipped {
		return false
	}
	dead := make(map[string]bool)
	for _, q := range m.sights.queues {
		dead[q.gauge.DeadLetterTarget] = true
	}
	for name, q := range m.sights.queues { // the order does not matter: each has its own alarms
		v := view{queue: name, gauge: &q.gauge, minute: &q.minute, dead: dead[name] || deadName.MatchString(name), inFlightMax: m.cfg.InFlightMax}
		for i := range templates {
			t := &templates[i]
			if t.told == "" && (m.alarms[shippedName(name, t.kind)] != nil || q.busy && t.applies(&v) && t.may(&v)) {
				changed = m.judgeTemplate(t, &v, at) || changed
			}
		}
	}
	changed = m.judgeTold(at) || changed
	for name, e := range m.alarms {
		queue, t := templateOf(name)
		switch {
		case !e.Shipped || t == nil:
		case t.told == "" && m.sights.queues[queue] == nil: // it was deleted
			delete(m.alarms, name)
			changed = true
		case e.State == alarm.OK && e.told == alarm.OK && e.done == alarm.OK && m.Now().Sub(e.last) > noticeWindow:
			delete(m.alarms, name) // there is nothing to know about it any more
		}
	}
	return changed
}

// judgeTold evaluates the alarms on what other programs tell of themselves.
func (m *Monitor) judgeTold(at int64) (changed bool) {
	for i := range templates {
		t := &templates[i]
		if t.told == "" {
			continue
		}
		for _, metric := range m.series.List(series.Filter{Namespace: string(t.told), Name: t.sign}) {
			if len(metric.Dimensions) == 1 {
				changed = m.judgeTemplate(t, &view{queue: metric.Dimensions[0].Value}, at) || changed
			}
		}
	}
	return changed
}

// judgeTemplate evaluates the alarm of a template on a queue. It becomes one that is known when it is not OK.
func (m *Monitor) judgeTemplate(t *template, v *view, at int64) (changed bool) {
	e := m.alarms[shippedName(v.queue, t.kind)]
	if e == nil {
		e = &entry{
			Status: Status{Definition: t.shipped(v, m.cfg.ShippedActions), Shipped: true, State: alarm.OK},
			told:   alarm.OK, done: alarm.OK, from: m.sights.since - 10*series.Minute,
		}
	}
	if changed = m.judgeOne(e, at); changed {
		m.alarms[e.Name] = e
	}
	return changed
}

// change puts an alarm into another state.
func (m *Monitor) change(e *entry, state alarm.State, reason, data string) {
	now := m.Now()
	m.history = append(m.history, Change{Alarm: e.Name, Queue: queueOf(&e.Rule), Was: e.State, State: state, Reason: reason, At: now})
	if over := len(m.history) - historyMax; over > 0 {
		m.history = slices.Delete(m.history, 0, over)
	}
	e.State, e.Reason, e.Data, e.Since, e.Updated, e.acked = state, reason, data, now, now, false
	e.changes++
}

// recentJSON is what a reason rests on.
func recentJSON(points []series.Point) string {
	type point struct {
		At    string  `json:"timestamp"`
		Value float64 `json:"value"`
	}
	data := struct {
		Version string  `json:"version"`
		Points  []point `json:"evaluatedDatapoints"`
	}{Version: "1.0", Points: []point{}}
	for _, p := range points {
		data.Points = append(data.Points, point{time.UnixMilli(p.At).UTC().Format(time.RFC3339), p.Value})
	}
	b, err := json.Marshal(data)
	if err != nil { // a value that JSON has no number for
		return ""
	}
	return string(b)
}

// Status returns all alarms that were put, and those of queues that are not OK or have not been for long, by name.
func (m *Monitor) Status() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Status
	for _, e := range m.alarms {
		all = append(all, m.status(e))
	}
	slices.SortFunc(all, byName)
	return all
}

// History returns the changes of states, the oldest first, as far back as is known.
func (m *Monitor) History() []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.history)
}
