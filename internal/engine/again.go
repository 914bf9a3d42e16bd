package engine

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"slices"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// Sends that are safe to retry. The SDKs of AWS give all attempts of a call the same id. A standard
// queue remembers for five minutes what it has answered to a send with such an id, and gives a
// later attempt the same answer instead of storing its messages again. [AGAIN-1]
//
// Every send of an SDK has to be remembered, and almost none is ever looked up. A row for each,
// under its hash, would cost more than the message: rows at random places make compactions of
// everything that is kept. So the answers of a turn are one row, and rows are filed by their time.
// A filter in memory for each thousand answers says in which rows a hash may be. Rows from before
// the queue came into memory are read into filters when they are asked for, in pieces.
//
// Only attempts after the first look for a row. If the first attempt arrives after a later one, the
// later one has noted in the state of the queue that first attempts must look as well. The queue
// keeps the hashes of such attempts in memory, so that other first attempts still need not.
// [AGAIN-3]

const (
	// againWindow is for how long an answer to a send is remembered, in milliseconds.
	againWindow = int64(sqslimits.DedupWindow / millisecond)

	// againLateMax bounds the hashes of attempts that came before the first. Beyond it, first
	// attempts look for rows.
	againLateMax = 10_000

	// againLearn bounds the bytes of rows that are read into filters in one Apply. Their number is
	// bounded by the window of the engine.
	againLearn = 1 << 20

	// Sizes of filters, in words. Each has room for four hashes in a word, so that it fails for one
	// new hash in a thousand.
	againWordsMin, againWordsMax, againHashesPerWord = 8, 256, 4
)

// An Invocation is the client's call of which a send is an attempt. The zero Invocation means none.
type Invocation struct {
	// Hash stands for the caller, the id of its call, and what is sent: attempts that differ in any
	// of them belong to different calls. [AGAIN-2]
	Hash row.DedupHash

	// Later says that there was an earlier attempt, or that it is unknown whether there was one.
	Later bool

	learned *againLearned // of an operation that is to be submitted again
}

// An againLearned says how far rows were read into filters. With it, an operation makes progress
// even if its queue is dropped from memory each time before it is submitted again.
type againLearned struct {
	space uint64
	old   []againGroup
	rest  []byte
}

// HashInvocation returns the hash of what distinguishes a call from others.
func HashInvocation(call []byte) (h row.DedupHash) {
	sum := sha256.Sum256(call)
	copy(h[:], sum[:])
	return h
}

// An againCache is what a queue keeps of its again rows in memory.
type againCache struct {
	begun       []byte // value of the row that answers are added to; empty for none
	minute      int64  // its key
	seq         uint64
	base        int64
	turn        [][]byte // values of the other rows of this turn
	groups, old []againGroup
	rest        []byte // the first of the rows that are in no group; nil for none

	late   map[row.DedupHash]int64 // attempts that came before the first, and when
	before int64                   // those until then may be missing in late
}

// An againGroup is a filter for the hashes in a stretch of rows, which ends where the next begins.
type againGroup struct {
	minute int64 // key of its first row
	seq    uint64
	words  []uint64
	room   int // hashes that it can still take
}

func newAgainCache(q *queue) againCache {
	c := againCache{before: q.st.AgainLate}
	if q.st.AgainTo != 0 {
		c.rest = row.AgainKey(q.row.Space, q.st.AgainFrom, 0)
	}
	return c
}

func (c *againCache) bytes() (n int) {
	const groupSize, lateSize = 56, 40
	for _, groups := range [][]againGroup{c.groups, c.old} {
		if k := len(groups); k > 0 { // no other is larger than the last one
			n += k * (groupSize + 8*len(groups[k-1].words))
		}
	}
	return n + cap(c.begun) + lateSize*len(c.late)
}

// endTurn forgets the rows of a turn, which the store shows now.
func (c *againCache) endTurn() {
	const usual = 64 << 10
	if len(c.turn) > 0 {
		if c.begun = c.turn[0][:0]; cap(c.begun) > usual {
			c.begun = nil
		}
		clear(c.turn)
		c.turn = c.turn[:0]
	}
}

// grow begins a group at a row if the last one is full, and returns the last one.
func grow(groups *[]againGroup, minute int64, seq uint64) *againGroup {
	size, n := againWordsMin, len(*groups)
	if n > 0 {
		last := &(*groups)[n-1]
		if last.room > 0 {
			return last
		}
		size = min(4*len(last.words), againWordsMax)
	}
	*groups = append(*groups, againGroup{minute: minute, seq: seq, words: make([]uint64, size),
		room: size * againHashesPerWord})
	return &(*groups)[n]
}

func (g *againGroup) add(h row.DedupHash) {
	g.room--
	for bit := range filterHash(h, len(g.words)) {
		g.words[bit/64] |= 1 << (bit % 64)
	}
}

func (g *againGroup) mayHave(h row.DedupHash) bool {
	for bit := range filterHash(h, len(g.words)) {
		if g.words[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

// remembers reports whether a queue remembers what it answers to the attempts of a call. A FIFO
// queue recognizes them by their deduplication ids. [AGAIN-8]
func (q *queue) remembers(call *Invocation) bool {
	return call.Hash != row.DedupHash{} && !q.fifo()
}

// answered returns the answer to an earlier attempt of the call; its list of messages is empty if
// there was none. entries is how many messages the call sends. If the answer is not ready, the
// operation must be submitted again.
func (e *Engine) answered(q *queue, call *Invocation, entries int) (a row.Again, ready bool) {
	if !q.remembers(call) || q.st.AgainTo == 0 || !call.Later && !e.mayBeLate(q, call) {
		return a, true
	}
	c := &q.again
	if l := call.learned; l != nil && l.space == q.row.Space && c.rest != nil &&
		bytes.Compare(c.rest, l.rest) < 0 {
		c.old, c.rest = l.old, l.rest
	}
	if !e.learnAgain(q) {
		call.learned = &againLearned{q.row.Space, c.old, c.rest}
		return a, false
	}
	a, ok := e.findAgain(q, call.Hash)
	if !ok || !a.Late && !call.Later || len(a.IDs) != entries || e.trusted() >= a.At+againWindow {
		return row.Again{}, true
	}
	return a, true
}

// mayBeLate reports whether another attempt of a call may have come before the first.
func (e *Engine) mayBeLate(q *queue, call *Invocation) bool {
	if q.again.before != 0 && e.trusted() < q.again.before+againWindow {
		return true
	}
	_, ok := q.again.late[call.Hash]
	return ok
}

// learnAgain reads rows from before the queue came into memory into filters. It reports whether
// all are.
func (e *Engine) learnAgain(q *queue) (all bool) {
	c, left, rows := &q.again, againLearn, max(e.cfg.Window, 1)
	if c.rest == nil {
		return true
	}
	var a row.Again
	for k, v := range e.rows.store.Scan(c.rest, q.againFrom(c.groups)) {
		if left <= 0 || rows == 0 {
			c.rest = bytes.Clone(k)
			return false
		}
		left, rows = left-len(k)-len(v), rows-1
		minute, seq, _ := row.AgainOf(k)
		group, r := grow(&c.old, minute, seq), row.ReadAgain(v)
		for r.Next(&a) {
			group.add(a.Hash)
		}
		if !r.Done() {
			e.rows.damaged("again", k)
		}
	}
	c.rest = nil
	return true
}

// againFrom is where the rows of groups begin, and so where those of the previous group end.
// Without groups, it is after all rows.
func (q *queue) againFrom(groups []againGroup) []byte {
	if len(groups) > 0 {
		return row.AgainKey(q.row.Space, groups[0].minute, groups[0].seq)
	}
	return row.AgainKey(q.row.Space, q.st.AgainTo, 0)
}

// findAgain returns the latest answer to a call.
func (e *Engine) findAgain(q *queue, h row.DedupHash) (a row.Again, ok bool) {
	c := &q.again
	if a, ok = againIn(c.begun, h); ok {
		return a, true
	}
	for _, value := range slices.Backward(c.turn) {
		if a, ok = againIn(value, h); ok {
			return a, true
		}
	}
	end := q.againFrom(nil)
	for _, groups := range [][]againGroup{c.groups, c.old} {
		for i := range slices.Backward(groups) {
			if !groups[i].mayHave(h) {
				continue
			}
			if i+1 < len(groups) {
				end = q.againFrom(groups[i+1:])
			}
			for _, v := range e.rows.store.Scan(q.againFrom(groups[i:]), end) {
				if found, has := againIn(v, h); has {
					a, ok = found, true
				}
			}
			if ok {
				return a, true
			}
		}
		end = q.againFrom(c.groups)
	}
	return a, false
}

// againIn returns the last answer to a call in the value of a row.
func againIn(value []byte, h row.DedupHash) (found row.Again, ok bool) {
	if len(value) == 0 {
		return found, false
	}
	var a row.Again
	for r := row.ReadAgain(value); r.Next(&a); {
		if a.Hash == h {
			found, ok = a, true
			found.IDs = slices.Clone(a.IDs)
		}
	}
	return found, ok
}

// noteAgain remembers what was answered to a call. Was is the answer to an attempt before this one,
// which has refused some of the entries. First is the number that the first new message got; if
// none was stored, there is nothing to remember.
func (e *Engine) noteAgain(
	q *queue, call *Invocation, was *row.Again, first uint64, sent ...Sent,
) {
	if !q.remembers(call) || first == q.st.NextSeq {
		return
	}
	var ids [row.AgainEntries]MessageID
	a := row.Again{Hash: call.Hash, At: e.now, Late: call.Later, IDs: ids[:len(sent)]}
	if len(was.IDs) > 0 {
		a.At = was.At // the window counts from the first answer [AGAIN-4]
	}
	for i := range sent {
		if sent[i].Err == nil {
			a.IDs[i] = sent[i].ID
			if sent[i].Told {
				a.Told |= 1 << i
			}
		}
	}
	c, minute := &q.again, e.now/row.DedupBucket
	if n := len(c.groups); len(c.begun) == 0 || c.minute != minute || c.groups[n-1].room <= 0 {
		e.saveAgain(q)
		c.minute, c.seq, c.base = minute, first, e.now
		c.begun = row.BeginAgain(c.begun[:0], c.base)
		if q.st.AgainTo == 0 {
			q.st.AgainFrom = minute
		}
		q.st.AgainTo, q.stDirty = minute+1, true
	}
	grow(&c.groups, c.minute, c.seq).add(call.Hash)
	c.begun = row.AppendAgain(c.begun, c.base, &a)
	if call.Later {
		e.noteLate(q, call)
	}
}

// saveAgain writes the row that answers are added to.
func (e *Engine) saveAgain(q *queue) {
	if c := &q.again; len(c.begun) > 0 {
		e.rows.set(row.AgainKey(q.row.Space, c.minute, c.seq), c.begun)
		c.turn, c.begun = append(c.turn, c.begun), nil
	}
}

// noteLate remembers that an attempt came before the first one of its call, which may follow.
func (e *Engine) noteLate(q *queue, call *Invocation) {
	q.st.AgainLate, q.stDirty = e.now, true
	if len(q.again.late) == againLateMax {
		q.again.late, q.again.before = nil, e.now
	}
	if q.again.late == nil {
		q.again.late = make(map[row.DedupHash]int64)
	}
	q.again.late[call.Hash] = e.now
}

// forgetAgain drops the minutes in which every window is over.
func (e *Engine) forgetAgain(q *queue) {
	over := (e.trusted() - againWindow) / row.DedupBucket // minutes before this one are
	if q.st.AgainTo == 0 || over <= q.st.AgainFrom {
		return
	}
	over, q.stDirty = min(over, q.st.AgainTo), true
	e.saveAgain(q)
	e.rows.deleteRange(row.AgainSpan(q.row.Space, q.st.AgainFrom, over))
	if q.st.AgainLate < over*row.DedupBucket {
		q.st.AgainLate = 0
	}
	c := &q.again
	maps.DeleteFunc(c.late, func(_ row.DedupHash, at int64) bool {
		return at < over*row.DedupBucket
	})
	if q.st.AgainFrom = over; over == q.st.AgainTo {
		q.st.AgainFrom, q.st.AgainTo = 0, 0
		c.groups, c.old, c.rest = nil, nil, nil
		return
	}
	// A group ends where the next one begins. All rows of the last group may be over as well.
	for _, groups := range []*[]againGroup{&c.old, &c.groups} {
		n := 0
		for n+1 < len(*groups) && (*groups)[n+1].minute < over {
			n++
		}
		*groups = slices.Delete(*groups, 0, n)
	}
}

// sentAgain is the answer for an entry that an earlier attempt has stored.
func (e *Engine) sentAgain(q *queue, first *row.Again, entry int) Sent {
	e.tally(q).Deduplicated.Add(1)
	return Sent{ID: first.IDs[entry], Duplicate: true, Told: first.Told&(1<<entry) != 0,
		Again: true}
}
