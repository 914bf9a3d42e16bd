package verify

import "tenaq/internal/engine/row"

// again looks at what later attempts of sends are answered.
func (s *spaceRun) again() {
	st := &s.st
	state := row.StateKey(s.space)
	if st.AgainFrom > st.AgainTo || st.AgainTo != 0 && st.AgainFrom == st.AgainTo ||
		st.AgainLate != 0 && st.AgainLate/row.DedupBucket >= st.AgainTo {
		s.say(state, "answers to sends are from minute %d up to %d, and the last that came before a first attempt is of the time %d",
			st.AgainFrom, st.AgainTo, st.AgainLate)
	}
	for k, v := range s.rows(s.kind(row.KindAgain)) {
		minute, seq, ok := row.AgainOf(k)
		r := row.ReadAgain(v)
		again := row.BeginAgain(nil, r.Base)
		for a := (row.Again{}); r.Next(&a); {
			again = row.AppendAgain(again, r.Base, &a)
			s.past(s.queue, k, "a send", a.At)
			if a.At > r.Base+row.DedupBucket {
				s.say(k, "it has an answer of the time %d and begins at %d", a.At, r.Base)
			}
		}
		if !ok || !r.Done() {
			s.damagedRow(s.queue, k, "again", v)
			continue
		}
		s.canonical(s.queue, k, v, again)
		s.past(s.queue, k, "its beginning", r.Base)
		switch {
		case s.settings.FIFO:
			s.say(k, "it is of a send that can be retried, and the queue is no standard queue")
		case r.Base/row.DedupBucket != minute:
			s.say(k, "it is of minute %d and of the time %d", minute, r.Base)
		case minute < st.AgainFrom || minute >= st.AgainTo:
			s.say(k, "it is of minute %d, and the state knows of those from %d up to %d", minute,
				st.AgainFrom, st.AgainTo)
		case seq == 0 || seq >= st.NextSeq:
			s.say(k, "it is of message %d, and the next one is to be %d", seq, st.NextSeq)
		}
	}
}
