package kvtest

import (
	"math/rand/v2"
	"testing"

	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
)

// A Machine is where a durable store lives: it can be switched off.
type Machine interface {
	// Open opens the store as the last Crash or Close left it; the first time, an empty one.
	Open(t testing.TB) kv.Store

	// Crash loses the power at this moment. What was not forced to disk may survive or not, as rng
	// says. The next Open sees the machine after the crash; the store that was open stays usable
	// until it is closed, as a ghost that changes nothing any more.
	Crash(t testing.TB, rng *rand.Rand)

	// Break makes the next wait function fail: before its batch is on disk, or after. It must not
	// return then; the channel says when the failure has been noticed.
	Break(t testing.TB, persisted bool) (noticed <-chan struct{})
}

// RunDurable checks what a Store promises about crashes. newMachine returns a machine that has no
// store yet.
func RunDurable(t *testing.T, newMachine func(t testing.TB) Machine) {
	t.Run("Reopen", func(t *testing.T) { testReopen(t, newMachine(t)) })
	t.Run("Crashes", func(t *testing.T) { testCrashes(t, newMachine) })
	t.Run("CrashWhileOpening", func(t *testing.T) { testCrashWhileOpening(t, newMachine(t)) })
	t.Run("BrokenBefore", func(t *testing.T) { testBroken(t, newMachine, false) })
	t.Run("BrokenAfter", func(t *testing.T) { testBroken(t, newMachine, true) })
}

func testReopen(t *testing.T, m Machine) {
	s := m.Open(t)
	apply(s, "set a 1, set b 2, set c 3")
	s.NewBatch().Force()()
	apply(s, "once a, range b c")
	s.NewBatch().Force()()
	closeStore(t, s)
	s = m.Open(t)
	expect(t, s, "c=3")
	closeStore(t, s)
	s = m.Open(t) // nothing was written in between
	expect(t, s, "c=3")
	apply(s, "set d 4, set c 5")
	s.NewBatch().Force()()
	closeStore(t, s)
	s = m.Open(t)
	expect(t, s, "c=5 d=4")
	closeStore(t, s)
}

func closeStore(t *testing.T, s kv.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// Machines lose power again and again, while wait functions are out.
func testCrashes(t *testing.T, newMachine func(t testing.TB) Machine) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 2))
	for range proof.Few(20) {
		machine, h := newMachine(t), NewHistory()
		for range 4 {
			s := machine.Open(t)
			if err := h.Survived(s, h.Confirmed()); err != nil {
				t.Fatal(err)
			}
			var pending []func() error
			for range rng.IntN(60) {
				if wait := h.Write(rng, s); wait != nil {
					pending = append(pending, wait)
				}
				for len(pending) > 0 && rng.IntN(2) == 0 {
					i := rng.IntN(len(pending))
					pending[i]()
					pending = append(pending[:i], pending[i+1:]...)
				}
			}
			confirmed := h.Confirmed()
			machine.Crash(t, rng)
			for _, wait := range pending {
				wait()
			}
			closeStore(t, s)

			s = machine.Open(t)
			if err := h.Survived(s, confirmed); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(2) == 0 { // again, before anything is forced
				machine.Crash(t, rng)
				closeStore(t, s)
				s = machine.Open(t)
				if err := h.Survived(s, h.Confirmed()); err != nil {
					t.Fatalf("after a crash that followed opening: %v", err)
				}
			}
			closeStore(t, s)
		}
	}
}

// A store that was created and never used opens after a crash, and is empty.
func testCrashWhileOpening(t *testing.T, m Machine) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 3))
	for range 10 {
		s := m.Open(t)
		expect(t, s, "")
		m.Crash(t, rng)
		closeStore(t, s)
	}
}

// A force that fails, having persisted its batch or not, leaves everything before it there.
func testBroken(t *testing.T, newMachine func(t testing.TB) Machine, persisted bool) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 4))
	for range proof.Few(10) {
		machine := newMachine(t)
		s := machine.Open(t)
		h := NewHistory()
		for range 1 + rng.IntN(30) {
			if wait := h.Write(rng, s); wait != nil {
				wait()
			}
		}
		confirmed := h.Confirmed()
		noticed := machine.Break(t, persisted)
		returned := make(chan struct{})
		ghost := rand.New(rand.NewPCG(rng.Uint64(), 5))
		go func() {
			for {
				if wait := h.Write(ghost, s); wait != nil {
					wait()
					close(returned)
					return
				}
			}
		}()
		select {
		case <-noticed:
		case <-returned:
			t.Fatal("a wait function returned although its force failed")
		}
		machine.Crash(t, rng)
		s = machine.Open(t)
		if err := h.Survived(s, confirmed); err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
	}
}
