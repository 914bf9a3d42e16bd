package sqs

import (
	"container/list"
	"context"
	"strings"
	"sync"
	"time"

	"tenaq/internal/broker"
)

// A budget bounds the bytes that requests, or answers, hold in memory at the same time. Its rules: [WIRE-29, WIRE-30]
//
//   - All holdings together have at most max bytes. Of these, reserved ones are for small holdings only, so that small
//     requests and answers never wait behind large ones.
//   - An owner, such as an account, has at most half of what there is for large holdings, and half of all. An owner that
//     is a pair of others (pairMark) has at most a third.
//   - A holding that does not fit waits in line, or is refused. Nothing is held while it waits but what it had before. The
//     line has lineLimit places.
//   - What must be held can be held beyond the bounds (set): the next one waits for longer then.
type budget struct {
	max, reserved int64
	little        int64 // what a small holding has at most

	mu     sync.Mutex
	held   int64
	owners map[string]int64
	line   list.List // of *inLine, those that came first in front
}

// A holding is what one request or one answer holds of a budget. Release may come at any time and from any goroutine, and
// nothing is held after it.
type holding struct {
	b      *budget
	owners []string
	n      int64
	closed bool
}

// An inLine is a holding that waits to have n bytes.
type inLine struct {
	h     *holding
	n     int64
	ready chan struct{}
}

// lineLimit bounds what it costs to look through the line.
const lineLimit = 1024

func newBudget(most, reserved, little int64) *budget {
	return &budget{max: most, reserved: reserved, little: little, owners: make(map[string]int64)}
}

// hold begins a holding of nothing, which counts for each of its owners.
func (b *budget) hold(owners ...string) *holding { return &holding{b: b, owners: owners} }

// room returns how many bytes h may have, as things are. b.mu is held.
func (b *budget) room(h *holding) int64 {
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

// pairMark stands between the two owners of a pair.
const pairMark = "\x00"

// share is how much of all an owner may have.
func share(owner string, all int64) int64 {
	if strings.Contains(owner, pairMark) {
		return all / 3
	}
	return all / 2
}

// change makes what h holds n bytes. b.mu is held.
func (b *budget) change(h *holding, n int64) {
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

// serve lets those in line go on for which there is room now. One for which there is none because all of it is in use holds
// up the large ones behind it, or it would never come to it; one whose owner has too much holds up nobody. b.mu is held.
func (b *budget) serve() {
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

// set makes what h holds n bytes, whether there is room or not.
func (h *holding) set(n int64) {
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	h.b.change(h, n)
}

// reserve takes what room there is, but no more than makes h hold most, and returns what h holds then.
func (h *holding) reserve(most int64) int64 {
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	if n := min(most, h.b.room(h)); n > h.n {
		h.b.change(h, n)
	}
	return h.n
}

// wait makes what h holds n bytes, when there is room, in the order in which others came. It refuses when there is none for
// that long.
func (h *holding) wait(ctx context.Context, n int64, long time.Duration) error {
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
		return broker.ErrThrottled
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
		err = broker.ErrThrottled
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

// release gives everything back, for good.
func (h *holding) release() {
	if h == nil {
		return
	}
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	h.b.change(h, 0)
	h.closed = true
}
