package monitor

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/series"
)

// An entry is a known alarm. A built-in alarm has an entry only while it is not OK, or was not OK
// recently.
type entry struct {
	Record
	told alarm.State // the state of the last notice
	done alarm.State // the state whose actions have finished; what is stored
	last time.Time   // when they were
	ack  *Ack        // until the state changes; never changed in place
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

// judge evaluates all alarms at the end of a minute. Alarms that programs put are evaluated without
// the lock, because requests wait for it. The result for an alarm that was changed meanwhile is
// dropped.
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

// judgeOne evaluates one alarm, once it has enough minutes since the start: earlier ones would
// count as missing.
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

// span returns the length of the periods that decide an alarm, in milliseconds.
func (e *entry) span() int64 {
	period := int64(60)
	for _, q := range e.Rule.Queries {
		period = max(period, q.Period)
	}
	return int64(e.Rule.Periods) * period * 1000
}

// judgeShipped evaluates the built-in alarms.
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
	m.judgeTroubles(at)
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

// end puts an alarm whose subject no longer exists into OK.
func (m *Monitor) end(e *entry, reason string) {
	if e.State != alarm.OK {
		m.change(e, alarm.OK, reason, "")
		m.changed()
	}
}

// deadLetterQueues returns the queues that hold dead letters: targets of redrive policies, queues
// that the configuration names, and parking lots that redrivers report.
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

// isGone reports whether the subject of an alarm no longer exists: its queue was deleted, or its
// program has not reported for a day.
func (m *Monitor) isGone(t *template, queue string, e *entry) bool {
	if !m.sights.complete {
		return false // the queues are not known yet
	}
	exists := m.sights.queues[queue] != nil
	switch t.told {
	case "":
		return !exists
	case cluster:
		return m.cfg.Troubles == nil
	case Redrivers:
		if !exists {
			return true
		}
	}
	known := m.series.List(series.Filter{Namespace: string(t.told), Name: t.sign,
		Dimensions: t.told.Metric(t.sign, queue).Dimensions})
	return len(known) == 0 && m.Now().Sub(e.Since) > seriesKeep
}

// tellersMax bounds how many queues and outboxes each kind of alarm on programs watches.
const tellersMax = 500

// outboxName matches the names of outboxes that may be part of the name of an alarm.
var outboxName = regexp.MustCompile(`^[A-Za-z0-9._@:()-]{1,100}$`)

// IsOutbox reports whether a text can be the name of an outbox.
func IsOutbox(name string) bool { return outboxName.MatchString(name) }

// judgeTold evaluates the alarms on what programs report. Any client can put metrics, so a report
// must name a queue that exists, or a possible name of an outbox.
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
				!IsOutbox(about) {
				continue
			}
			m.judgeTemplate(t, &view{queue: about}, at)
		}
	}
}

// judgeTroubles raises the alarms of the troubles that a cluster reports, with the report as
// reason, and ends the alarms of the others.
func (m *Monitor) judgeTroubles(at int64) {
	if m.cfg.Troubles == nil {
		return
	}
	reports := make(map[string]string)
	for _, t := range m.cfg.Troubles() {
		reports[t.Name] = strings.TrimSpace(reports[t.Name] + " " + t.Text)
	}
	for i := range templates {
		t := &templates[i]
		if t.told != cluster {
			continue
		}
		e := m.shippedEntry(t, &view{queue: string(cluster)})
		report, reported := reports[e.Name]
		switch {
		case reported && e.State != alarm.Alarm:
			m.alarms[e.Name] = e
			m.change(e, alarm.Alarm, report, "")
			m.changed()
		case reported:
			e.Reason = report // it may have changed; a minute from now it is asked for again
		case at >= e.from+e.span():
			m.end(e, "The cluster no longer reports it.")
		}
	}
}

// shippedEntry returns the alarm of a template on a queue, a new one that is OK if there is none.
func (m *Monitor) shippedEntry(t *template, v *view) *entry {
	e := m.alarms[shippedName(v.queue, t.kind)]
	if e == nil {
		return &entry{
			Record: Record{Definition: t.shipped(v, m.cfg.ShippedActions), Shipped: true,
				State: alarm.OK},
			told: alarm.OK, done: alarm.OK, from: m.sights.since - 10*series.Minute,
		}
	}
	// an earlier version, or another configuration, may have stored it
	e.Definition = t.shipped(v, m.cfg.ShippedActions)
	return e
}

// judgeTemplate evaluates the alarm of a template on a queue. The alarm becomes an entry when it is
// not OK.
func (m *Monitor) judgeTemplate(t *template, v *view, at int64) {
	e := m.shippedEntry(t, v)
	if m.judgeOne(e, at) {
		m.alarms[e.Name] = e
		m.changed()
	}
	if t.news != nil && e.State == alarm.Alarm && t.news(v) {
		e.news = true
	}
}

func (m *Monitor) change(e *entry, state alarm.State, reason, data string) {
	now := m.Now()
	m.history = append(slices.Clip(m.history),
		Change{Alarm: e.Name, Queue: queueOf(&e.Rule), Was: e.State, State: state, Reason: reason,
			At: now})
	if over := len(m.history) - historyMax; over > 0 {
		m.history = slices.Clone(m.history[over:])
	}
	e.State, e.Reason, e.Data, e.Since, e.Updated, e.ack = state, reason, data, now, now, nil
	e.changes++
}

// recentJSON returns the data points of a reason, as CloudWatch shows them.
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

// Status returns all alarms that programs put, and the built-in alarms that are not OK or were not
// OK recently, by name.
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

// History returns the latest changes of states, the oldest first.
func (m *Monitor) History() []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.history)
}
