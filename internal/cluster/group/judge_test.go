package group

import (
	"testing"

	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/kv/replica"
)

// The rules for the entries of the log, one by one.
func TestJudge(t *testing.T) {
	mine, old := replica.Session{1}, replica.Session{2}
	at := pebblekv.Position{Index: 10, Term: 3, Session: mine,
		Mark: replica.Mark{Number: 5, Hash: 77}}
	turn := func(session replica.Session, before replica.Mark, writes string) []byte {
		e := replica.Entry{Kind: replica.Turn, Session: session, Before: before.Hash,
			Mark: before.Next([]byte(writes)), Writes: []byte(writes)}
		return e.Encode()
	}
	begin := func(m replica.Mark) []byte {
		return replica.FirstEntry(replica.Session{9}, m).Encode()
	}
	other := replica.Mark{Number: 5, Hash: 78}
	next := at.Mark.Next([]byte("w"))
	future := turn(mine, at.Mark, "w")
	future[0] = 2
	flipped := turn(mine, at.Mark, "w")
	flipped[len(flipped)-1] ^= 1

	for name, c := range map[string]struct {
		index, term uint64
		data        []byte
		want        verdict
		next        pebblekv.Position
	}{
		"in the rows already":  {10, 3, turn(mine, at.Mark, "w"), skipped, at},
		"damaged, in the rows": {9, 3, flipped, skipped, at},
		"next": {11, 3, turn(mine, at.Mark, "w"), applied,
			pebblekv.Position{Index: 11, Term: 3, Session: mine, Mark: next}},
		"behind entries of Raft": {19, 3, turn(mine, at.Mark, "w"), applied,
			pebblekv.Position{Index: 19, Term: 3, Session: mine, Mark: next}},
		"of a newer program": {11, 3, future, newer, at},
		"unreadable":         {11, 3, []byte{1, 1, 2}, mismatch, at},
		"empty":              {11, 3, nil, mismatch, at},
		"of a replaced leader": {11, 3, turn(old, at.Mark, "w"), fenced,
			pebblekv.Position{Index: 11, Term: 3, Session: mine, Mark: at.Mark}},
		"replaced, does not follow": {11, 3, turn(old, other, "w"), fenced,
			pebblekv.Position{Index: 11, Term: 3, Session: mine, Mark: at.Mark}},
		"lead lost and regained": {11, 5, turn(mine, at.Mark, "w"), fenced,
			pebblekv.Position{Index: 11, Term: 3, Session: mine, Mark: at.Mark}},
		"other rows":            {11, 3, turn(mine, other, "w"), mismatch, at},
		"one commit is missing": {11, 3, turn(mine, next, "v"), mismatch, at},
		"a bit flipped":         {11, 3, flipped, mismatch, at},
		"session begins": {11, 4, begin(at.Mark), begun,
			pebblekv.Position{Index: 11, Term: 4, Session: replica.Session{9}, Mark: at.Mark}},
		"session of other rows":       {11, 4, begin(other), mismatch, at},
		"session begins, in the rows": {8, 4, begin(at.Mark), skipped, at},
	} {
		got, p, _ := judge(at, c.index, c.term, c.data)
		if got != c.want || p != c.next {
			t.Errorf("%s: verdict %d and position %+v, want %d and %+v", name, got, p, c.want,
				c.next)
		}
	}
}
