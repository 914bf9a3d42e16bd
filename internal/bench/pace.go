package bench

import (
	"context"
	"sync/atomic"
	"time"
)

// A pace says when the next step of a round is due.
type pace struct {
	began, ends time.Time
	every       time.Duration // from one step to the next of all clients together; zero is at once
	next        atomic.Int64
}

func newPace(load Load) *pace {
	p := &pace{began: time.Now()}
	p.ends = p.began.Add(load.Round)
	if load.Rate > 0 {
		p.every = time.Duration(float64(time.Second) / load.Rate)
	}
	return p
}

// wait returns when a step is due, at the latest some microseconds after it, with the moment it was due at. It reports
// false when the round is over. What is due while every client is busy is done late, and counts as late.
func (p *pace) wait(ctx context.Context) (due time.Time, ok bool) {
	if p.every == 0 {
		now := time.Now()
		return now, now.Before(p.ends) && ctx.Err() == nil
	}
	due = p.began.Add(time.Duration(p.next.Add(1)-1) * p.every)
	if !due.Before(p.ends) {
		return due, false
	}
	if d := time.Until(due); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	return due, ctx.Err() == nil
}
