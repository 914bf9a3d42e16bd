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

// newPace begins a round. With a rate, keep must run.
func newPace(load Load) *pace {
	p := &pace{began: time.Now()}
	p.ends = p.began.Add(load.Round)
	if load.Rate > 0 {
		p.due = make(chan time.Time)
	}
	return p
}

// keep hands out the moments at which steps are due, until the round is over. A timer per client
// would be a millisecond late in an idle process, which is more than what is measured.
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

// wait returns when a step is due, with the moment at which it was due. It reports false when the
// round is over. A step that is due while every client is busy is late, and its latency shows it.
func (p *pace) wait(ctx context.Context) (due time.Time, ok bool) {
	if p.due != nil {
		due, ok = <-p.due
		return due, ok && ctx.Err() == nil
	}
	now := time.Now()
	return now, now.Before(p.ends) && ctx.Err() == nil
}
