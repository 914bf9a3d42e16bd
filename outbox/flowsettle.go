package outbox

import (
	"context"
	"time"

	"tenaq/internal/work/backoff"
)

// A commit costs the database more than the outcomes in it, so outcomes wait for those of the other
// requests in progress: until there are as many as a quarter of Config.Rows, and at most for
// settleWait. A relay that dies sends again what it has not settled.
const settleWait = 10 * time.Millisecond

// settleDue returns when to store the known outcomes, if there are any.
func (f *flow) settleDue() time.Time {
	due := f.settleAt
	if f.requests > 0 && !f.stopping && len(f.unsettled) < f.cfg.Rows/4 {
		if wait := f.knownSince.Add(settleWait); wait.After(due) {
			due = wait
		}
	}
	return due
}

// startSettle stores all known outcomes at once, when it is time.
func (f *flow) startSettle() {
	if len(f.unsettled) == 0 {
		return
	}
	now := time.Now()
	if f.knownSince.IsZero() {
		f.knownSince = now
	}
	if f.writing > 0 || now.Before(f.settleDue()) {
		return
	}
	s := settled{outcomes: f.unsettled, frees: f.frees || f.drain != nil}
	f.unsettled, f.writing, f.frees, f.knownSince = nil, len(s.outcomes), false, time.Time{}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), callMax)
		defer cancel()
		s.err = f.cfg.Box.Settle(ctx, f.name, s.outcomes)
		f.settles <- s
	}()
}

func (f *flow) written(s settled) {
	f.writing = 0
	f.settleAt = time.Now().Add(f.trouble(settling, s.err))
	if s.err != nil {
		f.unsettled, f.frees = append(s.outcomes, f.unsettled...), f.frees || s.frees
		return
	}
	f.lookAfter = time.Time{}
	if !s.frees {
		return
	}
	f.poll, f.freed = pollMin, f.claiming
	if f.stopWaiting != nil {
		f.stopWaiting()
	}
}

// startRenewal renews the leases of all rows in hand when it is time.
func (f *flow) startRenewal() {
	if f.renewing || len(f.hand) == 0 || time.Now().Before(f.renewAt) {
		return
	}
	f.renewing = true
	n := renewal{began: time.Now(), asked: f.asked}
	if f.claiming {
		n.asked = -1
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), f.safe())
		defer cancel()
		n.ids, n.err = f.cfg.Box.Renew(ctx, f.name, f.cfg.Lease)
		f.renewals <- n
	}()
}

func (f *flow) renewed(n renewal) {
	f.renewing = false
	now := time.Now()
	if pause := f.trouble("renew leases", n.err); n.err != nil {
		f.renewAt = now.Add(min(pause, f.renewPause()/2))
		return
	}
	f.renewAt = n.began.Add(f.renewPause())
	still := make(map[string]bool, len(n.ids))
	for _, id := range n.ids {
		still[id] = true
	}
	for _, it := range f.hand {
		switch {
		case !it.since.Before(n.began): // claimed since then
		case still[it.row.ID]:
			it.deadline = n.began.Add(f.safe())
		default:
			f.lose(it)
		}
	}
	if n.asked == f.asked {
		f.disown(n.ids)
	}
}

// safe returns how long the relay may rely on a lease, from the start of its claim or renewal. The
// last tenth is for the difference between two clocks, and for requests in progress.
func (f *flow) safe() time.Duration { return f.cfg.Lease - f.cfg.Lease/10 }

// renewPause returns the time between two renewals, about a third of a lease.
func (f *flow) renewPause() time.Duration { return backoff.Jitter(f.cfg.Lease / 3) }
