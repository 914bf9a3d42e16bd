package broker

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/testing/proof"
)

// The clients of TestCrashes find the same promises kept on queues with tags. Besides, sends are
// repeated with their deduplication ids, and as attempts of calls whose answer was lost. A schedule
// ticks, and dead letters hold their groups. Rates, limits, priorities and fairness are on, but
// what they promise is left to TestCuts of package engine, which asks the model.
// [AGAIN-1, AGAIN-4, EXT-17, EXT-24, EXT-29, HOLD-1, HOLD-3, HOLD-11, SCHED-6, SCHED-7]
func TestCrashesWithTags(t *testing.T) {
	var total totals
	repeats, ticks, attempts, lost, unclear := 0, 0, 0, 0, 0
	var held heldTotals
	simulate(t, proof.Random(t), crashes()/2, newTaggedSimulation, func(s *simulation) {
		total.add(s)
		repeats += s.tagged.repeats
		ticks += len(s.tagged.ticks)
		attempts += s.tagged.attempts
		lost += s.tagged.lost
		held.add(s.tagged.held)
		if s.tagged.unclear {
			unclear++
		}
	})
	t.Logf("%v; %d messages, %d deliveries, %d repeated sends, %d further attempts, %d after a lost answer, %d ticks, %v",
		&total, total.messages, total.deliveries, repeats, attempts, lost, ticks, &held)
	missing := total.deliveries == 0 || repeats == 0 || ticks == 0 || attempts == 0
	if total.cuts() >= 150 { // a few machines do not come to everything
		missing = missing || lost == 0 || held.missing()
	}
	if missing {
		t.Errorf("the simulation did not get around to everything")
	}
	if unclear > 0 {
		t.Logf("%d machines do not count: the server may have forgotten a call before it was repeated", unclear)
	}
}

func TestCrashesWithTagsFindLosses(t *testing.T) { findLosses(t, newTaggedSimulation) }

func newTaggedSimulation() *simulation {
	s := newSimulation()
	s.tagged = &tagged{ticks: make(map[string]bool), held: newHeldGroups()}
	return s
}

// tagged is what a simulation does with the tags of its queues. It is guarded by the lock of the
// history.
type tagged struct {
	tags    map[string][]engine.Tag // by queue
	repeats int                     // sends that were answered a second time
	ticks   map[string]bool         // of the schedule, whose messages were found at the end
	held    *heldGroups

	calls    []*sendCall // those of which there were further attempts, or may be
	attempts int         // further ones that were answered
	lost     int         // of these, after an answer that was lost
	unclear  bool        // a call may have been repeated too late
}

// A sendCall is a send of one message, with the id that an SDK gives to all attempts of it.
type sendCall struct {
	message *sentMessage
	op      engine.SendMessage
	begun   time.Duration // the earliest time at which an attempt may have stored the message
}

// callMemory is for how long the server remembers a call. Clients repeat it in half of that.
// [AGAIN-4]
const callMemory = 5 * time.Minute

// call makes a send to orders the first attempt of a call. In other queues, messages go with purges
// or have deduplication ids.
func (x *tagged) call(c *client, m *sentMessage, op *engine.SendMessage) {
	if m.queue != "orders" {
		return
	}
	op.Call.Hash = engine.HashInvocation([]byte(m.body))
	c.sim.history.locked(func() {
		x.calls = append(x.calls, &sendCall{m, *op, c.sim.history.soonest()})
	})
}

// attempt repeats one of the latest calls, as an SDK does that has no answer. [AGAIN-1]
func (x *tagged) attempt(c *client) {
	h := c.sim.history
	var call *sendCall
	h.locked(func() {
		latest := slices.DeleteFunc(slices.Clone(x.calls[max(0, len(x.calls)-10):]),
			func(call *sendCall) bool { return h.trusted() > call.begun+callMemory/2 })
		lost := slices.IndexFunc(latest, func(call *sendCall) bool { return !call.message.hasID })
		switch {
		case lost >= 0:
			call = latest[lost]
		case len(latest) > 0:
			call = latest[c.rng.IntN(len(latest))]
		}
	})
	if call == nil {
		return
	}
	op, m := call.op, call.message
	op.Call.Later = true
	a := h.call()
	h.locked(func() {
		if !m.send.answered {
			m.again = append(m.again, a)
			call.begun = min(call.begun, h.soonest()) // after a power cut, the clock may have been set back
		}
	})
	c.do(a, &op, func() {
		switch x.attempts++; {
		case m.hasID && m.id != op.Sent.ID:
			c.sim.complain("message %s has the ids %v and, in a further attempt, %v", m.body, m.id, op.Sent.ID)
		case !m.send.answered:
			x.lost++
		}
		c.sent(m, op.Sent.ID)
	})
	h.locked(func() { x.unclear = x.unclear || h.trusted() > call.begun+callMemory-time.Second })
}

// begin chooses tags under which clients find what they find without: each message once, and not
// before its time.
func (x *tagged) begin(s *simulation) {
	some := func(tags ...string) (chosen []engine.Tag) {
		for i := 0; i < len(tags); i += 2 {
			if s.rng.IntN(3) > 0 {
				chosen = append(chosen, engine.Tag{Key: "tenaq:" + tags[i], Value: tags[i+1]})
			}
		}
		return chosen
	}
	x.tags = map[string][]engine.Tag{
		"orders": some("priority", "1m", "rate", "500", "max-in-flight", "1000", "history", "1h"),
		"returns": append(some("fair", "true", "retry", "1s..30s", "history", "1MiB"),
			engine.Tag{Key: "tenaq:dedup-window", Value: "365d"}),
		"brief":  some("fair", "true", "history", "10m"),
		"purged": some("priority", "5s", "delay-max", "1m", "history", "1h"),
		"ticks":  {{Key: "tenaq:schedule", Value: "@every 20s body=tick"}},
	}
}

// pause is how long a failed attempt hides a message at most. [EXT-17]
func (x *tagged) pause() time.Duration {
	if x == nil {
		return 0
	}
	return 30 * time.Second
}

// set creates the queue of the schedule and sets the tags, where that is missing.
func (x *tagged) set(r *rig) {
	r.do(&engine.CreateQueue{Queue: named("ticks"), NameSet: true})
	x.held.set(r)
	for queue, tags := range x.tags {
		if len(tags) > 0 {
			r.do(&engine.TagQueue{Queue: named(queue), Tags: tags})
		}
	}
}

// dress gives a message what the tags of its queue act on.
func (x *tagged) dress(c *client, m *sentMessage, e *engine.Entry) {
	attribute := func(name, kind, value string) {
		e.Attributes = append(e.Attributes,
			engine.EntryAttribute{Name: name, Type: text(kind), String: text(value)})
	}
	for _, tag := range x.tags[m.queue] {
		switch tag.Key {
		case "tenaq:dedup-window":
			attribute("tenaq.dedup-id", "String", m.body)
		case "tenaq:priority":
			attribute("tenaq.priority", "Number", strconv.Itoa(c.rng.IntN(10)))
		case "tenaq:fair":
			e.Group = text("g" + strconv.Itoa(c.rng.IntN(4)))
		case "tenaq:delay-max":
			if m.delay == 0 && c.rng.IntN(4) == 0 {
				m.delay = time.Duration(1+c.rng.IntN(5)) * time.Second
				attribute("tenaq.delay", "String", m.delay.String())
			}
		}
	}
}

// repeat sends a message again that the server has, as a producer does which lost the answer. The
// answer must be that of the first time. [EXT-29]
func (x *tagged) repeat(c *client) {
	h := c.sim.history
	var m *sentMessage
	h.locked(func() {
		for _, m = range h.messages { // any one
			if m.queue == "returns" && m.hasID {
				return
			}
		}
		m = nil
	})
	if m == nil {
		return
	}
	entry := engine.Entry{Body: text(m.body)}
	x.dress(c, m, &entry)
	op := &engine.SendMessage{Queue: named(m.queue), Draft: engine.NewDraft(entry)}
	c.do(h.call(), op, func() {
		x.repeats++
		if op.Sent.ID != m.id {
			c.sim.complain("message %s was sent again, and has the ids %v and %v", m.body, m.id, op.Sent.ID)
		}
	})
}

// drain receives the messages of the schedule: one for each tick.
func (x *tagged) drain(s *simulation, r *rig) {
	x.held.drain(s, r)
	for {
		op := &engine.ReceiveMessage{Queue: named("ticks"), Max: number(10),
			Visibility: number(visibilityOfDrain)}
		r.do(op)
		if len(op.Messages) == 0 {
			break
		}
		for _, d := range op.Messages {
			content, ok := r.ReadContent(d)
			if !ok {
				s.complain("the content of a tick is missing")
				return
			}
			tick := ""
			for _, a := range content.Attributes {
				if a.Name == "tenaq.tick" {
					tick = a.String
				}
			}
			if tick == "" || x.ticks[tick] {
				s.complain("the tick %q was sent twice, or says nothing", tick)
			}
			x.ticks[tick] = true
		}
	}
	if len(x.ticks) < 10 { // the queue was there for ten minutes and more
		s.complain("%d ticks were sent, want many", len(x.ticks))
	}
}
