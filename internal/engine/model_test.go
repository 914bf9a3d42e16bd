package engine_test

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"tenaq/internal/engine/enginetest"
	"tenaq/internal/testing/proof"
)

// scriptSteps is how long one generated script is.
const scriptSteps = 400

// TestModel plays generated scripts against the naive model and against the engine in several
// variants at once. A script that is answered differently is made as short as possible and printed
// in a form that can be added to testdata.
func TestModel(t *testing.T) {
	scripts := proof.Count(5, 50, 2_500, 25_000)
	playScripts(t, proof.Seed(t), scripts, func(seed uint64) (enginetest.Played, *enginetest.Difference) {
		r := rand.New(rand.NewPCG(seed, 1))
		return enginetest.Compare(seed, scriptSteps, []enginetest.Variant{randomVariant(r), randomVariant(r), randomVariant(r)})
	})
}

// playScripts plays scripts with the seeds from the first on, on all processors at once. After a
// difference no more are begun, and of several it reports the one with the lowest seed, so that
// what is reported does not depend on which was faster.
func playScripts(t *testing.T, first uint64, scripts int, play func(seed uint64) (enginetest.Played, *enginetest.Difference)) {
	// Scripts leave much garbage and little else.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	began := time.Now()
	var (
		mu      sync.Mutex
		total   enginetest.Played
		next    = first
		end     = first + uint64(scripts)
		worst   *enginetest.Difference
		worstAt uint64
	)
	take := func() (seed uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		seed, ok = next, next < end && worst == nil
		if ok {
			next++
		}
		return seed, ok
	}
	note := func(seed uint64, played enginetest.Played, d *enginetest.Difference) {
		mu.Lock()
		defer mu.Unlock()
		total.Add(played)
		if d != nil && (worst == nil || seed < worstAt) {
			worst, worstAt = d, seed
		}
	}
	var players sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for {
				seed, ok := take()
				if !ok {
					return
				}
				played, d := play(seed)
				note(seed, played, d)
			}
		})
	}
	players.Wait()
	took := time.Since(began).Seconds()
	t.Logf("%d scripts, %d steps, %d operations of the engine compared, %.0f steps a second",
		next-first, total.Steps, total.Operations, float64(total.Steps)/took)
	if worst != nil {
		worst.Shrink()
		t.Fatalf("%s: %s", proof.Command(t, worstAt), worst)
	}
}

// randomVariant makes up a way to run the engine, small windows and long turns included.
func randomVariant(r *rand.Rand) enginetest.Variant {
	one := func(list ...int) int { return list[r.IntN(len(list))] }
	v := enginetest.Variant{
		Window:      one(1, 2, 4, 16, 4096),
		WindowBytes: one(1, 10_000, 0),
		Turn:        one(1, 1, 2, 5, 16, 256),
		Restart:     one(0, 0, 0, 1) == 1,
		Audit:       enginetest.Audit,
	}
	if one(0, 0, 0, 0, 0, 1) == 1 {
		v.Disk = newPebbleDisk
	}
	return v
}
