package enginetest

import (
	"fmt"
	"strings"

	"tenaq/internal/kv"
)

// A probeKey is a state of a story, and how it came to be asked.
type probeKey struct {
	point  Point
	now    int64 // of the start after the first cut
	outage Outage
	twice  bool
	second Outage
}

// An exchange is a step of a probe and its right answer.
type exchange struct {
	step   Step
	answer string
	peek   bool // look at all queues afterwards
}

// A wrongAnswer is where a server has told that it is not in the state that it was taken to be in.
type wrongAnswer struct {
	key  probeKey
	step int
	text string
}

func (w *wrongAnswer) Error() string {
	return fmt.Sprintf("%+v, answers %d steps and then\n%s", w.key.point, w.step, w.text)
}

// ask plays the probe of a state against a store.
func (s *Story) ask(store kv.Store, key probeKey) (err error) {
	probe, err := s.probe(key)
	if err != nil {
		return err
	}
	wrong := &wrongAnswer{key: key}
	defer func() {
		if r := recover(); r != nil {
			wrong.text = fmt.Sprintf("panic: %v", r)
			err = wrong
		}
	}()
	// Turns and windows that differ from those with which the store was written.
	w := NewWorld(Variant{Window: 3, Turn: 1 + key.point.Requests%3, Disk: func() Disk {
		return found{store}
	}})
	p := s.moments[key.point.Requests].player.clone()
	now, grace := key.now, key.outage.Grace
	if key.twice {
		now, grace = now+key.second.Down.Milliseconds(), key.second.Grace
	}
	p.resume(w, now, grace.Milliseconds())
	for i, x := range probe {
		wrong.step = i
		answer, err := p.Play(x.step)
		if err == nil && x.peek {
			err = w.peek()
		}
		switch {
		case err != nil:
			wrong.text = err.Error()
			return wrong
		case answer != x.answer:
			wrong.text = fmt.Sprintf("%s\ngot:\n%swant:\n%s", x.step, answer, x.answer)
			return wrong
		}
	}
	w.mustCommit()
	return nil
}

// resume goes on with a machine that has been started anew.
func (p *Player) resume(m Machine, now, grace int64) {
	p.machine, p.now = m, now
	if w, ok := m.(*World); ok {
		p.world = w
		w.entryOf = p.entryOf
	}
	p.count += 1 << 32 // seeds that no request had which the player does not know of
	m.Start(p.cfg, now, grace)
}

// probe returns the probe of a state with its right answers, which a model gives.
func (s *Story) probe(key probeKey) ([]exchange, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x, ok := s.probes[key]; ok {
		return x, nil
	}
	state := s.moments[key.point.Requests].states[key.point.Parts]
	model := state.machine.(*Model).clone()
	p := state.clone()
	model.Stop(p.now, false)
	p.resume(model, key.now, key.outage.Grace.Milliseconds())
	if key.twice {
		model.Stop(p.now, false)
		p.resume(model, key.now+key.second.Down.Milliseconds(), key.second.Grace.Milliseconds())
	}
	var list []exchange
	for _, step := range s.questions(p.Receipts()) {
		x := exchange{step: step}
		if step.Text == "peek" {
			list[len(list)-1].peek = true
			continue
		}
		var err error
		if x.answer, err = p.Play(step); err != nil {
			return nil, fmt.Errorf("the model cannot play the probe: %w", err)
		}
		list = append(list, x)
	}
	s.probes[key] = list
	return list, nil
}

// questions are the steps of a probe, after receipts handles were given out: everything there is to
// be seen, every way to use what clients still have in their hands, and then all messages, until
// there are none.
func (s *Story) questions(receipts int) (steps []Step) {
	say := func(format string, a ...any) {
		steps = append(steps, Step{Pos: "probe", Text: fmt.Sprintf(format, a...)}.prepared())
	}
	// A line that begins with "fifo: " or "standard: " is only for such queues. A deduplication id
	// at the end is for FIFO queues.
	each := func(formats ...string) {
		for _, q := range s.queues {
			for _, f := range formats {
				if standard, ok := strings.CutPrefix(f, "standard: "); ok {
					if isFIFO(q) {
						continue
					}
					f = standard
				}
				if fifo, ok := strings.CutPrefix(f, "fifo: "); ok {
					if !isFIFO(q) {
						continue
					}
					f = fifo
				}
				if !isFIFO(q) {
					f, _, _ = strings.Cut(f, " dedup=")
				}
				say("%s", strings.ReplaceAll(f, "QUEUE", q))
			}
		}
	}
	say("list-queues")
	each("get q=QUEUE DelaySeconds MaximumMessageSize MessageRetentionPeriod ReceiveMessageWaitTimeSeconds VisibilityTimeout RedrivePolicy",
		"tags q=QUEUE", "sources q=QUEUE", "move-list source=QUEUE max=10", "counters q=QUEUE")
	say("task-list")
	say("actions max=5")
	say("survey uncounted")
	say("peek")
	for n := range 12 {
		say("find m%d", n+1)
	}
	say("record-list")
	say("record-put k=a v=probe")
	say("record-put k=b v=probe ttl=1m")
	// Messages that clients held when the power was cut.
	for n := receipts; n > max(receipts-4, 0); n-- {
		each(fmt.Sprintf("visibility q=QUEUE r=r%d vt=9", n))
	}
	for n := max(receipts-6, 1); n < receipts; n += 2 {
		each(fmt.Sprintf("delete q=QUEUE r=r%d", n))
	}
	each("counters q=QUEUE")
	// Requests that they repeat because they had no answer.
	for _, id := range []string{"d1", "d2", "d3", "new"} {
		each("fifo: send q=QUEUE body=again group=g1 dedup=" + id)
	}
	for _, call := range []string{"c1 try=2", "c2 try=2", "c3 try=1", "c4 try=1"} {
		each("standard: send q=QUEUE body=x call=" + call)
	}
	each("fifo: receive q=QUEUE max=3 vt=30 attempt=A show=(seq)")
	each("send q=QUEUE body=after group=g2 dedup=after")
	const show = " names=TenaqReason show=(sent, first, size, seq, dedup, source, story, lineage)"
	each("receive q=QUEUE max=10 vt=5"+show, "receive q=QUEUE max=2 vt=0"+show,
		"receive-many q=QUEUE n=100000 vt=5", "counters q=QUEUE")
	say("peek")
	say("move-step")
	each("move-list source=QUEUE max=10")
	say("move-step")
	say("move-cancel task=task1")
	say("move-step")
	say("task-list")
	each("move-list source=QUEUE max=10", "counters q=QUEUE")
	// Timeouts end, then delays and windows of deduplication.
	say("advance 6s")
	each("receive q=QUEUE max=3 vt=1" + show)
	say("survey uncounted")
	say("peek")
	say("advance 1m")
	each("receive q=QUEUE max=10 vt=0" + show)
	say("advance 16m")
	each("counters q=QUEUE", "fifo: send q=QUEUE body=late group=g1 dedup=d1",
		"receive q=QUEUE max=10 vt=1"+show)
	say("advance 2s")
	// Messages that the first drain moves are left for the second.
	each("drain q=QUEUE")
	each("drain q=QUEUE", "counters q=QUEUE")
	say("survey uncounted")
	say("peek")
	each("move-start source=QUEUE")
	say("move-step")
	each("send q=QUEUE body=last group=g1 dedup=last", "purge q=QUEUE",
		"send q=QUEUE body=purged group=g1 dedup=last", "drain q=QUEUE")
	each("delete-queue q=QUEUE")
	say("advance 1m")
	for _, q := range s.queues {
		if isFIFO(q) {
			say("create q=%s FifoQueue=true", q)
		} else {
			say("create q=%s", q)
		}
	}
	each("send q=QUEUE body=reborn group=g1 dedup=d1", "receive q=QUEUE"+show,
		fmt.Sprintf("delete q=QUEUE r=r%d", max(receipts, 1)), "counters q=QUEUE")
	say("list-queues")
	say("record-sweep")
	say("record-list")
	return steps
}
