// Package breaker is a circuit breaker as a value that can be stored and compared. Its methods are
// pure: the time is an argument. The caller decides what a success or a failure is.
//
// A closed breaker lets everything through, until failures in a row open it. An open one lets
// nothing through until its cool-down ends, which doubles each time it opens again without closing.
// A half-open one lets a few through, and their outcomes close or open it.
package breaker

import (
	"cmp"
	"time"
)

// A State says what a breaker lets through.
type State string

const (
	Closed   State = "CLOSED"    // everything
	Open     State = "OPEN"      // nothing
	HalfOpen State = "HALF_OPEN" // a few, to test
)

// Gauge returns the number of a state for dashboards.
func (s State) Gauge() int {
	switch s {
	case Open:
		return 1
	case HalfOpen:
		return 2
	}
	return 0
}

// A Policy says when a breaker changes its state. Zero fields have defaults.
type Policy struct {
	Failures    int           // in a row that open it: 3 when zero
	Successes   int           // that close it when it is half open: 2 when zero
	CoolDown    time.Duration // after it opened first: 60 s when zero
	CoolDownMax time.Duration // however often it opened: 1 h when zero
}

func (p Policy) complete() Policy {
	p.Failures = cmp.Or(p.Failures, 3)
	p.Successes = cmp.Or(p.Successes, 2)
	p.CoolDown = cmp.Or(p.CoolDown, time.Minute)
	p.CoolDownMax = max(p.CoolDown, cmp.Or(p.CoolDownMax, time.Hour))
	return p
}

// A Breaker is the state of a breaker. The zero value is closed.
type Breaker struct {
	State        State     `json:"state"`
	FailureCount int       `json:"failure_count"`     // in a row, while it is closed
	SuccessCount int       `json:"success_count"`     // since it became half open
	LastChange   time.Time `json:"last_state_change"` // of State
	LastAttempt  time.Time `json:"last_attempt"`      // when it last let something through
	Trips        int       `json:"trips,omitempty"`   // how often it opened since it was closed
}

// Tick makes an open breaker half open when its cool-down has ended.
func (b Breaker) Tick(p Policy, now time.Time) Breaker {
	b.State = cmp.Or(b.State, Closed)
	if b.State == Open && !now.Before(b.Until(p)) {
		return b.to(HalfOpen, now)
	}
	return b
}

// Until returns when an open breaker becomes half open.
func (b Breaker) Until(p Policy) time.Time {
	p = p.complete()
	d := p.CoolDown
	for i := 1; i < b.Trips && d < p.CoolDownMax; i++ {
		d *= 2
	}
	return b.LastChange.Add(min(d, p.CoolDownMax))
}

// Attempt records that the breaker let something through.
func (b Breaker) Attempt(now time.Time) Breaker {
	b.LastAttempt = now
	return b
}

// Succeed records a success.
func (b Breaker) Succeed(p Policy, now time.Time) Breaker {
	p = p.complete()
	b = b.Tick(p, now)
	switch b.State {
	case Closed:
		b.FailureCount = 0
	case HalfOpen:
		if b.SuccessCount++; b.SuccessCount >= p.Successes {
			b = b.to(Closed, now)
			b.Trips = 0
		}
	}
	return b
}

// Fail records a failure. It has no effect on an open breaker, which gets the failures of what it
// let through before.
func (b Breaker) Fail(p Policy, now time.Time) Breaker {
	p = p.complete()
	b = b.Tick(p, now)
	switch b.State {
	case Closed:
		if b.FailureCount++; b.FailureCount >= p.Failures {
			return b.trip(now)
		}
	case HalfOpen:
		return b.trip(now)
	}
	return b
}

// Reopen opens a breaker at once, if it was closed by mistake.
func (b Breaker) Reopen(now time.Time) Breaker { return b.trip(now) }

func (b Breaker) trip(now time.Time) Breaker {
	b = b.to(Open, now)
	b.Trips++
	return b
}

// to changes the state and resets the counts.
func (b Breaker) to(s State, now time.Time) Breaker {
	b.State, b.LastChange = s, now
	b.FailureCount, b.SuccessCount = 0, 0
	return b
}
