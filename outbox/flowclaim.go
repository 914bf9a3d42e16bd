package outbox

import (
	"context"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/offload"
)

// startClaim claims rows if there is room for them.
func (f *flow) startClaim(ctx context.Context) {
	now := time.Now()
	room := f.cfg.Rows - len(f.hand) - len(f.unsettled) - f.writing
	if f.claiming || f.waiting || f.stopping || now.Before(f.lookAfter) ||
		room < (f.cfg.Rows+1)/2 || f.bytes > f.cfg.Bytes/2 {
		return
	}
	c := Claim{
		Relay: f.name, Lease: f.cfg.Lease, Rows: room, Bytes: f.cfg.Bytes - f.bytes,
		Stream: max(1, f.cfg.Rows/4),
	}
	for _, q := range f.queues {
		if now.Before(q.pause) {
			c.Except = append(c.Except, q.name)
		}
	}
	f.claiming = true
	f.asked++
	idle := len(f.hand)+len(f.unsettled)+f.writing == 0
	go func() {
		ctx, cancel := context.WithTimeout(ctx, callMax)
		defer cancel()
		got := claimed{began: time.Now(), except: c.Except}
		got.rows, got.next, got.err = f.cfg.Box.Claim(ctx, c)
		// a claim may return no row although one is due, which the next claim returns
		if f.drain != nil && idle && got.err == nil && len(got.rows) == 0 && got.next > 0 {
			got.drained, got.err = f.drain.isOver(ctx, f.cfg.Box)
		}
		f.claims <- got
	}()
}

// take puts claimed rows into the hand.
func (f *flow) take(ctx context.Context, c claimed) {
	freed := f.freed
	f.claiming, f.freed = false, false
	if c.err != nil && f.stopping {
		return
	}
	f.lookAfter = time.Now().Add(f.trouble(claimingRows, c.err))
	if f.drain != nil && f.drain.ends(&c, f.failures[claimingRows]) {
		f.stop()
	}
	if c.err != nil {
		return
	}
	if len(f.hand) == 0 {
		f.renewAt = c.began.Add(f.renewPause())
	}
	f.takeAgain(c.rows)
	for _, row := range c.rows {
		it := &item{row: row, since: c.began, deadline: c.began.Add(f.safe())}
		var bad error
		if it.entry, bad = row.entry(); bad == nil {
			it.bytes = offload.Size(*it.entry.MessageBody, it.entry.MessageAttributes)
			it.size, bad = f.inMessage(it.bytes)
		}
		f.hand[row.ID] = it
		f.bytes += it.bytes
		if row.Stream != "" {
			f.streams[row.Stream] = append(f.streams[row.Stream], it)
		}
		switch {
		case f.stopping:
			f.over(it, Outcome{Fate: Back, Reason: stopReason})
		case bad != nil:
			f.park(it, bad.Error())
		case row.Stream == "" || f.streams[row.Stream][0] == it:
			f.ready(it)
		}
	}
	if len(c.rows) > 0 {
		f.poll = pollMin
	}
	if !f.stopping && !freed && (len(c.rows) == 0 || c.next > 0) {
		f.wait(ctx, c.next)
	}
}

// wait waits until there may be rows to claim.
func (f *flow) wait(ctx context.Context, next time.Duration) {
	most := min(f.poll, max(next, pollMin))
	f.poll = min(2*f.poll, f.cfg.Poll)
	f.waiting = true
	ctx, cancel := context.WithTimeout(ctx, most+callMax) // a lost database may not answer
	if len(f.hand)+len(f.unsettled)+f.writing > 0 {
		f.stopWaiting = cancel
	}
	go func() {
		defer cancel()
		began := time.Now()
		if err := f.cfg.Box.Wait(ctx, most); err != nil { // perhaps too early
			_ = backoff.Sleep(ctx, most-time.Since(began)) // ctx ends the wait, too
		}
		f.waits <- struct{}{}
	}()
}
