package serve

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
	"tenaq/internal/settings"
	"tenaq/redrive"
	"tenaq/redrive/breaker"
)

// redrivers shows the hosted redrivers to the API of the server.
type redrivers struct {
	section *settings.RedriveSection
	records string // their address
	counts  *redrivehost.Metrics
	logger  *slog.Logger

	mu    sync.Mutex
	host  *redrivehost.Host // nil while there is none
	why   error             // there is none
	steps map[string]redrivehost.Step
}

var errNotRunning = errors.New("the redrivers of this server are not running now")

func newRedrivers(
	section *settings.RedriveSection, counts *redrivehost.Metrics, logger *slog.Logger,
) *redrivers {
	return &redrivers{section: section, records: section.RecordsAddress(os.Getenv), counts: counts,
		logger: logger, why: errNotRunning, steps: make(map[string]redrivehost.Step)}
}

// reach sets the host through which redrivers are asked, or why there is none.
func (r *redrivers) reach(h *redrivehost.Host, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.host, r.why = h, why
}

// note keeps the latest step of each redriver.
func (r *redrivers) note(s redrivehost.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Next.IsZero() { // it was out of turn
		s.Next = r.steps[s.Queue].Next
	}
	r.steps[s.Queue] = redrivehost.Step{Ended: s.Ended, Err: s.Err, Next: s.Next}
}

func (r *redrivers) Queues() (names []string) {
	for i := range r.section.Specs {
		names = append(names, cli.QueueNameOf(r.section.Specs[i].DeadLetter))
	}
	return names
}

// view opens the redriver of a queue, which must be one of Queues.
func (r *redrivers) view(
	ctx context.Context, queue string,
) (*redrivehost.Spec, *redrivehost.View, error) {
	r.mu.Lock()
	h, why := r.host, r.why
	r.mu.Unlock()
	for i := range r.section.Specs {
		spec := &r.section.Specs[i]
		switch {
		case cli.QueueNameOf(spec.DeadLetter) != queue:
			continue
		case h == nil:
			return spec, nil, why
		}
		v, err := h.View(ctx, spec)
		return spec, v, err
	}
	return nil, nil, errNotRunning
}

func (r *redrivers) Redriver(ctx context.Context, queue string) (shown v1.Redriver, err error) {
	spec, v, err := r.view(ctx, queue)
	if spec != nil {
		shown.Parking, shown.Schedule = cli.QueueNameOf(spec.Parking), spec.Schedule.Text
		shown.Target = cli.QueueNameOf(spec.Target)
		shown.Records, shown.Flags = r.records, r.section.Flags(spec)
	}
	r.mu.Lock()
	if s, ok := r.steps[queue]; ok {
		shown.Step = &v1.RedriverStep{Ended: v1.TimeOf(s.Ended), Next: v1.TimeOf(s.Next)}
		if s.Err != nil && !redrivehost.IsOverlap(s.Err) {
			shown.Step.Error = s.Err.Error()
		}
	}
	r.mu.Unlock()
	if err != nil {
		return shown, err
	}
	s, err := v.Status(ctx, &spec.Policy)
	if err != nil {
		return shown, err
	}
	shown.Paused = s.Paused
	shown.State = &v1.RedriverState{
		Breaker: shownBreaker(&s.Breaker), Rate: s.Rate, Doubles: s.Steep,
		OnTheWay: len(s.OnTheWay), Redriven: s.Redriven, Succeeded: s.Successes,
		Failed: s.Failures, Parked: s.Parked, Kinds: []v1.RedriverKind{},
		DeadLetters: s.Depth, OldestMS: milliseconds(s.Oldest),
		RetentionMS: int64(1000 * s.Retention), DrainMS: milliseconds(s.Drain),
		Warnings: s.Warnings,
	}
	for _, f := range s.OnTheWay {
		if f.Canary {
			shown.State.Canaries++
		}
	}
	for i := range s.Kinds {
		k := &s.Kinds[i]
		shown.State.Kinds = append(shown.State.Kinds, v1.RedriverKind{Kind: string(k.Kind),
			Reason: k.Reason, Messages: k.Messages, Last: v1.TimeOf(k.Last),
			Breaker: shownBreaker(&k.Breaker)})
	}
	return shown, nil
}

func shownBreaker(b *redrivehost.BreakerDocument) v1.RedriverBreaker {
	return v1.RedriverBreaker{State: cmp.Or(string(b.State), string(breaker.Closed)),
		Failures: b.FailureCount, Successes: b.SuccessCount, Changed: timeOf(b.LastChange),
		HalfOpenAt: timeOf(b.HalfOpenAt)}
}

func timeOf(t *time.Time) *string {
	if t == nil {
		return nil
	}
	return v1.TimeOf(*t)
}

func milliseconds(seconds *float64) *int64 {
	if seconds == nil {
		return nil
	}
	ms := int64(1000 * *seconds)
	return &ms
}

func (r *redrivers) Step(ctx context.Context, queue string) (shown v1.RedriverStepped, err error) {
	spec, v, err := r.view(ctx, queue)
	if err != nil {
		return shown, err
	}
	s := redrivehost.NewLoop(v.Host, *spec, nil).Step(ctx)
	r.counts.Note(s)
	r.note(s)
	redrivehost.LogStep(r.logger, &s)
	switch {
	case redrivehost.IsOverlap(s.Err):
		return shown, v1.ErrRedriverBusy
	case s.Err != nil:
		return shown, s.Err
	}
	shown = v1.RedriverStepped{DeadLetters: s.Report.Depth,
		Redriven: s.Report.Count(redrive.Redrive), Parked: s.Report.Count(redrive.Park),
		Held: s.Report.Count(redrive.Hold), Breaker: string(s.Report.State.Breaker.State)}
	shown.Succeeded, shown.Failed = redrivehost.OutcomeCounts(&s.Report)
	return shown, nil
}

func (r *redrivers) Plan(ctx context.Context, queue string) (shown v1.RedriverPlan, err error) {
	spec, v, err := r.view(ctx, queue)
	if err != nil {
		return shown, err
	}
	looks := *spec
	looks.Look = min(redrivehost.PlanLook, spec.Schedule.Interval())
	if v, err = v.View(ctx, &looks); err != nil {
		return shown, err
	}
	plan, err := v.Plan(ctx)
	if err != nil {
		return shown, err
	}
	now, state := time.Now(), &plan.State
	b := redrivehost.NewBreakerDocument(state.Breaker, &spec.Policy)
	shown = v1.RedriverPlan{Paused: state.Paused, Breaker: shownBreaker(&b), Rate: state.Rate,
		OnTheWay: len(state.Flights), DeadLetters: plan.Depth, Made: v1.TimeOf(now),
		Redrive: plan.Count(redrive.Redrive), Park: plan.Count(redrive.Park),
		Hold: plan.Count(redrive.Hold), Decisions: []v1.PlannedDecision{}}
	if plan.Hidden > 0 {
		shown.HiddenUntil = v1.TimeOf(now.Add(looks.Look))
	}
	for _, d := range plan.Decisions[:min(len(plan.Decisions), v1.PlannedMax)] {
		shown.Decisions = append(shown.Decisions, v1.PlannedDecision{MessageID: d.ID, Key: d.Key,
			Kind: string(redrive.FingerprintOf(d.Reason)), Reason: d.Reason, Redrives: d.Sends,
			Action: string(d.Action), DelayMS: d.Delay.Milliseconds(), Until: v1.TimeOf(d.Until),
			Why: d.Why})
	}
	return shown, nil
}

func (r *redrivers) Pause(ctx context.Context, queue, why string) (was string, err error) {
	return r.change(ctx, queue, func(v *redrivehost.View, _ string) error {
		return v.Redriver.Pause(ctx, why)
	})
}

func (r *redrivers) Resume(ctx context.Context, queue string) (was string, err error) {
	return r.change(ctx, queue, func(v *redrivehost.View, was string) error {
		if was == "" {
			return nil
		}
		return v.Redriver.Resume(ctx)
	})
}

// change changes a redriver and returns why it was paused before.
func (r *redrivers) change(
	ctx context.Context, queue string, change func(v *redrivehost.View, was string) error,
) (was string, err error) {
	_, v, err := r.view(ctx, queue)
	if err != nil {
		return "", err
	}
	state, err := v.Redriver.State(ctx)
	if err == nil {
		err = change(v, state.Paused)
	}
	if err != nil {
		return "", v.InRecords(err)
	}
	return state.Paused, nil
}
