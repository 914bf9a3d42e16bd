package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"tenaq/internal/testing/proof"
	"testing"
	"time"
)

// A model is a queue with clients, in simulated time. Each operation happens at one moment; what
// goes into the history is a span around it, which is wide at times, and no answer now and then.
type model struct {
	rng  *rand.Rand
	now  time.Duration
	h    History
	live []*stored
	seq  int
	held []Delivery // what clients hold and have not deleted

	retention time.Duration // zero for ever
	flaw      string        // what it does wrong
}

type stored struct {
	body, id    string
	sent        time.Duration
	count       int
	hiddenUntil time.Duration
	handle      string
	first       int64
}

const (
	modelVisibility = 2 * time.Second
	modelRetention  = 3 * time.Second
)

// span is around now. An answer takes up to half a second at times, as while a server is restarted.
func (m *model) span() Span {
	before, after := time.Duration(m.rng.ExpFloat64()*float64(5*time.Millisecond)), time.Duration(m.rng.ExpFloat64()*float64(5*time.Millisecond))
	if m.rng.IntN(20) == 0 {
		before += time.Duration(m.rng.Int64N(int64(500 * time.Millisecond)))
		after += time.Duration(m.rng.Int64N(int64(500 * time.Millisecond)))
	}
	return Span{m.now - before, m.now + after}
}

func (m *model) answered() bool { return m.rng.IntN(50) != 0 }

// flawed tells whether to do something wrong now.
func (m *model) flawed(flaw string) bool { return m.flaw == flaw && m.rng.IntN(20) == 0 }

func (m *model) send() {
	m.seq++
	s := Send{Span: m.span(), Attempts: 1, Body: fmt.Sprintf("body %d", m.seq)}
	if m.rng.IntN(4) == 0 {
		s.Delay = time.Duration(1+m.rng.IntN(3)) * time.Second
	}
	if m.answered() {
		s.Outcome, s.MessageID = Done, fmt.Sprintf("id %d", m.seq)
	}
	m.h.Sends = append(m.h.Sends, s)
	copies := 1
	ready := m.now + s.Delay
	if m.flawed("hurry") {
		ready = m.now
	}
	switch {
	case m.flawed("lose"):
		return
	case m.flawed("multiply"):
		copies = 2
	}
	for i := range copies {
		id := fmt.Sprintf("id %d", m.seq)
		if i > 0 {
			id += " again"
		}
		m.live = append(m.live, &stored{body: s.Body, id: id, sent: m.now, hiddenUntil: ready})
	}
}

func (m *model) receive() {
	span, answered := m.span(), m.answered()
	if m.rng.IntN(4) == 0 { // a poll that had waited
		span.Call -= time.Duration(m.rng.Int64N(int64(2 * time.Second)))
	}
	if m.retention > 0 && m.flaw != "outlive" {
		m.live = slices.DeleteFunc(m.live, func(s *stored) bool { return m.now >= s.sent+m.retention })
	}
	taken := 0
	for _, s := range m.live {
		if m.now < s.hiddenUntil && !(s.count > 0 && m.flawed("show")) || taken == 10 {
			continue
		}
		taken++
		s.count++
		if m.flawed("reset") {
			s.count = 1
		}
		s.hiddenUntil = m.now + modelVisibility
		if m.flawed("short") {
			s.hiddenUntil = m.now + modelVisibility/4
		}
		s.handle = fmt.Sprintf("%s/%d/%d", s.id, s.count, m.now)
		if s.first == 0 {
			s.first = m.now.Milliseconds()
		}
		d := Delivery{
			Span: span, Body: s.body, MessageID: s.id, Handle: s.handle, Count: s.count,
			FirstReceive: s.first, Visibility: modelVisibility,
		}
		if m.flawed("corrupt") {
			d.Body += "!"
		}
		if answered {
			m.h.Deliveries = append(m.h.Deliveries, d)
			m.held = append(m.held, d)
		}
	}
}

// take removes a random delivery from those that clients hold.
func (m *model) take() (Delivery, bool) {
	if len(m.held) == 0 {
		return Delivery{}, false
	}
	i := m.rng.IntN(len(m.held))
	d := m.held[i]
	m.held[i] = m.held[len(m.held)-1]
	m.held = m.held[:len(m.held)-1]
	return d, true
}

func (m *model) outcome() Outcome {
	if m.answered() {
		return Done
	}
	return Unknown
}

func (m *model) delete() {
	d, ok := m.take()
	if !ok {
		return
	}
	m.h.Deletes = append(m.h.Deletes, Delete{Span: m.span(), Outcome: m.outcome(), Handle: d.Handle})
	for i, s := range m.live {
		if s.handle == d.Handle && !m.flawed("undelete") {
			m.live = append(m.live[:i:i], m.live[i+1:]...)
			return
		}
	}
}

func (m *model) change() {
	d, ok := m.take()
	if !ok {
		return
	}
	m.held = append(m.held, d)
	to := time.Duration(m.rng.IntN(4)) * time.Second
	m.h.Changes = append(m.h.Changes, Change{Span: m.span(), Outcome: m.outcome(), Handle: d.Handle, Visibility: to})
	for _, s := range m.live {
		if s.id == d.MessageID && !m.flawed("unchange") { // also with an older handle
			s.hiddenUntil = m.now + to
		}
	}
}

// run lets clients do things until it is enough, and then drains the queue.
func (m *model) run(enough func() bool) {
	for !enough() {
		m.now += time.Duration(m.rng.Int64N(int64(20 * time.Millisecond)))
		switch n := m.rng.IntN(10); {
		case n < 1:
			m.send()
		case n < 6:
			m.receive()
		case n < 9:
			if len(m.held) > 30 { // they take their time, so that timeouts end
				m.delete()
			}
		default:
			m.change()
		}
	}
	most := 1000 + m.h.operations()/5
	for round := 0; len(m.live) > 0 && round < most; round++ {
		m.now += 4 * time.Second
		for m.receive(); len(m.held) > 0; {
			m.delete()
		}
	}
	m.h.Drained, m.h.End = true, m.now
}

func simulate(seed uint64, flaw string, retention time.Duration) *Report {
	m := &model{rng: rand.New(rand.NewPCG(seed, 0)), flaw: flaw, now: time.Millisecond, retention: retention} // zero is for never
	m.h.Queues = map[string]Queue{"": {Retention: retention}}
	m.run(func() bool { return m.now >= time.Minute })
	return Check(&m.h, Options{Lateness: 100 * time.Millisecond})
}

func TestCheckAcceptsCorrectQueues(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 20
	}
	first := proof.Seed(t)
	repeated, delayed := 0, 0
	for i := range seeds {
		r := simulate(first+i, "", time.Duration(i%3)*modelRetention)
		repeated += r.Repeated
		delayed += r.Delayed
		for _, v := range r.Violations {
			t.Errorf("seed %d: got %v, want no violations", first+i, v)
		}
	}
	if min(repeated, delayed) == 0 {
		t.Errorf("%d deliveries were repeated and %d messages delayed, so not everything was judged", repeated, delayed)
	}
}

func TestCheckFindsFlaws(t *testing.T) {
	for flaw, rule := range map[string]Rule{
		"lose":     Lost,
		"multiply": Multiplied,
		"corrupt":  Invented,
		"show":     InFlight,
		"short":    InFlight,
		"unchange": InFlight,
		"undelete": Deleted,
		"reset":    Counts,
		"hurry":    Delayed,
		"outlive":  Expired,
	} {
		t.Run(flaw, func(t *testing.T) {
			for seed := range uint64(5) {
				retention := time.Duration(0)
				if flaw == "outlive" {
					retention = modelRetention
				}
				if simulate(seed, flaw, retention).Count(rule) == 0 {
					t.Errorf("seed %d: got no violation of %q, want some", seed, rule)
				}
			}
		})
	}
}
