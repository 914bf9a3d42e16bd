package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"tenaq/internal/testing/proof"
	"testing"
	"time"
)

// A fifoModel is a FIFO queue with a dead-letter queue and with clients, in simulated time as in
// model. Clients send again, under the same deduplication ID, what was not answered; messages are
// received until they are dead; and now and then a task moves the dead back.
type fifoModel struct {
	rng  *rand.Rand
	now  time.Duration
	h    History
	seq  int
	held []Delivery

	orders, dead fifoLine
	receives     int
	batches      int
	moves        int // messages that the task may still move

	delay time.Duration // of orders
	flaw  string
}

type fifoLine struct {
	name string
	next int // sequence number
	line []*queued
}

type queued struct {
	body, id, group, dedup string
	sequence               int
	count                  int
	hiddenUntil            time.Duration
	handle                 string
	first                  int64
}

const fifoMaxReceives = 3

func newFIFOModel(seed uint64, flaw string) *fifoModel {
	m := &fifoModel{rng: rand.New(rand.NewPCG(seed, 0)), flaw: flaw}
	if seed%2 == 1 || flaw == "hurry" {
		m.delay = 1500 * time.Millisecond
	}
	m.orders.name, m.dead.name = "orders", "dead"
	m.h.Queues = map[string]Queue{
		"orders": {FIFO: true, DeadLetter: "dead", MaxReceives: fifoMaxReceives},
		"dead":   {FIFO: true},
	}
	return m
}

func (m *fifoModel) span() Span {
	before, after := time.Duration(m.rng.ExpFloat64()*float64(2*time.Millisecond)), time.Duration(m.rng.ExpFloat64()*float64(2*time.Millisecond))
	if m.rng.IntN(20) == 0 {
		before += time.Duration(m.rng.Int64N(int64(300 * time.Millisecond)))
		after += time.Duration(m.rng.Int64N(int64(300 * time.Millisecond)))
	}
	return Span{m.now - before, m.now + after}
}

func (m *fifoModel) answered() bool { return m.rng.IntN(50) != 0 }

func (m *fifoModel) flawed(flaw string) bool { return m.flaw == flaw && m.rng.IntN(10) == 0 }

// enter puts a message at the end of a line.
func (l *fifoLine) enter(q *queued) {
	l.next++
	q.sequence = l.next
	l.line = append(l.line, q)
}

func (l *fifoLine) remove(q *queued) {
	l.line = slices.DeleteFunc(l.line, func(o *queued) bool { return o == q })
}

// send sends a batch until it is answered, and sometimes once more.
func (m *fifoModel) send() {
	var bodies []string
	stored := map[string]*queued{}
	for range 1 + m.rng.IntN(3) {
		m.seq++
		bodies = append(bodies, fmt.Sprintf("body %d", m.seq))
	}
	group := fmt.Sprint("group ", m.rng.IntN(4))
	for {
		answered, arrives := m.answered(), m.rng.IntN(50) != 0
		span := m.span()
		m.batches++
		for _, body := range bodies {
			s := Send{
				Span: span, Queue: "orders", Attempts: 1, Batch: m.batches,
				Body: body, Group: group, Dedup: "dedup " + body, Delay: m.delay,
			}
			if arrives {
				q := m.store(stored, body, group)
				if answered {
					s.Outcome, s.MessageID, s.Sequence = Done, q.id, fmt.Sprint(q.sequence)
				}
			}
			m.h.Sends = append(m.h.Sends, s)
		}
		if m.now += 700 * time.Millisecond; answered && arrives && m.rng.IntN(8) != 0 {
			return
		}
	}
}

func (m *fifoModel) store(stored map[string]*queued, body, group string) *queued {
	if q := stored[body]; q != nil && m.flaw != "forget" {
		return q
	}
	q := &queued{body: body, id: "id " + body, group: group, dedup: "dedup " + body, hiddenUntil: m.now + m.delay}
	if m.flaw == "hurry" {
		q.hiddenUntil = 0
	}
	if stored[body] != nil {
		q.id += " again"
	}
	stored[body] = q
	if m.flawed("lose") {
		m.orders.next++
		q.sequence = m.orders.next
		return q
	}
	m.orders.enter(q)
	if n := len(m.orders.line); n > 1 && m.flawed("jump") {
		last := m.orders.line[n-2]
		last.sequence, q.sequence = q.sequence, last.sequence
	}
	return q
}

// receive hands out what can be received of a line.
func (m *fifoModel) receive(l *fifoLine) {
	span, answered := m.span(), m.answered()
	if m.rng.IntN(4) == 0 { // a poll that had waited
		span.Call -= time.Duration(m.rng.Int64N(int64(2 * time.Second)))
	}
	m.receives++
	most := 1 + m.rng.IntN(10)
	locked := map[string]bool{}
	for _, q := range slices.Clone(l.line) {
		switch {
		case most == 0:
			return
		case locked[q.group] && !m.flawed("unlock"):
			continue
		case m.now < q.hiddenUntil:
			locked[q.group] = true
			continue
		case m.flawed("overtake"):
			continue // and the next may be of its group
		case l == &m.orders && m.exhausted(q):
			m.bury(q)
			continue
		}
		most--
		m.deliver(l, q, span, answered)
	}
}

func (m *fifoModel) exhausted(q *queued) bool {
	switch {
	case m.flawed("early"):
		return q.count >= fifoMaxReceives-1
	case m.flaw == "late":
		return q.count > fifoMaxReceives
	}
	return q.count >= fifoMaxReceives
}

// bury moves a message to the dead-letter queue.
func (m *fifoModel) bury(q *queued) {
	if !m.flawed("keep") {
		m.orders.remove(q)
	}
	if m.flawed("drop") {
		return
	}
	moved := *q
	moved.dedup, moved.hiddenUntil, moved.handle = q.id, 0, ""
	if m.flaw == "reset" {
		moved.count = 0
	}
	m.dead.enter(&moved)
}

func (m *fifoModel) deliver(l *fifoLine, q *queued, span Span, answered bool) {
	q.count++
	q.hiddenUntil = m.now + modelVisibility
	q.handle = fmt.Sprintf("%s/%s/%d/%d", l.name, q.id, q.count, m.now)
	if q.first == 0 {
		q.first = m.now.Milliseconds() + 1
	}
	if !answered {
		return
	}
	d := Delivery{
		Span: span, Queue: l.name, Receive: m.receives, Body: q.body, MessageID: q.id, Handle: q.handle,
		Count: q.count, FirstReceive: q.first, Visibility: modelVisibility,
		Group: q.group, Dedup: q.dedup, Sequence: fmt.Sprint(q.sequence),
	}
	if m.flawed("renumber") {
		d.Sequence += "0"
	}
	m.h.Deliveries = append(m.h.Deliveries, d)
	m.held = append(m.held, d)
}

func (m *fifoModel) take() (Delivery, bool) {
	if len(m.held) == 0 {
		return Delivery{}, false
	}
	i := m.rng.IntN(len(m.held))
	d := m.held[i]
	m.held[i] = m.held[len(m.held)-1]
	m.held = m.held[:len(m.held)-1]
	return d, true
}

// current finds the message that a handle is good for.
func (m *fifoModel) current(d Delivery) (*fifoLine, *queued) {
	for _, l := range []*fifoLine{&m.orders, &m.dead} {
		for _, q := range l.line {
			if q.handle == d.Handle && m.now < q.hiddenUntil {
				return l, q
			}
		}
	}
	return nil, nil
}

func (m *fifoModel) outcome(done bool) Outcome {
	switch {
	case !m.answered():
		return Unknown
	case done:
		return Done
	}
	return Refused
}

func (m *fifoModel) delete() {
	d, ok := m.take()
	if !ok {
		return
	}
	l, q := m.current(d)
	m.h.Deletes = append(m.h.Deletes, Delete{Span: m.span(), Outcome: m.outcome(q != nil), Handle: d.Handle})
	if q != nil && !m.flawed("undelete") {
		l.remove(q)
	}
}

func (m *fifoModel) change() {
	d, ok := m.take()
	if !ok {
		return
	}
	m.held = append(m.held, d)
	to := time.Duration(m.rng.IntN(4)) * time.Second
	_, q := m.current(d)
	m.h.Changes = append(m.h.Changes, Change{Span: m.span(), Outcome: m.outcome(q != nil), Handle: d.Handle, Visibility: to})
	if q != nil {
		q.hiddenUntil = m.now + to
	}
}

func (m *fifoModel) startMove() {
	m.h.Moves = append(m.h.Moves, Move{Span: m.span(), Outcome: Outcome(m.rng.IntN(2)), Source: "dead"})
	m.moves = len(m.dead.line)
}

// move lets the task move one message.
func (m *fifoModel) move() {
	for _, q := range m.dead.line {
		if m.now < q.hiddenUntil {
			continue
		}
		m.moves--
		if !m.flawed("move and keep") {
			m.dead.remove(q)
		}
		copies := 1
		switch {
		case m.flawed("move and lose"):
			copies = 0
		case m.flawed("move twice"):
			copies = 2
		}
		for range copies {
			m.seq++
			m.orders.enter(&queued{body: q.body, id: fmt.Sprint("moved ", m.seq), group: q.group, dedup: q.dedup, hiddenUntil: m.now + m.delay})
		}
		return
	}
	m.moves = 0
}

func (m *fifoModel) run(enough func() bool) {
	for !enough() {
		m.now += time.Duration(m.rng.Int64N(int64(50 * time.Millisecond)))
		switch n := m.rng.IntN(100); {
		case n < 4:
			m.send()
		case n < 40:
			m.receive(&m.orders)
		case n < 50:
			m.receive(&m.dead)
		case n < 80:
			if m.rng.IntN(3) > 0 && len(m.held) > 0 {
				m.take() // forgotten, so that it comes again
			} else {
				m.delete()
			}
		case n < 90:
			m.change()
		case n == 90 && m.moves == 0:
			m.startMove()
		case m.moves > 0:
			m.move()
		}
	}
	for m.moves > 0 {
		m.move()
	}
	most := 1000 + m.h.operations()/5
	for round := 0; len(m.orders.line)+len(m.dead.line) > 0 && round < most; round++ {
		m.now += 4 * time.Second
		m.receive(&m.orders)
		for m.receive(&m.dead); len(m.held) > 0; {
			m.delete()
		}
	}
	m.h.Drained = true
}

func simulateFIFO(seed uint64, flaw string) *Report {
	m := newFIFOModel(seed, flaw)
	m.run(func() bool { return m.now >= 2*time.Minute })
	return Check(&m.h, Options{})
}

func TestCheckAcceptsCorrectFIFOQueues(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 20
	}
	first := proof.Seed(t)
	var sum Report
	for i := range seeds {
		r := simulateFIFO(first+i, "")
		sum.Repeated += r.Repeated
		sum.Duplicates += r.Duplicates
		sum.Ordered += r.Ordered
		sum.DeadLettered += r.DeadLettered
		sum.Moved += r.Moved
		for _, v := range r.Violations {
			t.Errorf("seed %d: got %v, want no violations", first+i, v)
		}
	}
	t.Logf("%d deliveries repeated, %d sends repeated, %d deliveries behind others, %d dead letters, %d moved",
		sum.Repeated, sum.Duplicates, sum.Ordered, sum.DeadLettered, sum.Moved)
	if min(sum.Repeated, sum.Duplicates, sum.Ordered, sum.DeadLettered, sum.Moved) < int(seeds) {
		t.Error("too little of something to mean anything")
	}
}

func TestCheckFindsFlawsOfFIFOQueues(t *testing.T) {
	for flaw, rules := range map[string][]Rule{
		"lose":          {Lost},
		"hurry":         {Delayed},
		"forget":        {Deduplicated},
		"jump":          {Sequence},
		"renumber":      {Sequence},
		"unlock":        {Order},
		"overtake":      {Order},
		"undelete":      {Deleted},
		"keep":          {InFlight, Counts}, // it is moved again, and so twice in the other queue
		"early":         {DeadLetter},
		"late":          {DeadLetter},
		"reset":         {DeadLetter},
		"drop":          {Lost},
		"move and lose": {Lost},
		"move and keep": {Multiplied},
		"move twice":    {Multiplied},
	} {
		t.Run(flaw, func(t *testing.T) {
			for seed := range uint64(5) {
				if simulateFIFO(seed, flaw).Count(rules...) == 0 {
					t.Errorf("seed %d: got no violation of %q, want some", seed, rules)
				}
			}
		})
	}
}
