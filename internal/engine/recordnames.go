package engine

import (
	"bytes"
	"encoding/binary"
	"slices"

	"tenaq/internal/engine/row"
)

// recordNames knows under which names there is no record. Most records are written once, such as
// the claim on a message, and looking for a row that is not there costs more than writing it.
//
// A filter has the names of all rows before rest, and all that were written since. After a restart
// each turn that looks for a record reads a piece of the rows into it. The filter has a bound. When
// it is full, it begins again, because the names of removed records stay in it. If there are too
// many records for it to be of use, every name is looked up.
type recordNames struct {
	filter filter
	rest   []byte // nil if all rows have been read
	turn   uint64 // in which rows were read last
	read   int    // rows since the filter began
	most   int    // bytes of a filter that takes no further layer
}

// recordNamesBytes is the least size of a filter that is full, which then has the names of 8.7
// million records.
const recordNamesBytes = 8 << 20

// lack reports whether it is known that there is no record with a name, not even an expired one.
func (s *recordNames) lack(n row.RecordName) bool {
	switch {
	case s.filter.mayHave(nameHash(n)):
		return false
	case s.rest == nil:
		return true
	}
	return bytes.Compare(row.RecordKey(n), s.rest) < 0
}

// full reports whether the filter takes no further name.
func (s *recordNames) full() bool {
	return s.filter.room == 0 && !s.filter.blind && s.filter.bytes() >= s.most
}

// noteName adds the name of a new record.
func (e *Engine) noteName(n row.RecordName) {
	s := &e.records.names
	if s.filter.blind {
		return
	}
	if s.full() {
		*s = recordNames{rest: row.RecordSpan().Lo, turn: e.turn, most: s.most}
		for name := range e.records.recent { // the order does not matter to a filter
			s.filter.add(nameHash(name)) // rows of the open batch will not be read
		}
	}
	s.filter.add(nameHash(n))
}

// learnNames reads a piece of the rows into the filter.
func (e *Engine) learnNames() {
	s := &e.records.names
	if s.rest == nil || s.turn == e.turn {
		return
	}
	s.turn = e.turn
	left := min(e.cfg.Window, learnMax)
	for k := range e.rows.store.Scan(s.rest, row.RecordSpan().Hi) {
		if left == 0 {
			s.rest = slices.Clone(k)
			return
		}
		left--
		n, ok := row.RecordOf(k)
		if !ok {
			continue // nothing asks for it
		}
		// At half of the filter, it would have to begin again too often.
		if s.read++; s.full() || s.read > s.most*8/filterBits/2 {
			s.filter = filter{blind: true}
			break
		}
		s.filter.add(nameHash(n))
	}
	s.rest = nil
}

// nameHash is a hash of a name for a filter. An unlucky name costs one read.
func nameHash(n row.RecordName) (h row.DedupHash) {
	const prime = 1099511628211 // FNV-1a, 64 bits
	sum := uint64(14695981039346656037)
	for _, part := range [...]string{n.Account, n.Key} {
		for i := range len(part) {
			sum = (sum ^ uint64(part[i])) * prime
		}
		sum *= prime // ends the account
	}
	binary.LittleEndian.PutUint64(h[:8], sum)
	first, second := mix(h[:8], 1), mix(h[:8], 2)
	binary.LittleEndian.PutUint64(h[:8], first)
	binary.LittleEndian.PutUint64(h[8:], second)
	return h
}
