package engine

import (
	"fmt"

	"tenaq/internal/key"
	"tenaq/internal/kv"
)

// Audit compares all rows of a store with each other. What the engine would believe, the index of due
// messages, the segments, the cursor and the counters, must be what a look at every row finds.
func Audit(store kv.Store) error {
	spaces := make(map[uint64]bool)
	for k, v := range store.Scan([]byte{familyQueue}, []byte{familyQueue + 1}) {
		name, ok := queueNameOf(k)
		row, known := decodeQueueRow(v)
		if !ok || !known {
			return fmt.Errorf("queue row %x cannot be read", k)
		}
		if row.deleted != 0 {
			continue
		}
		spaces[row.space] = true
		if err := auditSpace(store, row.space); err != nil {
			return fmt.Errorf("queue %s: %w", name.Name, err)
		}
	}
	for k := range store.Scan([]byte{familySpace}, []byte{familySpace + 1}) {
		if space, _, _ := key.Uint64(k[1:]); !spaces[space] {
			return fmt.Errorf("row %x is in a space that no queue has", k)
		}
	}
	return nil
}

// everyRow calls f for each row of a kind until it returns an error.
type everyRow func(kind rowKind, f func(k, v []byte) error) error

type auditMessage struct {
	meta     meta
	inline   bool
	delivery *delivery
}

func auditSpace(store kv.Store, space uint64) error {
	value, ok := store.Get(nil, stateKey(space))
	st, known := decodeState(value)
	if !ok || !known {
		return fmt.Errorf("no state")
	}
	messages := make(map[uint64]*auditMessage)
	segments := make(map[uint64]int64)
	var every everyRow = func(kind rowKind, f func(k, v []byte) error) error {
		for k, v := range store.Scan(spaceKey(space, kind), spaceKey(space, kind+1)) {
			if err := f(k, v); err != nil {
				return err
			}
		}
		return nil
	}
	err := every(kindMessage, func(k, v []byte) error {
		seq := seqOf(k)
		m, inline, ok := decodeMeta(seq, v)
		if !ok || seq == 0 || seq >= st.nextSeq {
			return fmt.Errorf("message row %x", k)
		}
		messages[seq] = &auditMessage{meta: m, inline: inline != nil}
		segments[seq>>segmentBits]++
		return nil
	})
	if err != nil {
		return err
	}
	apart := 0
	err = every(kindContent, func(k, _ []byte) error {
		apart++
		if m := messages[seqOf(k)]; m == nil || m.inline {
			return fmt.Errorf("content of message %d, which has none apart", seqOf(k))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, m := range messages { // order does not matter: all are looked at
		if !m.inline {
			apart--
		}
	}
	if apart != 0 || int64(len(messages)) != st.live {
		return fmt.Errorf("%d messages, and the state says %d; %d contents too many", len(messages), st.live, apart)
	}
	err = every(kindDelivery, func(k, v []byte) error {
		seq := seqOf(k)
		d, ok := decodeDelivery(v)
		if m := messages[seq]; !ok || m == nil || d.apart == m.inline {
			return fmt.Errorf("delivery row of message %d", seq)
		}
		messages[seq].delivery = &d
		return nil
	})
	if err != nil {
		return err
	}
	if err := auditDue(&st, messages, every); err != nil {
		return err
	}
	for seq, m := range messages { // order does not matter: all are looked at
		handedOut, scheduled := m.delivery != nil, m.meta.scheduled()
		switch {
		case scheduled && !handedOut:
			return fmt.Errorf("message %d entered through due and is not there", seq)
		case !handedOut && (seq < st.cursor || seq > st.lastFresh):
			return fmt.Errorf("fresh message %d outside cursor %d and last fresh %d", seq, st.cursor, st.lastFresh)
		case handedOut && !scheduled && seq >= max(st.cursor, st.mixed):
			return fmt.Errorf("message %d was handed out; cursor %d, mixed %d", seq, st.cursor, st.mixed)
		}
	}
	return auditSegments(&st, messages, segments, every)
}

// auditSegments compares the segments with the messages; counts says how many messages each has.
func auditSegments(st *state, messages map[uint64]*auditMessage, counts map[uint64]int64, every everyRow) error {
	err := every(kindSegment, func(k, v []byte) error {
		id := seqOf(k)
		s, ok := decodeSegment(v)
		if !ok || s.live != counts[id] || s.live > 0 && id < st.segment {
			return fmt.Errorf("segment %d has %d messages and says %d; low-water segment %d", id, counts[id], s.live, st.segment)
		}
		for seq, m := range messages { // order does not matter: all are looked at
			if seq>>segmentBits == id && (seq < s.first || m.meta.sent > s.sent) {
				return fmt.Errorf("segment %d begins at %d and ends at time %d; message %d of time %d", id, s.first, s.sent, seq, m.meta.sent)
			}
		}
		delete(counts, id)
		return nil
	})
	if err == nil && len(counts) > 0 {
		err = fmt.Errorf("segments without a row: %v", counts)
	}
	return err
}

// auditDue compares the due index with the deliveries and the counters.
func auditDue(st *state, messages map[uint64]*auditMessage, every everyRow) error {
	var delayed, inFlight int64
	due := 0
	err := every(kindDue, func(k, v []byte) error {
		p := posOf(k[spacePrefixLen:])
		m := messages[p.seq]
		if m == nil || m.delivery == nil || m.delivery.at != p.at || len(v) != 1 || m.delivery.kind != dueKind(v[0]) {
			return fmt.Errorf("due row of message %d at %d", p.seq, p.at)
		}
		if p.less(st.dueLow) {
			return fmt.Errorf("due row of message %d at %d below the low-water key %v", p.seq, p.at, st.dueLow)
		}
		if st.settled.less(p) {
			if dueKind(v[0]) == dueDelayed {
				delayed++
			} else {
				inFlight++
			}
		}
		due++
		return nil
	})
	if err != nil {
		return err
	}
	for _, m := range messages { // order does not matter: all are looked at
		if m.delivery != nil {
			due--
		}
	}
	if due != 0 || delayed != st.delayed || inFlight != st.inFlight {
		return fmt.Errorf("%d due rows too many; %d delayed and %d in flight, and the state says %d and %d",
			due, delayed, inFlight, st.delayed, st.inFlight)
	}
	return nil
}
