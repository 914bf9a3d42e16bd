package monitor

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/series"
)

// An entry is an alarm that is known. Those that every queue has are entries only while there is
// something about them to know.
type entry struct {
	Status
	told  alarm.State // the state that its actions have been given last
	done  alarm.State // the state that they were given and have finished with; what is stored
	last  time.Time   // when they were
	acked bool        // somebody knows; until the state changes
	// the first minute from which it has data: a restart is no reason to change a state
	from int64

	round, open int         // of notices, and how many actions have not ended with it
	notices     []time.Time // of late
	changes     int         // of the state, since the last notice
	news        bool        // there is more of what it is about
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

// judge evaluates all alarms at the end of a minute. Those that were put are evaluated without the
// lock, which people wait for; what is computed of one that somebody has changed meanwhile is not
// looked at.
func (m *Monitor) judge(ctx context.Context, at int64) {
	m.mu.Lock()
	m.judgeShipped(at)
	var put []*entry
	for _, name := range m.names() {
		put = append(put, m.alarms[name])
	}
	m.mu.Unlock()
	for _, e := range put {
		if ctx.Err() != nil {
			return
		}
		m.mu.Lock()
		rule, was, configured, ready := e.Rule, e.State, e.Configured, at >= e.from+e.span()
		m.mu.Unlock()
		if !ready {
			continue
		}
		v := rule.Evaluate(m.series, at, was)
		m.mu.Lock()
		if v.State != was && e.State == was && e.Configured.Equal(configured) &&
			m.alarms[e.Name] == e {
			m.change(e, v.State, v.Reason, recentJSON(v.Recent))
			m.changed()
		}
		m.mu.Unlock()
	}
	m.judged.Store(time.Now().UnixMilli())
}

// judgeOne evaluates one alarm. The minutes before the start would count as missing.
func (m *Monitor) judgeOne(e *entry, at int64) (changed bool) {
	if at < e.from+e.span() {
		return false
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
func (m *Monitor) judgeShipped(at int64) {
	if m.cfg.NoShipped {
		return
	}
	dead := m.deadLetterQueues()
	for name, seen := range m.sights.queues { // the order does not matter: each has its own alarms
		q := seen.data
		if q == nil {
			continue // nothing has happened to it, and no alarm is about it
		}
		v := view{queue: name, gauge: &q.gauge, minute: &q.minute, dead: dead[name] ||
			DeadName(name), inFlightMax: m.cfg.InFlightMax}
		for i := range templates {
			t := &templates[i]
			if t.told != "" {
				continue
			}
			switch e, applies := m.alarms[shippedName(name, t.kind)], t.applies(&v); {
			case e != nil && v.dead && !applies:
				m.end(e, "The queue now holds dead letters.")
			case e != nil || q.busy && applies && t.may(&v):
				m.judgeTemplate(t, &v, at)
			}
		}
	}
	m.judgeTold(at)
	for name, e := range m.alarms {
		queue, t := templateOf(name)
		switch {
		case !e.Shipped || t == nil:
		case e.State == alarm.OK && e.told == alarm.OK && e.done == alarm.OK &&
			m.Now().Sub(e.last) > noticeWindow:
			delete(m.alarms, name) // there is nothing to know about it any more
		case !m.isGone(t, queue, e):
		case e.State == alarm.OK:
			delete(m.alarms, name)
			m.changed()
		default:
			m.end(e, "Its queue or program no longer exists.")
		}
	}
}

// end puts an alarm into OK that is about nothing any more.
func (m *Monitor) end(e *entry, reason string) {
	if e.State != alarm.OK {
		m.change(e, alarm.OK, reason, "")
		m.changed()
	}
}

// deadLetterQueues are the queues where dead letters go: targets of redrive policies, those that
// the configuration names, and those in which redrivers say that they park.
func (m *Monitor) deadLetterQueues() map[string]bool {
	dead := make(map[string]bool)
	for _, q := range m.sights.queues {
		dead[q.target] = true
	}
	for _, name := range m.cfg.DeadLetterQueues {
		dead[name] = true
	}
	lots := m.series.List(series.Filter{Namespace: string(Redrivers), Name: ParkingLot})
	for _, lot := range lots[:min(len(lots), tellersMax)] {
		if len(lot.Dimensions) == 1 && lot.Dimensions[0].Name == queueDimension {
			dead[lot.Dimensions[0].Value] = true
		}
	}
	return dead
}

// isGone reports whether what an alarm is about does not exist any more: a queue that was deleted,
// or a program that has not been heard of for so long that nobody waits for it.
func (m *Monitor) isGone(t *template, queue string, e *entry) bool {
	if !m.sights.complete {
		return false // nobody has told yet what there is
	}
	exists := m.sights.queues[queue] != nil
	switch t.told {
	case "":
		return !exists
	case Redrivers:
		if !exists {
			return true
		}
	}
	known := m.series.List(series.Filter{Namespace: string(t.told), Name: t.sign,
		Dimensions: t.told.Metric(t.sign, queue).Dimensions})
	return len(known) == 0 && m.Now().Sub(e.Since) > seriesKeep
}

// tellersMax bounds the queues and outboxes whose programs are watched, of each kind.
const tellersMax = 500

// outboxName is what an outbox may be called in the name of an alarm.
var outboxName = regexp.MustCompile(`^[A-Za-z0-9._@:()-]{1,100}$`)

// judgeTold evaluates the alarms on what other programs tell of themselves. They have to name a
// queue that exists, or what could be an outbox: anybody may put metrics.
func (m *Monitor) judgeTold(at int64) {
	for i := range templates {
		t := &templates[i]
		if t.told == "" {
			continue
		}
		metrics := m.series.List(series.Filter{Namespace: string(t.told), Name: t.sign})
		for _, metric := range metrics[:min(len(metrics), tellersMax)] {
			if len(metric.Dimensions) != 1 || metric.Dimensions[0].Name != t.told.dimension() {
				continue
			}
			about := metric.Dimensions[0].Value
			if t.told == Redrivers && m.sights.queues[about] == nil || t.told == Relays &&
				!outboxName.MatchString(about) {
				continue
			}
			m.judgeTemplate(t, &view{queue: about}, at)
		}
	}
}

// judgeTemplate evaluates the alarm of a template on a queue. It becomes one that is known when it
// is not OK.
func (m *Monitor) judgeTemplate(t *template, v *view, at int64) {
	e := m.alarms[shippedName(v.queue, t.kind)]
	if e == nil {
		e = &entry{
			Status: Status{Definition: t.shipped(v, m.cfg.ShippedActions), Shipped: true,
				State: alarm.OK},
			told: alarm.OK, done: alarm.OK, from: m.sights.since - 10*series.Minute,
		}
	} else {
		// an earlier version, or another configuration, may have stored it
		e.Definition = t.shipped(v, m.cfg.ShippedActions)
	}
	if m.judgeOne(e, at) {
		m.alarms[e.Name] = e
		m.changed()
	}
	if t.news != nil && e.State == alarm.Alarm && t.news(v) {
		e.news = true
	}
}

// change puts an alarm into another state.
func (m *Monitor) change(e *entry, state alarm.State, reason, data string) {
	now := m.Now()
	m.history = append(slices.Clip(m.history),
		Change{Alarm: e.Name, Queue: queueOf(&e.Rule), Was: e.State, State: state, Reason: reason,
			At: now})
	if over := len(m.history) - historyMax; over > 0 {
		m.history = slices.Clone(m.history[over:])
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
		data.Points = append(data.Points,
			point{time.UnixMilli(p.At).UTC().Format(time.RFC3339), p.Value})
	}
	b, err := json.Marshal(data)
	if err != nil { // a value that JSON has no number for
		return ""
	}
	return string(b)
}

// Status returns all alarms that were put, and those of queues that are not OK or have not been for
// long, by name.
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
