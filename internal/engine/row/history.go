package row

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"tenaq/internal/engine/key"
)

// The history of a queue is what it keeps of messages that have ended. Every row lies in a bucket,
// which holds the outcomes of a while, so that the oldest fall together. [HIST-5]
//
// Outcomes are numbered from 1 in the order in which they came, without gaps. A bucket is named for
// the number of its first one.

// An OutcomeKind says how a message ended.
type OutcomeKind byte

// The kinds of outcomes. [HIST-2]
const (
	OutcomeDeleted      OutcomeKind = 1 + iota // by a consumer
	OutcomeExpired                             // its retention was over
	OutcomeDeadLettered                        // it moved to the dead-letter queue
	OutcomeMoved                               // a task moved it to another queue
	OutcomeParked                              // a task moved it to a parking queue
	OutcomeReplaced                            // it was edited and sent as another message
	OutcomeRemoved                             // a task deleted it
)

var outcomeNames = []string{OutcomeDeleted: "deleted", OutcomeExpired: "expired",
	OutcomeDeadLettered: "dead_lettered", OutcomeMoved: "moved", OutcomeParked: "parked",
	OutcomeReplaced: "replaced", OutcomeRemoved: "removed"}

func (k OutcomeKind) String() string {
	if k.known() {
		return outcomeNames[k]
	}
	return ""
}

func (k OutcomeKind) known() bool { return k > 0 && int(k) < len(outcomeNames) }

// OutcomeKindOf returns the kind of that name.
func OutcomeKindOf(name string) (k OutcomeKind, ok bool) {
	i := slices.Index(outcomeNames, name)
	return OutcomeKind(i), i > 0
}

// OutcomeKinds are the names of all kinds.
func OutcomeKinds() []string { return outcomeNames[1:] }

// An Outcome is what became of a message: how it ended, and its row as it was.
type Outcome struct {
	Number uint64 // of the outcome, from its key
	Kind   OutcomeKind
	Ended  int64

	Receives     uint32
	Deliveries   uint32 // receives in this queue
	FirstReceive int64
	LastReceive  int64

	Key   string    // of the work, from the attribute tenaq
	To    QueueName // where it moved
	Story *Story    // what consumers said about it; nil for nothing

	Meta
}

// EncodeHead returns the first part of the row. The message row follows it, with the content if
// that is inline.
func (o *Outcome) EncodeHead(b []byte) []byte {
	c := Codec{B: b}
	o.head(&c)
	return c.B
}

func (o *Outcome) head(c *Codec) {
	c.Version(Version)
	c.Byte((*byte)(&o.Kind))
	c.Int(&o.Ended)
	c.Uint(&o.Seq)
	c.uint32(&o.Receives, &o.Deliveries)
	c.Int(&o.FirstReceive, &o.LastReceive)
	c.string(&o.Key, &o.To.Account, &o.To.Name)
	o.story(c)
}

func (o *Outcome) story(c *Codec) {
	var told []byte
	if o.Story != nil {
		told = o.Story.Encode(nil)
	}
	if c.bytes(&told); !c.Reading || len(told) == 0 {
		return
	}
	story, ok := DecodeStory(told)
	if o.Story = &story; !ok {
		c.fail()
	}
}

// DecodeOutcome reads an outcome. Content is part of value, and nil if it is a row of its own.
func DecodeOutcome(number uint64, value []byte) (o Outcome, content []byte, ok bool) {
	c := Codec{B: value, Reading: true}
	o.head(&c)
	seq := o.Seq
	if c.bad || !o.Kind.known() {
		return o, nil, false
	}
	o.Number = number
	o.Meta, content, ok = DecodeMeta(seq, c.B)
	return o, content, ok
}

// Marks are the hashes under which the outcome is found: its id and its lineage, its key, and its
// group.
func (o *Outcome) Marks() []HistoryMark {
	marks := make([]HistoryMark, 1, 4)
	marks[0] = MarkOf(MarkID, string(o.ID[:]))
	if o.Lineage != o.ID {
		marks = append(marks, MarkOf(MarkID, string(o.Lineage[:])))
	}
	if o.Key != "" {
		marks = append(marks, MarkOf(MarkKey, o.Key))
	}
	if o.Group != "" {
		marks = append(marks, MarkOf(MarkGroup, o.Group))
	}
	return marks
}

// A HistoryMark is the hash of something that an outcome is looked for by. Two things may have the
// same mark, so a lookup by it compares the outcome as well.
type HistoryMark [8]byte

// The kinds of marks.
const (
	MarkID    = 'i' // an id or a lineage
	MarkKey   = 'k'
	MarkGroup = 'g'
)

// MarkOf returns the mark of a value.
func MarkOf(kind byte, value string) (m HistoryMark) {
	sum := sha256.Sum256(append([]byte{kind}, value...))
	copy(m[:], sum[:])
	return m
}

// A Bucket is what the outcomes of a while come to.
type Bucket struct {
	First       uint64 // number of the first outcome, from the key
	Count       int64
	Bytes       int64 // of the keys and values of all rows in the bucket
	From, Until int64 // when the first and the last of them ended; zero for none
	Replayed    int64 // how many of the outcomes are of messages that a replay sent
}

// End is the number after the last outcome.
func (b *Bucket) End() uint64 { return b.First + uint64(b.Count) }

func (b *Bucket) Encode(v []byte) []byte { return encode(v, b, (*Bucket).parts) }

func (b *Bucket) parts(c *Codec) {
	write := byte(Version)
	if b.Replayed != 0 {
		write = bucketVersion
	}
	version := c.version(write, bucketVersion)
	c.Int(&b.Count, &b.Bytes, &b.From, &b.Until)
	if version >= bucketVersion {
		c.Int(&b.Replayed)
	}
}

// bucketVersion is the version of the row of a bucket that has outcomes of replayed messages.
const bucketVersion = 2

func DecodeBucket(first uint64, value []byte) (b Bucket, ok bool) {
	b.First = first
	ok = decode(value, &b, (*Bucket).parts)
	return b, ok && first > 0 && b.Replayed >= 0 && b.Replayed <= b.Count
}

// A HistoryKind says what a row in a bucket is.
type HistoryKind byte

const (
	HistoryOutcome HistoryKind = 0x01
	HistoryContent HistoryKind = 0x02
	HistoryIndex   HistoryKind = 0x03
)

// The parts of a history, after the incarnation of the queue.
const (
	historyBuckets = 0x01
	historyRows    = 0x02
)

// Lengths of parts of keys.
const (
	historyLen     = 1 + 16 + 1
	BucketKeyLen   = historyLen + 8
	historyKindLen = BucketKeyLen + 1
	HistoryKeyLen  = historyKindLen + 8
	MarkKeyLen     = historyKindLen + 8 + 8
)

func historyKey(k []byte, incarnation [16]byte, part byte) []byte {
	return append(append(append(k, FamilyHistory), incarnation[:]...), part)
}

// WholeHistory covers every row of the history of a queue.
func WholeHistory(incarnation [16]byte) Span {
	k := append([]byte{FamilyHistory}, incarnation[:]...)
	return Span{Lo: k, Hi: key.Next(k)}
}

// HistoryOf reads the incarnation of the queue from any key of a history.
func HistoryOf(k []byte) (incarnation [16]byte, ok bool) {
	if len(k) < historyLen || k[0] != FamilyHistory {
		return incarnation, false
	}
	copy(incarnation[:], k[1:])
	return incarnation, true
}

// BucketKey is the key of the row of a bucket.
func BucketKey(incarnation [16]byte, first uint64) []byte {
	return key.AppendUint64(historyKey(make([]byte, 0, BucketKeyLen), incarnation, historyBuckets),
		first)
}

// BucketsOf covers the rows of all buckets of a queue.
func BucketsOf(incarnation [16]byte) Span {
	return Below(historyKey(nil, incarnation, historyBuckets))
}

// BucketOf reads the number of a bucket from the key of its row, or of a row in it.
func BucketOf(k []byte) (first uint64, isRow bool) {
	if len(k) < BucketKeyLen {
		return 0, false
	}
	first, _, _ = key.Uint64(k[historyLen:])
	return first, k[historyLen-1] == historyBuckets && len(k) == BucketKeyLen
}

func appendBucket(k []byte, incarnation [16]byte, first uint64) []byte {
	return key.AppendUint64(historyKey(k, incarnation, historyRows), first)
}

// InBucket covers the rows in a bucket, which go with it.
func InBucket(incarnation [16]byte, first uint64) Span {
	return Below(appendBucket(nil, incarnation, first))
}

// AppendHistoryKey appends the key of an outcome, or of its content.
func AppendHistoryKey(k []byte, incarnation [16]byte, first uint64, kind HistoryKind,
	number uint64,
) []byte {
	return key.AppendUint64(append(appendBucket(k, incarnation, first), byte(kind)), number)
}

// HistorySpan covers the outcomes, or the contents, with lo <= number < hi.
func HistorySpan(incarnation [16]byte, first uint64, kind HistoryKind, lo, hi uint64) Span {
	return Span{Lo: AppendHistoryKey(nil, incarnation, first, kind, lo),
		Hi: AppendHistoryKey(nil, incarnation, first, kind, hi)}
}

// AppendMarkKey appends the key of a row of the index, in which the newest outcome comes first.
func AppendMarkKey(k []byte, incarnation [16]byte, first uint64, mark HistoryMark, number uint64,
) []byte {
	k = append(appendBucket(k, incarnation, first), byte(HistoryIndex))
	return key.AppendUint64(append(k, mark[:]...), ^number)
}

// MarkSpan covers the rows of the index that have a mark, of outcomes before a number.
func MarkSpan(incarnation [16]byte, first uint64, mark HistoryMark, before uint64) Span {
	k := append(appendBucket(nil, incarnation, first), byte(HistoryIndex))
	k = append(k, mark[:]...)
	return Span{Lo: key.AppendUint64(k[:len(k):len(k)], ^before+1), Hi: key.Next(k)}
}

// HistoryKindOf reads what a row in a bucket is, and of which outcome.
func HistoryKindOf(k []byte) (kind HistoryKind, number uint64, ok bool) {
	if len(k) < HistoryKeyLen || k[historyLen-1] != historyRows {
		return 0, 0, false
	}
	kind = HistoryKind(k[BucketKeyLen])
	number = binary.BigEndian.Uint64(k[len(k)-8:])
	switch kind {
	case HistoryOutcome, HistoryContent:
		return kind, number, len(k) == HistoryKeyLen
	case HistoryIndex:
		return kind, ^number, len(k) == MarkKeyLen
	}
	return kind, 0, false
}

// ReadMark reads the value of a row of the index.
func ReadMark(v []byte) bool { _, ok := readMark(v); return ok }
