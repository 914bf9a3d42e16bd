package verify

import (
	"slices"

	"tenaq/internal/engine/row"
)

// moved looks at the rows that say where messages are. Each names a message that is there, under an
// id that needs the row, or a space that has fallen and is still to be swept.
func (a *run) moved() {
	for k, v := range a.rows(row.Family(row.FamilyMoved)) {
		id, at, ok := row.DecodeMoved(k, v)
		if !ok {
			a.damagedRow(row.QueueName{}, k, "moved", v)
			continue
		}
		a.canonical(row.QueueName{}, k, v, row.EncodeMoved(nil, at))
		value, there := a.get(row.SeqKey(at.Space, row.KindMessage, at.Seq))
		if !there {
			if _, stands := a.get(row.StateKey(at.Space)); stands || !a.sys.Fallen {
				a.report(row.QueueName{}, k, "it names message %d of space %d, which is not there",
					at.Seq, at.Space)
			}
			continue
		}
		m, _, ok := row.DecodeMeta(at.Seq, value)
		if ok && !slices.Contains(m.MovedIDs(&a.sys.IDKey, at.Space), id) {
			a.report(row.QueueName{}, k,
				"it names message %d of space %d, which does not need this row", at.Seq, at.Space)
		}
	}
}

// away looks up the rows that say where a message is. A row may name another message of the
// lineage: a salvage can bring back one that had moved on.
func (s *spaceRun) away(k []byte, m *row.Meta) {
	for _, id := range m.MovedIDs(&s.sys.IDKey, s.space) {
		if !s.has(row.MovedKey(id)) {
			s.say(k, "it has no moved row for the id %s", id)
		}
	}
}

// owner looks at the row that names the queue of the space.
func (s *spaceRun) owner() {
	found := false
	for k, v := range s.rows(s.kind(row.KindOwner)) {
		name, ok := row.DecodeOwner(v)
		switch {
		case len(k) != row.SpacePrefixLen:
			s.say(k, "this row is of no kind that there is")
			continue
		case !ok:
			s.damagedRow(s.queue, k, "owner", v)
		case name != s.queue:
			s.say(k, "it names queue %s of account %s", name.Name, name.Account)
		}
		found = true
		s.canonical(s.queue, k, v, row.EncodeOwner(nil, name))
	}
	if !found && !s.sys.Unowned {
		s.say(row.OwnerKey(s.space), "the queue has no owner row")
	}
}
