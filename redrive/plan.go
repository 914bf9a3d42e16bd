package redrive

import (
	"fmt"
	"slices"
	"time"

	"tenaq/internal/work/clip"
	"tenaq/redrive/breaker"
)

// This file is pure: it uses no clock, no queue and no store. A step calls
//
//	Judge    with the outcomes of messages that were redriven earlier
//	Room     for how many more may be sent
//	Decide   for each dead letter: redrive, hold or park

// A Result is the result of a redriven message.
type Result int

const (
	// Silent: nothing is known.
	Silent Result = iota

	// Succeeded: its work is recorded as completed.
	Succeeded

	// Gone: it has not come back within the usual time. That is weak evidence: it may be waiting,
	// or an operator may have deleted it.
	Gone

	// Failed: it is a dead letter again, or its attempts are used up.
	Failed

	// Moot: its work was completed before it was sent, so its result says nothing about the
	// consumer.
	Moot
)

// An Outcome is the result of a Flight.
type Outcome struct {
	Letter string // of the Flight
	Result Result
	Reason string // why it failed
	At     time.Time
}

// A Health counts what the consumer did since the last step with messages that were not redriven:
// messages done, and failed attempts.
type Health struct {
	Done   int `json:"done"`
	Failed int `json:"failed"`
}

// excuses returns how many failures of redriven messages do not count against the consumer.
func (h Health) excuses() int { return max(0, h.Done-h.Failed) }

// Judge updates the state with outcomes and the health of the consumer.
func (s State) Judge(p *Policy, now time.Time, outcomes []Outcome, health Health) State {
	s = s.clone()
	s.tick(p, now)
	if health.excuses() > 0 {
		s.well(p, now)
		if s.Breaker.State == breaker.Closed {
			s.Breaker = s.Breaker.Succeed(p.breaker(), now) // it interrupts failures in a row
		}
	}
	s.Flights = slices.DeleteFunc(s.Flights, func(f Flight) bool {
		// By then, a step has seen every message that came back before its end.
		if !f.weak() || now.Before(f.End.Add(p.apart)) {
			return false
		}
		s.settled(p, now)
		return true
	})
	excuses, halved := health.excuses(), false
	outcomes = slices.Clone(outcomes)
	// The order decides what is in a row.
	slices.SortStableFunc(outcomes, func(a, b Outcome) int { return a.At.Compare(b.At) })
	for _, o := range outcomes {
		i := slices.IndexFunc(s.Flights, func(f Flight) bool { return f.Letter == o.Letter })
		if i < 0 || o.Result == Silent && (s.Flights[i].weak() || !s.Flights[i].over(p, now)) {
			continue
		}
		f := s.Flights[i]
		if o.Result == Gone && now.Before(f.End) {
			s.Flights[i].Weak = now // it may still come back
		} else {
			s.Flights = slices.Delete(s.Flights, i, i+1)
		}
		if f.Group != "" {
			if o.Result == Failed {
				s.setHead(Head{Group: f.Group, Lineage: f.Lineage, Since: now})
			} else {
				s.endHead(f.Group, f.Lineage)
			}
		}
		switch o.Result {
		case Succeeded:
			s.succeed(p, now, f)
			s.settled(p, now)
		case Gone:
			trips := s.Breaker.Trips
			if s.WeakSuccesses++; s.WeakSuccesses%2 == 0 {
				s.succeed(p, now, f)
			}
			if s.Breaker.Trips = trips; !now.Before(f.End) {
				s.settled(p, now)
			}
		case Failed:
			if s.fail(p, now, f, o.Reason, excuses > 0) && !halved {
				s.slow(f.Lineage)
				halved = true
			}
			excuses--
		}
	}
	return s
}

// slow lowers the rate because a message failed, in a way that unslow can undo.
func (s *State) slow(lineage string) {
	s.Slowed = &Slowdown{Lineage: lineage, Rate: s.Rate, Steep: s.Steep}
	s.Rate, s.Steep = max(1, s.Rate/2), false
}

// unslow restores the rate that the failure of a message lowered, when others are known to have
// succeeded then: the failure said nothing about the consumer.
func (s *State) unslow(lineage string) {
	if s.Slowed == nil || s.Slowed.Lineage != lineage {
		return
	}
	s.Rate, s.Steep = max(s.Rate, s.Slowed.Rate), s.Slowed.Steep
	s.Slowed = nil
}

// over reports whether the wait for the outcome of a flight has ended. It lasts at least until the
// message could no longer come back.
func (f *Flight) over(p *Policy, now time.Time) bool {
	last := f.Due.Add(p.Settle)
	for _, t := range []time.Time{f.Judge, f.End} {
		if t.After(last) {
			last = t
		}
	}
	return !now.Before(last)
}

// weak reports whether silence counted as a success of a flight although it may still come back.
func (f *Flight) weak() bool { return !f.Weak.IsZero() }

// tick updates the breakers for the time.
func (s *State) tick(p *Policy, now time.Time) {
	s.Breaker = s.Breaker.Tick(p.breaker(), now)
	for i := range s.Kinds {
		s.Kinds[i].Breaker = s.Kinds[i].Breaker.Tick(p.kind(), now)
	}
}

// succeed updates the state for a redriven message that was processed.
func (s *State) succeed(p *Policy, now time.Time, f Flight) {
	s.Successes++
	if k := s.known(f.Kind); k != nil {
		k.Lineages, k.Poison = nil, false // it passes, then
		k.Since = now
		k.Breaker = k.Breaker.Succeed(p.kind(), now)
	}
	switch {
	case s.Breaker.State == breaker.HalfOpen && !f.Canary: // sent before it opened
	case s.Breaker.State == breaker.HalfOpen:
		if s.Breaker = s.Breaker.Succeed(p.breaker(), now); s.Breaker.State == breaker.Closed {
			s.Rate, s.Steep = p.RateFirst, true
			// Failures while everything failed say nothing about the kinds.
			for i := range s.Kinds {
				s.Kinds[i].Since, s.Kinds[i].Lineages, s.Kinds[i].Poison = now, nil, false
			}
		}
	default:
		s.Breaker = s.Breaker.Succeed(p.breaker(), now)
		// The rate doubles with each round of successes until something fails. Then it grows by one
		// per round.
		if s.Steep || s.Successes%max(1, s.Rate) == 0 {
			s.Rate = min(s.Rate+1, p.RateMax)
		}
	}
}

// settled updates the state for a message that was processed and cannot come back, so that other
// messages are judged by it. If a message may still come back, a breaker that it closed still
// remembers how often it opened.
func (s *State) settled(p *Policy, now time.Time) {
	s.well(p, now)
	if s.Breaker.State == breaker.Closed {
		s.Breaker.Trips = 0
	}
}

// fail updates the state for a redriven message that failed again. Excused means that the consumer
// did other work meanwhile. It reports whether to send less.
func (s *State) fail(
	p *Policy, now time.Time, f Flight, reason string, excused bool,
) (slower bool) {
	s.Failures++
	k := s.kind(FingerprintOf(reason), now)
	fresh := len(k.Lineages) == 0
	k.Last, k.Reason = now, clip.To(reason, reasonKept)
	if len(k.Lineages) < broad && !slices.Contains(k.Lineages, f.Lineage) {
		k.Lineages = append(slices.Clone(k.Lineages), f.Lineage)
	}
	well := excused || s.lastSuccess().After(s.Breaker.LastChange) &&
		now.Sub(s.lastSuccess()) <= p.Near
	switch {
	case s.Breaker.State == breaker.HalfOpen && !f.Canary, s.Breaker.State == breaker.Open:
		return false // sent before it opened
	case s.Breaker.State == breaker.HalfOpen && well:
		// The consumer does other work, so this says nothing about it. Another canary follows.
		s.failKind(p, now, k)
		return false
	}
	if excused || well && len(k.Lineages) >= broad {
		s.failKind(p, now, k) // other things work
		return fresh && !k.Poison
	}
	if well && (f.Struck || k.Poison) {
		return false // known poison, and other things work
	}
	if f.Canary && f.weak() && !well { // the breaker was closed by mistake
		s.Breaker = s.Breaker.Reopen(now)
	} else {
		s.Breaker = s.Breaker.Fail(p.breaker(), now)
	}
	if s.Breaker.State == breaker.Open {
		s.Slowed = nil
		for i := range s.Kinds { // everything fails, so kinds mean nothing
			s.Kinds[i].Breaker = breaker.Breaker{State: breaker.Closed}
		}
		return true
	}
	// One message counts only once against the consumer.
	again := s.Slowed != nil && s.Slowed.Lineage == f.Lineage
	return fresh && !again || s.Breaker.FailureCount > 1
}

// broad is how many messages must fail in one way before something that they need counts as the
// cause, and not the messages.
const broad = 3

func (s *State) failKind(p *Policy, now time.Time, k *Kind) {
	if len(k.Lineages) >= broad {
		k.Breaker = k.Breaker.Fail(p.kind(), now)
	}
}

// Room returns how many messages may be sent now. A half-open breaker lets one canary through at a
// time.
func (s State) Room(p *Policy, now time.Time) int {
	s.tick(p, now)
	switch {
	case s.Paused != "" || s.Breaker.State == breaker.Open:
		return 0
	case s.Breaker.State == breaker.HalfOpen:
		if slices.ContainsFunc(s.Flights, func(f Flight) bool { return f.Canary && !f.weak() }) {
			return 0
		}
		return 1
	}
	return max(0, min(s.Rate-s.OnTheirWay(), s.unsettledMax(p)-len(s.Flights)))
}

// canaryHandled is how long after its delay the outcome of a canary is expected.
const canaryHandled = 15 * time.Second

// Soonest returns when an early step may be useful: at the end of the cool-down of an open breaker,
// or when the outcome of a canary is expected. It is zero if there is no such time.
func (s State) Soonest(p *Policy, now time.Time) time.Time {
	switch s.Breaker.State {
	case breaker.Open:
		return s.Breaker.Until(p.breaker())
	case breaker.HalfOpen:
		for _, f := range s.Flights {
			at := f.Judge
			if at.IsZero() || f.Mark != "" {
				at = f.Due.Add(canaryHandled)
			}
			if f.Canary && !f.weak() && at.After(now) {
				return at
			}
		}
	}
	return time.Time{}
}

// OnTheirWay returns how many redriven messages count against the rate. A message whose silence
// counted as half a success does not, although it may still come back.
func (s State) OnTheirWay() (n int) {
	for i := range s.Flights {
		if !s.Flights[i].weak() {
			n++
		}
	}
	return n
}

// unsettledMax returns how many redriven messages may be without a certain outcome. Silence alone
// must not raise the rate without limit, above all if it has closed the breaker.
func (s *State) unsettledMax(p *Policy) int {
	if slices.ContainsFunc(s.Flights, func(f Flight) bool { return f.Canary && f.weak() }) {
		return max(s.Rate, 2*p.RateFirst)
	}
	return max(s.Rate+s.Rate/2, 4*p.RateFirst)
}

// A Letter holds what a decision about a dead letter depends on.
type Letter struct {
	ID      string
	Lineage string
	Key     string
	Group   string // on FIFO queues; empty on others
	Reason  string // why it is a dead letter
	Poison  bool   // its worker said so
	Sends   int    // how often it was redriven
	Strikes int    // how often it is known to have failed while others succeeded
	Died    time.Time
}

// An Action is what to do with a dead letter.
type Action string

const (
	Redrive Action = "redrive" // send it back to its queue
	Hold    Action = "hold"    // leave it where it is
	Park    Action = "park"    // move it to the parking lot
)

// A HoldCause is the kind of reason for which a dead letter is held. Why has the details.
type HoldCause string

// The causes. They are labels of metrics, so they keep their words.
const (
	HeldPaused  HoldCause = "paused"  // the redriver is paused
	HeldBreaker HoldCause = "breaker" // the breaker is open
	HeldUnsure  HoldCause = "unsure"  // it is not known yet whether others succeed
	HeldRate    HoldCause = "rate"    // enough messages are on their way
	HeldGroup   HoldCause = "group"   // another message of its group goes first
	HeldKind    HoldCause = "kind"    // what it needs seems to be down
	HeldDelay   HoldCause = "delay"   // its delay is not over
	HeldLedger  HoldCause = "ledger"  // the ledger does not answer
	HeldOther   HoldCause = "other"   // for example, its origin is unknown
)

// HoldCauses lists all causes.
var HoldCauses = []HoldCause{HeldPaused, HeldBreaker, HeldUnsure, HeldRate, HeldGroup, HeldKind,
	HeldDelay, HeldLedger, HeldOther}

// A Decision is what to do with a dead letter, and why.
type Decision struct {
	Action  Action
	Held    HoldCause     // of a held one
	Delay   time.Duration // of a redrive
	Why     string
	Strikes int       // of the letter from now on
	Until   time.Time // when to look at it again; zero means at any time

	// Behind means that an earlier message of its group failed and is now behind it: hold it there.
	Behind bool
}

// Decide says what to do with a dead letter, and returns the state after that. Discard the state if
// you do not carry out the decision. Chance is in [0, 1).
func (s State) Decide(p *Policy, now time.Time, l Letter, chance float64) (State, Decision) {
	s = s.clone()
	s.tick(p, now)
	d := Decision{Strikes: l.Strikes}
	again := slices.ContainsFunc(s.Flights, func(f Flight) bool { return f.Letter == l.ID })
	if !again && l.Sends > 0 && s.wellAt(l.Died) && !s.down(l.Reason) {
		d.Strikes++
		s.unslow(l.Lineage)
		if k := s.known(FingerprintOf(l.Reason)); k != nil {
			k.Poison = true
		}
	}
	if s.Paused != "" { // do not park either
		d.Action, d.Held, d.Why, d.Strikes = Hold, HeldPaused, "paused: "+s.Paused, l.Strikes
		return s, d
	}
	switch why := s.parks(p, now, l, d.Strikes); {
	case again:
		// A redriver died before or after it sent the message. Sending it again is the same send.
		d.Action, d.Why = Redrive, "its redrive began and did not finish"
		return s, d
	case why != "":
		s.Parked++
		s.endHead(l.Group, l.Lineage)
		d.Action, d.Why = Park, why
		return s, d
	}
	if d.Held, d.Why, d.Until = s.holds(p, now, l, chance); d.Held != "" {
		d.Action, d.Strikes = Hold, l.Strikes // the next step counts them again
		d.Behind = d.Why == behindHead
		return s, d
	}
	d.Action = Redrive
	d.Why = fmt.Sprintf("redrive %d", l.Sends+1)
	f := Flight{
		Letter: l.ID, Lineage: l.Lineage, Key: l.Key, Group: l.Group, Kind: FingerprintOf(l.Reason),
		Sent:   now,
		Canary: s.Breaker.State == breaker.HalfOpen, Struck: d.Strikes > 0,
	}
	if f.Canary {
		d.Why = "a canary"
	}
	if l.Group == "" {
		d.Delay = p.delay(l.Sends+1, chance)
	}
	f.Due = now.Add(d.Delay)
	s.Redriven++
	s.Breaker = s.Breaker.Attempt(now)
	s.Flights = append(s.Flights, f)
	if k := s.known(f.Kind); k != nil {
		k.Breaker = k.Breaker.Attempt(now)
	}
	return s, d
}

// down reports whether messages that fail for this reason seem to need something that is down. Then
// a failure does not count against the message, unless the outage outlasts Policy.HoldMax.
func (s *State) down(reason string) bool {
	k := s.known(FingerprintOf(reason))
	return k != nil && k.Breaker.State != breaker.Closed
}

// parks returns why to park a dead letter, or nothing.
func (s *State) parks(p *Policy, now time.Time, l Letter, strikes int) string {
	k := s.known(FingerprintOf(l.Reason))
	switch {
	case l.Poison:
		return "poison, its worker says: " + l.Reason
	case strikes >= p.Redrives:
		return fmt.Sprintf("failed %s while others succeeded: %s", times(strikes), l.Reason)
	case strikes >= p.Strikes &&
		// In HALF_OPEN, a few are sent again and again, and the others are not tried.
		s.Breaker.State != breaker.HalfOpen &&
		// otherwise others like it have succeeded since
		(k == nil || len(k.Lineages) < broad && l.Died.After(k.Since)):
		return fmt.Sprintf("poison: failed %s while others succeeded, and nearly nothing else fails like this: %s", times(strikes), l.Reason)
	case l.Sends > 0 && k != nil && len(k.Lineages) >= broad && now.Sub(k.Since) > p.HoldMax &&
		s.Breaker.State == breaker.Closed && s.wellAt(l.Died):
		return fmt.Sprintf("poison: nothing that fails like this has succeeded for %v: %s",
			p.HoldMax, l.Reason)
	}
	return ""
}

// holds returns why to hold a dead letter, and until when, or nothing.
func (s *State) holds(
	p *Policy, now time.Time, l Letter, chance float64,
) (held HoldCause, why string, until time.Time) {
	k := s.known(FingerprintOf(l.Reason))
	switch {
	case s.Breaker.State == breaker.Open:
		until = s.Breaker.Until(p.breaker())
		return HeldBreaker, "the breaker is open until " + until.Format(time.RFC3339), until
	case l.Sends > 0 && !s.wellAt(l.Died) && now.Before(l.Died.Add(p.near())):
		return HeldUnsure, "it is not yet known whether others succeed", until
	case l.Strikes > 0 && s.Breaker.State == breaker.HalfOpen && now.Before(l.Died.Add(p.near())):
		// One goes at a time, and the repeated failures of one say nothing about the others.
		until = l.Died.Add(p.near())
		return HeldUnsure, "others are tried first, until " + until.Format(time.RFC3339), until
	case s.Room(p, now) == 0:
		if len(s.Flights) == 1 {
			return HeldRate, "1 message is on its way", until
		}
		return HeldRate, fmt.Sprintf("%d messages are on their way", len(s.Flights)), until
	case l.Group != "" && slices.ContainsFunc(s.Flights, func(f Flight) bool {
		return f.Group == l.Group
	}):
		return HeldGroup, "a message of its group is on its way", until
	}
	if h := s.head(l.Group); h != nil && h.Lineage != l.Lineage && now.Sub(h.Since) <= p.HoldMax {
		return HeldGroup, behindHead, until
	}
	// This also applies while the breaker is half open: a canary of this kind would say nothing
	// new.
	if k != nil {
		switch k.Breaker.State {
		case breaker.Open:
			until = k.Breaker.Until(p.kind())
			return HeldKind, "what it needs seems to be down until " + until.Format(time.RFC3339),
				until
		case breaker.HalfOpen:
			if slices.ContainsFunc(s.Flights, func(f Flight) bool {
				return f.Kind == k.Fingerprint
			}) {
				return HeldKind, "another message tests whether what it needs is up", until
			}
		}
	}
	if l.Group != "" { // SQS cannot delay a single message of a FIFO queue, so it waits here
		if until = l.Died.Add(p.delay(l.Sends+1, chance)); now.Before(until) {
			return HeldDelay, "its delay has not passed", until
		}
	}
	return "", "", time.Time{}
}

// times formats a number of times.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// reasonKept is how much of a reason the state keeps, in bytes: enough to recognize it.
const reasonKept = 200

const behindHead = "an earlier message of its group failed and goes first"
