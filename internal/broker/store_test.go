package broker

import (
	"iter"
	"sync"
	"sync/atomic"

	"tenaq/internal/kv"
)

// A gate is a store that counts what is forced and scanned, and whose wait functions return only
// when the test opens the gate, or say that all is lost.
type gate struct {
	kv.Store
	scans atomic.Int64

	mu      sync.Mutex
	shut    bool
	lost    bool
	forced  int             // turns that wrote something
	bytes   []int           // what each of them wrote
	applied int             // bytes that the next one has applied
	waiting []chan struct{} // for each wait function called and not let through, in order
}

func (g *gate) Scan(lo, hi []byte) iter.Seq2[[]byte, []byte] {
	g.scans.Add(1)
	return g.Store.Scan(lo, hi)
}

func (g *gate) NewBatch() kv.Batch { return &gateBatch{g.Store.NewBatch(), g} }

// close keeps wait functions called from now on from returning.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

// open lets every wait function return.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	for _, w := range g.waiting {
		close(w)
	}
	g.waiting = nil
}

// step lets the wait function that waits longest return, and says whether there was one.
func (g *gate) step() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		return false
	}
	close(g.waiting[0])
	g.waiting = g.waiting[1:]
	return true
}

// forces is how many batches have been forced so far.
func (g *gate) forces() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.forced
}

func (g *gate) pass() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		w := make(chan struct{})
		g.waiting = append(g.waiting, w)
		g.mu.Unlock()
		<-w
		g.mu.Lock()
	}
	if g.lost {
		return kv.ErrLost
	}
	return nil
}

// lose makes another node the writer: nothing is confirmed any more.
func (g *gate) lose() {
	g.mu.Lock()
	g.lost = true
	g.mu.Unlock()
	g.open()
}

type gateBatch struct {
	kv.Batch
	gate *gate
}

func (b *gateBatch) Apply() {
	b.gate.applied += b.Len()
	b.Batch.Apply()
}

func (b *gateBatch) Force() (wait func() error) {
	b.gate.mu.Lock()
	b.gate.forced++
	b.gate.bytes, b.gate.applied = append(b.gate.bytes, b.gate.applied+b.Len()), 0
	b.gate.mu.Unlock()
	confirm := b.Batch.Force()
	return func() error {
		if err := b.gate.pass(); err != nil {
			return err
		}
		return confirm()
	}
}

// countMessages counts the message rows of all queues.
func countMessages(store kv.Store) (n int) {
	const familySpace, kindAt, kindMessage = 0x10, 9, 0x02
	for k := range store.Scan([]byte{familySpace}, []byte{familySpace + 1}) {
		if k[kindAt] == kindMessage {
			n++
		}
	}
	return n
}
