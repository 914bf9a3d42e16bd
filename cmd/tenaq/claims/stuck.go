package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/producer"
	"tenaq/records"
)

// A stuckWork is work that nobody seems to be at.
type stuckWork struct {
	Key      string   `json:"key"`
	State    string   `json:"state"`
	Age      *float64 `json:"ageSeconds"` // null when the store has no clock
	Owner    string   `json:"owner,omitempty"`
	Attempts int      `json:"attempts"`
	Message  string   `json:"messageId,omitempty"`
	Queue    string   `json:"queue,omitempty"` // that its message was, or was to be, sent to
	Action   string   `json:"action"`          // resend, settle or none
	Why      string   `json:"why"`

	// What came of the action: the id of the message that was sent, or why there is none.
	Sent    string `json:"sentMessageId,omitempty"`
	Settled bool   `json:"settled,omitempty"`
	Error   string `json:"error,omitempty"`

	age          time.Duration
	entry        *claims.Entry          // of the work, when it has one
	registration *producer.Registration // when its message is to be sent again
}

// States of work that has no entry in its ledger.
const (
	stateNotSent  = "not sent"
	stateNotBegun = "not begun"
)

// Actions of a sweep.
const (
	actionResend = "resend"
	actionSettle = "settle"
	actionNone   = "none"
)

// A finder finds stuck work.
type finder struct {
	work      *cli.Ledger
	producers map[string]*producer.Producer // by the names of their queues; they can look, and not send
	queues    []string                      // those names, in order
	some      bool                          // something is registered for other queues too

	letters map[string]string // messages that queues have moved by themselves: the names of the dead-letter queues, by message id

	stuck time.Duration // for how long nobody has to have been at it
	watch time.Duration // between two looks, where there is no clock; zero is for none

	parked, unreadable int // entries that are not for a sweep
}

// find returns what is stuck: work that was begun, then messages that nobody ever began to work on.
func (f *finder) find(ctx context.Context) ([]*stuckWork, error) {
	entries, err := f.begun(ctx)
	if err != nil {
		return nil, err
	}
	var found []*stuckWork
	for _, e := range entries {
		if w := f.movedWork(e); w != nil {
			found = append(found, w)
			continue
		}
		w, err := f.workOf(ctx, e)
		if err != nil {
			return nil, err
		}
		if w != nil {
			found = append(found, w)
		}
	}
	for _, queue := range f.queues {
		registrations, err := f.producers[queue].Stuck(ctx, f.stuck)
		if err != nil {
			return nil, fmt.Errorf("%w (in %s)", err, f.work.Store.Place)
		}
		for _, r := range registrations {
			w := newUnsent(queue, r)
			// Who died between sending and recording has sent it, and then there may be an entry.
			_, err := f.work.Entry(ctx, w.Key)
			if errors.Is(err, claims.ErrNoEntry) {
				found = append(found, w)
			} else if err != nil {
				return nil, Explain(f.work, err)
			}
		}
	}
	return found, nil
}

// begun returns the entries of work that was begun or given back, and that nobody has been at for long.
func (f *finder) begun(ctx context.Context) ([]claims.Entry, error) {
	found, err := f.look(ctx)
	before := make(map[string]records.Version)
	for _, e := range found {
		if e.Age == records.AgeUnknown {
			before[e.Key] = e.Version
		}
	}
	if err != nil || len(before) == 0 {
		return found, err
	}
	if cli.Pause(ctx, f.watch); ctx.Err() != nil {
		return nil, cli.Codedf(cli.ExitFailed, "interrupted")
	}
	if found, err = f.look(ctx); err != nil {
		return nil, err
	}
	unchanged := found[:0]
	for _, e := range found {
		if before[e.Key] == e.Version {
			unchanged = append(unchanged, e)
		}
	}
	return unchanged, nil
}

// look reads the ledger once. Of entries without an age it takes those that could be stuck.
func (f *finder) look(ctx context.Context) (found []claims.Entry, err error) {
	f.parked, f.unreadable = 0, 0
	clockless := false
	err = f.work.Each(ctx, "", func(e claims.Entry) (stop bool) {
		lease := time.Duration(0) // for which its holder may be at it without a word
		switch e.State {
		case claims.Held:
			lease = e.Lease
		case claims.Failed, claims.Released:
		case claims.Parked:
			f.parked++
			return false
		case claims.Unreadable:
			f.unreadable++
			return false
		default:
			return false
		}
		if e.Age == records.AgeUnknown {
			clockless = true
			if lease < f.watch {
				found = append(found, e)
			}
			return f.watch == 0
		}
		if e.Age-lease >= f.stuck {
			found = append(found, e)
		}
		return false
	})
	if err == nil && clockless && f.watch == 0 {
		err = cli.Usagef("%s has no clock, so one look cannot tell how long an entry has been there; "+
			"add --watch 15m to look twice, that far apart", f.work.Store.Place)
	}
	return found, err
}

// workOf says what can be done about an entry. It returns nil for one that is not stuck after all, because
// its message was sent again lately, and for one that belongs to none of the queues that were asked for.
func (f *finder) workOf(ctx context.Context, e claims.Entry) (*stuckWork, error) {
	w := &stuckWork{
		Key: e.Key, State: string(e.State), Age: cli.AgeDocument(e.Age), Owner: e.Owner, Attempts: e.Attempts, Message: e.Message,
		Action: actionNone, age: e.Age, entry: &e,
	}
	var registered []*producer.Registration
	for _, queue := range f.queues {
		r, err := f.producers[queue].Lookup(ctx, e.Key, 0) // a generation is in the key already
		if errors.Is(err, claims.ErrNoEntry) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w (in %s)", err, f.work.Store.Place)
		}
		w.Queue = queue
		if r.MessageID != "" && r.MessageID == e.Message {
			registered = []*producer.Registration{&r}
			break
		}
		registered = append(registered, &r)
	}
	switch {
	case len(registered) == 0 && f.some:
		return nil, nil
	case len(registered) == 0:
		w.Why = "its message is not known: send it again yourself"
	case len(registered) > 1:
		w.Queue, w.Why = "", "it is registered for several queues: name one with --queue"
	case registered[0].Age != records.AgeUnknown && registered[0].Age < f.stuck:
		return nil, nil
	default:
		w.plan(registered[0], f.idleText(&e))
	}
	return w, nil
}

// idleText says why an entry looks as if nobody were at it.
func (f *finder) idleText(e *claims.Entry) string {
	switch {
	case e.Age == records.AgeUnknown:
		return "it has not changed for " + cli.HumanDuration(f.watch)
	case e.State == claims.Held:
		return "its holder has been gone for " + cli.AgeText(e.Age-e.Lease)
	}
	return "nobody has taken it up for " + cli.AgeText(e.Age)
}

// newUnsent is the row of a registration whose work nobody has begun.
func newUnsent(queue string, r producer.Registration) *stuckWork {
	w := &stuckWork{
		Key: claims.EffectKey(r.Key, r.Generation), State: stateNotSent, Age: cli.AgeDocument(r.Age), Owner: r.Owner,
		Message: r.MessageID, Queue: queue, Action: actionNone, age: r.Age,
	}
	why := "it was registered, and perhaps never sent"
	switch r.State {
	case claims.Completed:
		w.State, why = stateNotBegun, "it was sent, and nobody ever began the work"
	case claims.Failed:
		why = r.Reason
	case claims.Unreadable:
		w.State, w.Why = string(claims.Unreadable), r.Reason
		return w
	}
	w.plan(&r, why)
	return w
}

// plan decides to send a message again if it is known.
func (w *stuckWork) plan(r *producer.Registration, why string) {
	if r.Message == nil {
		w.Why = why + "; its message was too large to be kept: have its producer send it again"
		return
	}
	w.Action, w.Why, w.registration = actionResend, why, r
}

// registeredQueues returns the names of the queues for which producers have registered anything.
func registeredQueues(ctx context.Context, store *cli.RecordStore) (names []string, err error) {
	for after := ""; ; {
		found, err := store.List(ctx, cli.RegistrationsPrefix, after, 1)
		switch {
		case err != nil:
			return nil, fmt.Errorf("find registrations: %w (in %s)", err, store.Place)
		case len(found) == 0:
			return names, nil
		}
		name, _, ok := strings.Cut(found[0].Key[len(cli.RegistrationsPrefix):], "/")
		if !ok {
			after = found[0].Key // of somebody else
			continue
		}
		names = append(names, name)
		after = cli.RegistrationsPrefix + name + "0" // the byte behind the slash: beyond all keys of this queue
	}
}
