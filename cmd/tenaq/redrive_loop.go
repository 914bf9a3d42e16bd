package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"tenaq/internal/breaker"
	"tenaq/redrive"
)

// A redriveStep is a step that was taken, and when the next one is due.
type redriveStep struct {
	queue  string // name of the dead-letter queue
	began  time.Time
	ended  time.Time
	report redrive.Report
	drain  time.Duration // how long the dead letters will take; 0 when nobody knows
	err    error
	next   time.Time // zero when there is none
}

// open tells whether the breaker let nothing through at the end.
func (s *redriveStep) open() bool {
	return s.err == nil && s.report.State.Breaker.State == breaker.Open
}

// eventful tells whether something happened that somebody may want to read.
func (s *redriveStep) eventful() bool {
	r := &s.report
	return s.err != nil || r.Changed || len(r.Outcomes) > 0 || r.Count(redrive.Redrive)+r.Count(redrive.Park) > 0
}

// A redriveLoop takes the steps for one dead-letter queue.
type redriveLoop struct {
	host *redriveHost
	spec redriveSpec
	tell func(redriveStep)

	redriver *redrive.Redriver // nil until its queues were found
	pace     *paceKeeper
}

func newRedriveLoop(h *redriveHost, s redriveSpec, tell func(redriveStep)) *redriveLoop {
	name := queueNameOf(s.deadLetter)
	return &redriveLoop{host: h, spec: s, tell: tell, pace: newPaceKeeper(h.store, name)}
}

// find finds the queues.
func (l *redriveLoop) find(ctx context.Context) (err error) {
	if l.redriver == nil {
		l.redriver, err = l.host.redriver(ctx, &l.spec)
	}
	return err
}

// run takes steps until ctx ends. One that fails is told like any other, and the next one is taken in its time.
func (l *redriveLoop) run(ctx context.Context) {
	pause(ctx, time.Until(l.spec.schedule.begin(time.Now())))
	for ctx.Err() == nil {
		s := l.step(ctx)
		if ctx.Err() != nil {
			return
		}
		s.next = l.spec.schedule.next(s.ended, &s.report, &l.spec.policy)
		l.tell(s)
		pause(ctx, time.Until(s.next))
	}
}

// step takes one step.
func (l *redriveLoop) step(ctx context.Context) redriveStep {
	s := redriveStep{queue: queueNameOf(l.spec.deadLetter), began: time.Now()}
	if s.err = l.find(ctx); s.err == nil {
		// A server that hangs must not hang the redriver: what a step looked at comes back by then.
		bounded, cancel := context.WithTimeoutCause(ctx, max(l.spec.lookTime(), l.host.client.timeout), errNoAnswer)
		s.report, s.err = l.redriver.Step(bounded)
		s.err = l.host.client.explainStep(s.queue, withCause(bounded, s.err))
		cancel()
	}
	s.ended = time.Now()
	if s.err == nil {
		s.drain = drainTime(s.report.Depth, l.pace.note(ctx, s.ended, &s.report.State))
	}
	return s
}

// lookTime is for how long a step hides what it looks at.
func (s *redriveSpec) lookTime() time.Duration {
	if s.look > 0 {
		return s.look
	}
	return min(2*time.Minute, s.schedule.interval()/2) // as package redrive does
}

// runRedrivers runs all loops until ctx ends. What fails in one does not touch the others.
func runRedrivers(ctx context.Context, loops []*redriveLoop) {
	var running sync.WaitGroup
	for _, l := range loops {
		running.Go(func() { l.run(ctx) })
	}
	running.Wait()
}

// isOverlap tells an ordinary meeting of two redrivers from a failure.
func isOverlap(err error) bool { return errors.Is(err, redrive.ErrOverlap) }
