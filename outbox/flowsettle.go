package outbox

import (
	"context"
	"time"

	"tenaq/internal/work/backoff"
)

// startSettle stores all known outcomes at once.
func (f *flow) startSettle() {
	if f.writing > 0 || len(f.unsettled) == 0 || time.Now().Before(f.settleAt) {
		return
	}
	outcomes := f.unsettled
	f.unsettled, f.writing = nil, len(outcomes)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), callMax)
		defer cancel()
		f.settles <- settled{outcomes, f.cfg.Box.Settle(ctx, f.name, outcomes)}
	}()
}

func (f *flow) written(s settled) {
	f.writing = 0
	f.settleAt = time.Now().Add(f.trouble(settling, s.err))
	if s.err != nil {
		f.unsettled = append(s.outcomes, f.unsettled...)
		return
	}
	// The next rows of the streams can be claimed now.
	f.lookAfter, f.poll = time.Time{}, pollMin
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
