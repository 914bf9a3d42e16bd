package intake

import (
	"container/list"
	"context"
	"strings"
	"sync"
	"time"
)

// A Budget bounds the bytes that requests, or answers, hold in memory at the same time. Its rules:
// [WIRE-29, WIRE-30]
//
//   - All holdings together have at most max bytes. Of these, some are reserved for small holdings,
//     so that small requests and answers never wait behind large ones.
//   - An owner, such as an account, has at most half of the bytes for large holdings, and half of
//     all. A pair of owners (pairMark) has at most a third.
//   - A holding that does not fit waits in line, or is refused. While it waits it keeps only what
//     it had before. The line has lineLimit places.
//   - Bytes that are in memory already can be counted beyond the bounds (Set): the next holding
//     then waits longer.
type Budget struct {
	max, reserved int64
	little        int64 // the most that a small holding has

	mu     sync.Mutex
	held   int64
	owners map[string]int64
	line   list.List // of *inLine, those that came first in front
}

// A Holding is what one request or one answer holds of a budget. Release may be called at any time
// and from any goroutine; the holding then stays empty.
type Holding struct {
	b      *Budget
	owners []string
	n      int64
	closed bool
}

// An inLine is a holding that waits to have n bytes.
type inLine struct {
	h     *Holding
	n     int64
	ready chan struct{}
}

// lineLimit bounds the cost of a look through the line.
const lineLimit = 1024

func newBudget(most, reserved, little int64) *Budget {
	return &Budget{max: most, reserved: reserved, little: little, owners: make(map[string]int64)}
}

// Hold begins an empty holding. It counts against each of its owners.
func (b *Budget) Hold(owners ...string) *Holding { return &Holding{b: b, owners: owners} }

// room returns how many bytes h may have now. b.mu is held.
func (b *Budget) room(h *Holding) int64 {
	if h.closed {
		return 0
	}
	large := b.max - b.reserved
	room := large - b.held
	spare := b.max - b.held
	for _, o := range h.owners {
		room = min(room, share(o, large)-b.owners[o])
		spare = min(spare, share(o, b.max)-b.owners[o])
	}
	return max(room+h.n, min(spare+h.n, b.little), 0)
}

// pairMark separates the two owners of a pair.
const pairMark = "\x00"

// share is the part of all that an owner may have.
func share(owner string, all int64) int64 {
	if strings.Contains(owner, pairMark) {
		return all / 3
	}
	return all / 2
}

// Total returns how many bytes are held.
func (b *Budget) Total() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// change makes h hold n bytes. b.mu is held.
func (b *Budget) change(h *Holding, n int64) {
	if h.closed {
		return
	}
	by := n - h.n
	h.n = n
	b.held += by
	for _, o := range h.owners {
		if b.owners[o] += by; b.owners[o] == 0 {
			delete(b.owners, o)
		}
	}
	if by < 0 {
		b.serve()
	}
}

// serve lets the holdings in line continue that have room now. A holding without room because all
// of it is in use blocks the large ones behind it, or it would never get its turn. A holding whose
// owner has its share blocks no other. b.mu is held.
func (b *Budget) serve() {
	blocked := false
	for e := b.line.Front(); e != nil; {
		w, next := e.Value.(*inLine), e.Next()
		switch {
		case blocked && w.n > b.little:
		case w.n <= b.room(w.h):
			b.line.Remove(e)
			b.change(w.h, w.n)
			close(w.ready)
		default:
			blocked = blocked || b.held-w.h.n+w.n > b.max-b.reserved
		}
		e = next
	}
}

// Set makes h hold n bytes, whether there is room or not.
func (h *Holding) Set(n int64) {
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	h.b.change(h, n)
}

// Reserve takes the room that there is until h holds most, and returns what h holds then.
func (h *Holding) Reserve(most int64) int64 {
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	if n := min(most, h.b.room(h)); n > h.n {
		h.b.change(h, n)
	}
	return h.n
}

// Wait makes h hold n bytes as soon as there is room, in order of arrival. It returns ErrBusy when
// the line is full or there is no room for that long, and the error of ctx when that ends first.
func (h *Holding) Wait(ctx context.Context, n int64, long time.Duration) error {
	b := h.b
	b.mu.Lock()
	if n <= h.n || n <= b.room(h) && (n <= b.little || b.line.Len() == 0) {
		b.change(h, n)
		b.mu.Unlock()
		return nil
	}
	w := &inLine{h, n, make(chan struct{})}
	place := b.line.PushBack(w)
	if b.serve(); b.line.Len() > lineLimit { // w is its end
		b.line.Remove(place)
		b.mu.Unlock()
		return ErrBusy
	}
	b.mu.Unlock()
	limit := time.NewTimer(long)
	defer limit.Stop()
	var err error
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = ErrBusy
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	default:
	}
	b.line.Remove(place)
	b.serve()
	return err
}

// Owner returns the first owner.
func (h *Holding) Owner() string { return h.owners[0] }

// Release gives everything back, for good. A nil holding has nothing to give back.
func (h *Holding) Release() {
	if h == nil {
		return
	}
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	h.b.change(h, 0)
	h.closed = true
}
