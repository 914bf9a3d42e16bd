package broker

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
)

// Clients do random work on several queues of a broker on disk. The power is cut at random moments,
// again and again: also while the store opens, and while the broker starts or stops. The clock is
// set at random. At the end, every answer is compared with what is there.
// [DUR-1, DUR-2, DUR-6, DUR-7, DUR-8, DUR-9, DUR-10, DUR-11, CLOCK-1, CLOCK-4, CLOCK-6, CLOCK-7]
// [CLOCK-9, CLOCK-10]
//
// Each simulation is a subtest: with the same TENAQ_SEED, -run repeats one of them alone.
func TestCrashes(t *testing.T) {
	var total totals
	simulate(t, proof.Random(t), crashes(), newSimulation, total.add)
	t.Logf("%v; %d messages, %d deliveries", &total, total.messages, total.deliveries)
	total.checkVariety(t)
	if total.deliveries == 0 || total.cuts() > 300 && total.pauses*total.returned == 0 {
		t.Errorf("the simulation did not get around to everything")
	}
}

// crashes is how many crashes to simulate.
func crashes() int { return proof.Count(60, 400, 1_500, 30_000) }

// crashesEach is how many times the power of one machine is cut.
const crashesEach = 12

// simulate runs simulations side by side until they have had a number of crashes, reports what they
// found, and hands each to done.
func simulate(t *testing.T, rng *rand.Rand, crashes int, begin func() *simulation, done func(*simulation)) {
	var seeds []uint64
	for range (crashes + crashesEach - 1) / crashesEach {
		seeds = append(seeds, rng.Uint64())
	}
	var mu sync.Mutex
	t.Run("simulation", func(all *testing.T) {
		for _, seed := range seeds {
			all.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				if all.Failed() {
					return // what is known to be wrong would be told again and again
				}
				sim := begin()
				sim.run(t, seed, crashesEach)
				for i, problem := range sim.check() {
					if i == 20 {
						t.Errorf("and more")
						break
					}
					t.Error(problem)
				}
				mu.Lock()
				defer mu.Unlock()
				done(sim)
			})
		}
	})
}

// The simulation finds the losses of a store that confirms batches which it has only applied.
func TestCrashesFindLosses(t *testing.T) {
	findLosses(t, newSimulation)
}

func findLosses(t *testing.T, begin func() *simulation) {
	proof.Unraced(t)
	rng := proof.Random(t)
	for range 10 {
		sim := begin()
		sim.writes, sim.wrap = 40, func(s kv.Store) kv.Store { return lyingStore{s} }
		sim.run(t, rng.Uint64(), 6)
		if len(sim.check()) > 0 {
			return
		}
	}
	t.Errorf("60 crashes of a store that forces nothing were not noticed")
}

// A lyingStore forces nothing.
type lyingStore struct{ kv.Store }

func (s lyingStore) NewBatch() kv.Batch { return lyingBatch{s.Store.NewBatch()} }

type lyingBatch struct{ kv.Batch }

func (b lyingBatch) Force() (wait func() error) {
	b.Batch.Apply()
	return func() error { return nil }
}

// totals are what happened in simulations.
type totals struct {
	cutsIn                        [phases]int
	chained, longest              int // power cuts in a row without any work in between
	steps, pauses, returned       int // of the clock; starts that paused expiry; starts after every timeout
	answers, messages, deliveries int
}

func (t *totals) cuts() (n int) {
	for _, in := range t.cutsIn {
		n += in
	}
	return n
}

// count notes a power cut.
func (s *simulation) count(m *machine) {
	s.cutsIn[m.cutIn]++
	if s.chained++; m.fate != fateStart && m.cutIn >= working {
		s.chained = 0
	}
	s.longest = max(s.longest, s.chained)
}

// add adds a simulation.
func (t *totals) add(s *simulation) {
	for i, n := range s.cutsIn {
		t.cutsIn[i] += n
	}
	t.longest = max(t.longest, s.longest)
	t.steps += s.steps
	t.pauses += s.pauses
	t.returned += s.returned
	t.answers += s.history.answers
	t.messages += len(s.history.messages)
	for _, m := range s.history.messages {
		t.deliveries += len(m.deliveries)
	}
}

func (t *totals) String() string {
	return fmt.Sprintf("%d crashes (%d while the store opened, %d while the broker started, %d while it worked, %d while it stopped, %d later), "+
		"%d in a row at most without work; the clock set %d times, expiry paused %d times, all returned %d times; %d answers",
		t.cuts(), t.cutsIn[opening], t.cutsIn[starting], t.cutsIn[working], t.cutsIn[stopping], t.cutsIn[closing],
		t.longest, t.steps, t.pauses, t.returned, t.answers)
}

// checkVariety expects, of many power cuts, that they were everywhere, and in one case of four in a
// start.
func (t *totals) checkVariety(test *testing.T) {
	cuts, starts, stops := t.cuts(), t.cutsIn[opening]+t.cutsIn[starting], t.cutsIn[stopping]+t.cutsIn[closing]
	if cuts > 300 && (4*starts < cuts || t.cutsIn[starting]*stops*t.steps == 0 || t.longest < 3) {
		test.Errorf("the power was not cut everywhere, or the clock not set")
	}
}
