package row

import "tenaq/internal/engine/key"

// An Index is a kind of rows that is ordered by place within a space.
type Index[T any] struct {
	Name string
	Kind Kind
	Sub  []byte // follows the kind in the key, when several indexes share it

	// Read decodes the value of a row; false if it cannot be read.
	Read func(value []byte) (T, bool)
}

func (x *Index[T]) prefix(space uint64) []byte { return append(SpaceKey(space, x.Kind), x.Sub...) }

func (x *Index[T]) Key(space uint64, p Pos) []byte { return appendPos(x.prefix(space), p) }

// AppendKey appends a Key to k.
func (x *Index[T]) AppendKey(k []byte, space uint64, p Pos) []byte {
	return appendPos(append(appendSpaceKey(k, space, x.Kind), x.Sub...), p)
}

// From covers the rows from p to the end of the index.
func (x *Index[T]) From(space uint64, p Pos) Span {
	return Span{Lo: x.Key(space, p), Hi: key.Next(x.prefix(space))}
}

// Decode reads a row.
func (x *Index[T]) Decode(k, v []byte) (p Pos, value T, ok bool) {
	p = PosOf(k[min(len(k), SpacePrefixLen+len(x.Sub)):])
	value, ok = x.Read(v)
	return p, value, ok && p.Seq != 0
}

// DueRows holds every message that waits or has waited, by the time at which it is, was or will be
// receivable.
var DueRows = Index[DueKind]{
	Name: "due",
	Kind: KindDue,
	Read: func(v []byte) (DueKind, bool) {
		if len(v) != 1 {
			return 0, false
		}
		return DueKind(v[0]), DueKind(v[0]).known()
	},
}

// LevelRows hold the messages that would be in due and have a level above 0: an index of the same
// form for each level, the first one for level 1. [EXT-46]
var LevelRows = func() (levels [LevelMax]Index[DueKind]) {
	for i := range levels {
		levels[i] = Index[DueKind]{Name: "level", Kind: KindLevel, Sub: []byte{byte(i + 1)},
			Read: DueRows.Read}
	}
	return levels
}()

// LevelMax is the level of the most urgent messages.
const LevelMax = 9

// DueOf returns the index in which messages of a level wait.
func DueOf(level byte) *Index[DueKind] {
	if level == 0 {
		return &DueRows
	}
	return &LevelRows[level-1]
}

// OriginRows holds the messages of a standard queue that were dead-lettered into it, and those that
// are late, by the time from which their retention counts, which is not the order in which they
// came. [DLQ-25, EXT-26]
var OriginRows = Index[struct{}]{
	Name: "origin",
	Kind: KindOrigin,
	Read: readMark,
}

// ElderRows holds the messages whose work was first sent before the time at which the queue finds
// them, by the time of that first send: those that a move task brought, dead letters of FIFO
// queues, and those that were sent again with the attribute that says so. [METRIC-9, METRIC-24]
var ElderRows = Index[struct{}]{
	Name: "elder",
	Kind: KindElder,
	Read: readMark,
}

// readMark reads the value of a row that says everything by being there.
func readMark(v []byte) (struct{}, bool) { return struct{}{}, len(v) == 1 && v[0] == Version }
