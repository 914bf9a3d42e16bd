package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"tenaq/internal/engine/row"
)

// A fairRun verifies the index of a fair queue. Waiting rows are compared with the messages, turns
// with the tenants, and the counts of the tenants with both.
type fairRun struct {
	row.Fair
	before uint64 // available messages that were there before and have no waiting row
	lined  uint64 // of those that were there before, the others

	waiting, turns relation

	messages, tenants tenantSum
}

// A tenantSum counts messages by tenant and by class, in a few bytes: two sums that are the same
// are taken for the same counts.
type tenantSum struct{ hashes [2]uint64 }

// The classes of a tenantSum.
const (
	classWaiting byte = iota
	classInFlight
	classDelayed
)

func (s *tenantSum) add(tenant string, class byte, n uint64) {
	sum := sha256.Sum256(append([]byte{class}, tenant...))
	s.hashes[0] += n * binary.BigEndian.Uint64(sum[:8])
	s.hashes[1] += n * binary.BigEndian.Uint64(sum[8:])
}

// fairRow reads the row that the others of a fair queue are judged by; nil if there is none.
func (s *spaceRun) fairRow() *fairRun {
	k := row.FairKey(s.space)
	value, ok := s.get(k)
	if !s.fairTag || !ok {
		if s.fairTag {
			s.say(k, "the queue is fair, and this row is not there")
		}
		return nil
	}
	f := &fairRun{}
	if f.Fair, ok = row.DecodeFair(value); !ok {
		s.damagedRow(s.queue, k, "fair", value)
		return nil
	}
	s.canonical(s.queue, k, value, f.Encode(nil))
	if f.From > s.st.NextSeq || s.st.Settled.Less(f.Due) {
		s.say(k, "it is fair from message %d and %d on, and the next message is %d, counted to %d",
			f.From, f.Due.At, s.st.NextSeq, s.st.Settled.At)
	}
	f.waiting = relation{audit: s.run, queue: s.queue, name: "waiting",
		owners: s.kind(row.KindMessage), rows: s.kind(row.KindWaiting)}
	f.waiting.wants = func(k, v []byte) (wantKey, wantValue []byte, ok bool) {
		m, _, known := row.DecodeMeta(row.SeqOf(k), v)
		placed := message{Meta: m}
		if value, there := s.get(row.SeqKey(s.space, row.KindDelivery, m.Seq)); there {
			placed.Delivery, placed.hasDelivery = row.DecodeDelivery(value)
		}
		wantKey, wantValue, ok = s.waitingRow(&placed)
		return wantKey, wantValue, ok && known
	}
	f.waiting.owner = func(k, _ []byte) ([]byte, bool) {
		return row.SeqKey(s.space, row.KindMessage, row.WaitingPos(k).Seq), true
	}
	f.turns = relation{audit: s.run, queue: s.queue, name: "turn",
		owners: s.kind(row.KindTenant), rows: s.kind(row.KindTurn)}
	f.turns.wants = func(k, v []byte) (wantKey, wantValue []byte, ok bool) {
		name, named := row.GroupOf(k)
		t, known := row.DecodeTenant(v)
		wantKey, wantValue, ok = s.turnRow(name, &t)
		return wantKey, wantValue, ok && named && known
	}
	f.turns.owner = func(_, v []byte) ([]byte, bool) {
		name, ok := row.DecodeHead(v)
		return row.TenantKey(s.space, name), ok
	}
	return f
}

// tenantOf returns the tenant of a message.
func (f *fairRun) tenantOf(m *message) string {
	if m.Seq < f.From {
		return row.TenantBefore
	}
	return m.Group
}

// visible reports whether the counters see a message as available.
func (s *spaceRun) visible(m *message) bool {
	return !m.hasDelivery || !s.st.Settled.Less(m.Pos(m.Seq))
}

// isBefore reports whether an available message has no waiting row.
func (f *fairRun) isBefore(m *message) bool {
	if m.hasDelivery {
		return !f.Due.Less(m.Pos(m.Seq))
	}
	return m.Seq < f.From
}

// waitingRow is the waiting row of a message, if it has one.
func (s *spaceRun) waitingRow(m *message) (k, v []byte, ok bool) {
	if !s.visible(m) || s.fair.isBefore(m) {
		return nil, nil, false
	}
	p := m.FreshPos()
	if m.hasDelivery {
		p = m.Pos(m.Seq)
	}
	return row.WaitingKey(s.space, s.fair.tenantOf(m), p),
		row.EncodeWaiting(nil, m.hasDelivery), true
}

// turnRow is the turn of a tenant, if it has one.
func (s *spaceRun) turnRow(name string, t *row.Tenant) (k, v []byte, ok bool) {
	if name == row.TenantNone || t.Waiting == 0 {
		return nil, nil, false
	}
	return row.TurnRows.Key(s.space, t.Turn()), row.EncodeHead(nil, name), true
}

// inTenant counts a message in its tenant.
func (s *spaceRun) inTenant(m *message) {
	f, class := s.fair, classWaiting
	switch {
	case s.visible(m):
		switch {
		case f.isBefore(m):
			f.before++
		case m.Seq < f.From:
			f.lined++
		}
	case m.Kind == row.DueDelayed:
		class = classDelayed
	default:
		class = classInFlight
	}
	f.messages.add(f.tenantOf(m), class, 1)
	f.waiting.expect(s.waitingRow(m))
}

// inTenants goes through the tenants of a fair queue and, beside them, through what waits.
func (s *spaceRun) inTenants() {
	f := s.fair
	if f == nil {
		for k := range s.rows(row.FairSpan(s.space)) {
			if !s.fairTag {
				s.say(k, "this is a row of a fair queue, and the queue is not fair")
			}
		}
		return
	}
	for k := range s.rows(s.kind(row.KindFair)) {
		if len(k) != row.SpacePrefixLen {
			s.say(k, "this row is of no kind that there is")
		}
	}
	lines := s.cursor(s.kind(row.KindWaiting))
	defer lines.stop()
	for k, v := range s.rows(s.kind(row.KindTenant)) {
		name, named := row.GroupOf(k)
		t, ok := row.DecodeTenant(v)
		if !named || !ok {
			s.damagedRow(s.queue, k, "tenant", v)
			continue
		}
		s.canonical(s.queue, k, v, t.Encode(nil))
		if s.past(s.queue, k, "its last delivery", t.Served.At); t.Served.Seq > f.Serves {
			s.say(k, "group %q was served by delivery %d, and there were %d", name, t.Served.Seq,
				f.Serves)
		}
		for class, n := range []uint64{t.Waiting, t.InFlight, t.Delayed} {
			f.tenants.add(name, byte(class), n)
		}
		f.turns.expect(s.turnRow(name, &t))
		lined := s.waitingUntil(lines, k[row.SpacePrefixLen:], t.Low)
		if t.Front != row.FrontUnknown {
			value, ok := s.get(row.WaitingKey(s.space, name, t.Low))
			placed, _ := row.DecodeWaiting(value)
			if !ok || placed != (t.Front == row.FrontPlaced) {
				s.say(k, "group %q says that its first message is %d of %d, and it is not", name,
					t.Low.Seq, t.Low.At)
			}
		}
		if name == row.TenantBefore {
			lined += f.before
		}
		if lined != t.Waiting {
			s.say(k, "group %q says that %d messages wait, and it has %d", name, t.Waiting, lined)
		}
	}
	s.waitingUntil(lines, nil, row.Pos{})
	f.waiting.settle()
	inPlaces(s, &f.turns, row.DecodeHead, f.TurnLow, func(row.Pos, string) {})
	switch k := row.FairKey(s.space); {
	case f.before != f.Before:
		s.say(k, "it says that %d available messages were there before, and there are %d", f.Before,
			f.before)
	case f.messages != f.tenants:
		s.say(k, "the groups count other messages than those that are there")
	}
}

// waitingUntil takes the waiting rows of a tenant forward, whose name is given as it is in a key,
// and those of tenants before it, which are not there. Without a tenant it takes what is left. It
// returns how many the tenant has.
func (s *spaceRun) waitingUntil(c *cursor, tenant []byte, low row.Pos) (n uint64) {
	for ; c.ok; c.next() {
		of := c.k[row.SpacePrefixLen:max(len(c.k)-16, row.SpacePrefixLen)]
		order := -1
		if tenant != nil {
			order = bytes.Compare(of, tenant)
		}
		if order > 0 {
			return n
		}
		s.fair.waiting.have.add(c.k, c.v)
		_, named := row.WaitingOf(c.k)
		_, ok := row.DecodeWaiting(c.v)
		switch {
		case !ok || !named:
			s.damagedRow(s.queue, c.k, "waiting", c.v)
		case order < 0:
			s.say(c.k, "this is the waiting row of a message in a group that is not there")
		default:
			s.low(c.k, row.WaitingPos(c.k), low)
			n++
		}
	}
	return n
}
