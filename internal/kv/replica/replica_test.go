package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"testing"

	"tenaq/internal/kv"
	"tenaq/internal/kv/kvtest"
	"tenaq/internal/testing/proof"
)

func TestStore(t *testing.T) {
	seed := proof.Seed(t)
	kvtest.Run(t, func(testing.TB) kv.Store { return newGroup(seed).lead() })
}

func TestStoreLost(t *testing.T) {
	seed := proof.Seed(t)
	kvtest.RunLost(t, func(testing.TB) kvtest.Group { return newGroup(seed) })
}

// While batches land, readers see all that was applied, and a scan sees the moment in which it
// began.
func TestOverlay(t *testing.T) {
	rng := proof.Random(t)
	for range 40 {
		g := newGroup(rng.Uint64())
		g.patience = 1 + rng.IntN(6)
		s, h := g.lead(), kvtest.NewHistory()
		disturb := func() {
			for range 1 + rng.IntN(3) {
				if wait := h.Write(rng, s); wait != nil && rng.IntN(8) == 0 {
					if err := wait(); err != nil {
						t.Fatal(err)
					}
				}
			}
			g.log.land(rng.IntN(3))
		}
		for range 40 {
			disturb()
			if err := h.Survived(s, h.Confirmed()); err != nil {
				t.Fatal(err)
			}
			lo, hi := []byte{byte('a' + rng.IntN(3))}, []byte{byte('b' + rng.IntN(3))}
			want := collect(s.Scan(lo, hi))
			i := 0
			for k, v := range s.Scan(lo, hi) {
				if got := fmt.Sprintf("%s=%s", k, v); i == len(want) || got != want[i] {
					t.Fatalf("row %d of a scan is %s, want one of %d rows", i, got, len(want))
				}
				if i++; i%4 == 0 {
					disturb()
				}
			}
			if i != len(want) {
				t.Fatalf("a scan has %d rows, want %d", i, len(want))
			}
		}
		g.log.land(1000)
		if err := h.Survived(s, h.Confirmed()); err != nil {
			t.Fatal(err)
		}
	}
}

// While a scan begins, no entry can be added over the state: it could land before the state is
// read, and the scan would see more of it than lies over it. Afterwards the writer continues.
func TestScanBegins(t *testing.T) {
	g := newGroup(1)
	b := g.state.NewBatch()
	b.Set([]byte("a"), nil)
	b.Apply()
	probe := &probingState{State: g.state}
	s := NewStore(probe, g.log, Session{})
	probe.changeable = func() bool {
		if !s.mu.TryLock() {
			return false
		}
		s.mu.Unlock()
		return true
	}
	for range s.Scan(nil, nil) {
		if !probe.changeable() {
			t.Error("the writer waits for the body of a scan")
		}
	}
	for range s.Scan([]byte("b"), nil) {
		t.Error("there is a row behind the last one")
	}
	if !probe.changeable() {
		t.Error("the writer waits after a scan without rows")
	}
	if probe.begun != 2 || probe.wrong {
		t.Errorf("%d scans of the state; the overlay could change when one began: %v", probe.begun, probe.wrong)
	}
}

// A probingState notes whether the overlay can change when a scan begins.
type probingState struct {
	State
	changeable func() bool
	begun      int
	wrong      bool
}

func (p *probingState) Scan(lo, hi []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		p.begun++
		p.wrong = p.wrong || p.changeable()
		p.State.Scan(lo, hi)(yield)
	}
}

func collect(scan iter.Seq2[[]byte, []byte]) (rows []string) {
	for k, v := range scan {
		rows = append(rows, fmt.Sprintf("%s=%s", k, v))
	}
	return rows
}

// All batches of a turn are one entry, which follows the entry before it.
func TestOneEntryPerTurn(t *testing.T) {
	g := newGroup(1)
	g.patience = 1 << 30
	s := g.lead()
	for range 3 {
		for i := range 4 {
			b := s.NewBatch()
			b.Set(fmt.Appendf(nil, "k%d", i), []byte("v"))
			if i < 3 {
				b.Apply()
			} else {
				b.Force()
			}
		}
	}
	s.NewBatch().Force() // writes nothing
	if len(g.log.entries) != 3 {
		t.Fatalf("%d entries, want 3", len(g.log.entries))
	}
	mark := g.state.mark
	for i, b := range g.log.entries {
		e, err := Decode(b)
		if err != nil || !e.Follows(mark) || e.Session != s.session {
			t.Fatalf("entry %d: %+v, error %v, does not follow %+v", i, e, err, mark)
		}
		mark = e.Mark
	}
	g.log.land(2)
	if got := len(s.over.Load().layers); got != 1 {
		t.Errorf("%d layers after two of three entries have landed, want 1", got)
	}
	g.log.land(1)
	if got := s.Bytes(); got != 0 {
		t.Errorf("%d bytes are kept after everything has landed", got)
	}
}

// A leader that is not sure of its lead reads nothing any more.
func TestConfirm(t *testing.T) {
	g := newGroup(1)
	s := g.lead()
	if err := s.Confirm(); err != nil {
		t.Errorf("Confirm returned %v", err)
	}
	g.Depose(t, rand.New(rand.NewPCG(1, 1)))
	for range 2 {
		if err := s.Confirm(); !errors.Is(err, kv.ErrLost) {
			t.Errorf("Confirm returned %v, want ErrLost", err)
		}
	}
	b := s.NewBatch()
	b.Set([]byte("a"), nil)
	if err := b.Force()(); !errors.Is(err, kv.ErrLost) {
		t.Errorf("a commit after that returned %v, want ErrLost", err)
	}
	if len(g.log.entries) != 0 {
		t.Errorf("a store that has lost the lead has proposed an entry")
	}
}

// A group is nodes that share one log. Its leader's store is under test.
type group struct {
	rng      *rand.Rand
	patience int // on average one proposal in patience lands something
	state    *memoryState
	log      *lateLog
}

func newGroup(seed uint64) *group {
	return &group{rng: rand.New(rand.NewPCG(seed, 7)), patience: 3,
		state: &memoryState{Memory: kv.NewMemory()}}
}

func (g *group) Lead(testing.TB) kv.Store { return g.lead() }

func (g *group) lead() *Store {
	g.log = &lateLog{group: g, landed: func(uint64) {}}
	s := NewStore(g.state, g.log, Session{byte(g.rng.Uint32())})
	g.log.landed = s.Landed
	return s
}

// Depose keeps some of the entries that have not landed. The old leader learns of even fewer that
// they are committed.
func (g *group) Depose(_ testing.TB, rng *rand.Rand) {
	l := g.log
	l.land(rng.IntN(len(l.entries) + 1))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
	next := &memoryState{Memory: g.state.Crash(g.state.Unconfirmed()), mark: g.state.mark}
	for _, e := range l.entries[:rng.IntN(len(l.entries)+1)] {
		next.apply(e)
	}
	g.state = next
}

// A lateLog commits entries late: one of its proposals in some lands a few, and a Ticket lands what
// it waits for.
type lateLog struct {
	group  *group
	landed func(number uint64)

	mu       sync.Mutex
	entries  [][]byte // that have not landed
	proposed int
	lost     bool
}

func (l *lateLog) Propose(entry []byte) Ticket {
	l.mu.Lock()
	l.entries = append(l.entries, entry)
	l.proposed++
	t := &ticket{l, l.proposed}
	l.mu.Unlock()
	if l.group.rng.IntN(l.group.patience) == 0 {
		l.land(l.group.rng.IntN(4))
	}
	return t
}

func (l *lateLog) Confirm() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost {
		return errors.New("not the leader")
	}
	return nil
}

// land commits and applies up to n entries.
func (l *lateLog) land(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; n > 0 && len(l.entries) > 0 && !l.lost; n-- {
		l.landed(l.group.state.apply(l.entries[0]))
		l.entries = l.entries[1:]
	}
}

type ticket struct {
	log    *lateLog
	number int
}

func (t *ticket) Wait() error {
	t.log.mu.Lock()
	behind := t.number - (t.log.proposed - len(t.log.entries))
	lost := t.log.lost
	t.log.mu.Unlock()
	if lost && behind > 0 {
		return errors.New("leadership lost")
	}
	t.log.land(behind)
	return nil
}

// A memoryState is a State in memory, which is strict about DeleteOnce.
type memoryState struct {
	*kv.Memory
	mark Mark
}

func (s *memoryState) Mark() Mark        { return s.mark }
func (s *memoryState) NewWrites() Writes { return new(plainWrites) }

func (s *memoryState) apply(entry []byte) (number uint64) {
	e, err := Decode(entry)
	if err != nil || !e.Follows(s.mark) {
		panic(fmt.Sprintf("entry %+v does not follow %+v: %v", e, s.mark, err))
	}
	b := s.NewBatch()
	for rest := e.Writes; len(rest) > 0; {
		var key, value []byte
		kind := opKind(rest[0])
		key, rest = cut(rest[1:])
		value, rest = cut(rest)
		op{kind, key, value}.encode(batchWrites{b})
	}
	b.Apply()
	s.mark = e.Mark
	return e.Mark.Number
}

func cut(b []byte) (first, rest []byte) {
	n, size := binary.Uvarint(b)
	return b[size:][:n], b[size:][n:]
}

type batchWrites struct{ kv.Batch }

func (batchWrites) Bytes() []byte { panic("not asked for") }

// plainWrites encode each write as its kind, its key and its value, both after their lengths.
type plainWrites struct{ b []byte }

func (w *plainWrites) Set(key, value []byte)     { w.add(opSet, key, value) }
func (w *plainWrites) Delete(key []byte)         { w.add(opDelete, key, nil) }
func (w *plainWrites) DeleteOnce(key []byte)     { w.add(opDeleteOnce, key, nil) }
func (w *plainWrites) DeleteRange(lo, hi []byte) { w.add(opDeleteRange, lo, hi) }
func (w *plainWrites) Bytes() []byte             { return w.b }

func (w *plainWrites) add(kind opKind, key, value []byte) {
	w.b = append(w.b, byte(kind))
	for _, part := range [][]byte{key, value} {
		w.b = append(binary.AppendUvarint(w.b, uint64(len(part))), part...)
	}
}
