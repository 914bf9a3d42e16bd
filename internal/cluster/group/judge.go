package group

import (
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/kv/replica"
)

// A verdict is what becomes of an entry of the log.
type verdict int

const (
	skipped  verdict = iota // the rows contain it already
	applied                 // it is the next commit
	begun                   // its session is the present one from now on
	fenced                  // its leader has been replaced; it counts for nothing
	mismatch                // the rows here, or those of its leader, are not what they should be
	newer                   // a newer program has written it
)

// judge decides about an entry of the log, given how far the rows have got, and returns how far
// they get with it. It depends on the log alone, so all nodes decide alike: whether an entry is
// fenced is the same everywhere, and a mismatch means that two nodes have different rows.
func judge(
	p pebblekv.Position, index, term uint64, data []byte,
) (verdict, pebblekv.Position, replica.Entry) {
	if index <= p.Index {
		return skipped, p, replica.Entry{}
	}
	e, err := replica.Decode(data)
	if _, ok := err.(*replica.NewerError); ok {
		return newer, p, e
	}
	if err != nil {
		return mismatch, p, e // what Raft has committed was damaged since it was proposed
	}
	if e.Kind == replica.Begin {
		if !e.Follows(p.Mark) {
			return mismatch, p, e
		}
		return begun, pebblekv.Position{Index: index, Term: term, Session: e.Session,
			Mark: p.Mark}, e
	}
	if e.Session != p.Session || term != p.Term {
		p.Index = index
		return fenced, p, e
	}
	if !e.Follows(p.Mark) {
		return mismatch, p, e
	}
	p.Index, p.Mark = index, e.Mark
	return applied, p, e
}
