package kvtest

import (
	"errors"
	"math/rand/v2"
	"testing"

	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
)

// A Group is where a store lives whose writer can be replaced by another node.
type Group interface {
	// Lead opens the store of a new writer, over the rows that earlier ones have left.
	Lead(t testing.TB) kv.Store

	// Depose makes another node the writer. What was forced and not confirmed may survive or not,
	// as rng says; no wait function waits any longer.
	Depose(t testing.TB, rng *rand.Rand)
}

// RunLost checks what a Store promises about ErrLost. newGroup returns a group without rows.
func RunLost(t *testing.T, newGroup func(t testing.TB) Group) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 6))
	for range proof.Few(20) {
		g, h := newGroup(t), NewHistory()
		for range 5 {
			s := g.Lead(t)
			if err := h.Survived(s, h.Confirmed()); err != nil {
				t.Fatal(err)
			}
			var waits []func() error
			for range rng.IntN(40) {
				if wait := h.Write(rng, s); wait != nil {
					waits = append(waits, wait)
				}
				if len(waits) > 0 && rng.IntN(3) == 0 {
					if err := waits[0](); err != nil {
						t.Fatalf("wait of a writer that nothing has replaced: %v", err)
					}
					waits = waits[1:]
				}
			}
			g.Depose(t, rng)
			checkDead(t, rng, h, s, waits)
			closeStore(t, s)
		}
		s := g.Lead(t)
		if err := h.Survived(s, h.Confirmed()); err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
	}
}

// checkDead calls the wait functions of a store that was deposed, and forces more: behind the first
// batch that is lost every other one is lost too, and none is confirmed that was forced afterwards.
func checkDead(t *testing.T, rng *rand.Rand, h *History, s kv.Store, waits []func() error) {
	t.Helper()
	before := len(waits)
	for len(waits) < before+3 {
		if wait := h.Write(rng, s); wait != nil {
			waits = append(waits, wait)
		}
	}
	lost := false
	for i, wait := range waits {
		err := wait()
		switch {
		case err != nil && !errors.Is(err, kv.ErrLost):
			t.Fatalf("wait returned %v, want nil or ErrLost", err)
		case err == nil && lost:
			t.Fatal("a batch was confirmed that was forced after one that is lost")
		case err == nil && i >= before:
			t.Fatal("a batch was confirmed that was forced after another node had become the writer")
		}
		lost = err != nil
	}
}
