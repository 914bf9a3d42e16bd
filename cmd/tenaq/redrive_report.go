package main

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"tenaq/internal/breaker"
	"tenaq/redrive"
)

// A breakerDocument is a circuit breaker as --json prints it.
type breakerDocument struct {
	State        breaker.State `json:"state"`
	Gauge        int           `json:"gauge"` // 0 closed, 1 open, 2 half open
	FailureCount int           `json:"failureCount"`
	SuccessCount int           `json:"successCount"`
	LastChange   *time.Time    `json:"lastStateChange"` // null as long as there was none
	LastAttempt  *time.Time    `json:"lastAttempt"`
	Trips        int           `json:"trips"` // since it was closed last
	HalfOpenAt   *time.Time    `json:"halfOpenAt,omitempty"`
}

func newBreakerDocument(b breaker.Breaker, p *redrive.Policy) breakerDocument {
	d := breakerDocument{
		State: b.State, Gauge: b.State.Gauge(), FailureCount: b.FailureCount, SuccessCount: b.SuccessCount,
		LastChange: timeOrNull(b.LastChange), LastAttempt: timeOrNull(b.LastAttempt), Trips: b.Trips,
	}
	if b.State == breaker.Open {
		d.HalfOpenAt = timeOrNull(halfOpenAt(b, p))
	}
	return d
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// A decisionDocument is what is done with a dead letter, or would be, as --json prints it.
type decisionDocument struct {
	Message  string              `json:"messageId"`
	Key      string              `json:"key"`
	Lineage  string              `json:"lineage"`
	Group    string              `json:"group,omitempty"`
	Redrives int                 `json:"redrives"`
	Strikes  int                 `json:"strikes"`
	Reason   string              `json:"reason"`
	Kind     redrive.Fingerprint `json:"kind"`
	Since    *time.Time          `json:"deadSince"`
	Action   redrive.Action      `json:"action"`
	Delay    float64             `json:"delaySeconds,omitempty"`
	Until    *time.Time          `json:"until,omitempty"` // a held one is not looked at before
	Why      string              `json:"why"`
}

func newDecisionDocument(d *redrive.Decided) decisionDocument {
	return decisionDocument{
		Message: d.ID, Key: d.Key, Lineage: d.Lineage, Group: d.Group, Redrives: d.Sends, Strikes: d.Decision.Strikes,
		Reason: d.Reason, Kind: redrive.FingerprintOf(d.Reason), Since: timeOrNull(d.Died),
		Action: d.Action, Delay: d.Delay.Seconds(), Until: timeOrNull(d.Until), Why: d.Why,
	}
}

// A stepDocument is a step as --json prints it, one line each.
type stepDocument struct {
	Time      time.Time          `json:"time"`
	Queue     string             `json:"queue"`
	Error     string             `json:"error,omitempty"`
	Breaker   *breakerDocument   `json:"breaker"` // null when it is not known
	Changed   bool               `json:"changed"` // the state of the breaker
	Paused    string             `json:"paused,omitempty"`
	Rate      int                `json:"rate"`
	OnTheWay  int                `json:"onTheirWay"`
	Depth     int                `json:"depth"` // before the step
	Redriven  int                `json:"redriven"`
	Parked    int                `json:"parked"`
	Held      int                `json:"held"`
	Succeeded int                `json:"succeeded"`
	Failed    int                `json:"failed"`
	Drain     *float64           `json:"drainSeconds"` // null when nobody knows
	Decisions []decisionDocument `json:"decisions"`    // of redriven and parked ones
	Next      *time.Time         `json:"next"`         // null when there is none
}

func newStepDocument(s *redriveStep, p *redrive.Policy) stepDocument {
	r := &s.report
	d := stepDocument{
		Time: s.ended.UTC(), Queue: s.queue, Changed: r.Changed, Paused: r.State.Paused,
		Rate: r.State.Rate, OnTheWay: len(r.State.Flights), Depth: r.Depth,
		Redriven: r.Count(redrive.Redrive), Parked: r.Count(redrive.Park), Held: r.Count(redrive.Hold),
		Drain: secondsOrNull(s.drain), Decisions: []decisionDocument{}, Next: timeOrNull(s.next),
	}
	d.Succeeded, d.Failed = outcomeCounts(r)
	if r.State.Breaker.State != "" {
		b := newBreakerDocument(r.State.Breaker, p)
		d.Breaker = &b
	}
	if s.err != nil {
		d.Error = s.err.Error()
	}
	for _, one := range r.Decisions {
		if one.Action != redrive.Hold {
			d.Decisions = append(d.Decisions, newDecisionDocument(&one))
		}
	}
	return d
}

// secondsOrNull is a duration as --json prints it; zero is that nobody knows.
func secondsOrNull(d time.Duration) *float64 {
	if d == 0 {
		return nil
	}
	s := d.Seconds()
	return &s
}

func outcomeCounts(r *redrive.Report) (succeeded, failed int) {
	for _, o := range r.Outcomes {
		switch o.Result {
		case redrive.Succeeded, redrive.Gone:
			succeeded++
		case redrive.Failed:
			failed++
		}
	}
	return succeeded, failed
}

// logStep writes down what somebody may look for later: each message that was sent on, what the breaker does,
// what failed. A step in which nothing happened leaves no trace.
func logStep(l *slog.Logger, s *redriveStep) {
	l = l.With("queue", s.queue)
	r := &s.report
	for _, d := range r.Decisions {
		switch d.Action {
		case redrive.Redrive:
			l.Info("redriven", "message", d.ID, "key", d.Key, "delay", d.Delay, "why", d.Why)
		case redrive.Park:
			l.Warn("parked", "message", d.ID, "key", d.Key, "why", d.Why)
		}
	}
	if r.Changed {
		l.Warn("the breaker is "+string(r.State.Breaker.State), "trips", r.State.Breaker.Trips)
	}
	switch {
	case isOverlap(s.err):
		l.Info("redrive step skipped: another redriver took one at the same time")
	case s.err != nil:
		l.Warn("redrive step failed; the next one continues what it began", "error", s.err, "next", s.next.UTC().Format(time.RFC3339))
	case s.eventful(), s.next.IsZero(): // the only step of a command is always of interest
		succeeded, failed := outcomeCounts(r)
		l.Info("redrive step", "breaker", r.State.Breaker.State, "dead", r.Depth, "redriven", r.Count(redrive.Redrive), "parked", r.Count(redrive.Park),
			"held", r.Count(redrive.Hold), "succeeded", succeeded, "failed", failed, "on_their_way", len(r.State.Flights))
	}
}

// A redriveBoard shows on a terminal, in one line that is written over and over, how far the redrivers are.
// What is written to it stands above that line.
type redriveBoard struct {
	mu    sync.Mutex
	p     *progress
	w     io.Writer
	steps map[string]redriveStep // the latest of each queue
}

func newRedriveBoard(a *app) *redriveBoard {
	b := &redriveBoard{p: newProgress(a.stderr), w: a.stderr, steps: make(map[string]redriveStep)}
	b.p.begin("redriving")
	return b
}

// Write lets a log through.
func (b *redriveBoard) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.p.done()
	return b.w.Write(text)
}

// note takes over a step.
func (b *redriveBoard) note(s redriveStep) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps[s.queue] = s
}

// draw writes the line.
func (b *redriveBoard) draw(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if text := boardText(b.steps, now); text != "" {
		b.p.line("%s", text)
	}
}

// done takes the line away.
func (b *redriveBoard) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.p.done()
}

// boardText says in a few words how it stands with each queue.
func boardText(steps map[string]redriveStep, now time.Time) string {
	var parts []string
	for name, s := range steps {
		state := &s.report.State
		text := fmt.Sprintf("%s %s: %d dead, %d on their way, %d done, %d parked", name, state.Breaker.State, s.report.Depth, len(state.Flights), state.Successes, state.Parked)
		switch {
		case s.err != nil:
			text = name + ": " + s.err.Error()
		case state.Paused != "":
			text = name + " is paused"
		case s.drain > 0:
			text += ", about " + ageText(s.drain) + " to go"
		}
		if left := s.next.Sub(now); left > time.Second {
			text += ", next in " + humanDuration(left)
		}
		parts = append(parts, oneLine(text))
	}
	slices.Sort(parts)
	return strings.Join(parts, " | ")
}
