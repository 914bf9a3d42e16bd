package redrive

import (
	"slices"
	"time"

	"tenaq/redrive/breaker"
)

// A State is what a redriver remembers between two steps about one dead-letter queue. It is a
// value: its methods return a new state, so a step can be tried before its result is stored.
type State struct {
	Version int             `json:"v"`
	Breaker breaker.Breaker `json:"breaker"`

	// Rate is how many messages may be on their way now. Steep means that nothing has failed yet,
	// so the rate doubles.
	Rate  int  `json:"rate"`
	Steep bool `json:"steep,omitempty"`

	// Slowed is the failure that lowered the rate last; nil if the message is known to be the
	// cause.
	Slowed *Slowdown `json:"slowed,omitempty"`

	// Flights are the messages on their way: redriven and not judged.
	Flights []Flight `json:"flights,omitempty"`

	// Heads are messages of FIFO queues that failed again. The rest of their groups waits for them.
	Heads []Head `json:"heads,omitempty"`

	// Kinds are the kinds of failures seen since a message of theirs succeeded.
	Kinds []Kind `json:"kinds,omitempty"`

	// Well are spans of time with successes, the newest last.
	Well []Span `json:"well,omitempty"`

	// WeakSuccesses counts successes of which two count as one.
	WeakSuccesses int `json:"weak_successes,omitempty"`

	// Target is the queue of the message that was redriven last. Live counts what each of its
	// workers had done by the last step.
	Target string            `json:"target,omitempty"`
	Live   map[string]Health `json:"live,omitempty"`

	// Totals, for people.
	Successes int `json:"successes"`
	Failures  int `json:"failures"`
	Redriven  int `json:"redriven"`
	Parked    int `json:"parked"`

	// Paused says who paused the redriver, and why; empty while it runs.
	Paused string `json:"paused,omitempty"`
}

// A Flight is a redriven message that is not judged yet.
type Flight struct {
	Letter  string      `json:"letter"`  // message id of the dead letter that it was
	Lineage string      `json:"lineage"` // of the work
	Key     string      `json:"key,omitempty"`
	Group   string      `json:"group,omitempty"` // on FIFO queues
	Kind    Fingerprint `json:"kind"`            // why it was a dead letter
	Sent    time.Time   `json:"sent"`
	Due     time.Time   `json:"due"` // when its delay is over
	// when silence begins to count; zero for never, because there is a ledger
	Judge time.Time `json:"judge,omitzero"`
	// until when it could still come back; unknown unless it is after Judge
	End time.Time `json:"end,omitzero"`
	// when its silence counted as half a success
	Weak   time.Time `json:"weak,omitzero"`
	Canary bool      `json:"canary,omitempty"`
	Struck bool      `json:"struck,omitempty"` // it failed before while others succeeded

	// Queue is the name of the queue that it was sent to, and Mark the mark of a tenaq server for
	// it.
	Queue string `json:"queue,omitempty"`
	Mark  string `json:"mark,omitempty"`

	// Fence is that of the entry of its work when it was sent. An entry with a larger fence is its
	// outcome.
	Fence uint64 `json:"fence,omitempty"`
}

// A Head is a message of a FIFO queue that was redriven and failed. It is a dead letter again,
// behind the later messages of its group.
type Head struct {
	Group   string    `json:"group"`
	Lineage string    `json:"lineage"`
	Since   time.Time `json:"since"`
}

// A Kind is what is known about one kind of failure since a message of that kind succeeded.
type Kind struct {
	Fingerprint Fingerprint `json:"fingerprint"`
	Reason      string      `json:"reason"` // of the last of them
	// of messages that failed in this way, at most broad
	Lineages []string        `json:"lineages,omitempty"`
	Since    time.Time       `json:"since"`
	Last     time.Time       `json:"last"`
	Breaker  breaker.Breaker `json:"breaker"` // for what only these messages need
	// a message failed in this way while others succeeded
	Poison bool `json:"poison,omitempty"`
}

// A Slowdown says which message's failure lowered the rate, and what the rate was before.
type Slowdown struct {
	Lineage string `json:"lineage"`
	Rate    int    `json:"rate"`
	Steep   bool   `json:"steep,omitempty"`
}

// A Span is a span of time.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Bounds of what a State remembers.
const (
	kindsMax = 50
	wellMax  = 50
	headsMax = 500
)

// first returns the state of a redriver that has never run.
func first(p *Policy) State {
	return State{Version: stateVersion, Breaker: breaker.Breaker{State: breaker.Closed},
		Rate: p.RateFirst, Steep: true}
}

const stateVersion = 1

// clone returns an independent copy.
func (s State) clone() State {
	s.Flights, s.Kinds, s.Well = slices.Clone(s.Flights), slices.Clone(s.Kinds),
		slices.Clone(s.Well)
	s.Heads = slices.Clone(s.Heads)
	return s
}

// head returns the message that the rest of a group waits for, or nil.
func (s *State) head(group string) *Head {
	if i := slices.IndexFunc(s.Heads, func(h Head) bool {
		return h.Group == group
	}); i >= 0 && group != "" {
		return &s.Heads[i]
	}
	return nil
}

// setHead makes the rest of a group wait for a message. If there are too many heads, it forgets the
// oldest one.
func (s *State) setHead(h Head) {
	s.endHead(h.Group, "")
	if len(s.Heads) >= headsMax {
		s.Heads = slices.Delete(s.Heads, 0, 1)
	}
	s.Heads = append(s.Heads, h)
}

// endHead lets a group continue. With a lineage, it does so only if the group waits for that
// message.
func (s *State) endHead(group, lineage string) {
	s.Heads = slices.DeleteFunc(s.Heads, func(h Head) bool {
		return h.Group == group && (lineage == "" || h.Lineage == lineage)
	})
}

// known returns what is known about a kind of failure, or nil.
func (s *State) known(f Fingerprint) *Kind {
	if i := slices.IndexFunc(s.Kinds, func(k Kind) bool { return k.Fingerprint == f }); i >= 0 {
		return &s.Kinds[i]
	}
	return nil
}

// kind returns what is known about a kind of failure that was seen now. If there are too many, it
// forgets the one that was seen longest ago.
func (s *State) kind(f Fingerprint, now time.Time) *Kind {
	if k := s.known(f); k != nil {
		return k
	}
	if len(s.Kinds) >= kindsMax {
		oldest := slices.MinFunc(s.Kinds, func(a, b Kind) int { return a.Last.Compare(b.Last) })
		s.Kinds = slices.DeleteFunc(s.Kinds, func(k Kind) bool {
			return k.Fingerprint == oldest.Fingerprint
		})
	}
	s.Kinds = append(s.Kinds,
		Kind{Fingerprint: f, Since: now, Breaker: breaker.Breaker{State: breaker.Closed}})
	return &s.Kinds[len(s.Kinds)-1]
}

// well notes a success.
func (s *State) well(p *Policy, now time.Time) {
	if n := len(s.Well); n > 0 && now.Sub(s.Well[n-1].To) <= p.near() {
		s.Well[n-1].To = now
		return
	}
	s.Well = append(s.Well, Span{now, now})
	s.Well = s.Well[max(0, len(s.Well)-wellMax):]
}

// wellAt reports whether there were successes shortly before and shortly after a time.
func (s *State) wellAt(t time.Time) bool {
	return slices.ContainsFunc(s.Well, func(w Span) bool {
		return t.After(w.From) && t.Before(w.To)
	})
}

// lastSuccess returns the time of the last success, or zero.
func (s *State) lastSuccess() time.Time {
	if len(s.Well) == 0 {
		return time.Time{}
	}
	return s.Well[len(s.Well)-1].To
}
