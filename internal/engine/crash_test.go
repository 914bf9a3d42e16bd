package engine_test

import (
	"fmt"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/engine/enginetest"
	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
)

// A crashDisk is a memory store whose crashes can be looked at.
type crashDisk struct{ store *kv.Memory }

func (d *crashDisk) Open() kv.Store { return d.store }

func (d *crashDisk) Stop(clean bool) {
	if !clean {
		d.store = d.store.Crash(0)
	}
}

// TestCrashAnywhere cuts the power in the middle of long turns. Part of a turn may then be there
// and the rest not, but never part of a command: whatever is found, its rows agree with each other,
// no message is there twice, and none comes back that was gone, as one that moves in two steps
// would. [DLQ-34]
func TestCrashAnywhere(t *testing.T) {
	seed, scripts := proof.Seed(t), proof.Count(4, 20, 20, 1_000)
	found := 0
	for s := range uint64(scripts) {
		disk := &crashDisk{store: kv.NewMemory()}
		g := enginetest.NewGenerator(seed + s)
		w := enginetest.NewWorld(enginetest.Variant{Window: 1 + int(s%5), WindowBytes: int(s % 3), Turn: 100,
			Disk: func() enginetest.Disk { return disk }})
		p := enginetest.NewPlayer(w)
		next := 0 // the first crash that has not been looked at
		there, gone := make(map[engine.MessageID]int), make(map[engine.MessageID]bool)
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
				crashed := disk.store.Crash(next)
				err := enginetest.Audit(crashed)
				if now := engine.Lineages(crashed); err == nil {
					err = follow(there, now, gone)
					there = now
				}
				if err != nil {
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

// follow compares the messages that a crash leaves with those that the crash one batch earlier
// leaves. It takes those that have ended into gone.
func follow(earlier, now map[engine.MessageID]int, gone map[engine.MessageID]bool) error {
	for id, n := range now { // order does not matter: any is told
		switch {
		case n > 1:
			return fmt.Errorf("message %s is there %d times", id, n)
		case gone[id]:
			return fmt.Errorf("message %s was gone and is there again", id)
		}
	}
	for id := range earlier {
		if now[id] == 0 {
			gone[id] = true
		}
	}
	return nil
}
