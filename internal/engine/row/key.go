package row

import "tenaq/internal/engine/key"

// The families of rows.
const (
	FamilySystem   = 0x01
	FamilyQueue    = 0x02
	FamilySecret   = 0x03
	FamilySource   = 0x04
	FamilyTask     = 0x05
	FamilyActive   = 0x06
	FamilyDocument = 0x07
	FamilyMoved    = 0x08
	FamilyRecord   = 0x09
	FamilyAction   = 0x0a
	FamilySchedule = 0x0b
	FamilySpace    = 0x10
	FamilyHistory  = 0x11
)

// A Kind says what a row of a space is.
type Kind byte

const (
	KindState    Kind = 0x01
	KindMessage  Kind = 0x02
	KindContent  Kind = 0x03
	KindDelivery Kind = 0x04
	KindDue      Kind = 0x05
	KindSegment  Kind = 0x06
	KindGroup    Kind = 0x07
	KindLine     Kind = 0x08
	KindHead     Kind = 0x09
	KindDedup    Kind = 0x0a
	KindOrigin   Kind = 0x0b
	KindElder    Kind = 0x0c
	KindStory    Kind = 0x0d
	KindOwner    Kind = 0x0e
	KindLevel    Kind = 0x0f
	KindHold     Kind = 0x10
	KindAgain    Kind = 0x11
)

// SecretLen is the length of the secret row: a version and a key of 32 bytes.
const SecretLen = 1 + 32

// Sizes of the parts of a key, for reading them back.
const (
	SpacePrefixLen = 1 + 8 + 1
	SeqKeyLen      = SpacePrefixLen + 8
	PosKeyLen      = SpacePrefixLen + 8 + 8
)

func SystemKey() []byte { return []byte{FamilySystem} }

func QueueKey(n QueueName) []byte {
	k := append(make([]byte, 0, 8+len(n.Account)+len(n.Name)), FamilyQueue)
	k = key.AppendString(k, n.Account)
	return key.AppendString(k, n.Name)
}

// QueueOf reads a queue's name back from its key.
func QueueOf(k []byte) (n QueueName, ok bool) {
	if len(k) == 0 || k[0] != FamilyQueue {
		return n, false
	}
	account, rest, ok := key.String(k[1:])
	if !ok {
		return n, false
	}
	name, rest, ok := key.String(rest)
	return QueueName{Account: account, Name: name}, ok && len(rest) == 0
}

func SpaceKey(space uint64, kind Kind) []byte {
	return appendSpaceKey(make([]byte, 0, PosKeyLen), space, kind)
}

func appendSpaceKey(k []byte, space uint64, kind Kind) []byte {
	return append(key.AppendUint64(append(k, FamilySpace), space), byte(kind))
}

func StateKey(space uint64) []byte { return SpaceKey(space, KindState) }

func SeqKey(space uint64, kind Kind, seq uint64) []byte {
	return AppendSeqKey(make([]byte, 0, PosKeyLen), space, kind, seq)
}

// AppendSeqKey appends a SeqKey to k.
func AppendSeqKey(k []byte, space uint64, kind Kind, seq uint64) []byte {
	return key.AppendUint64(appendSpaceKey(k, space, kind), seq)
}

// SeqOf reads the sequence number, or for a segment its number, from the end of a key.
func SeqOf(k []byte) uint64 {
	if len(k) != SeqKeyLen {
		return 0
	}
	seq, _, _ := key.Uint64(k[SpacePrefixLen:])
	return seq
}

func appendPos(k []byte, p Pos) []byte { return key.AppendUint64(key.AppendInt64(k, p.At), p.Seq) }

// PosOf reads a place from the end of a key; the zero place when it is not there.
func PosOf(k []byte) (p Pos) {
	if len(k) != 8+8 {
		return p
	}
	p.At, k, _ = key.Int64(k)
	p.Seq, _, _ = key.Uint64(k)
	return p
}

func GroupKey(space uint64, group string) []byte {
	return key.AppendString(SpaceKey(space, KindGroup), group)
}

func LineKey(space uint64, group string, seq uint64) []byte {
	return key.AppendUint64(key.AppendString(SpaceKey(space, KindLine), group), seq)
}

// LineSpan covers the lines of a group from seq on.
func LineSpan(space uint64, group string, seq uint64) Span {
	return Span{
		Lo: LineKey(space, group, seq),
		Hi: key.Next(key.AppendString(SpaceKey(space, KindLine), group)),
	}
}

// LineSeq reads the sequence number from the end of a line key.
func LineSeq(k []byte) (seq uint64) {
	if len(k) > 8 {
		seq, _, _ = key.Uint64(k[len(k)-8:])
	}
	return seq
}

func DedupKey(space uint64, bucket int64, h DedupHash) []byte {
	return append(key.AppendInt64(SpaceKey(space, KindDedup), bucket), h[:]...)
}

// DedupHashOf reads the hash from the end of the key of a dedup row.
func DedupHashOf(k []byte) (h DedupHash, ok bool) {
	if len(k) != SpacePrefixLen+8+len(h) {
		return h, false
	}
	return DedupHash(k[SpacePrefixLen+8:]), true
}

// DedupSpan covers the rows of one bucket.
func DedupSpan(space uint64, bucket int64) Span {
	k := key.AppendInt64(SpaceKey(space, KindDedup), bucket)
	return Span{Lo: k, Hi: key.Next(k)}
}

// TaskNumber reads the number of a task from its key.
func TaskNumber(k []byte) (number uint64, ok bool) {
	if len(k) < 8 {
		return 0, false
	}
	number, _, ok = key.Uint64(k[len(k)-8:])
	return ^number, ok
}

// An active row says whose task it is.
func EncodeActive(b []byte, source QueueName) []byte {
	return encode(b, &source, (*QueueName).parts)
}

func DecodeActive(k, v []byte) (number uint64, source QueueName, ok bool) {
	if len(k) == 0 {
		return 0, source, false
	}
	number, _, ok = key.Uint64(k[1:])
	ok = decode(v, &source, (*QueueName).parts) && ok
	return number, source, ok
}

// Below covers the rows whose keys begin with prefix.
func Below(prefix []byte) Span { return Span{Lo: prefix, Hi: key.Next(prefix)} }

// SourcePrefix begins the keys of all sources of a dead-letter queue.
func SourcePrefix(target QueueName) []byte {
	k := key.AppendString([]byte{FamilySource}, target.Account)
	return key.AppendString(k, target.Name)
}

func SourceKey(target QueueName, source string) []byte {
	return key.AppendString(SourcePrefix(target), source)
}

// SourceOf reads the name of the source from its key.
func SourceOf(k []byte) (source QueueName, ok bool) {
	if len(k) == 0 {
		return source, false
	}
	account, k, ok := key.String(k[1:])
	if !ok {
		return source, false
	}
	if _, k, ok = key.String(k); !ok {
		return source, false
	}
	name, k, ok := key.String(k)
	return QueueName{Account: account, Name: name}, ok && len(k) == 0
}

// TaskPrefix begins the keys of all tasks of a queue.
func TaskPrefix(source QueueName) []byte {
	return key.AppendString(TasksOf(source.Account), source.Name)
}

// TasksOf begins the keys of all tasks of an account.
func TasksOf(account string) []byte { return key.AppendString([]byte{FamilyTask}, account) }

// TaskKey puts the newest task of a queue first.
func TaskKey(source QueueName, number uint64) []byte {
	return key.AppendUint64(TaskPrefix(source), ^number)
}

func ActiveKey(number uint64) []byte { return key.AppendUint64([]byte{FamilyActive}, number) }

// WholeSpace covers every row of a space.
func WholeSpace(space uint64) Span {
	k := key.AppendUint64([]byte{FamilySpace}, space)
	return Span{Lo: k, Hi: key.Next(k)}
}

// SeqSpan covers the rows of one kind with lo <= seq < hi.
func SeqSpan(space uint64, kind Kind, lo, hi uint64) Span {
	return Span{Lo: SeqKey(space, kind, lo), Hi: SeqKey(space, kind, hi)}
}

func Family(f byte) Span { return Span{Lo: []byte{f}, Hi: []byte{f + 1}} }

// TaskOf reads a task with its number and its queue.
func TaskOf(k, v []byte) (t Task, ok bool) {
	if t, ok = DecodeTask(v); !ok || len(k) == 0 {
		return t, false
	}
	account, rest, ok1 := key.String(k[1:])
	name, rest, ok2 := key.String(rest)
	t.Source = QueueName{Account: account, Name: name}
	t.Number, ok = TaskNumber(k)
	return t, ok && ok1 && ok2 && len(rest) == 8
}

// GroupOf reads the name of a group from its key.
func GroupOf(k []byte) (name string, ok bool) {
	name, rest, ok := key.String(k[min(SpacePrefixLen, len(k)):])
	return name, ok && len(rest) == 0
}
