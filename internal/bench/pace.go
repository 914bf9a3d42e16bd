package bench

import (
	"context"
	"time"
)

// A pace says when the next step of a round is due.
type pace struct {
	began, ends time.Time
	due         chan time.Time // moments at which steps are due; nil is at once
}

// newPace begins a round. With a rate somebody has to keep it.
func newPace(load Load) *pace {
	p := &pace{began: time.Now()}
	p.ends = p.began.Add(load.Round)
	if load.Rate > 0 {
		p.due = make(chan time.Time)
	}
	return p
}

// keep tells one client after the other that a step is due, until the round is over. A timer of
// each client would be a millisecond late where the process has nothing else to do, which is more
// than what is to be measured.
func (p *pace) keep(ctx context.Context, rate float64) {
	defer close(p.due)
	every := float64(time.Second) / rate
	for i := 0; ; i++ {
		due := p.began.Add(time.Duration(float64(i) * every))
		if !due.Before(p.ends) {
			return
		}
		for d := time.Until(due); d > 0; d = time.Until(due) {
			sleepPrecisely(d)
		}
		select {
		case p.due <- due:
		case <-ctx.Done():
			return
		}
	}
}

// wait returns when a step is due, with the moment it was due at. It reports false when the round
// is over. What is due while every client is busy is done late, and counts as late.
func (p *pace) wait(ctx context.Context) (due time.Time, ok bool) {
	if p.due != nil {
		due, ok = <-p.due
		return due, ok && ctx.Err() == nil
	}
	now := time.Now()
	return now, now.Before(p.ends) && ctx.Err() == nil
}
