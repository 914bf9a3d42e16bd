package worker

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"tenaq/internal/work/sqslimits"
)

// A custody holds the messages of a worker from their receipt until they are settled. It renews
// their leases, ten per request, and ends the context of a message whose lease is lost.
//
// It uses the monotonic clock of this process. A lease counts from before the request that began
// it, and its last tenth is for the difference between two clocks and for work in progress. So a
// lease ends here before it ends at the queue.
type custody struct {
	lease time.Duration
	renew func(context.Context, []show) []error
	beat  func(messages int, err error)

	wake chan struct{} // holds one token when run should look again

	mu    sync.Mutex
	holds map[*hold]struct{}
	look  time.Time // when run looks at them again, unless it is stirred
	over  error     // why no handler may go on
}

// A hold is the custody of one message.
type hold struct {
	handle string
	// ends with ErrLost when the lease or the claim is lost, with ErrDraining, or with the custody
	ctx context.Context
	end context.CancelCauseFunc

	watching sync.Mutex
	ended    func() // is called when ctx ends before the custody; or nil

	// Guarded by the mutex of the custody.
	deadline time.Time     // end of the lease in this process
	next     time.Time     // when to renew the lease
	renewing chan struct{} // closed when the renewal in progress ends; nil if there is none
	paused   bool          // no renewal begins
}

func newCustody(
	lease time.Duration, renew func(context.Context, []show) []error, beat func(int, error),
) *custody {
	return &custody{lease: lease, renew: renew, beat: beat, wake: make(chan struct{}, 1),
		holds: make(map[*hold]struct{})}
}

// lost is called when the claim of the message is lost.
func (h *hold) lost() { h.stop(ErrLost) }

// stop ends the context.
func (h *hold) stop(why error) {
	h.end(why)
	h.watching.Lock()
	ended := h.ended
	h.ended = nil
	h.watching.Unlock()
	if ended != nil {
		ended()
	}
}

// watch has a function called when the context ends before the custody, or at once if it has ended.
// The function must not wait. It costs less than context.AfterFunc.
func (h *hold) watch(ended func()) {
	h.watching.Lock()
	over := h.ctx.Err() != nil
	if !over {
		h.ended = ended
	}
	h.watching.Unlock()
	if over {
		ended()
	}
}

// stopAll ends the contexts of all messages, now and from now on.
func (c *custody) stopAll(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = why
	for h := range c.holds {
		h.stop(why)
	}
}

// take begins the custody of a message whose lease began no earlier than began. Ctx has the values
// for its handler, and does not end.
func (c *custody) take(ctx context.Context, handle string, began time.Time) *hold {
	h := &hold{handle: handle, deadline: began.Add(c.safe())}
	h.ctx, h.end = context.WithCancelCause(ctx)
	h.next = earlier(time.Now().Add(c.pause()), h.deadline.Add(-c.lease/2))
	c.mu.Lock()
	if c.over != nil {
		h.end(c.over)
	}
	c.holds[h] = struct{}{}
	soon := h.next.Before(c.look)
	c.mu.Unlock()
	if soon { // a look iterates over all holds, so do not stir for every message
		c.stir()
	}
	return h
}

// release ends the custody of a message. It reports false if the message was lost; then the worker
// must not touch it any more. It waits for a renewal in progress, which could undo the next step.
func (c *custody) release(h *hold) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaitRenewal(h)
	c.expire(h, time.Now())
	_, held := c.holds[h]
	delete(c.holds, h)
	h.end(nil)
	return held
}

// drop ends the custody of a message and lets its lease expire. It waits for a renewal in progress,
// so nothing more happens to the message afterwards.
func (c *custody) drop(h *hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.holds, h)
	c.awaitRenewal(h)
}

// awaitRenewal waits until no renewal of a message is in progress. The caller holds the mutex,
// which is unlocked meanwhile.
func (c *custody) awaitRenewal(h *hold) {
	for h.renewing != nil {
		renewing := h.renewing
		c.mu.Unlock()
		<-renewing
		c.mu.Lock()
	}
}

// pauseRenewals lets no renewal of a message begin until the caller ends the pause. It waits for a
// renewal in progress.
func (c *custody) pauseRenewals(h *hold) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.paused = true
	c.awaitRenewal(h)
	return func() {
		c.mu.Lock()
		h.paused = false
		soon := h.next.Before(c.look) // run has not counted on it
		c.mu.Unlock()
		if soon {
			c.stir()
		}
	}
}

// expire gives up a message whose lease has ended.
func (c *custody) expire(h *hold, now time.Time) {
	if !now.Before(h.deadline) {
		c.lose(h)
	}
}

func (c *custody) lose(h *hold) {
	if _, held := c.holds[h]; held {
		delete(c.holds, h)
		h.stop(ErrLost)
	}
}

// run renews leases until ctx ends.
func (c *custody) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var requests sync.WaitGroup
	defer requests.Wait()
	for {
		due, wait := c.due()
		for len(due) > 0 {
			n := min(len(due), sqslimits.BatchMax)
			batch := due[:n]
			requests.Go(func() { c.renewBatch(batch) })
			due = due[n:]
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-timer.C:
		}
	}
}

// due returns the holds to renew now, and how long there is nothing else to do. If one is due,
// those that are due soon are renewed with it.
func (c *custody) due() (due []*hold, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	first := now.Add(math.MaxInt64 / 2)
	for h := range c.holds {
		c.expire(h, now)
		if h.renewing == nil && !h.paused {
			first = earlier(first, h.next)
		}
	}
	until := now
	if !first.After(now) {
		until = now.Add(c.lease / 12)
	}
	next := now.Add(math.MaxInt64 / 2)
	for h := range c.holds {
		if h.renewing == nil && !h.paused && !h.next.After(until) && !first.After(now) {
			h.renewing = make(chan struct{})
			due = append(due, h)
		}
		next = earlier(next, h.deadline)
		if h.renewing == nil && !h.paused {
			next = earlier(next, h.next)
		}
	}
	c.look = next
	return due, next.Sub(now)
}

// renewBatch renews up to ten leases with one request.
func (c *custody) renewBatch(batch []*hold) {
	began := time.Now()
	entries := make([]show, len(batch))
	c.mu.Lock()
	limit := began.Add(requestMax)
	for i, h := range batch {
		entries[i] = show{h.handle, c.lease}
		limit = earlier(limit, h.deadline)
	}
	c.mu.Unlock()
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	errs := c.renew(ctx, entries)
	cancel()

	c.mu.Lock()
	for i, h := range batch {
		refused, ok := errors.AsType[*entryError](errs[i])
		switch {
		case errs[i] == nil:
			h.deadline = began.Add(c.safe())
			h.next = time.Now().Add(c.pause())
		case ok && refused.final():
			c.lose(h)
		default:
			h.next = time.Now().Add(c.pause() / 4)
		}
		close(h.renewing)
		h.renewing = nil
	}
	c.mu.Unlock()
	c.beat(len(batch), errors.Join(distinct(errs)...))
	c.stir()
}

// safe returns how long the worker may rely on a lease, from the start of its request.
func (c *custody) safe() time.Duration { return c.lease - c.lease/10 }

// pause returns the time between two renewals: about a third of the lease. It is random, so that
// workers which start together do not renew together.
func (c *custody) pause() time.Duration {
	third := c.lease / 3
	return third - third/6 + rand.N(third/6+1)
}

// stir makes run look again.
func (c *custody) stir() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// distinct returns the errors with different texts.
func distinct(errs []error) (some []error) {
	seen := make(map[string]bool)
	for _, err := range errs {
		if err != nil && !seen[err.Error()] {
			seen[err.Error()] = true
			some = append(some, err)
		}
	}
	return some
}
