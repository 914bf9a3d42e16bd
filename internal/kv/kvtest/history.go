package kvtest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	"tenaq/internal/kv"
)

// A History writes random batches into a store and remembers every state that the store went
// through, so that a store which comes back from a crash can be held to the contract: it is in one
// of those states, and not in one from before the last confirmed.
//
// One goroutine writes. It may still be at it when another asks what survived, as a process that
// has met a fault may for a moment.
type History struct {
	mu     sync.Mutex
	states []*model // states[i] is after i batches

	confirmed atomic.Int64
}

// lastKey is written by each batch of a history, so that what survived says where it is in it.
const lastKey = "last"

// NewHistory returns the history of a store that holds nothing.
func NewHistory() *History { return &History{states: []*model{newModel()}} }

// Confirmed returns how many of the batches written a wait function has confirmed. Read it before
// the crash: a wait function that returns during the crash confirms as well.
func (h *History) Confirmed() int { return int(h.confirmed.Load()) }

// Write applies a random batch to s, the store in the history's last state. When it forces the
// batch it returns the wait function, else nil.
func (h *History) Write(rng *rand.Rand, s kv.Store) (wait func() error) {
	b := s.NewBatch()
	n := h.fill(rng, b)
	if rng.IntN(3) == 0 {
		b.Apply()
		return nil
	}
	force := b.Force()
	return func() error {
		if err := force(); err != nil {
			return err
		}
		for {
			was := h.confirmed.Load()
			if was >= int64(n) || h.confirmed.CompareAndSwap(was, int64(n)) {
				return nil
			}
		}
	}
}

// fill puts random writes into b and returns the number of the batch.
func (h *History) fill(rng *rand.Rand, b kv.Batch) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.states)
	m := h.states[n-1].clone()
	m.write(rng, b, 1+rng.IntN(8))
	b.Set([]byte(lastKey), []byte(strconv.Itoa(n)))
	m.rows[lastKey] = strconv.Itoa(n)
	h.states = append(h.states, m)
	return n
}

// Survived checks what s came back with, after confirmed batches had been confirmed. What it says
// wrong is an error; otherwise the history goes on from the state that s is in.
//
// A store that has met a fault may never return from a read, so no read is made under the lock.
func (h *History) Survived(s kv.Store, confirmed int) error {
	n := 0
	if v, ok := s.Get(nil, []byte(lastKey)); ok {
		n, _ = strconv.Atoi(string(v))
	}
	if n < confirmed {
		return fmt.Errorf("the store came back with batch %d, and batch %d was confirmed", n,
			confirmed)
	}
	h.mu.Lock()
	states := h.states
	h.mu.Unlock()
	if n >= len(states) {
		return fmt.Errorf("the store came back with batch %d, and %d were applied", n,
			len(states)-1)
	}
	if err := states[n].compare(s, "", ""); err != nil {
		return fmt.Errorf("the store came back with something else than batch %d: %w", n, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states = h.states[:n+1]
	h.confirmed.Store(int64(n)) // it has survived, and the store must not lose it any more
	return nil
}
