package engine

import "tenaq/internal/key"

// Every kind of row. The first byte of a key says which family it belongs to; keys that begin with zero
// are the store's own.
//
//	system    01                                    one row: format, next space, boots and stamps
//	queue     02 account name                       a queue, or for a while the grave of one
//	secret    03                                    the server's: the key that seals receipt handles
//	source    04 account target source              which queues have target as dead-letter queue
//	task      05 account queue number, descending   the latest move tasks of a queue
//	active    06 number                             the move tasks that are not over
//	space     10 space kind ...                     everything that goes when a queue is purged:
//	  state     kind 01                             counters and low-water keys
//	  message   kind 02, seq                        metadata, and the content when it is small
//	  content   kind 03, seq                        body and attributes when they are not
//	  delivery  kind 04, seq                        where the message stands in due, and its counts
//	  due       kind 05, at, seq                    the messages that wait or have waited, by time
//	  segment   kind 06, seq / 4096                 how many of 4096 neighbours live, and since when
//	  group     kind 07, group                      FIFO: its first message and how many there are
//	  line      kind 08, group, seq                 FIFO: the messages of a group behind its first one
//	  head      kind 09, class, at, seq             FIFO: the first messages of all groups, by time
//	  dedup     kind 0A, minute, hash               what may not be sent, or received, twice
//	  origin    kind 0B, base, seq                  dead-lettered messages, by their retention
//	  elder     kind 0C, first sent, seq            messages moved or sent again, by when their work was first sent
//
// A space is a number that is never used again. Creating or purging a queue takes a new one, and a
// single range delete drops everything of the old.
//
// Who reads what: a lookup reads queue and state; a receive reads message (fresh ones) and due
// (returned ones) from the front and delivery by seq; on a FIFO queue head from the front, group by name,
// line from the group's first message on and message by seq; a delete or a visibility change reads
// delivery by seq and on a FIFO queue message, group and line as well; a send to one reads dedup and group
// by key; expiry reads segment and origin, and then message, from the front, and so does a survey, with elder besides. Nothing ever reads from the front of a
// kind without a low-water key, because what lies before it are the tombstones of everything deleted.
const (
	familySystem = 0x01
	familyQueue  = 0x02
	familySource = 0x04
	familyTask   = 0x05
	familyActive = 0x06
	familySpace  = 0x10
)

type rowKind byte

const (
	kindState    rowKind = 0x01
	kindMessage  rowKind = 0x02
	kindContent  rowKind = 0x03
	kindDelivery rowKind = 0x04
	kindDue      rowKind = 0x05
	kindSegment  rowKind = 0x06
	kindGroup    rowKind = 0x07
	kindLine     rowKind = 0x08
	kindHead     rowKind = 0x09
	kindDedup    rowKind = 0x0a
	kindOrigin   rowKind = 0x0b
	kindElder    rowKind = 0x0c
)

// Sizes of the parts of a key, for reading them back.
const (
	spacePrefixLen = 1 + 8 + 1
	seqKeyLen      = spacePrefixLen + 8
	posKeyLen      = spacePrefixLen + 8 + 8
)

// A span is a range of keys, lo <= key < hi.
type span struct{ lo, hi []byte }

func systemKey() []byte { return []byte{familySystem} }

func queueKey(n QueueName) []byte {
	k := append(make([]byte, 0, 8+len(n.Account)+len(n.Name)), familyQueue)
	k = key.AppendString(k, n.Account)
	return key.AppendString(k, n.Name)
}

// queueNameOf reads a queue's name back from its key.
func queueNameOf(k []byte) (n QueueName, ok bool) {
	if len(k) == 0 || k[0] != familyQueue {
		return n, false
	}
	account, rest, ok := key.String(k[1:])
	if !ok {
		return n, false
	}
	name, rest, ok := key.String(rest)
	return QueueName{Account: account, Name: name}, ok && len(rest) == 0
}

func spaceKey(space uint64, kind rowKind) []byte {
	k := append(make([]byte, 0, posKeyLen), familySpace)
	k = key.AppendUint64(k, space)
	return append(k, byte(kind))
}

func stateKey(space uint64) []byte { return spaceKey(space, kindState) }

func seqKey(space uint64, kind rowKind, seq uint64) []byte {
	return key.AppendUint64(spaceKey(space, kind), seq)
}

// seqOf reads the sequence number, or for a segment its number, from the end of a key.
func seqOf(k []byte) uint64 {
	if len(k) != seqKeyLen {
		return 0
	}
	seq, _, _ := key.Uint64(k[spacePrefixLen:])
	return seq
}

func appendPos(k []byte, p pos) []byte { return key.AppendUint64(key.AppendInt64(k, p.at), p.seq) }

// posOf reads a place from the end of a key; the zero place when it is not there.
func posOf(k []byte) (p pos) {
	if len(k) != 8+8 {
		return p
	}
	p.at, k, _ = key.Int64(k)
	p.seq, _, _ = key.Uint64(k)
	return p
}

func nextKey(prefix []byte) []byte { return key.Next(prefix) }

func groupKey(space uint64, group string) []byte {
	return key.AppendString(spaceKey(space, kindGroup), group)
}

func lineKey(space uint64, group string, seq uint64) []byte {
	return key.AppendUint64(key.AppendString(spaceKey(space, kindLine), group), seq)
}

// lineSpan covers the lines of a group from seq on.
func lineSpan(space uint64, group string, seq uint64) span {
	return span{
		lo: lineKey(space, group, seq),
		hi: key.Next(key.AppendString(spaceKey(space, kindLine), group)),
	}
}

// lineSeq reads the sequence number from the end of a line key.
func lineSeq(k []byte) (seq uint64) {
	if len(k) > 8 {
		seq, _, _ = key.Uint64(k[len(k)-8:])
	}
	return seq
}

func dedupKey(space uint64, bucket int64, h dedupHash) []byte {
	return append(key.AppendInt64(spaceKey(space, kindDedup), bucket), h[:]...)
}

// dedupSpan covers the rows of one bucket.
func dedupSpan(space uint64, bucket int64) span {
	k := key.AppendInt64(spaceKey(space, kindDedup), bucket)
	return span{lo: k, hi: key.Next(k)}
}

// taskNumber reads the number of a task from its key.
func taskNumber(k []byte) (number uint64, ok bool) {
	if len(k) < 8 {
		return 0, false
	}
	number, _, ok = key.Uint64(k[len(k)-8:])
	return ^number, ok
}

// An active row says whose task it is.
func encodeActive(b enc, source QueueName) []byte {
	b.byte(rowVersion)
	b.string(source.Account)
	b.string(source.Name)
	return b
}

func decodeActive(k, v []byte) (number uint64, source QueueName, ok bool) {
	if len(k) == 0 {
		return 0, source, false
	}
	number, _, ok = key.Uint64(k[1:])
	d := dec{b: v}
	d.version(rowVersion)
	source = QueueName{Account: d.string(), Name: d.string()}
	return number, source, ok && d.done()
}

// sourcePrefix begins the keys of all sources of a dead-letter queue.
func sourcePrefix(target QueueName) []byte {
	k := key.AppendString([]byte{familySource}, target.Account)
	return key.AppendString(k, target.Name)
}

func sourceKey(target QueueName, source string) []byte {
	return key.AppendString(sourcePrefix(target), source)
}

// sourceOf reads the name of the source from its key.
func sourceOf(k []byte) (source QueueName, ok bool) {
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

// taskPrefix begins the keys of all move tasks of a queue.
func taskPrefix(source QueueName) []byte {
	k := key.AppendString([]byte{familyTask}, source.Account)
	return key.AppendString(k, source.Name)
}

// taskKey puts the newest task of a queue first.
func taskKey(source QueueName, number uint64) []byte {
	return key.AppendUint64(taskPrefix(source), ^number)
}

func activeKey(number uint64) []byte { return key.AppendUint64([]byte{familyActive}, number) }

// wholeSpace covers every row of a space.
func wholeSpace(space uint64) span {
	k := key.AppendUint64([]byte{familySpace}, space)
	return span{lo: k, hi: key.Next(k)}
}

// seqSpan covers the rows of one kind with lo <= seq < hi.
func seqSpan(space uint64, kind rowKind, lo, hi uint64) span {
	return span{lo: seqKey(space, kind, lo), hi: seqKey(space, kind, hi)}
}
