package redrivehost

import (
	"context"
	"errors"
	"sync"
	"time"

	"tenaq/internal/cli"
	"tenaq/redrive"
	"tenaq/redrive/breaker"
)

// A Step is a step that was taken, and when the next one is due.
type Step struct {
	Queue  string // name of the dead-letter queue
	began  time.Time
	Ended  time.Time
	Report redrive.Report
	Drain  time.Duration // how long the dead letters will take; 0 if unknown
	Err    error
	Next   time.Time // zero when there is none
}

// Open reports whether the breaker was open at the end.
func (s *Step) Open() bool {
	return s.Err == nil && s.Report.State.Breaker.State == breaker.Open
}

// eventful reports whether something happened that is worth a line.
func (s *Step) eventful() bool {
	r := &s.Report
	return s.Err != nil || r.Changed || len(r.Outcomes) > 0 ||
		r.Count(redrive.Redrive)+r.Count(redrive.Park) > 0
}

// A Loop takes the steps for one dead-letter queue.
type Loop struct {
	host *Host
	Spec Spec
	Tell func(Step)

	redriver *redrive.Redriver // nil until its queues were found
	pace     *paceKeeper
}

func NewLoop(h *Host, s Spec, tell func(Step)) *Loop {
	name := cli.QueueNameOf(s.DeadLetter)
	return &Loop{host: h, Spec: s, Tell: tell, pace: newPaceKeeper(h.store, name)}
}

// Find finds the queues, once.
func (l *Loop) Find(ctx context.Context) (err error) {
	if l.redriver == nil {
		l.redriver, err = l.host.redriver(ctx, &l.Spec)
	}
	return err
}

// run takes steps until ctx ends. After a failure the next step is taken in its time.
func (l *Loop) run(ctx context.Context) {
	cli.Pause(ctx, time.Until(l.Spec.Schedule.begin(time.Now())))
	for ctx.Err() == nil {
		s := l.Step(ctx)
		if ctx.Err() != nil {
			return
		}
		s.Next = l.Spec.Schedule.next(s.Ended, &s.Report, &l.Spec.Policy)
		l.Tell(s)
		cli.Pause(ctx, time.Until(s.Next))
	}
}

// Step takes one step.
func (l *Loop) Step(ctx context.Context) Step {
	s := Step{Queue: cli.QueueNameOf(l.Spec.DeadLetter), began: time.Now()}
	if s.Err = l.Find(ctx); s.Err == nil {
		// A server that hangs must not hang the redriver. The messages of a step come back after
		// its look.
		bounded, cancel := context.WithTimeoutCause(ctx,
			max(l.redriver.Look(), l.host.Client.Timeout), cli.ErrNoAnswer)
		s.Report, s.Err = l.redriver.Step(bounded)
		s.Err = ExplainStep(l.host.Client, s.Queue, cli.WithCause(bounded, s.Err))
		cancel()
	}
	s.Ended = time.Now()
	if s.Err == nil {
		s.Drain = drainTime(s.Report.Depth, l.pace.note(ctx, s.Ended, &s.Report.State))
	}
	return s
}

// Run runs all loops until ctx ends. A failure in one does not affect the others.
func Run(ctx context.Context, loops []*Loop) {
	var running sync.WaitGroup
	for _, l := range loops {
		running.Go(func() { l.run(ctx) })
	}
	running.Wait()
}

// IsOverlap reports whether a step ended because another redriver took one at the same time, which
// is no failure.
func IsOverlap(err error) bool { return errors.Is(err, redrive.ErrOverlap) }
