// Package salvage makes a consistent store of the rows that were read from a damaged one. [DUR-36]
//
// It keeps only rows that cannot be computed from others: settings of queues, messages, contents,
// deliveries, deduplication ids, answers to sends, move tasks, documents and records. From these it
// computes indexes, segments, groups, low-water keys, counters and the places of moved messages, so
// damage to those costs nothing. Package verify finds nothing wrong with the result.
//
// Reading the damaged store and copying its rows is left to the caller.
package salvage

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tenaq/internal/engine/key"
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// Takes reports whether a row of a damaged store is copied into the store that Complete completes.
func Takes(k []byte) bool {
	switch {
	case len(k) == 0:
		return false
	case k[0] == row.FamilyHistory:
		return takesHistory(k)
	case k[0] == row.FamilySystem, k[0] == row.FamilyQueue, k[0] == row.FamilyTask,
		k[0] == row.FamilyDocument, isRecord(k), k[0] == row.FamilyAction,
		k[0] == row.FamilySchedule:
		return true
	case k[0] != row.FamilySpace || len(k) < row.SpacePrefixLen:
		return false
	}
	switch row.Kind(k[row.SpacePrefixLen-1]) {
	case row.KindState:
		return len(k) == row.SpacePrefixLen
	case row.KindMessage, row.KindContent, row.KindDelivery, row.KindStory:
		return len(k) == row.SeqKeyLen
	case row.KindDedup, row.KindGroup, row.KindAgain:
		return true
	}
	return false
}

// Result is the outcome of a salvage.
type Result struct {
	Queues    []Queue // in the order of their names
	Lost      int     // queues whose row cannot be read
	Cancelled int     // move tasks that were running
	Outcomes  int64   // of the histories of queues that are lost, or cannot be read

	Records     int // of programs, such as claims
	LostRecords int // those that cannot be read
}

// A Queue is the outcome for the messages of a queue.
type Queue struct {
	Queue     row.QueueName
	Recovered bool  // its name and settings are lost: it has a new name and default settings
	Kept      int64 // messages
	Lost      int64 // messages, as far as known, including those without a body
	NoBody    int64 // messages whose body is lost
	Forgotten int64 // messages that are kept without their delay, visibility and receive count
}

// Complete completes a store that holds only the salvaged rows of another one. Call it before the
// store is used.
func Complete(store kv.Store) Result {
	s := &salvage{store: store, batch: store.NewBatch(), facts: make(map[uint64]*spaceFacts)}
	s.survey()
	s.surveyHistories()
	s.queues()
	for i := range s.found {
		s.space(&s.found[i])
	}
	s.histories()
	s.tasks()
	s.documents()
	s.records()
	s.actions()
	s.schedules()
	s.system()
	s.batch.Force()()
	slices.SortFunc(s.out.Queues, func(a, b Queue) int {
		return strings.Compare(a.Queue.Account+"/"+a.Queue.Name, b.Queue.Account+"/"+b.Queue.Name)
	})
	return s.out
}

// A salvage is a salvage in progress.
type salvage struct {
	store kv.Store
	batch kv.Batch
	out   Result

	sys   row.System
	facts map[uint64]*spaceFacts
	found []salvagedQueue
}

// spaceFacts is what the rows of a space say together.
type spaceFacts struct {
	last     uint64 // the largest number of a message that is mentioned
	messages int64
	fifo     bool // a message has a deduplication id
}

// A salvagedQueue is a queue with its row.
type salvagedQueue struct {
	name      row.QueueName
	row       row.Queue
	recovered bool
	next      uint64 // number of its next message
}

// salvageBatch is about how large batches are.
const salvageBatch = 1 << 20

func (s *salvage) set(k, v []byte) {
	s.batch.Set(k, v)
	if s.batch.Len() > salvageBatch {
		s.apply()
	}
}

func (s *salvage) delete(k []byte) { s.batch.Delete(k) }

func (s *salvage) apply() {
	s.batch.Apply()
	s.batch = s.store.NewBatch()
}

func (s *salvage) get(k []byte) ([]byte, bool) { return s.store.Get(nil, k) }

// past notes a time that has passed.
func (s *salvage) past(times ...int64) { s.sys.Stamp = max(s.sys.Stamp, slices.Max(times)) }

// survey reads every row once, for facts about the store as a whole.
func (s *salvage) survey() {
	s.sys = row.System{NextSpace: 1, NextTask: 1}
	if value, ok := s.get(row.SystemKey()); ok {
		if sys, ok := row.DecodeSystem(value); ok {
			s.sys = sys
		}
	}
	if s.sys.IDKey == (row.IDKey{}) { // ids from before the damage carry no place that can be read
		rand.Read(s.sys.IDKey[:])
	}
	for k, v := range s.store.Scan([]byte{row.FamilyTask}, []byte{row.FamilyTask + 1}) {
		if t, ok := row.TaskOf(k, v); ok {
			s.past(t.Started, t.Stepped)
			s.sys.NextTask = max(s.sys.NextTask, t.Number+1)
		}
	}
	for _, v := range s.store.Scan([]byte{row.FamilyAction}, []byte{row.FamilyAction + 1}) {
		if a, ok := row.DecodeAction(v); ok {
			s.past(a.At)
		}
	}
	for k, v := range s.store.Scan([]byte{row.FamilySpace}, []byte{row.FamilySpace + 1}) {
		space, _, _ := key.Uint64(k[1:])
		s.sys.NextSpace = max(s.sys.NextSpace, space+1)
		f := s.facts[space]
		if f == nil {
			f = &spaceFacts{}
			s.facts[space] = f
		}
		s.fact(f, k, v)
	}
}

func (s *salvage) fact(f *spaceFacts, k, v []byte) {
	switch row.Kind(k[row.SpacePrefixLen-1]) {
	case row.KindState:
		if st, ok := row.DecodeState(v); ok && st.NextSeq > 0 {
			f.last = max(f.last, st.NextSeq-1)
		}
		return
	case row.KindDedup:
		if d, ok := row.DecodeDedup(v); ok {
			s.past(d.At)
			f.last = max(f.last, uint64(d.Sequence))
			for _, a := range d.Deliveries {
				f.last = max(f.last, a.Seq)
			}
		}
		return
	case row.KindAgain:
		if _, seq, ok := row.AgainOf(k); ok {
			f.last = max(f.last, seq)
			r := row.ReadAgain(v)
			s.past(r.Base)
			for a := (row.Again{}); r.Next(&a); {
				s.past(a.At)
			}
		}
		return
	case row.KindGroup:
		return
	case row.KindMessage:
		if m, _, ok := row.DecodeMeta(row.SeqOf(k), v); ok {
			s.past(m.Sent, m.Arrived)
			f.fifo = f.fifo || m.Dedup != ""
			f.messages++
		}
	case row.KindDelivery:
		if d, ok := row.DecodeDelivery(v); ok {
			s.past(d.LastReceive)
			if d.Kind == row.DueReturned {
				s.past(d.At)
			}
			if d.Kind == row.DueInFlight {
				s.sys.Hidden = max(s.sys.Hidden, d.At)
			}
		}
	case row.KindStory:
		if told, ok := row.DecodeStory(v); ok {
			s.past(told.Last().Ended)
		}
	}
	f.last = max(f.last, row.SeqOf(k))
}

// queues reads the catalogue, and makes a queue for each space with messages that no queue has.
func (s *salvage) queues() {
	accounts := make(map[string]int)
	taken := make(map[uint64]bool)
	for k, v := range s.store.Scan([]byte{row.FamilyQueue}, []byte{row.FamilyQueue + 1}) {
		name, ok := row.QueueOf(k)
		stored, known := row.DecodeQueue(v)
		if !ok || !known || stored.Deleted == 0 && (taken[stored.Space] || stored.Space == 0) {
			s.out.Lost++
			s.delete(k)
			continue
		}
		s.past(stored.Deleted, stored.Created, stored.Modified, stored.Purged)
		accounts[name.Account]++
		if stored.Deleted != 0 {
			continue
		}
		taken[stored.Space] = true
		s.sys.NextSpace = max(s.sys.NextSpace, stored.Space+1)
		s.found = append(s.found, salvagedQueue{name: name, row: stored})
	}
	account, most := "000000000000", 0
	for _, a := range slices.Sorted(maps.Keys(accounts)) {
		if accounts[a] > most {
			account, most = a, accounts[a]
		}
	}
	for _, space := range slices.Sorted(maps.Keys(s.facts)) {
		switch f := s.facts[space]; {
		case taken[space]:
		case f.messages == 0:
			all := row.WholeSpace(space)
			s.batch.DeleteRange(all.Lo, all.Hi)
		default:
			s.recover(account, space, f.fifo)
		}
	}
	for _, q := range s.found {
		if target := q.row.Attributes.Redrive; target != (row.Redrive{}) {
			s.set(row.SourceKey(target.Target, q.name.Name), []byte{row.Version})
		}
	}
}

// recover makes a queue for messages whose queue is unknown.
func (s *salvage) recover(account string, space uint64, fifo bool) {
	q := salvagedQueue{name: row.QueueName{Account: account,
		Name: fmt.Sprintf("salvaged-%d", space)}, recovered: true}
	q.row = row.Queue{Space: space, Created: s.sys.Stamp, Modified: s.sys.Stamp,
		Attributes: row.DefaultAttributes()}
	if q.row.Attributes.FIFO = fifo; fifo {
		q.name.Name += row.FIFOSuffix
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(q.name.Account+"/"+q.name.Name), space))
	copy(q.row.Incarnation[:], sum[:])
	s.set(row.QueueKey(q.name), q.row.Encode(nil))
	s.found = append(s.found, q)
}

// seqMargin is how many numbers of messages are skipped, because the last messages may be lost.
const seqMargin = 1 << 20

// space computes all rows of a queue that follow from its messages.
func (s *salvage) space(q *salvagedQueue) {
	space := q.row.Space
	w := &spaceSalvage{salvage: s, queue: q, space: space, fifo: q.row.Attributes.FIFO,
		groups: make(map[string]*row.Group)}
	w.out = Queue{Queue: q.name, Recovered: q.recovered}
	if value, ok := s.get(row.StateKey(space)); ok {
		w.old, _ = row.DecodeState(value)
	}
	last := uint64(0)
	if f := s.facts[space]; f != nil {
		last = f.last
	}
	q.next = last + 1 + seqMargin
	w.st = row.NewState(q.next)
	w.st.Segment = 0
	w.st.Settled = row.LastAt(s.sys.Stamp)
	s.apply() // what was made of the catalogue
	w.readFronts()
	w.remembered()
	w.again()
	w.messages()
	w.saveGroups()
	s.apply()
	orphans := w.orphans(row.KindContent) + w.orphans(row.KindDelivery)
	w.orphans(row.KindStory)
	w.st.Live = w.out.Kept
	s.set(row.OwnerKey(space), row.EncodeOwner(nil, q.name))
	s.set(row.StateKey(space), w.st.Encode(nil))
	w.saveFair()
	w.out.Lost = max(w.out.Lost+orphans, w.old.Live-w.out.Kept)
	s.out.Queues = append(s.out.Queues, w.out)
}

// tasks keeps move tasks but cancels those that were running, because their messages may be lost or
// be there twice.
func (s *salvage) tasks() {
	next := make(map[row.QueueName]uint64)
	for _, q := range s.found {
		next[q.name] = q.next
	}
	for k, v := range s.store.Scan([]byte{row.FamilyTask}, []byte{row.FamilyTask + 1}) {
		t, ok := row.TaskOf(k, v)
		limit, there := next[t.Source]
		if !ok || !there || t.Limit == 0 || t.Limit > limit || t.Stepped < t.Started {
			s.delete(bytes.Clone(k))
			continue
		}
		if t.Status.Active() {
			t.Status, t.Failure, t.Paused = row.TaskCancelled, "", false
			s.out.Cancelled++
			s.set(bytes.Clone(k), t.Encode(nil))
		}
	}
}

// documents drops what cannot be read.
func (s *salvage) documents() {
	family := row.Family(row.FamilyDocument)
	for k, v := range s.store.Scan(family.Lo, family.Hi) {
		_, ok := row.DocumentOf(k)
		if _, known := row.DecodeDocument(v); !ok || !known {
			s.delete(bytes.Clone(k))
		}
	}
}

// actions drops entries of the action log that cannot be read.
func (s *salvage) actions() {
	family := row.Family(row.FamilyAction)
	for k, v := range s.store.Scan(family.Lo, family.Hi) {
		_, ok := row.DecodeAction(v)
		if _, placed := row.ActionPlace(k); !ok || !placed {
			s.delete(bytes.Clone(k))
		}
	}
}

// system writes the row about the store as a whole. The store starts as after a crash, so that
// messages in flight are not delivered at once. [CLOCK-10]
func (s *salvage) system() {
	s.sys.Clean, s.sys.GraceFrom, s.sys.GraceUntil = false, 0, 0
	s.sys.Unowned, s.sys.Fallen, s.sys.Swept = false, false, row.MessageID{}
	s.sys.NextTask = max(s.sys.NextTask, 1)
	s.set(row.SystemKey(), s.sys.Encode(nil))
}
