package broker

import (
	"strings"
	"testing"
	"time"
)

// A teller makes a history up. Each operation takes place a second after the one before.
type teller struct {
	*history
	at time.Time
}

func (t *teller) attempt(answered bool) *attempt {
	t.at = t.at.Add(time.Second)
	t.moment += 2
	a := &attempt{called: t.moment, returned: never, from: t.at, until: t.at, era: len(t.eras) - 1, answered: answered}
	if answered {
		a.returned = t.moment + 1
	}
	return a
}

func (t *teller) send(body string) *sentMessage {
	m := &sentMessage{body: body, queue: "orders", send: t.attempt(true)}
	t.messages[body] = m
	return m
}

func (t *teller) deliver(m *sentMessage, receives int, visibility time.Duration) *delivered {
	d := &delivered{attempt: t.attempt(true), message: m, visibility: visibility, receives: receives, sent: t.earliest(m.send).Milliseconds()}
	if d.first = t.earliest(d.attempt).Milliseconds(); len(m.deliveries) > 0 {
		d.first = m.deliveries[0].first
	}
	m.deliveries = append(m.deliveries, d)
	return d
}

// pass lets time pass.
func (t *teller) pass(d time.Duration) { t.at = t.at.Add(d) }

// restart ends the era and begins the next after a second, with broker time that jumps.
func (t *teller) restart(jump time.Duration, clean bool) {
	last := t.eras[len(t.eras)-1]
	last.ended = t.at
	stamp, _ := last.bounds(t.at)
	t.pass(time.Second)
	t.begin(&era{
		began: t.at, offset: stamp + time.Second + jump - sinceEpoch(t.at), grace: time.Minute,
		stamp: stamp, start: stamp + time.Second + jump, clean: clean, unclean: !clean,
	})
}

// count tells how many messages orders has.
func (t *teller) count(n int) {
	t.counts = append(t.counts, &counted{attempt: t.attempt(true), queue: "orders", messages: n})
}

func (t *teller) drain(m *sentMessage, receives int) {
	t.at = t.at.Add(time.Hour)
	t.deliver(m, receives, 12*time.Hour)
	m.drained = true
}

func (t *teller) remove(m *sentMessage, receives int, answered bool) *changed {
	c := &changed{attempt: t.attempt(answered), receives: receives}
	m.deletes = append(m.deletes, c)
	return c
}

func (t *teller) change(m *sentMessage, timeout time.Duration, answered bool) {
	m.changes = append(m.changes, &changed{attempt: t.attempt(answered), timeout: timeout})
}

// The checker finds each fault, and accepts unusual histories that have a reason.
func TestHistoryCheck(t *testing.T) {
	for _, c := range []struct {
		name, want string
		tell       func(t *teller)
	}{
		{"kept", "", func(t *teller) { t.drain(t.send("m"), 1) }},
		{"lost", "is lost", func(t *teller) { t.send("m") }},
		{"lost after a receive", "is lost", func(t *teller) { t.deliver(t.send("m"), 1, 0) }},
		{"not answered", "", func(t *teller) { t.send("m").send.answered = false }},
		{"deleted", "", func(t *teller) { m := t.send("m"); t.deliver(m, 1, time.Minute); t.remove(m, 1, true) }},
		{"deleted without an answer", "", func(t *teller) { m := t.send("m"); t.deliver(m, 1, time.Minute); t.remove(m, 1, false) }},
		{"not deleted without an answer", "", func(t *teller) {
			m := t.send("m")
			t.deliver(m, 1, time.Minute)
			t.remove(m, 1, false)
			t.drain(m, 2)
		}},
		{"resurrected", "delivered again", func(t *teller) {
			m := t.send("m")
			t.deliver(m, 1, time.Minute)
			t.remove(m, 1, true)
			t.drain(m, 2)
		}},
		{"resurrected twice", "delivered again", func(t *teller) {
			m := t.send("m")
			t.deliver(m, 1, time.Minute)
			t.remove(m, 1, true)
			t.deliver(m, 2, time.Second)
			t.drain(m, 3)
		}},
		{"deleted with an old handle", "", func(t *teller) {
			m := t.send("m")
			t.deliver(m, 1, 0)
			t.deliver(m, 2, time.Second)
			t.remove(m, 1, true)
			t.drain(m, 3)
		}},
		{"deleted after a receive without an answer", "", func(t *teller) {
			m := t.send("m")
			t.deliver(m, 1, 0)
			t.remove(m, 1, true) // receive 2 came first
			t.drain(m, 3)
		}},
		{"early", "59s too early", func(t *teller) { // but for the millisecond
			m := t.send("m")
			t.deliver(m, 1, time.Minute+2*time.Millisecond)
			t.deliver(m, 2, 0)
			t.drain(m, 3)
		}},
		{"in time", "", func(t *teller) { m := t.send("m"); t.deliver(m, 1, time.Second); t.deliver(m, 2, 0); t.drain(m, 3) }},
		{"early after an extension", "too early", func(t *teller) {
			m := t.send("m")
			t.deliver(m, 1, 2*time.Second)
			t.change(m, time.Minute, true)
			t.deliver(m, 2, 0)
			t.drain(m, 3)
		}},
		{"after an extension without an answer", "", func(t *teller) {
			m := t.send("m")
			t.deliver(m, 1, 2*time.Second)
			t.change(m, time.Minute, false)
			t.deliver(m, 2, 0)
			t.drain(m, 3)
		}},
		{"after a return", "", func(t *teller) {
			m := t.send("m")
			t.deliver(m, 1, time.Hour)
			t.change(m, 0, true)
			t.deliver(m, 2, 0)
			t.drain(m, 3)
		}},
		{"after a return without an answer", "", func(t *teller) {
			m := t.send("m")
			t.deliver(m, 1, time.Hour)
			t.change(m, 0, false)
			t.deliver(m, 2, 0)
			t.drain(m, 3)
		}},
		{"count went back", "and later", func(t *teller) { m := t.send("m"); t.deliver(m, 2, 0); t.deliver(m, 1, 0); t.drain(m, 3) }},
		{"count stood still", "twice with receive count", func(t *teller) { m := t.send("m"); t.deliver(m, 1, 0); t.drain(m, 1) }},
		{"count of zero", "receive count 0", func(t *teller) { t.drain(t.send("m"), 0) }},
		{"jumped to", "", func(t *teller) {
			m := t.send("m")
			t.deliver(m, 1, time.Hour)
			t.restart(time.Hour, true)
			t.drain(m, 2)
		}},
		{"jumped to but for the grace", "58.998s too early", func(t *teller) { // but for some milliseconds
			m := t.send("m")
			t.deliver(m, 1, time.Hour)
			t.restart(time.Hour, false)
			t.deliver(m, 2, 0)
			t.drain(m, 3)
		}},
		{"after the grace", "", func(t *teller) {
			m := t.send("m")
			t.deliver(m, 1, time.Hour)
			t.restart(time.Hour, false)
			t.pass(time.Minute)
			t.deliver(m, 2, 0)
			t.drain(m, 3)
		}},
		{"no grace for what was back", "", func(t *teller) {
			m := t.send("m")
			t.deliver(m, 1, 0)
			t.pass(time.Minute)
			t.restart(time.Hour, false)
			t.deliver(m, 2, 0)
			t.drain(m, 3)
		}},
		{"counted in a pause", "counted 0 messages in era 1, want at least 1", func(t *teller) {
			t.send("m")
			t.restart(30*year, true)
			t.count(0)
			t.pass(pauseFor)
		}},
		{"expired after a pause", "", func(t *teller) {
			t.send("m")
			t.restart(30*year, true)
			t.count(1)
			t.pass(pauseFor)
			t.count(0)
		}},
		{"delivered in a pause", "after its retention", func(t *teller) {
			m := t.send("m")
			t.restart(30*year, true)
			t.drain(m, 1)
		}},
		{"the stamp is old", "the last stamp", func(t *teller) {
			m := t.send("m")
			t.restart(0, true)
			t.eras[1].stamp -= 2 * time.Second
			t.drain(m, 1)
		}},
		{"time stood still", "too early", func(t *teller) {
			m := t.send("m")
			t.drain(m, 1)
			m.deliveries[0].first = m.deliveries[0].sent
		}},
		{"time ran ahead", "too late", func(t *teller) { m := t.send("m"); t.drain(m, 1); m.deliveries[0].first++; m.deliveries[0].first++ }},
		{"before its delay", "before its delay", func(t *teller) { m := t.send("m"); m.delay = 900 * time.Second; t.deliver(m, 1, 0); t.drain(m, 2) }},
		{"after its retention", "after its retention", func(t *teller) { m := t.send("m"); m.queue = "brief"; t.drain(m, 1) }},
		{"expired", "", func(t *teller) { t.send("m").queue = "brief"; t.pass(retention) }},
		{"lost before its retention was over", "is lost", func(t *teller) { t.send("m").queue = "brief"; t.pass(retention / 2) }},
		{"purged", "", func(t *teller) { t.send("m").queue = "purged"; t.purges = append(t.purges, t.attempt(true)) }},
		{"purged before", "is lost", func(t *teller) { t.purges = append(t.purges, t.attempt(true)); t.send("m").queue = "purged" }},
		{"not purged", "after a purge", func(t *teller) {
			m := t.send("m")
			m.queue = "purged"
			t.purges = append(t.purges, t.attempt(true))
			t.drain(m, 1)
		}},
		{"half a batch of sends", "1 of 2 happened", func(t *teller) {
			b := &sentBatch{attempt: t.attempt(false), messages: []*sentMessage{t.send("m"), t.send("n")}}
			b.messages[0].send, b.messages[1].send = b.attempt, b.attempt
			t.drain(b.messages[0], 1)
			t.batches = append(t.batches, b)
		}},
		{"half a batch of deletes", "[m] are gone and [n] are not", func(t *teller) {
			m, n := t.send("m"), t.send("n")
			t.deliver(m, 1, 0)
			t.deliver(n, 1, 0)
			a := t.attempt(false)
			b := &deleteBatch{attempt: a, of: []*sentMessage{m, n}}
			for _, of := range b.of {
				c := &changed{attempt: a, receives: 1}
				of.deletes, b.entries = append(of.deletes, c), append(b.entries, c)
			}
			t.drain(n, 2)
			t.deletes = append(t.deletes, b)
		}},
	} {
		t0 := time.Unix(0, 0)
		teller := &teller{newHistory(), t0}
		teller.begin(&era{began: t0, grace: time.Minute})
		c.tell(teller)
		teller.eras[len(teller.eras)-1].ended = teller.at
		got := strings.Join(teller.check(), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

// The bounds of broker time are a millisecond apart until the clock is set, follow it at one part
// in twenty, and are apart after a step by what the broker can have made of it.
func TestEraBounds(t *testing.T) {
	t0 := time.Unix(1000, 0)
	for _, c := range []struct {
		name     string
		start    time.Duration // of broker time, ahead of the wall clock
		steps    []step
		at       time.Duration
		near     time.Duration // broker time ahead of real time
		distance time.Duration // between the bounds
	}{
		{"right", 0, nil, time.Hour, 0, 0},
		{"ahead of the wall clock", time.Minute, nil, 20 * time.Second, 59 * time.Second, 0},
		{"set forward", 0, []step{{t0.Add(10 * time.Second), day, 0}}, 30 * time.Second, time.Second, 0},
		{"set back", 0, []step{{t0.Add(10 * time.Second), -day, 0}}, 30 * time.Second, -time.Second, 0},
		{"set forward and caught up", 0, []step{{t0, time.Second, 0}}, time.Minute, time.Second, 0},
		{"not known at once", 0, []step{{t0, day, time.Second}}, 20 * time.Second, 0, 2 * time.Second},
		{"known in the end", 0, []step{{t0, day, time.Second}, {t0, 0, 0}}, time.Minute, 0, 0},
		{"not yet", 0, []step{{t0.Add(time.Minute), day, time.Second}}, 30 * time.Second, 0, 0},
	} {
		e := &era{began: t0, start: sinceEpoch(t0) + c.start, steps: c.steps}
		earliest, latest := e.bounds(t0.Add(c.at))
		if got := earliest - sinceEpoch(t0.Add(c.at)); got != c.near {
			t.Errorf("%s: broker time is %v ahead of real time, want %v", c.name, got, c.near)
		}
		if got := latest - earliest; got < c.distance || got > c.distance+time.Millisecond {
			t.Errorf("%s: the bounds are %v apart, want %v and at most a millisecond", c.name, got, c.distance)
		}
	}
}
