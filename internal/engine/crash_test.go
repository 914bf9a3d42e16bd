package engine_test

import (
	"math/rand/v2"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/engine/enginetest"
	"tenaq/internal/kv"
)

// A crashDisk is a memory store whose crashes can be looked at.
type crashDisk struct{ store *kv.Memory }

func (d *crashDisk) Open() kv.Store { return d.store }

func (d *crashDisk) Stop(clean bool) {
	if !clean {
		d.store = d.store.Crash(0)
	}
}

// TestCrashAnywhere cuts the power in the middle of long turns. Part of a turn may then be there and the
// rest not, but never part of a command: whatever is found, its rows agree with each other.
func TestCrashAnywhere(t *testing.T) {
	seed, scripts := rand.Uint64()>>32, 20
	if short() {
		scripts = 4
	}
	t.Logf("the first seed is %d", seed)
	found := 0
	for s := range uint64(scripts) {
		disk := &crashDisk{store: kv.NewMemory()}
		g := enginetest.NewGenerator(seed + s)
		w := enginetest.NewWorld(enginetest.Variant{Window: 1 + int(s%5), WindowBytes: int(s % 3), Turn: 100,
			Disk: func() enginetest.Disk { return disk }})
		p := enginetest.NewPlayer(w)
		next := 0 // the first crash that has not been looked at
		for i := range scriptSteps {
			step := g.Next(p.Receipts())
			if _, err := p.Play(step); err != nil {
				t.Fatalf("seed %d, step %d, %s: %v", seed+s, i, step, err)
			}
			left := disk.store.Unconfirmed()
			if left < next-1 {
				next = 0 // a turn has ended
			}
			for ; next <= left; next++ {
				found++
				if err := engine.Audit(disk.store.Crash(next)); err != nil {
					t.Fatalf("seed %d, step %d, %s: the store after a crash that leaves %d batches: %v", seed+s, i, step, next, err)
				}
			}
		}
		w.Close()
	}
	if found < 20*scripts {
		t.Errorf("only %d crashes to look at in %d scripts", found, scripts)
	}
}
