package redrive

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
	"tenaq/redrive"
)

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
		Reason: d.Reason, Kind: redrive.FingerprintOf(d.Reason), Since: cli.TimeOrNull(d.Died),
		Action: d.Action, Delay: d.Delay.Seconds(), Until: cli.TimeOrNull(d.Until), Why: d.Why,
	}
}

// A stepDocument is a step as --json prints it, one line each.
type stepDocument struct {
	Time      time.Time                    `json:"time"`
	Queue     string                       `json:"queue"`
	Error     string                       `json:"error,omitempty"`
	Breaker   *redrivehost.BreakerDocument `json:"breaker"` // null when it is not known
	Changed   bool                         `json:"changed"` // the state of the breaker
	Paused    string                       `json:"paused,omitempty"`
	Rate      int                          `json:"rate"`
	OnTheWay  int                          `json:"onTheirWay"`
	Depth     int                          `json:"depth"` // before the step
	Redriven  int                          `json:"redriven"`
	Parked    int                          `json:"parked"`
	Held      int                          `json:"held"`
	Succeeded int                          `json:"succeeded"`
	Failed    int                          `json:"failed"`
	Drain     *float64                     `json:"drainSeconds"` // null when nobody knows
	Decisions []decisionDocument           `json:"decisions"`    // of redriven and parked ones
	Next      *time.Time                   `json:"next"`         // null when there is none
}

func newStepDocument(s *redrivehost.Step, p *redrive.Policy) stepDocument {
	r := &s.Report
	d := stepDocument{
		Time: s.Ended.UTC(), Queue: s.Queue, Changed: r.Changed, Paused: r.State.Paused,
		Rate: r.State.Rate, OnTheWay: len(r.State.Flights), Depth: r.Depth,
		Redriven: r.Count(redrive.Redrive), Parked: r.Count(redrive.Park), Held: r.Count(redrive.Hold),
		Drain: redrivehost.SecondsOrNull(s.Drain), Decisions: []decisionDocument{}, Next: cli.TimeOrNull(s.Next),
	}
	d.Succeeded, d.Failed = redrivehost.OutcomeCounts(r)
	if r.State.Breaker.State != "" {
		b := redrivehost.NewBreakerDocument(r.State.Breaker, p)
		d.Breaker = &b
	}
	if s.Err != nil {
		d.Error = s.Err.Error()
	}
	for _, one := range r.Decisions {
		if one.Action != redrive.Hold {
			d.Decisions = append(d.Decisions, newDecisionDocument(&one))
		}
	}
	return d
}

// A redriveBoard shows on a terminal, in one line that is written over and over, how far the redrivers are.
// What is written to it stands above that line.
type redriveBoard struct {
	mu    sync.Mutex
	p     *cli.Progress
	w     io.Writer
	steps map[string]redrivehost.Step // the latest of each queue
}

func newRedriveBoard(a *cli.App) *redriveBoard {
	b := &redriveBoard{p: cli.NewProgress(a.Stderr), w: a.Stderr, steps: make(map[string]redrivehost.Step)}
	b.p.Begin("redriving")
	return b
}

// Write lets a log through.
func (b *redriveBoard) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.p.Done()
	return b.w.Write(text)
}

// note takes over a step.
func (b *redriveBoard) note(s redrivehost.Step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps[s.Queue] = s
}

// draw writes the line.
func (b *redriveBoard) draw(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if text := boardText(b.steps, now); text != "" {
		b.p.Line("%s", text)
	}
}

// done takes the line away.
func (b *redriveBoard) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.p.Done()
}

// boardText says in a few words how it stands with each queue.
func boardText(steps map[string]redrivehost.Step, now time.Time) string {
	var parts []string
	for name, s := range steps {
		state := &s.Report.State
		text := fmt.Sprintf("%s %s: %d dead, %d on their way, %d done, %d parked", name, state.Breaker.State, s.Report.Depth, len(state.Flights), state.Successes, state.Parked)
		switch {
		case s.Err != nil:
			text = name + ": " + s.Err.Error()
		case state.Paused != "":
			text = name + " is paused"
		case s.Drain > 0:
			text += ", about " + cli.AgeText(s.Drain) + " to go"
		}
		if left := s.Next.Sub(now); left > time.Second {
			text += ", next in " + cli.HumanDuration(left)
		}
		parts = append(parts, cli.OneLine(text))
	}
	slices.Sort(parts)
	return strings.Join(parts, " | ")
}
