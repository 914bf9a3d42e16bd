package row

import (
	"cmp"
	"math"
)

// A Pos is a place in an index that is ordered by time: messages that belong to the same
// millisecond follow each other as they were sent. [ORD-1]
type Pos struct {
	At  int64
	Seq uint64
}

func (p Pos) Compare(q Pos) int {
	return cmp.Or(cmp.Compare(p.At, q.At), cmp.Compare(p.Seq, q.Seq))
}

func (p Pos) Less(q Pos) bool { return p.Compare(q) < 0 }

// Next is the first place after p.
func (p Pos) Next() Pos {
	if p.Seq == LastAt(p.At).Seq {
		return Pos{p.At + 1, 0}
	}
	return Pos{p.At, p.Seq + 1}
}

// MaxTime is later than any time.
const MaxTime = math.MaxInt64

// LastAt is the last place of a millisecond.
func LastAt(at int64) Pos { return Pos{at, math.MaxUint64} }

// A SeqRange is the numbers lo <= seq < hi.
type SeqRange struct{ Lo, Hi uint64 }

func (r SeqRange) Has(seq uint64) bool { return r.Lo <= seq && seq < r.Hi }

// A Span is a range of keys, lo <= key < hi.
type Span struct{ Lo, Hi []byte }
