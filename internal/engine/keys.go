package engine

import "tenaq/internal/key"

// Every kind of row. The first byte of a key says which family it belongs to; keys that begin with zero
// are the store's own.
//
//	system    01                                    one row: format, next space, boots and stamps
//	queue     02 account name                       a queue, or for a while the grave of one
//	secret    03                                    the server's: the key that seals receipt handles
//	space     10 space kind ...                     everything that goes when a queue is purged:
//	  state     kind 01                             counters and low-water keys
//	  message   kind 02, seq                        metadata, and the content when it is small
//	  content   kind 03, seq                        body and attributes when they are not
//	  delivery  kind 04, seq                        where the message stands in due, and its counts
//	  due       kind 05, at, seq                    the messages that wait or have waited, by time
//	  segment   kind 06, seq / 4096                 how many of 4096 neighbours live, and since when
//
// A space is a number that is never used again. Creating or purging a queue takes a new one, and a
// single range delete drops everything of the old.
//
// Who reads what: a lookup reads queue and state; a receive reads message (fresh ones) and due
// (returned ones) from the front and delivery by seq; a delete or a visibility change reads delivery by
// seq; expiry reads segment and then message from the front. Nothing ever reads from the front of a
// kind without a low-water key, because what lies before it are the tombstones of everything deleted.
const (
	familySystem = 0x01
	familyQueue  = 0x02
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
)

// Sizes of the parts of a key, for reading them back.
const (
	spacePrefixLen = 1 + 8 + 1
	seqKeyLen      = spacePrefixLen + 8
	dueKeyLen      = spacePrefixLen + 8 + 8
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
	k := append(make([]byte, 0, dueKeyLen), familySpace)
	k = key.AppendUint64(k, space)
	return append(k, byte(kind))
}

func stateKey(space uint64) []byte { return spaceKey(space, kindState) }

func seqKey(space uint64, kind rowKind, seq uint64) []byte {
	return key.AppendUint64(spaceKey(space, kind), seq)
}

func dueKey(space uint64, p duePos) []byte {
	k := key.AppendInt64(spaceKey(space, kindDue), p.at)
	return key.AppendUint64(k, p.seq)
}

// seqOf reads the sequence number, or for a segment its number, from the end of a key.
func seqOf(k []byte) uint64 {
	if len(k) != seqKeyLen {
		return 0
	}
	seq, _, _ := key.Uint64(k[spacePrefixLen:])
	return seq
}

func duePosOf(k []byte) (p duePos) {
	if len(k) != dueKeyLen {
		return p
	}
	p.at, k, _ = key.Int64(k[spacePrefixLen:])
	p.seq, _, _ = key.Uint64(k)
	return p
}

// wholeSpace covers every row of a space.
func wholeSpace(space uint64) span {
	k := key.AppendUint64([]byte{familySpace}, space)
	return span{lo: k, hi: key.Next(k)}
}

// seqSpan covers the rows of one kind with lo <= seq < hi.
func seqSpan(space uint64, kind rowKind, lo, hi uint64) span {
	return span{lo: seqKey(space, kind, lo), hi: seqKey(space, kind, hi)}
}

// dueSpan covers the due rows from p to the end of the index.
func dueSpan(space uint64, p duePos) span {
	return span{lo: dueKey(space, p), hi: key.Next(spaceKey(space, kindDue))}
}
