package enginetest

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"tenaq/internal/engine"
)

// A modelKey is what makes two sends the same: the deduplication id, and the group when the scope
// of the queue is the group.
type modelKey struct {
	byGroup   bool
	group, id string
}

type modelSend struct {
	at       int64
	id       engine.MessageID
	sequence engine.Sequence
}

// A modelAttempt is what a receive has handed out under the id of its attempt.
type modelAttempt struct {
	at          int64
	messages    []*modelMessage
	generations []uint64
}

// trusted is the time that ends windows. None ends while expiry is paused. [DEDUP-23]
func (m *Model) trusted() int64 {
	if m.hold {
		return m.heldFrom
	}
	return m.now
}

// over reports whether a window is.
func (m *Model) over(from, window int64) bool { return m.trusted() >= from+window }

// dedupID is the deduplication id that a message gets. [DEDUP-2, DEDUP-3]
func (q *modelQueue) dedupID(e engine.Entry) string {
	if e.Dedup.Set || !q.fifo() {
		return e.Dedup.Value
	}
	sum := sha256.Sum256([]byte(e.Body.Value))
	return hex.EncodeToString(sum[:])
}

// dedups reports whether a queue remembers the send of a message. [EXT-30]
func (q *modelQueue) dedups(e engine.Entry) bool {
	return q.fifo() || q.is(windowTag) && workID(e).Set
}

// workID is the deduplication id on a standard queue.
func workID(e engine.Entry) engine.Text {
	for _, a := range e.Attributes {
		if a.Name == "tenaq.dedup-id" {
			return a.String
		}
	}
	return engine.Text{}
}

func (q *modelQueue) key(e engine.Entry) modelKey {
	if !q.fifo() {
		return modelKey{id: workID(e).Value}
	}
	if q.attributes["DeduplicationScope"] == "messageGroup" {
		return modelKey{byGroup: true, group: e.Group.Value, id: q.dedupID(e)}
	}
	return modelKey{id: q.dedupID(e)}
}

// duplicate returns the first send with the key of this one, if its window is not over.
func (m *Model) duplicate(q *modelQueue, e engine.Entry) (first modelSend, ok bool) {
	first, ok = q.sends[q.key(e)]
	return first, ok && !m.over(first.at, q.window()) // [DEDUP-7, EXT-29]
}

// remember notes a send that was no duplicate.
func (m *Model) remember(q *modelQueue, e engine.Entry, msg *modelMessage) {
	if q.sends == nil {
		q.sends = make(map[modelKey]modelSend)
	}
	q.sends[q.key(e)] = modelSend{at: m.now, id: msg.id, sequence: q.sequence(msg)}
}

// repeat returns what an earlier receive under the same id has handed out; nothing when there was
// none less than five minutes ago, one of its messages is not as it left it, or there is no room in
// flight for those that have become visible since. [DEDUP-19, DEDUP-21, DEDUP-25]
func (m *Model) repeat(q *modelQueue, attempt string, room int64) []*modelMessage {
	earlier, ok := q.attempts[attempt]
	if !ok || m.over(earlier.at, 300_000) {
		return nil
	}
	for i, msg := range earlier.messages {
		if !q.has(msg) || q.expired(msg, m.now) || msg.generation != earlier.generations[i] ||
			msg.changed {
			return nil
		}
		if msg.at <= m.now {
			if m.isHeld(q, msg) { // [HOLD-1]
				return nil
			}
			room-- // [DEDUP-25]
		}
	}
	if room < 0 {
		return nil
	}
	return earlier.messages
}

func (q *modelQueue) has(msg *modelMessage) bool { return slices.Contains(q.messages, msg) }

// rememberAttempt notes a receive that was no repeat and has handed something out.
func (m *Model) rememberAttempt(q *modelQueue, attempt string, picked []*modelMessage) {
	if q.attempts == nil {
		q.attempts = make(map[string]modelAttempt)
	}
	a := modelAttempt{at: m.now, messages: picked}
	for _, msg := range picked {
		a.generations = append(a.generations, msg.generation)
	}
	q.attempts[attempt] = a
}
