package timeline

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"tenaq/claims"
	"tenaq/producer"
	"tenaq/records"
)

// A Claim is what a ledger knows about a key, without the memo.
type Claim struct {
	Ledger      string       `json:"ledger"`
	Key         string       `json:"key"`
	Generation  int          `json:"generation"`
	State       claims.State `json:"state" enum:"held,completed,failed,exhausted,released,parked,unreadable"`
	LeaseOver   bool         `json:"leaseOver,omitempty" doc:"of a held claim: its holder has not renewed it"`
	Owner       string       `json:"owner"`
	Fence       uint64       `json:"fence,omitempty"`
	Attempts    int          `json:"attempts"`
	AgeMS       *int64       `json:"ageMs" doc:"since the last write; null if the store has no clock"`
	LeaseMS     int64        `json:"leaseMs,omitempty"`
	RemainingMS int64        `json:"remainingMs,omitempty" doc:"of the lease"`
	Message     string       `json:"messageId,omitempty"`
	Reason      string       `json:"reason,omitempty"`
	Result      *string      `json:"result,omitempty" doc:"if it is text of at most 1 KiB"`
	ResultBytes int          `json:"resultBytes,omitempty" doc:"the size of the result"`
}

// A Registration is what a producer wrote about the send of a key.
type Registration struct {
	Queue      string       `json:"queue"`
	Key        string       `json:"key"`
	Generation int          `json:"generation"`
	State      claims.State `json:"state" enum:"held,completed,failed,exhausted,released,parked,unreadable" doc:"completed: the message was sent"`
	LeaseOver  bool         `json:"leaseOver,omitempty" doc:"of a held one: the producer died before it recorded the send"`
	Registered *time.Time   `json:"registered,omitempty" doc:"by the clock of the producer"`
	Owner      string       `json:"owner"`
	Attempts   int          `json:"attempts"`
	AgeMS      *int64       `json:"ageMs" doc:"since the last write; null if the store has no clock"`
	Message    string       `json:"messageId,omitempty"`
	Reason     string       `json:"reason,omitempty"`
}

// Limits of what is read about one key.
const (
	// GenerationsMax is how many generations of a key are looked for.
	GenerationsMax = 16

	// QueuesMax is in the registrations of how many queues.
	QueuesMax = 100

	resultShown = 1 << 10
)

// Records are a store of records that is looked into for claims and registrations.
type Records struct {
	Store  records.Store
	Ledger string // prefix of the claims

	Claims        []Claim
	Registrations []Registration
	Events        []Event

	looked map[string]looked // for each key
}

// A looked is how many generations of a key were looked for, and whether the last one is a gap.
type looked struct {
	generations int
	gap         bool
}

// Queues returns the queues that have registrations, up to QueuesMax of them. It takes one read for
// each, however many registrations there are.
func (r *Records) Queues(ctx context.Context) (queues []string, more bool, err error) {
	for after := ""; ; {
		found, err := r.Store.List(ctx, producer.Prefix, after, 1)
		if err != nil || len(found) == 0 {
			return queues, false, err
		}
		name, _, ok := strings.Cut(strings.TrimPrefix(found[0].Key, producer.Prefix), "/")
		if after = found[0].Key; !ok {
			continue
		}
		if len(queues) == QueuesMax {
			return queues, true, nil
		}
		queues = append(queues, name)
		after = producer.Prefix + name + "0" // which comes after the slash
	}
}

// Base splits a key into the name of the work and its generation, as claims.EffectKey joins them.
func Base(key string) (name string, generation int) {
	r := producer.RegistrationOf(claims.Entry{Key: key})
	return r.Key, r.Generation
}

// Read looks for the claims on a key and its registrations for some queues, in all generations up
// to least, and in those after it that follow without a gap. It reports whether there may be more.
// When a key is read again with a higher least, only the generations behind those that were read
// are looked for, because each is a request for every queue.
func (r *Records) Read(
	ctx context.Context, key string, least int, queues []string,
) (more bool, err error) {
	if r.looked == nil {
		r.looked = make(map[string]looked)
	}
	before := r.looked[key]
	if before.gap && before.generations > least {
		return false, nil
	}
	for generation := before.generations; generation < GenerationsMax; generation++ {
		found, err := r.read(ctx, key, generation, queues)
		if err != nil {
			return false, err
		}
		if r.looked[key] = (looked{generation + 1, !found}); !found && generation >= least {
			return false, nil
		}
	}
	return true, nil
}

func (r *Records) read(
	ctx context.Context, key string, generation int, queues []string,
) (found bool, err error) {
	name := claims.EffectKey(key, generation)
	for _, queue := range queues {
		e, ok, err := r.entry(ctx, producer.Prefix+queue+"/", name)
		if err != nil {
			return false, err
		}
		if found = found || ok; ok {
			r.addRegistration(queue, &e)
		}
	}
	e, ok, err := r.entry(ctx, r.Ledger, name)
	if err != nil {
		return false, err
	}
	if ok {
		r.addClaim(key, generation, &e)
	}
	return found || ok, nil
}

// entry reads an entry of a ledger. What is no entry is one in the state Unreadable.
func (r *Records) entry(
	ctx context.Context, ledger, key string,
) (e claims.Entry, ok bool, err error) {
	if records.CheckKey(ledger+key) != nil {
		return e, false, nil // no record has such a key
	}
	l, err := claims.New(claims.Config{Store: r.Store, Prefix: ledger})
	if err != nil {
		return e, false, err
	}
	switch e, err = l.Entry(ctx, key); {
	case errors.Is(err, claims.ErrNoEntry):
		return e, false, nil
	case errors.Is(err, claims.ErrUnreadable):
		return claims.Entry{Key: key, State: claims.Unreadable, Reason: err.Error(),
			Age: records.AgeUnknown}, true, nil
	}
	return e, err == nil, err
}

func (r *Records) addClaim(key string, generation int, e *claims.Entry) {
	left, known := e.Remaining()
	c := Claim{
		Ledger: r.Ledger, Key: key, Generation: generation, State: e.State, Owner: e.Owner,
		LeaseOver: e.State == claims.Held && known && left == 0, Fence: e.Fence,
		Attempts: e.Attempts, AgeMS: ageOf(e), LeaseMS: e.Lease.Milliseconds(), Message: e.Message,
		Reason: e.Reason, ResultBytes: len(e.Result),
	}
	if known {
		c.RemainingMS = left.Milliseconds()
	}
	if n := len(e.Result); n > 0 && n <= resultShown && utf8.Valid(e.Result) {
		text := string(e.Result)
		c.Result = &text
	}
	r.Claims = append(r.Claims, c)
	if e.State == claims.Unreadable {
		return
	}
	event := Event{Key: key, Ledger: r.Ledger, Generation: uint64(generation), Fence: e.Fence,
		Owner: e.Owner, Message: e.Message, Attempts: e.Attempts}
	// A decision of a person takes a fence of its own, without a claim.
	if e.State == claims.Held || e.Fence != uint64(e.Version) {
		begun := event
		begun.What, begun.At, begun.Clock = "claimed", fromVersion(e.Fence), "version"
		r.Events = append(r.Events, begun)
	}
	if e.State == claims.Held && !c.LeaseOver {
		return
	}
	event.What, event.Text = endOfClaim[e.State], e.Reason
	event.At, event.Clock = fromVersion(uint64(e.Version)), "version"
	if c.LeaseOver && event.At != nil {
		over := event.At.Add(e.Lease)
		event.At = &over
	}
	r.Events = append(r.Events, event)
}

// endOfClaim says what happened to a claim that is in a state.
var endOfClaim = map[claims.State]string{claims.Held: Abandoned, claims.Completed: "completed",
	claims.Failed: "failed", claims.Exhausted: "exhausted", claims.Released: "released",
	claims.Parked: "awaiting_decision"}

func (r *Records) addRegistration(queue string, e *claims.Entry) {
	p := producer.RegistrationOf(*e)
	left, known := e.Remaining()
	view := Registration{
		Queue: queue, Key: p.Key, Generation: p.Generation, State: p.State, Owner: p.Owner,
		LeaseOver: e.State == claims.Held && known && left == 0, Attempts: p.Attempts,
		AgeMS: ageOf(e), Message: p.MessageID, Reason: p.Reason,
	}
	event := Event{Key: p.Key, Queue: queue, Generation: uint64(p.Generation), Owner: p.Owner}
	if !p.Registered.IsZero() {
		registered := p.Registered.UTC()
		view.Registered = &registered
		event.What, event.At, event.Clock = "registered", &registered, "client"
		r.Events = append(r.Events, event)
	}
	r.Registrations = append(r.Registrations, view)
	event.At, event.Clock = fromVersion(uint64(e.Version)), "version"
	switch {
	case p.State == claims.Completed && p.MessageID != "":
		event.What, event.Message = Sent, p.MessageID
		r.Events = append(r.Events, event)
	case p.State == claims.Failed:
		event.What, event.Text = "send_failed", p.Reason
		r.Events = append(r.Events, event)
	}
}

// fromVersion is about when the record with a version was written. A version is close to the time
// of its store, and unlike an age it is the same however often it is read. [REC-2]
func fromVersion(v uint64) *time.Time {
	if v == 0 {
		return nil
	}
	t := time.UnixMicro(int64(v)).UTC().Truncate(time.Millisecond)
	return &t
}

func ageOf(e *claims.Entry) *int64 {
	if e.Age == records.AgeUnknown {
		return nil
	}
	ms := e.Age.Milliseconds()
	return &ms
}
