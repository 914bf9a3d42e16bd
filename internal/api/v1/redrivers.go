package v1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"tenaq/internal/observe/monitor"
)

// Redrivers are those that run in the process of a server. They work through its front door, like
// any other client, so this package knows only what they report.
type Redrivers interface {
	// Queues returns the names of their dead-letter queues.
	Queues() []string

	// Redriver asks the records and the queues for the state of one.
	Redriver(ctx context.Context, queue string) (Redriver, error)

	// Pause and Resume return why the redriver was paused before; empty if it was not.
	Pause(ctx context.Context, queue, why string) (was string, err error)
	Resume(ctx context.Context, queue string) (was string, err error)

	// Step takes a step at once. ErrRedriverBusy means that another one was taken at the same time.
	Step(ctx context.Context, queue string) (RedriverStepped, error)

	// Plan says what the next step would do. It receives the dead letters that it looks at.
	Plan(ctx context.Context, queue string) (RedriverPlan, error)
}

// ErrRedriverBusy is the error of a step that another one overlapped. Nothing is lost.
var ErrRedriverBusy = errors.New("another step is in progress: try again")

// A Redriver is the state of the redriving of a dead-letter queue.
type Redriver struct {
	Queue    string `json:"queue"`
	Parking  string `json:"parking"`
	Target   string `json:"target,omitempty" doc:"the source of each message if absent"`
	Schedule string `json:"schedule"`

	Records string   `json:"records" doc:"where they are, as --records takes it, without a password"`
	Flags   []string `json:"flags" doc:"of tenaq redrive run, for its schedule, ledger and policy"`

	State  *RedriverState `json:"state,omitempty" doc:"absent if it cannot be read now"`
	Error  string         `json:"error,omitempty" doc:"why the state cannot be read"`
	Paused string         `json:"paused,omitempty" doc:"why, and by whom"`

	Step    *RedriverStep `json:"step,omitempty" doc:"the latest since the start of the server"`
	History []breakerSpan `json:"history" doc:"of the breaker in the last day, as far as it is known"`
}

// A RedriverState is what the records and the queue say.
type RedriverState struct {
	Breaker   RedriverBreaker `json:"breaker"`
	Rate      int             `json:"rate" doc:"messages that may be on their way at once"`
	Doubles   bool            `json:"rateDoubles" doc:"nothing has failed yet"`
	OnTheWay  int             `json:"onTheWay"`
	Canaries  int             `json:"canaries" doc:"of those on the way, which test whether the consumer has recovered"`
	Redriven  int             `json:"redriven"`
	Succeeded int             `json:"succeeded"`
	Failed    int             `json:"failed"`
	Parked    int             `json:"parked"`
	Kinds     []RedriverKind  `json:"kinds"`

	DeadLetters int      `json:"deadLetters"`
	OldestMS    *int64   `json:"oldestMs"`
	RetentionMS int64    `json:"retentionMs"`
	DrainMS     *int64   `json:"drainMs" doc:"how long the dead letters take at the pace of the last hour; null if unknown"`
	Warnings    []string `json:"warnings"`
}

// A RedriverBreaker is the circuit breaker of a redriver, or of a kind of failure.
type RedriverBreaker struct {
	State      string  `json:"state" enum:"CLOSED,OPEN,HALF_OPEN"`
	Failures   int     `json:"failures" doc:"in a row"`
	Successes  int     `json:"successes" doc:"while it is half open"`
	Changed    *string `json:"changed"`
	HalfOpenAt *string `json:"halfOpenAt,omitempty" doc:"of an open one"`
}

// A RedriverKind is a kind of failure that a redriver knows.
type RedriverKind struct {
	Kind     string          `json:"kind"`
	Reason   string          `json:"reason"`
	Messages int             `json:"messages" doc:"3 means 3 or more"`
	Last     *string         `json:"last"`
	Breaker  RedriverBreaker `json:"breaker"`
}

// A RedriverStep is a step of a redriver.
type RedriverStep struct {
	Ended *string `json:"ended"`
	Error string  `json:"error,omitempty"`
	Next  *string `json:"next"`
}

// A breakerSpan is a time in which a breaker stayed in a state.
type breakerSpan struct {
	State string  `json:"state" enum:"CLOSED,OPEN,HALF_OPEN"`
	From  *string `json:"from"`
	To    *string `json:"to"`
}

// TimeOf writes a time as this API does; null if it is zero.
func TimeOf(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return timeText(t.UnixMilli())
}

// Bounds of asking redrivers, whose records may be elsewhere.
const (
	redriversAtOnce = 4
	redriverWait    = 5 * time.Second
)

var errRedriverSlow = errors.New("the queue and the records of the redriver did not answer within 5 seconds")

type redriverList struct {
	Redrivers []Redriver `json:"redrivers"`
}

// redrivers answers GET /v1/redrivers. One that cannot be asked is listed with the reason, and one
// whose queue denies the caller is left out. [V1-15, AUTH-50]
func (c *call) redrivers(none) (list redriverList, err error) {
	ctx, cancel := context.WithTimeoutCause(c, redriverWait, errRedriverSlow)
	defer cancel()
	queues := slices.DeleteFunc(slices.Sorted(slices.Values(c.cfg.Redrivers.Queues())),
		func(queue string) bool { return c.allow(queue, "tenaq:ViewRedrivers") != nil })
	list.Redrivers = make([]Redriver, len(queues))
	var asking sync.WaitGroup
	for i, queue := range queues {
		asking.Go(func() { list.Redrivers[i] = c.askRedriver(ctx, queue) })
	}
	asking.Wait()
	return list, c.Err()
}

func (c *call) askRedriver(ctx context.Context, queue string) (r Redriver) {
	err := c.atOnce(ctx, func() (err error) {
		r, err = c.cfg.Redrivers.Redriver(ctx, queue)
		return err
	})
	if r.Queue = queue; err != nil {
		r.State, r.Error = nil, err.Error()
	}
	if c.cfg.Monitor != nil {
		r.History = breakerHistory(
			c.cfg.Monitor.Told(monitor.Redrivers, monitor.BreakerState, queue, monitor.Day))
	}
	if r.History == nil {
		r.History = []breakerSpan{}
	}
	r.Flags = append([]string{}, r.Flags...) // a list, also if it is empty
	return r
}

// atOnce does something with a redriver, when few others are asked.
func (c *call) atOnce(ctx context.Context, do func() error) error {
	select {
	case c.asked <- struct{}{}:
		defer func() { <-c.asked }()
		if err := do(); err == nil || ctx.Err() == nil {
			return err
		}
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

var breakerStates = []string{"CLOSED", "OPEN", "HALF_OPEN"} // by their gauge

// breakerHistory makes spans of what was told each minute. Redrivers tell about once a minute, so
// one minute may be without.
func breakerHistory(told []monitor.Told) (spans []breakerSpan) {
	const minute = int64(time.Minute / time.Millisecond)
	var last int64
	for _, t := range told {
		i := int(t.Most)
		if i < 0 || i >= len(breakerStates) {
			continue
		}
		end := timeText(t.At + minute)
		if n := len(spans); n > 0 && t.At-last <= 2*minute {
			if spans[n-1].State == breakerStates[i] {
				spans[n-1].To, last = end, t.At
				continue
			}
			spans[n-1].To = timeText(t.At)
		}
		spans = append(spans, breakerSpan{breakerStates[i], timeText(t.At), end})
		last = t.At
	}
	return spans
}

type redriverIn struct {
	Queue string `path:"queue" doc:"name of the dead-letter queue"`
}

// oneRedriver answers GET /v1/redrivers/{queue}.
func (c *call) oneRedriver(in redriverIn) (r Redriver, err error) {
	if err := c.hasRedriver(in.Queue); err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeoutCause(c, redriverWait, errRedriverSlow)
	defer cancel()
	return c.askRedriver(ctx, in.Queue), c.Err()
}

func (c *call) hasRedriver(queue string) error {
	if slices.Contains(c.cfg.Redrivers.Queues(), queue) {
		return nil
	}
	return &Error{http.StatusNotFound, "NotFound",
		"No redriver of this server has this dead-letter queue. A redriver of another process is paused with tenaq redrive pause."}
}

type pauseRedriverIn struct {
	Queue  string `path:"queue" doc:"name of the dead-letter queue"`
	Reason string `json:"reason,omitempty" doc:"why, for people who look at it later"`
}

// A redriverPause is what a pause or its end has changed.
type redriverPause struct {
	Queue  string `json:"queue"`
	Paused string `json:"paused,omitempty"`
	Was    string `json:"wasPaused,omitempty" doc:"why it was paused before"`
}

// pauseMax is how long the reason of a pause may be, in bytes.
const pauseMax = 1024

// pauseRedriver answers POST /v1/redrivers/{queue}/pause. [V1-16]
func (c *call) pauseRedriver(in pauseRedriverIn) (p redriverPause, err error) {
	if err := checkSize("reason", len(in.Reason), pauseMax); err != nil {
		return p, err
	}
	if err := checkLine("reason", in.Reason); err != nil {
		return p, err
	}
	why := cmp.Or(in.Reason, "no reason given") + " (" + c.by() + ")"
	p = redriverPause{Queue: in.Queue, Paused: why}
	pause := func(ctx context.Context, queue string) (was string, err error) {
		return c.cfg.Redrivers.Pause(ctx, queue, why)
	}
	p.Was, err = changeRedriver(c, redriverWait, in.Queue, pause)
	return p, err
}

// resumeRedriver answers POST /v1/redrivers/{queue}/resume.
func (c *call) resumeRedriver(in redriverIn) (p redriverPause, err error) {
	p.Queue = in.Queue
	p.Was, err = changeRedriver(c, redriverWait, in.Queue, c.cfg.Redrivers.Resume)
	return p, err
}

// A RedriverStepped is what a step has done.
type RedriverStepped struct {
	Queue       string `json:"queue"`
	DeadLetters int    `json:"deadLetters" doc:"before the step"`
	Redriven    int    `json:"redriven"`
	Parked      int    `json:"parked"`
	Held        int    `json:"held" doc:"dead letters that were looked at and stay"`
	Succeeded   int    `json:"succeeded" doc:"outcomes of messages that were redriven earlier"`
	Failed      int    `json:"failed"`
	Breaker     string `json:"breaker" enum:"CLOSED,OPEN,HALF_OPEN"`
}

// stepWait is how long a step may take.
const stepWait = 30 * time.Second

// stepRedriver answers POST /v1/redrivers/{queue}/step. [V1-17]
func (c *call) stepRedriver(in redriverIn) (s RedriverStepped, err error) {
	s, err = changeRedriver(c, stepWait, in.Queue, c.cfg.Redrivers.Step)
	s.Queue = in.Queue
	return s, err
}

// A RedriverPlan is what the next step of a redriver would do.
type RedriverPlan struct {
	Queue       string            `json:"queue"`
	Paused      string            `json:"paused,omitempty" doc:"why, and by whom"`
	Breaker     RedriverBreaker   `json:"breaker"`
	Rate        int               `json:"rate" doc:"messages that may be on their way at once"`
	OnTheWay    int               `json:"onTheWay" doc:"after the step"`
	DeadLetters int               `json:"deadLetters"`
	Redrive     int               `json:"redrive" doc:"dead letters that would go back"`
	Park        int               `json:"park"`
	Hold        int               `json:"hold" doc:"dead letters that were looked at and would stay"`
	HiddenUntil *string           `json:"hiddenUntil" doc:"a step before then does not see those that could not be given back; null if all were"`
	Decisions   []PlannedDecision `json:"decisions" doc:"the first 200"`
	Made        *string           `json:"made"`
}

// A PlannedDecision is what would become of a dead letter.
type PlannedDecision struct {
	MessageID string  `json:"messageId"`
	Key       string  `json:"key"`
	Kind      string  `json:"kind"`
	Reason    string  `json:"reason" doc:"why it is a dead letter"`
	Redrives  int     `json:"redrives" doc:"how often it was redriven"`
	Action    string  `json:"action" enum:"redrive,park,hold"`
	DelayMS   int64   `json:"delayMs" doc:"of a redrive"`
	Until     *string `json:"until,omitempty" doc:"a held one is not looked at earlier"`
	Why       string  `json:"why" doc:"the reason for the action"`
}

// PlannedMax is how many decisions the answer has.
const PlannedMax = 200

// planRedriver answers POST /v1/redrivers/{queue}/plan. [V1-20]
func (c *call) planRedriver(in redriverIn) (p RedriverPlan, err error) {
	p, err = changeRedriver(c, stepWait, in.Queue, c.cfg.Redrivers.Plan)
	p.Queue = in.Queue
	return p, err
}

// changeRedriver changes something about the redriver of a queue, which may take as long as most.
func changeRedriver[T any](
	c *call, most time.Duration, queue string, change func(context.Context, string) (T, error),
) (changed T, err error) {
	if err := c.hasRedriver(queue); err != nil {
		return changed, err
	}
	slow := fmt.Errorf("the queue and the records of the redriver did not answer within %s", most)
	ctx, cancel := context.WithTimeoutCause(c, most, slow)
	defer cancel()
	err = c.atOnce(ctx, func() (err error) {
		changed, err = change(ctx, queue)
		return err
	})
	switch {
	case err == nil || c.Err() != nil:
		return changed, err
	case errors.Is(err, ErrRedriverBusy):
		return changed, &Error{http.StatusConflict, "Busy", err.Error()}
	}
	return changed, &Error{http.StatusServiceUnavailable, "RedriverUnavailable", err.Error()}
}
