package monitor

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the attempts of an action. The pause between two attempts doubles.
// [ALARM-48]
const (
	attemptMax = 30 * time.Second
	pauseFirst = time.Second
	pauseMax   = time.Minute
	triesMax   = time.Hour // from the first attempt to the last
	digestMax  = 50        // notices in one message to people
)

// A runner runs one action. Notices wait in order of arrival, and only the newest one of each
// alarm, so their number is bounded. A failed notice goes to the end of the line and is retried.
type runner struct {
	m      *Monitor
	name   string
	action Action
	poster poster

	mu      sync.Mutex
	waiting []*task
	wake    chan struct{}

	testing    sync.Mutex // held during a test of the action
	done, lost atomic.Int64
}

// A task is a notice for an action, and what to call when it is delivered or lost.
type task struct {
	notice Notice
	ended  func()

	first time.Time // of the attempts; zero before
	next  time.Time // not before
	pause time.Duration
}

func newRunner(m *Monitor, name string, a Action) *runner {
	return &runner{m: m, name: name, action: a, poster: newPoster(), wake: make(chan struct{}, 1)}
}

// hand gives a task to the runner. It replaces a waiting notice of the same alarm.
func (r *runner) hand(t *task) {
	r.mu.Lock()
	i := slices.IndexFunc(r.waiting, func(w *task) bool { return w.notice.Alarm == t.notice.Alarm })
	if i >= 0 {
		old := r.waiting[i]
		t.notice.Was = old.notice.Was
		t.notice.Changes = max(t.notice.Changes, 1) + max(old.notice.Changes, 1)
		t.notice.Again = false
		r.waiting = slices.Delete(r.waiting, i, i+1)
		defer old.ended()
	}
	r.waiting = append(r.waiting, t)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take returns what can be tried now: one notice, or several if the action can send them together.
// If there is none, it returns how long to wait.
func (r *runner) take() (tasks []*task, rest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := 1
	if r.action.tellsTogether() {
		most = digestMax
	}
	now := time.Now()
	rest = time.Hour
	r.waiting = slices.DeleteFunc(r.waiting, func(t *task) bool {
		if wait := t.next.Sub(now); wait > 0 {
			rest = min(rest, wait)
			return false
		}
		if len(tasks) == most {
			rest = 0
			return false
		}
		tasks = append(tasks, t)
		return true
	})
	return tasks, rest
}

// run delivers notices until ctx is done. Those that wait then are sent after the next start.
func (r *runner) run(ctx context.Context) {
	for ctx.Err() == nil {
		tasks, rest := r.take()
		if len(tasks) > 0 {
			r.deliver(ctx, tasks)
			continue
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-time.After(rest):
		}
	}
}

// A later error says when to retry.
type later struct {
	error
	after time.Duration
}

func (l *later) Unwrap() error { return l.error }

func (r *runner) deliver(ctx context.Context, tasks []*task) {
	notices := make([]*Notice, len(tasks))
	for i, t := range tasks {
		notices[i] = &t.notice
	}
	err := r.attempt(ctx, notices)
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	for _, t := range tasks {
		if t.first.IsZero() {
			t.first, t.pause = now, pauseFirst
		}
		switch {
		case err == nil:
			r.done.Add(1)
			t.ended()
		case now.Sub(t.first) >= triesMax:
			r.lost.Add(1)
			r.m.cfg.Logger.Error("notice lost: the action failed for an hour", "action", r.name, "alarm", t.notice.Alarm,
				"state", t.notice.State, "error", err)
			t.ended()
		default:
			r.putBack(t, now, err)
		}
	}
}

// putBack schedules the retry of a task.
func (r *runner) putBack(t *task, now time.Time, err error) {
	pause := t.pause + rand.N(t.pause/4+1)
	var l *later
	if errors.As(err, &l) {
		pause = max(pause, l.after)
	}
	t.pause = min(2*t.pause, pauseMax)
	t.next = now.Add(pause)
	r.m.cfg.Logger.Warn("notice not delivered, trying again", "action", r.name, "alarm",
		t.notice.Alarm, "error", err, "retry_in", pause.Round(time.Millisecond))
	r.mu.Lock()
	defer r.mu.Unlock()
	newer := slices.ContainsFunc(r.waiting, func(w *task) bool {
		return w.notice.Alarm == t.notice.Alarm
	})
	if newer {
		defer t.ended()
		return
	}
	r.waiting = append(r.waiting, t)
}

// Notices counts the notices for an action since the process started.
type Notices struct {
	Action          string
	Delivered, Lost int64
}

// Notices returns the counts of all actions, by name.
func (m *Monitor) Notices() (all []Notices) {
	for _, name := range m.ActionNames() {
		all = append(all, Notices{name, m.runs[name].done.Load(), m.runs[name].lost.Load()})
	}
	return all
}
