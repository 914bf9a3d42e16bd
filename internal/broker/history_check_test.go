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
	a := &attempt{called: t.moment, returned: never, from: t.at, until: t.at, answered: answered}
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
	d := &delivered{attempt: t.attempt(true), message: m, visibility: visibility, receives: receives}
	m.deliveries = append(m.deliveries, d)
	return d
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

// The checker finds what is wrong, and nothing where something unusual has its reasons.
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
		{"before its delay", "before its delay", func(t *teller) { m := t.send("m"); m.delay = 900 * time.Second; t.deliver(m, 1, 0); t.drain(m, 2) }},
		{"after its retention", "after its retention", func(t *teller) { m := t.send("m"); m.queue = "brief"; t.drain(m, 1) }},
		{"expired", "", func(t *teller) { t.send("m").queue = "brief" }},
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
		h := newHistory()
		c.tell(&teller{h, time.Unix(0, 0)})
		got := strings.Join(h.check(), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}
