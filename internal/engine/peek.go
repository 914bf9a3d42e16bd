package engine

import (
	"cmp"
	"encoding/base64"
	"slices"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// Peek reads the messages of a queue without receiving them. It counts, hides and moves nothing,
// and changes no later answer. [PEEK-1]
//
// Messages come in the order of their numbers, in which they entered the queue [PEEK-3], and not in
// the order of receives. A place in that order stays valid, no matter what happens to the messages,
// so a reader that continues from place to place meets each message once. [PEEK-4]
//
// The rows that one Apply reads are bounded, whether their messages are in the State or not. A page
// may therefore be short or even empty, with more after it.
type Peek struct {
	Queue QueueName
	State MessageState // only messages in this state; empty for all
	After string       // Next of the page before; empty to begin at the front
	At    string       // the message with this place alone, if it is there; empty for a page
	Max   int          // messages of a page, at most PeekMax
	Bytes int64        // bound on the messages of a page except the first; zero for none

	// The answer: a page, and where the next one begins; empty after the last.
	Messages []Peeked
	Next     string
}

// PeekMax is how many messages a page may have.
const PeekMax = 100

// How many messages one Apply looks at, and in how many segments. In each segment it may walk over
// deleted messages.
const (
	peekLooks    = 512
	peekSegments = 8
)

// A MessageState says whether a message can be received now, and if not, why. SQS counts blocked
// messages and held ones as visible.
type MessageState string

// The states of a message. [PEEK-2]
const (
	StateVisible  MessageState = "visible"
	StateInFlight MessageState = "in_flight"
	StateDelayed  MessageState = "delayed"
	// of a FIFO queue: behind another of its group that is in flight or delayed
	StateBlocked MessageState = "blocked"
	// of a FIFO queue: in a group that a dead letter holds [HOLD-10]
	StateHeld MessageState = "held"
)

// Known reports whether the state is one that messages can have.
func (s MessageState) Known() bool {
	return s == StateVisible || s == StateInFlight || s == StateDelayed || s == StateBlocked ||
		s == StateHeld
}

// A Peeked is a message as Peek shows it. Times are in Unix milliseconds. Read its content with
// ReadContent after the turn is committed; it may be gone by then.
type Peeked struct {
	Delivery    // the latest one; its receives are zero when there was none
	State       MessageState
	Age         int64 // milliseconds since it was sent
	VisibleAt   int64 // when it is, was or will be visible, others of its group aside
	LastReceive int64
	Arrived     int64     // in this queue
	Based       int64     // its retention counts from here
	Redrives    uint64    // of the lineage
	Holds       *row.Hold // the group that it holds as a dead letter; nil for none [HOLD-10]
	Place       string    // of the message, for Replace; a Peek continues after it
}

func (op *Peek) apply(e *Engine, _ *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	after, ok := openPlace(amongMessages, q.row.Incarnation, op.After)
	if op.At != "" {
		if after, ok = openPlace(amongMessages, q.row.Incarnation, op.At); after > 0 {
			after, op.Max = after-1, 1
		}
	}
	switch {
	case !ok:
		name := "after"
		if op.At != "" {
			name = "at"
		}
		return errValue(cmp.Or(op.At, op.After), name, "It is not a place in this queue.")
	case op.State != "" && !op.State.Known():
		return errValue(string(op.State), "state",
			"Must be visible, in_flight, delayed, blocked or held.")
	case op.Max < 1 || op.Max > PeekMax:
		return errNumber(int64(op.Max), "limit", "Must be between 1 and 100.")
	}
	if !e.ready(q) || !e.settleDelayed(q, settleStep) {
		return ErrAgain
	}
	op.Messages, op.Next = nil, ""
	p := peek{Peek: op, e: e, q: q, place: after, looks: peekLooks, gates: make(map[string]gate)}
	if more := p.run(); op.At != "" {
		op.Messages = slices.DeleteFunc(op.Messages, func(m Peeked) bool {
			return m.Place != op.At
		})
	} else if more {
		op.Next = sealPlace(amongMessages, q.row.Incarnation, p.place)
	}
	return nil
}

// look shows one message as Peek does; false if it is not there.
func (e *Engine) look(q *queue, seq uint64) (found Peeked, ok bool) {
	one := peek{Peek: &Peek{Max: 1}, e: e, q: q, place: seq - 1, looks: 1,
		gates: make(map[string]gate)}
	metas, _ := one.metas(seq, seq+1)
	if len(metas) == 0 {
		return found, false
	}
	one.take(metas)
	return one.Messages[0], true
}

// A peek is a Peek in progress. It reads rows only and keeps nothing in memory, because the windows
// belong to receives.
type peek struct {
	*Peek
	e *Engine
	q *queue

	place uint64          // what has been looked at, up to and including this number
	looks int             // how many messages may still be looked at
	bytes int64           // of what was found
	gates map[string]gate // by group
}

// run fills the page and reports whether there may be more after it.
func (p *peek) run() (more bool) {
	pieces, more := p.pieces()
	for _, r := range pieces {
		for lo := max(r.Lo, p.place+1); lo < r.Hi; lo = p.place + 1 {
			metas, whole := p.metas(lo, r.Hi)
			if len(metas) > 0 && !p.take(metas) {
				return true
			}
			if whole {
				p.place = r.Hi - 1
			}
		}
	}
	return more
}

// pieces returns the next segments after the place that have live messages, as ranges of numbers,
// and whether there are other segments. Between them is only what was deleted.
func (p *peek) pieces() (pieces []row.SeqRange, more bool) {
	from := max((p.place+1)>>row.SegmentBits, p.q.st.Segment)
	for id, s := range p.e.segments(p.q, from) {
		if len(pieces) == peekSegments {
			return pieces, true
		}
		lo, hi := p.q.bounds(id, &s)
		pieces = append(pieces, row.SeqRange{Lo: lo, Hi: hi})
	}
	return pieces, false
}

// metas reads messages with lo <= seq < hi, one more than fit on the page, so that the last page
// knows that it is the last. Whole reports that there are no others.
func (p *peek) metas(lo, hi uint64) (metas []row.Meta, whole bool) {
	room := p.Max - len(p.Messages) + 1
	for m := range p.e.metas(p.q, lo, hi) {
		if len(metas) == room {
			return metas, false
		}
		metas = append(metas, m)
	}
	return metas, true
}

// take puts messages on the page. It reports false if the page ends before one of them.
func (p *peek) take(metas []row.Meta) bool {
	first, last := metas[0].Seq, metas[len(metas)-1].Seq
	deliveries, holds := p.deliveries(first, last), p.holds(first, last)
	for i := range metas {
		m := &metas[i]
		if p.looks == 0 || len(p.Messages) == p.Max {
			return false
		}
		var v *row.Delivery
		if len(deliveries) > 0 && deliveries[0].seq == m.Seq {
			v, deliveries = &deliveries[0].Delivery, deliveries[1:]
		}
		if found := p.show(m, v); p.State == "" || p.State == found.State {
			if p.bytes += m.Size; p.Bytes > 0 && p.bytes > p.Bytes && len(p.Messages) > 0 {
				return false
			}
			found.Holds = holds[m.Seq]
			p.Messages = append(p.Messages, found)
		}
		p.looks--
		p.place = m.Seq
	}
	return true
}

// A placedRow is a delivery row.
type placedRow struct {
	seq uint64
	row.Delivery
}

// deliveries reads the delivery rows with first <= seq <= last. A scan costs less than a lookup for
// each message, because most messages of a backlog have none.
func (p *peek) deliveries(first, last uint64) (found []placedRow) {
	for k, v := range p.e.scan(row.SeqSpan(p.q.row.Space, row.KindDelivery, first, last+1)) {
		found = append(found, placedRow{row.SeqOf(k),
			decoded(&p.e.rows, "delivery", k, v, row.DecodeDelivery)})
	}
	return found
}

// holds reads which of the messages with first <= seq <= last hold a group.
func (p *peek) holds(first, last uint64) map[uint64]*row.Hold {
	if !p.e.sys.Holds || !p.q.fifo() {
		return nil
	}
	found := make(map[uint64]*row.Hold)
	for k, v := range p.e.scan(row.SeqSpan(p.q.row.Space, row.KindHold, first, last+1)) {
		h := decoded(&p.e.rows, "hold", k, v, row.DecodeHold)
		if seq := row.SeqOf(k); p.e.inForce(&h, p.q.row.Space, seq) {
			found[seq] = &h
		}
	}
	return found
}

// inForce reports whether the group that a hold names still has the slot of the dead letter.
func (e *Engine) inForce(h *row.Hold, space, seq uint64) bool {
	q, err := e.lookup(h.Queue)
	if err != nil {
		return false
	}
	g, _ := read(&e.rows, "group", row.GroupKey(q.row.Space, h.Group), row.DecodeGroup)
	return g.SlotOf(space, seq) >= 0
}

// show describes a message; v is nil when it was never handed out.
func (p *peek) show(m *row.Meta, v *row.Delivery) Peeked {
	found := Peeked{State: StateVisible, Age: max(p.e.now-m.Sent, 0), VisibleAt: m.Sent,
		Arrived: m.Arrived, Based: m.Base, Redrives: m.Redrives,
		Place: sealPlace(amongMessages, p.q.row.Incarnation, m.Seq)}
	if v != nil {
		found.Delivery = p.q.show(m, v)
		found.VisibleAt, found.LastReceive = v.At, v.LastReceive
	} else if found.Delivery = p.q.show(m, &row.Delivery{}); p.q.fifo() {
		found.VisibleAt += p.q.row.Attributes.Delay() // [FIFO-11]
	}
	switch {
	case found.VisibleAt > p.e.now && (v == nil || v.Kind == row.DueDelayed):
		found.State = StateDelayed
	case found.VisibleAt > p.e.now:
		found.State = StateInFlight
	case p.q.fifo():
		found.State = p.gate(m.Group).state(m.Seq)
	}
	return found
}

// A gate says which messages of a group can be received now, hidden ones aside.
type gate struct {
	behind uint64   // no message with a number above; noGate if there is no bound
	ahead  []uint64 // the messages in front of all others, in order
	open   int      // index in ahead of the first hidden one, which blocks what comes after it
	held   bool
}

// state returns the state of a message that is not hidden.
func (g gate) state(seq uint64) MessageState {
	i := slices.Index(g.ahead, seq)
	switch {
	case g.held:
		return StateHeld
	case i > g.open, i < 0 && g.open < len(g.ahead), i < 0 && seq > g.behind:
		return StateBlocked
	}
	return StateVisible
}

// gate returns the gate of a group.
func (p *peek) gate(group string) gate {
	g, ok := p.gates[group]
	if !ok {
		g = p.findGate(group)
		p.gates[group] = g
	}
	return g
}

const noGate = ^uint64(0)

// gateLooks is how many messages of a group are looked at for one that is delayed.
const gateLooks = 100

// findGate looks at two places of the group, and at few messages in each.
//
// Messages in flight are among the first ones, as many as one receive can take, because a receive
// takes messages from the front of a group [FIFO-17] and no message enters there. Delayed messages
// are among the last ones, and block only messages that came after them with a place of their own,
// such as dead letters. A delayed message after more than gateLooks of these is not found.
func (p *peek) findGate(group string) (g gate) {
	e, delay := p.e, p.q.row.Attributes.Delay()
	k := row.GroupKey(p.q.row.Space, group)
	stored, ok := read(&e.rows, "group", k, row.DecodeGroup)
	if !ok {
		e.rows.damaged("group", k)
	}
	if g.behind, g.held = noGate, stored.IsHeld(); g.held {
		return g
	}
	if len(stored.Front) > 0 {
		p.findAhead(&g, group, &stored)
		return g
	}
	at := stored.At
	if stored.Class == row.HeadFresh {
		at += delay
	}
	switch {
	case at > e.now:
		g.behind = stored.First.Seq
		return g
	case stored.Placed <= stored.First.Seq:
		return g // behind the first are only messages that were never handed out
	}
	second, delayed := stored.First.Seq+1, p.q.st.Counted.Lo
	g.behind = p.firstHidden(group, &stored, second, sqslimits.ReceiveMax-1)
	if g.behind == noGate && delay > 0 && stored.Placed > delayed {
		g.behind = p.firstHidden(group, &stored, max(second, delayed), gateLooks)
	}
	return g
}

// findAhead is findGate for a group with messages in front of all others, where those in flight
// are.
func (p *peek) findAhead(g *gate, group string, stored *row.Group) {
	delay := p.q.row.Attributes.Delay()
	g.open = len(stored.Front)
	for i, s := range stored.Front {
		if g.ahead = append(g.ahead, s.Seq); p.hidden(s.Seq, s.Sent+delay, stored.Placed) {
			g.open = min(g.open, i)
		}
	}
	g.behind = p.firstHidden(group, stored, 0, gateLooks)
}

// firstHidden returns the first message of a group, from a number on, that is in flight or delayed.
// It looks at no more than looks messages.
func (p *peek) firstHidden(group string, stored *row.Group, from uint64, looks int) uint64 {
	rows := row.LineSpan(p.q.row.Space, group, from)
	for k, v := range p.e.scan(rows) {
		sent, ok := row.DecodeLine(v)
		seq := row.LineSeq(k)
		if !ok || seq < from {
			p.e.rows.damaged("line", k)
		}
		if p.hidden(seq, sent+p.q.row.Attributes.Delay(), stored.Placed) {
			return seq
		}
		if looks--; looks == 0 {
			break
		}
	}
	return noGate
}

// hidden reports whether a message of a group is in flight or delayed. Fresh is when it can be
// received if it was never handed out, which is sure of those behind placed.
func (p *peek) hidden(seq uint64, fresh int64, placed uint64) bool {
	if seq <= placed {
		k := row.SeqKey(p.q.row.Space, row.KindDelivery, seq)
		if v, ok := read(&p.e.rows, "delivery", k, row.DecodeDelivery); ok {
			return v.At > p.e.now
		}
	}
	return fresh > p.e.now
}

// The first byte of a place. Messages and outcomes are numbered separately, so a place among
// messages is no place among outcomes.
const (
	amongMessages = 1
	amongOutcomes = 2
)

// sealPlace returns the place after a message as clients see it. It names the incarnation of the
// queue, because another queue of the same name numbers its messages from the beginning.
func sealPlace(among byte, incarnation [16]byte, seq uint64) string {
	var c row.Codec
	c.Byte(&among)
	c.ID(&incarnation)
	c.Uint(&seq)
	return base64.RawURLEncoding.EncodeToString(c.B)
}

// openPlace reads a place. The empty one is the front of any queue.
func openPlace(among byte, incarnation [16]byte, place string) (seq uint64, ok bool) {
	if place == "" {
		return 0, true
	}
	b, err := base64.RawURLEncoding.DecodeString(place)
	var kind byte
	var of [16]byte
	c := row.Codec{B: b, Reading: true}
	c.Byte(&kind)
	c.ID(&of)
	c.Uint(&seq)
	return seq, err == nil && c.Done() && kind == among && of == incarnation && seq < 1<<63
}
