package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

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
		if err := auditSpace(store, row.space, &row.attributes); err != nil {
			return fmt.Errorf("queue %s: %w", name.Name, err)
		}
	}
	for k := range store.Scan([]byte{familySpace}, []byte{familySpace + 1}) {
		if space, _, _ := key.Uint64(k[1:]); !spaces[space] {
			return fmt.Errorf("row %x is in a space that no queue has", k)
		}
	}
	return auditRelations(store)
}

// auditRelations compares the index of sources and the rows of move tasks with the queues.
func auditRelations(store kv.Store) error {
	want, queues := make(map[string]bool), make(map[QueueName]bool)
	for k, v := range store.Scan([]byte{familyQueue}, []byte{familyQueue + 1}) {
		name, _ := queueNameOf(k)
		if row, _ := decodeQueueRow(v); row.deleted == 0 {
			queues[name] = true
			if r := row.attributes.Redrive; r != (Redrive{}) {
				want[string(sourceKey(r.Target, name.Name))] = true
			}
		}
	}
	for k := range store.Scan([]byte{familySource}, []byte{familySource + 1}) {
		if !want[string(k)] {
			return fmt.Errorf("source row %x has no policy", k)
		}
		delete(want, string(k))
	}
	if len(want) > 0 {
		return fmt.Errorf("policies without a source row: %v", want)
	}
	active := make(map[uint64]bool)
	for k, v := range store.Scan([]byte{familyActive}, []byte{familyActive + 1}) {
		number, source, ok := decodeActive(k, v)
		if !ok || !queues[source] {
			return fmt.Errorf("active row %x", k)
		}
		active[number] = true
	}
	for k, v := range store.Scan([]byte{familyTask}, []byte{familyTask + 1}) {
		t, ok := decodeTask(v)
		number, _ := taskNumber(k)
		if !ok || active[number] != t.status.active() {
			return fmt.Errorf("task row %x: %+v, and among the active ones: %v", k, t, active[number])
		}
		delete(active, number)
	}
	if len(active) > 0 {
		return fmt.Errorf("active tasks without a row: %v", active)
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

func auditSpace(store kv.Store, space uint64, a *Attributes) error {
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
	if err := auditDue(&st, a.FIFO, messages, every); err != nil {
		return err
	}
	if err := auditOrigins(&st, messages, a, every); err != nil {
		return err
	}
	if err := auditElders(&st, messages, every); err != nil {
		return err
	}
	if err := auditDedup(&st, every); err != nil {
		return err
	}
	if a.FIFO {
		if err := auditGroups(&st, messages, every); err != nil {
			return err
		}
		return auditSegments(&st, messages, segments, every)
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

// auditOrigins compares the origin index with the messages that were dead-lettered here.
func auditOrigins(st *state, messages map[uint64]*auditMessage, a *Attributes, every everyRow) error {
	origins := 0
	err := every(kindOrigin, func(k, _ []byte) error {
		p := posOf(k[spacePrefixLen:])
		m := messages[p.seq]
		if m == nil || m.meta.base != p.at || m.meta.source == "" || p.less(st.originLow) {
			return fmt.Errorf("origin row of message %d at %d, low-water key %v", p.seq, p.at, st.originLow)
		}
		origins++
		return nil
	})
	if err != nil {
		return err
	}
	for seq, m := range messages { // order does not matter: all are looked at
		dead := !a.FIFO && m.meta.source != ""
		if dead != (m.delivery != nil && m.delivery.origin) {
			return fmt.Errorf("message %d came from %q, and its delivery row says otherwise", seq, m.meta.source)
		}
		if dead {
			origins--
		}
	}
	if origins != 0 {
		return fmt.Errorf("%d origin rows too many", origins)
	}
	return nil
}

// auditElders compares the elder index with the messages that are older than they seem.
func auditElders(st *state, messages map[uint64]*auditMessage, every everyRow) error {
	elders := 0
	err := every(kindElder, func(k, v []byte) error {
		p := posOf(k[spacePrefixLen:])
		m := messages[p.seq]
		if _, ok := readMark(v); !ok || m == nil || m.meta.firstSent != p.at || m.meta.base <= p.at || p.less(st.elderLow) {
			return fmt.Errorf("elder row of message %d at %d, low-water key %v", p.seq, p.at, st.elderLow)
		}
		elders++
		return nil
	})
	if err != nil {
		return err
	}
	for seq, m := range messages { // order does not matter: all are looked at
		elder := m.meta.firstSent < m.meta.base
		if m.delivery != nil && m.delivery.elder != elder {
			return fmt.Errorf("message %d was first sent at %d, and its delivery row says otherwise", seq, m.meta.firstSent)
		}
		if elder {
			elders--
		}
	}
	if elders != 0 {
		return fmt.Errorf("%d elder rows too many", elders)
	}
	return nil
}

// auditDedup compares the dedup rows with the buckets that are known.
func auditDedup(st *state, every everyRow) error {
	known := make(map[int64]bool)
	for _, bucket := range st.buckets {
		known[bucket] = true
	}
	return every(kindDedup, func(k, v []byte) error {
		bucket, _, _ := key.Int64(k[spacePrefixLen:])
		d, ok := decodeDedup(v)
		if !ok || !known[bucket] || d.at/dedupBucket != bucket {
			return fmt.Errorf("dedup row %x, at %d; buckets %v", k, d.at, st.buckets)
		}
		return nil
	})
}

// auditGroups compares groups, lines, heads and the counted range of a FIFO queue with the messages.
func auditGroups(st *state, messages map[uint64]*auditMessage, every everyRow) error {
	groups := make(map[string][]*auditMessage)
	delayed := int64(0)
	for _, seq := range slices.Sorted(maps.Keys(messages)) {
		m := messages[seq]
		groups[m.meta.group] = append(groups[m.meta.group], m)
		if m.delivery == nil && st.counted.has(seq) {
			delayed++
		}
	}
	if delayed != st.delayed || st.counted.lo > st.counted.hi || st.counted.hi > st.nextSeq {
		return fmt.Errorf("%d fresh messages in %v, and the state says that %d are delayed", delayed, st.counted, st.delayed)
	}
	rows := make(map[string]groupRow)
	err := every(kindGroup, func(k, v []byte) error {
		name, _, _ := key.String(k[spacePrefixLen:])
		r, ok := decodeGroupRow(v)
		members := groups[name]
		if !ok || uint64(len(members)) != r.count || members[0].meta.seq != r.first.seq || members[0].meta.sent != r.first.sent {
			return fmt.Errorf("group %s: %+v, and it has %d messages", name, r, len(members))
		}
		class, at := headFresh, r.first.sent
		if d := members[0].delivery; d != nil {
			class, at = headPlaced, d.at
		}
		if class != r.class || at != r.at {
			return fmt.Errorf("group %s: %+v, and its first message is of class %d and at %d", name, r, class, at)
		}
		for _, m := range members {
			if m.delivery != nil && m.meta.seq > r.placed {
				return fmt.Errorf("group %s: %+v, and message %d has a delivery", name, r, m.meta.seq)
			}
		}
		rows[name] = r
		return nil
	})
	if err != nil || len(rows) != len(groups) {
		return cmp.Or(err, fmt.Errorf("%d group rows and %d groups", len(rows), len(groups)))
	}
	lines := 0
	err = every(kindLine, func(k, v []byte) error {
		name, _, _ := key.String(k[spacePrefixLen:])
		m := messages[lineSeq(k)]
		sent, ok := decodeLine(v)
		if !ok || m == nil || m.meta.group != name || m.meta.sent != sent || rows[name].founder == m.meta.seq {
			return fmt.Errorf("line row of message %d in group %s", lineSeq(k), name)
		}
		lines++
		return nil
	})
	if err != nil {
		return err
	}
	for name, members := range groups { // order does not matter: all are looked at
		for _, m := range members {
			if m.meta.seq != rows[name].founder {
				lines--
			}
		}
	}
	if lines != 0 {
		return fmt.Errorf("%d line rows too many", lines)
	}
	heads := len(rows)
	err = every(kindHead, func(k, v []byte) error {
		name, ok := decodeHead(v)
		class, p := headClass(k[spacePrefixLen]), posOf(k[spacePrefixLen+1:])
		r := rows[name]
		if !ok || r.count == 0 || r.class != class || r.pos() != p || p.less(st.headLow[class]) {
			return fmt.Errorf("head row of group %s: class %d, %v; its row is %+v, low-water key %v", name, class, p, r, st.headLow[class])
		}
		heads--
		return nil
	})
	if err == nil && heads != 0 {
		err = fmt.Errorf("%d groups without a head row", heads)
	}
	return err
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
			if seq>>segmentBits == id && (seq < s.first || m.meta.base > s.sent) {
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
func auditDue(st *state, fifo bool, messages map[uint64]*auditMessage, every everyRow) error {
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
	if due != 0 || !fifo && delayed != st.delayed || fifo && delayed > 0 || inFlight != st.inFlight {
		return fmt.Errorf("%d due rows too many; %d delayed and %d in flight, and the state says %d and %d",
			due, delayed, inFlight, st.delayed, st.inFlight)
	}
	return nil
}
