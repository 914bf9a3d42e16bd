package redrive

import (
	"slices"
	"time"

	"tenaq/redrive/breaker"
)

// A State is all that a redriver remembers between two steps, of one dead-letter queue. It is a
// value: what changes it returns another one, so that a step can be tried and its end compared with
// the store.
type State struct {
	Version int             `json:"v"`
	Breaker breaker.Breaker `json:"breaker"`

	// Rate is how many messages may be on their way now. Steep says that nothing has failed yet, so
	// that it doubles.
	Rate  int  `json:"rate"`
	Steep bool `json:"steep,omitempty"`

	// Slowed is the failure that lowered the rate last; nil when it is known to be the message's
	// own.
	Slowed *Slowdown `json:"slowed,omitempty"`

	// Flights are the messages on their way: redriven, and not judged.
	Flights []Flight `json:"flights,omitempty"`

	// Heads are messages of FIFO queues that failed again. The rest of their groups waits for them.
	Heads []Head `json:"heads,omitempty"`

	// Kinds are the kinds of failures seen since a message of theirs succeeded.
	Kinds []Kind `json:"kinds,omitempty"`

	// Well are the times in which things succeeded, one after the other, the newest last.
	Well []Span `json:"well,omitempty"`

	// WeakSuccesses are successes of which two are as good as one.
	WeakSuccesses int `json:"weak_successes,omitempty"`

	// Target is the queue of the message that was redriven last. Live is what each of its workers
	// had done by the last step, since the worker started.
	Target string            `json:"target,omitempty"`
	Live   map[string]Health `json:"live,omitempty"`

	// Totals, for people.
	Successes int `json:"successes"`
	Failures  int `json:"failures"`
	Redriven  int `json:"redriven"`
	Parked    int `json:"parked"`

	// Paused is who paused the redriver, and why; empty while it runs.
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
	// when silence begins to mean something; zero is never, for there is a ledger
	Judge time.Time `json:"judge,omitzero"`
	// until when it could still come back; not after Judge means not known
	End time.Time `json:"end,omitzero"`
	// when its silence was taken for a success of weight one half
	Weak   time.Time `json:"weak,omitzero"`
	Canary bool      `json:"canary,omitempty"`
	Struck bool      `json:"struck,omitempty"` // it failed before while others succeeded

	// Queue is the name of the queue that it was sent to, and Mark what a tenaq server calls the
	// message there.
	Queue string `json:"queue,omitempty"`
	Mark  string `json:"mark,omitempty"`

	// Fence is that of its work's entry in the ledger when it was sent. What is written under a
	// larger one is what became of it.
	Fence uint64 `json:"fence,omitempty"`
}

// A Head is a message of a FIFO queue that was redriven and failed: it is a dead letter again, now
// behind the later messages of its group.
type Head struct {
	Group   string    `json:"group"`
	Lineage string    `json:"lineage"`
	Since   time.Time `json:"since"`
}

// A Kind is what is known of one kind of failure, since a message that had failed in this way
// succeeded.
type Kind struct {
	Fingerprint Fingerprint `json:"fingerprint"`
	Reason      string      `json:"reason"` // of the last of them
	// of messages that failed in this way, as many as matter
	Lineages []string        `json:"lineages,omitempty"`
	Since    time.Time       `json:"since"`
	Last     time.Time       `json:"last"`
	Breaker  breaker.Breaker `json:"breaker"` // of what only these messages need
	// a message failed in this way while others succeeded
	Poison bool `json:"poison,omitempty"`
}

// A Slowdown says which message's failure lowered the rate, and what the rate was before.
type Slowdown struct {
	Lineage string `json:"lineage"`
	Rate    int    `json:"rate"`
	Steep   bool   `json:"steep,omitempty"`
}

// A Span is a time.
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

// first is the state of a redriver that has never run.
func first(p *Policy) State {
	return State{Version: stateVersion, Breaker: breaker.Breaker{State: breaker.Closed},
		Rate: p.RateFirst, Steep: true}
}

const stateVersion = 1

// clone makes the state independent of the one it was copied from.
func (s State) clone() State {
	s.Flights, s.Kinds, s.Well = slices.Clone(s.Flights), slices.Clone(s.Kinds),
		slices.Clone(s.Well)
	s.Heads = slices.Clone(s.Heads)
	return s
}

// head returns the message that the rest of a group waits for; nil when there is none, as on
// standard queues.
func (s *State) head(group string) *Head {
	if i := slices.IndexFunc(s.Heads, func(h Head) bool {
		return h.Group == group
	}); i >= 0 && group != "" {
		return &s.Heads[i]
	}
	return nil
}

// setHead has the rest of a group wait for a message. It forgets the one that failed longest ago
// when there are too many.
func (s *State) setHead(h Head) {
	s.endHead(h.Group, "")
	if len(s.Heads) >= headsMax {
		s.Heads = slices.Delete(s.Heads, 0, 1)
	}
	s.Heads = append(s.Heads, h)
}

// endHead lets a group go on. With a lineage it does so only when that is what the group waits for.
func (s *State) endHead(group, lineage string) {
	s.Heads = slices.DeleteFunc(s.Heads, func(h Head) bool {
		return h.Group == group && (lineage == "" || h.Lineage == lineage)
	})
}

// known returns what is known of a kind of failure; nil when that is nothing.
func (s *State) known(f Fingerprint) *Kind {
	if i := slices.IndexFunc(s.Kinds, func(k Kind) bool { return k.Fingerprint == f }); i >= 0 {
		return &s.Kinds[i]
	}
	return nil
}

// kind returns what is known of a kind of failure that was seen now. It forgets the one that was
// seen longest ago when there are too many.
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

// well notes that something succeeded.
func (s *State) well(p *Policy, now time.Time) {
	if n := len(s.Well); n > 0 && now.Sub(s.Well[n-1].To) <= p.near() {
		s.Well[n-1].To = now
		return
	}
	s.Well = append(s.Well, Span{now, now})
	s.Well = s.Well[max(0, len(s.Well)-wellMax):]
}

// wellAt reports whether things succeeded shortly before and shortly after a time.
func (s *State) wellAt(t time.Time) bool {
	return slices.ContainsFunc(s.Well, func(w Span) bool {
		return t.After(w.From) && t.Before(w.To)
	})
}

// lastSuccess is when something succeeded last; zero if nothing has.
func (s *State) lastSuccess() time.Time {
	if len(s.Well) == 0 {
		return time.Time{}
	}
	return s.Well[len(s.Well)-1].To
}
