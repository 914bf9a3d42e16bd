package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tenaq/internal/cli"
	"tenaq/outbox"
)

// An end is the outbox of a relay that is to end when nothing is left to do. It sees what the relay claims and
// settles, so it knows when that has nothing in hand.
type end struct {
	outbox.Box
	whole bool // nothing may be pending either
	stop  func()

	mu      sync.Mutex
	hand    map[string]bool // rows that the relay has
	refused map[string]bool // rows that were, and were not sent since
	sent    int
	parked  int
	asked   int      // claims in a row that failed
	over    bool     // nothing was left to do
	sick    []string // queues that took nothing then
	err     error    // why nobody knows
}

func NewEnd(box outbox.Box, whole bool, stop func()) *end {
	return &end{Box: box, whole: whole, stop: stop, hand: map[string]bool{}, refused: map[string]bool{}}
}

// claimsFailedMax is how many claims in a row may fail before the database is given up. The relay pauses between
// them.
const claimsFailedMax = 5

// Claim looks whether that was all: a claim that began with nothing in hand has found nothing. One that began earlier may
// have missed what came after a row that was in hand.
func (e *end) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error) {
	e.mu.Lock()
	idle := len(e.hand) == 0
	e.mu.Unlock()
	rows, next, err := e.Box.Claim(ctx, c)
	nothing := err == nil && idle && len(rows) == 0
	if nothing && e.whole {
		var s outbox.Stats
		s, err = e.Stats(ctx)
		nothing = err == nil && s.Pending == 0
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range rows {
		e.hand[r.ID] = true
	}
	switch {
	case err == nil:
		e.asked = 0
	case ctx.Err() == nil:
		if e.asked++; e.asked == claimsFailedMax && !e.whole {
			e.err = err
			e.stop()
		}
	}
	if nothing {
		e.over, e.sick = true, slices.Clone(c.Except)
		e.stop()
	}
	return rows, next, err
}

// Settle takes rows out of the hand when their fate is written down.
func (e *end) Settle(ctx context.Context, relay string, outcomes []outbox.Outcome) error {
	err := e.Box.Settle(ctx, relay, outcomes)
	if err == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, o := range outcomes {
			delete(e.hand, o.ID)
		}
	}
	return err
}

// events counts before others are told.
func (e *end) events(others outbox.Events) outbox.Events {
	count := func(one func()) {
		e.mu.Lock()
		defer e.mu.Unlock()
		one()
	}
	return outbox.Events{
		Sent: func(r outbox.Row, messageID string) {
			count(func() { e.sent++; delete(e.refused, r.ID) })
			others.Sent(r, messageID)
		},
		Failed: func(r outbox.Row, reason string, after time.Duration) {
			count(func() { e.refused[r.ID] = true })
			others.Failed(r, reason, after)
		},
		Parked: func(r outbox.Row, reason string) {
			count(func() { e.parked++; delete(e.refused, r.ID) })
			others.Parked(r, reason)
		},
		Lost: func(r outbox.Row) {
			count(func() { delete(e.hand, r.ID) })
			others.Lost(r)
		},
	}
}

// An outboxVerdict is what came of a relay that has ended, as --json prints it.
type outboxVerdict struct {
	Sent    int  `json:"sent"`
	Refused int  `json:"refused"` // and to be tried again
	Parked  int  `json:"parked"`
	Left    *int `json:"left"` // due, of queues that took nothing; null when nobody knows
}

// verdict prints what was done, and makes an error of what was not.
func (e *end) verdict(ctx context.Context, a *cli.App, place place) error {
	left, err := e.left(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	v := outboxVerdict{Sent: e.sent, Refused: len(e.refused), Parked: e.parked}
	var bad []string
	say := func(is bool, format string, args ...any) {
		if is {
			bad = append(bad, fmt.Sprintf(format, args...))
		}
	}
	say(v.Parked > 0, "%d parked, see: tenaq outbox parked list", v.Parked)
	say(v.Refused > 0, "%d refused, and to be tried again", v.Refused)
	switch err := errors.Join(e.err, err); {
	case err != nil:
		say(true, "the outbox cannot be asked what is left: %v", place.Explain(err))
	case !e.over:
		say(true, "interrupted")
	default:
		v.Left = &left
		say(left > 0, "%d left, because a queue takes no messages now: %s; see above", left, strings.Join(e.sick, ", "))
	}
	if err := a.Result(v, "sent %s", rowsText(v.Sent)); err != nil || len(bad) == 0 {
		return err
	}
	code := cli.ExitPartly
	if v.Sent == 0 {
		code = cli.ExitFailed
	}
	return cli.Codedf(code, "not all rows were sent: %s", strings.Join(bad, "; "))
}

// left counts the rows that are due while queues take nothing.
func (e *end) left(ctx context.Context) (int, error) {
	e.mu.Lock()
	asks := e.over && len(e.sick) > 0 && e.err == nil
	e.mu.Unlock()
	if !asks {
		return 0, nil
	}
	s, err := e.Stats(ctx)
	return s.Due, err
}
