package redrive

import (
	"context"
	"fmt"
	"log/slog"
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
	Until    *time.Time          `json:"until,omitempty"` // a held one is not looked at earlier
	Why      string              `json:"why"`
}

func decisionDocuments(decisions []redrive.Decided) []decisionDocument {
	all := []decisionDocument{}
	for i := range decisions {
		d := &decisions[i]
		all = append(all, decisionDocument{
			Message: d.ID, Key: d.Key, Lineage: d.Lineage, Group: d.Group, Redrives: d.Sends,
			Strikes: d.Decision.Strikes, Reason: d.Reason,
			Kind: redrive.FingerprintOf(d.Reason), Since: cli.TimeOrNull(d.Died),
			Action: d.Action, Delay: d.Delay.Seconds(), Until: cli.TimeOrNull(d.Until), Why: d.Why,
		})
	}
	return all
}

type stepDocument struct {
	Time      time.Time                    `json:"time"`
	Queue     string                       `json:"queue"`
	Error     string                       `json:"error,omitempty"`
	Breaker   *redrivehost.BreakerDocument `json:"breaker"` // null if unknown
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
	Drain     *float64                     `json:"drainSeconds"` // null if unknown
	Decisions []decisionDocument           `json:"decisions"`    // of redriven and parked ones
	Next      *time.Time                   `json:"next"`         // null if there is none
}

func newStepDocument(s *redrivehost.Step, p *redrive.Policy) stepDocument {
	r := &s.Report
	sent := slices.DeleteFunc(slices.Clone(r.Decisions), func(d redrive.Decided) bool {
		return d.Action == redrive.Hold
	})
	d := stepDocument{
		Time: s.Ended.UTC(), Queue: s.Queue, Changed: r.Changed, Paused: r.State.Paused,
		Rate: r.State.Rate, OnTheWay: len(r.State.Flights), Depth: r.Depth,
		Redriven: r.Count(redrive.Redrive), Parked: r.Count(redrive.Park),
		Held: r.Count(redrive.Hold), Drain: redrivehost.SecondsOrNull(s.Drain),
		Decisions: decisionDocuments(sent), Next: cli.TimeOrNull(s.Next),
	}
	d.Succeeded, d.Failed = redrivehost.OutcomeCounts(r)
	if r.State.Breaker.State != "" {
		b := redrivehost.NewBreakerDocument(r.State.Breaker, p)
		d.Breaker = &b
	}
	if s.Err != nil {
		d.Error = s.Err.Error()
	}
	return d
}

// A reporter reports steps: as JSON, in one line of a terminal that is updated, or in a log. What
// is written to it stands above that line.
type reporter struct {
	*cli.App
	logger *slog.Logger
	shows  bool // the line

	mu    sync.Mutex
	p     *cli.Progress
	steps map[string]redrivehost.Step // the latest of each queue
}

func newReporter(a *cli.App, log *cli.LogFlags) *reporter {
	r := &reporter{App: a, p: cli.NewProgress(a.Stderr, "redriving"),
		steps: make(map[string]redrivehost.Step)}
	usual := slog.LevelInfo
	if a.JSON || r.p.Terminal { // steps are shown in another way
		usual = slog.LevelWarn
	}
	style := log.Style(a, usual)
	if r.shows = r.p.Terminal && !a.JSON; r.shows {
		r.logger = style.Logger(r)
	} else {
		r.logger = style.Logger(a.Stderr)
	}
	return r
}

// Write writes a part of the log above the line.
func (r *reporter) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.p.Done()
	return r.Stderr.Write(text)
}

func (r *reporter) report(s redrivehost.Step, p *redrive.Policy) {
	if !r.JSON && (s.Err == nil || !s.Next.IsZero()) { // otherwise the command ends with the error
		redrivehost.LogStep(r.logger, &s)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.JSON {
		_ = r.PrintJSONLine(newStepDocument(&s, p)) // without a reader, the work continues
		return
	}
	r.steps[s.Queue] = s
	r.draw()
}

// draw writes the line, if there is one. The caller has the lock.
func (r *reporter) draw() {
	if text := stepsText(r.steps, time.Now()); r.shows && text != "" {
		r.p.Line("%s", text)
	}
}

// watch keeps the line up to date until ctx ends.
func (r *reporter) watch(ctx context.Context) {
	for r.shows && ctx.Err() == nil {
		r.mu.Lock()
		r.draw()
		r.mu.Unlock()
		cli.Pause(ctx, time.Second)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.p.Done()
}

func stepsText(steps map[string]redrivehost.Step, now time.Time) string {
	var parts []string
	for name, s := range steps {
		state := &s.Report.State
		text := fmt.Sprintf("%s %s: %d dead, %d on their way, %d done, %d parked", name,
			state.Breaker.State, s.Report.Depth, len(state.Flights), state.Successes, state.Parked)
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
