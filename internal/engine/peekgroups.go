package engine

import (
	"encoding/base64"

	"tenaq/internal/engine/row"
)

// PeekGroups shows the message groups of a FIFO queue: first those that dead letters hold, by the
// time since which they do [HOLD-10]; then those that are locked, because their first message is in
// flight or delayed, by the time at which it will be receivable; then the others, those handed out
// before by the time since which they can be received again, and the rest by the time of the send.
// Like a Peek, it changes no answer. [V1-10]
//
// A page is a part of this order as it was at the first page. A group whose first message stays the
// same is met once. The work of a page depends on its length alone.
type PeekGroups struct {
	Queue  QueueName
	Group  string // only this group; empty for all
	Locked bool   // only held and locked groups
	After  string // Next of the page before; empty to begin with the first
	Max    int    // groups of a page, at most PeekMax

	// The answer: a page, and where the next one begins; empty after the last.
	Groups []PeekedGroup
	Next   string
}

// A PeekedGroup is a group as PeekGroups shows it.
type PeekedGroup struct {
	Group     string
	State     MessageState // of its first message
	VisibleAt int64        // when that is or was receivable, or since when the group is held
	Wait      int64        // for how many milliseconds it is not
	Messages  uint64       // of the group, the first one included
	First     Delivery     // zero if there is none, which only a held group can have
	HeldBy    []Holder     // in the order of the group
}

// A Holder is a dead letter that holds a group.
type Holder struct {
	Queue   QueueName // that it is in
	ID      MessageID
	Lineage MessageID
}

func (op *PeekGroups) apply(e *Engine, _ *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	at, ok := openGroupPlace(q, e.now, op.After)
	switch {
	case !q.fifo():
		return errNoGroups(q)
	case !ok:
		return errValue(op.After, "after", "It is not a place in the groups of this queue.")
	case op.Max < 1 || op.Max > PeekMax:
		return errNumber(int64(op.Max), "limit", "Must be between 1 and 100.")
	}
	if !e.ready(q) {
		return ErrAgain
	}
	op.Groups, op.Next = nil, ""
	if op.Group != "" {
		e.flush() // for the row of the group
		k := row.GroupKey(q.row.Space, op.Group)
		if stored, ok := read(&e.rows, "group", k, row.DecodeGroup); ok {
			op.show(e, q, op.Group, &stored)
		}
		return nil
	}
	heads, more := e.headsFrom(q, &at, op.Locked, op.Max)
	for _, name := range heads {
		k := row.GroupKey(q.row.Space, name)
		stored, ok := read(&e.rows, "group", k, row.DecodeGroup)
		if !ok {
			e.rows.damaged("group", k)
		}
		op.show(e, q, name, &stored)
	}
	if more {
		op.Next = at.seal(q.row.Incarnation)
	}
	return nil
}

// show puts a group on the page, unless it is not locked and only locked ones are asked for.
func (op *PeekGroups) show(e *Engine, q *queue, name string, stored *row.Group) {
	found := PeekedGroup{Group: name, State: StateVisible, VisibleAt: stored.At,
		Messages: stored.Count}
	if stored.Class == row.HeadFresh {
		found.VisibleAt += q.row.Attributes.Delay()
	}
	found.Wait = max(found.VisibleAt-e.now, 0)
	for _, s := range stored.Front {
		if s.Dead() {
			found.HeldBy = append(found.HeldBy, e.holder(s))
		}
	}
	if stored.Count == 0 {
		found.State = StateHeld
		op.Groups = append(op.Groups, found)
		return
	}
	seq, v := stored.First.Seq, row.Delivery{}
	if stored.Class != row.HeadFresh {
		v, _ = read(&e.rows, "delivery", row.SeqKey(q.row.Space, row.KindDelivery, seq),
			row.DecodeDelivery)
	}
	switch {
	case stored.Class == row.HeadHeld:
		found.State = StateHeld
	case found.VisibleAt <= e.now:
	case stored.Class == row.HeadPlaced && v.Kind != row.DueDelayed:
		found.State = StateInFlight
	default:
		found.State = StateDelayed
	}
	if op.Locked && found.State == StateVisible {
		return
	}
	k := row.SeqKey(q.row.Space, row.KindMessage, seq)
	value, _ := e.rows.get(k) // without a row it is damaged
	m, _ := e.decodeMessage(k, value)
	found.First = q.show(&m, &v)
	op.Groups = append(op.Groups, found)
}

// holder shows the dead letter of a slot.
func (e *Engine) holder(s row.Slot) (h Holder) {
	h.Queue, _ = read(&e.rows, "owner", row.OwnerKey(s.Space), row.DecodeOwner)
	k := row.SeqKey(s.Space, row.KindMessage, s.Seq)
	if value, ok := e.rows.get(k); ok {
		m, _ := e.decodeMessage(k, value)
		h.ID, h.Lineage = m.ID, m.Lineage
	}
	return h
}

// A groupPlace is a place in the order of groups at a moment.
type groupPlace struct {
	part   byte  // of groupParts
	now    int64 // placed heads after it are locked
	fresh  int64 // fresh heads that were sent after it are locked
	behind row.Pos
}

// groupParts are the parts of the order: each is a range of an index of heads.
var groupParts = [...]struct {
	class  row.HeadClass
	locked bool
}{{row.HeadHeld, true}, {row.HeadPlaced, true}, {row.HeadFresh, true}, {row.HeadPlaced, false},
	{row.HeadFresh, false}}

// headsFrom reads up to limit groups after a place, moves the place behind the last of them, and
// reports whether there are others.
func (e *Engine) headsFrom(
	q *queue, at *groupPlace, locked bool, limit int,
) (groups []string, more bool) {
	last := *at
	for ; int(at.part) < len(groupParts); at.part, at.behind = at.part+1, (row.Pos{}) {
		part := groupParts[at.part]
		if locked && !part.locked {
			return groups, false
		}
		border := row.LastAt(at.now)
		if part.class == row.HeadFresh {
			border = row.LastAt(at.fresh)
		}
		from := at.behind
		switch {
		case from != (row.Pos{}):
			from = from.Next()
		case part.class == row.HeadHeld:
		case part.locked:
			from = border.Next()
		default:
			// The rows before it are the tombstones of everything deleted.
			from = q.st.HeadLow[part.class]
		}
		index := &row.HeadRows[part.class]
		for k, v := range e.scan(index.From(q.row.Space, from)) {
			head := entryOf(e, index, k, v)
			if !part.locked && border.Less(head.Pos) {
				break
			}
			if len(groups) == limit {
				*at = last
				return groups, true
			}
			groups, at.behind = append(groups, head.value), head.Pos
			last = *at
		}
	}
	return groups, false
}

// groupPlaceVersion begins every place among groups.
const groupPlaceVersion = 1

// seal returns the place as clients see it.
func (p *groupPlace) seal(incarnation [16]byte) string {
	var c row.Codec
	p.parts(&c, &incarnation)
	return base64.RawURLEncoding.EncodeToString(c.B)
}

func (p *groupPlace) parts(c *row.Codec, incarnation *[16]byte) {
	c.Version(groupPlaceVersion)
	c.ID(incarnation)
	c.Byte(&p.part)
	c.Int(&p.now, &p.fresh, &p.behind.At)
	c.Uint(&p.behind.Seq)
}

// openGroupPlace reads a place; the empty one is the beginning, now.
func openGroupPlace(q *queue, now int64, place string) (p groupPlace, ok bool) {
	if place == "" {
		return groupPlace{now: now, fresh: now - q.row.Attributes.Delay()}, true
	}
	b, err := base64.RawURLEncoding.DecodeString(place)
	var of [16]byte
	c := row.Codec{B: b, Reading: true}
	p.parts(&c, &of)
	return p, err == nil && c.Done() && of == q.row.Incarnation && int(p.part) < len(groupParts)
}

func errNoGroups(q *queue) *Error {
	return errValue(q.name.Name, "queue", "It is not a FIFO queue: only those have message groups.")
}
