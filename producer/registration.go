package producer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tenaq/claims"
	"tenaq/records"
)

// A Registration is what the ledger knows about a key that was to be sent.
type Registration struct {
	Key        string
	Generation int

	// State is Completed when the message was sent. Held means that somebody is sending it or died
	// doing so; Failed that nobody knows whether it was sent, or that it was not, and Reason says
	// which; Released that it is to be sent. Unreadable is what another program wrote there.
	State    claims.State
	Reason   string
	Owner    string // who sent it, or tried to, last
	Attempts int    // how often somebody began to send it

	// Registered is when, by the clock of the producer; zero when unknown.
	Registered time.Time

	// Age is how long ago the registration was written last, which is when a Completed one was
	// sent. In a store without a clock it is as good as the clocks of the producers;
	// records.AgeUnknown when nobody knows.
	Age time.Duration

	// Message is what was registered; nil when it was too large to be kept. Then Resend cannot send
	// it.
	Message *Message

	// MessageID and SequenceNumber are those of the message that was sent, when it is Completed.
	MessageID, SequenceNumber string

	entry claims.Entry
}

// Lookup returns the registration of a key, or an error that is claims.ErrNoEntry when there is
// none.
func (p *Producer) Lookup(ctx context.Context, key string, generation int) (Registration, error) {
	e, err := p.ledger.Entry(ctx, claims.EffectKey(key, generation))
	if err != nil {
		return Registration{}, fmt.Errorf("look up the registration: %w", err)
	}
	return registrationOf(e), nil
}

// Stuck returns the registrations that want looking at, in order of key:
//
//   - those that were never completed and were written last that long ago, a sender that still has
//     its lease aside: their message was perhaps not sent;
//   - with Config.Work, those that were completed that long ago and whose key is not in the ledger
//     of the work: their message was sent, and nobody ever began to work on it.
//
// The second kind includes what still waits in the queue, so olderThan should be longer than
// messages usually wait. Pass each to Resend, or show them to a person first. It reads all
// registrations of the queue, and with Config.Work an entry for every one that is older.
func (p *Producer) Stuck(ctx context.Context, olderThan time.Duration) ([]Registration, error) {
	var found []Registration
	for after := ""; ; {
		entries, err := p.ledger.List(ctx, "", after, records.ListMax)
		if err != nil {
			return nil, fmt.Errorf("list registrations: %w", err)
		}
		stuck := make([]*Registration, len(entries))
		errs := make([]error, len(entries))
		each(p.cfg.Parallel, len(entries), func(i int) {
			r := registrationOf(entries[i])
			var is bool
			if is, errs[i] = p.stuck(ctx, &r, olderThan); is {
				stuck[i] = &r
			}
		})
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		for _, r := range stuck {
			if r != nil {
				found = append(found, *r)
			}
		}
		if len(entries) < records.ListMax {
			return found, nil
		}
		after = entries[len(entries)-1].Key
	}
}

// stuck reports whether a registration belongs to what Stuck returns.
func (p *Producer) stuck(
	ctx context.Context, r *Registration, olderThan time.Duration,
) (bool, error) {
	switch {
	case r.Age != records.AgeUnknown && r.Age < olderThan:
		return false, nil
	case r.State != claims.Completed:
		left, known := r.entry.Remaining()
		return !known || left == 0, nil
	case p.cfg.Work == nil || r.Age == records.AgeUnknown:
		return false, nil
	case r.Age > p.cfg.Work.Retention()-2*p.cfg.Lease:
		return false, nil // the work may have been done and its entry just expired
	}
	_, err := p.cfg.Work.Entry(ctx, r.entry.Key)
	if errors.Is(err, claims.ErrNoEntry) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("find out whether the work was begun: %w", err)
	}
	return false, nil
}

// registrationOf reads an entry.
func registrationOf(e claims.Entry) Registration {
	r := Registration{State: e.State, Reason: e.Reason, Owner: e.Owner, Attempts: e.Attempts,
		Age: e.Age, entry: e}
	r.Key, r.Generation = splitEffectKey(e.Key)
	at := int64(0)
	if first, err := decodeRegistered(e.Memo); err == nil {
		at = first.At
		r.Registered = time.UnixMilli(at)
		if first.Message != nil {
			m := first.message()
			r.Message = &m
		}
	}
	if s, ok := decodeSent(e.Result); ok && e.State == claims.Completed {
		r.MessageID, r.SequenceNumber, at = s.MessageID, s.SequenceNumber, s.At
	}
	if r.Age == records.AgeUnknown && at != 0 {
		r.Age = since(at)
	}
	return r
}

// splitEffectKey undoes claims.EffectKey. No key ends like a generation, so there is one way to.
func splitEffectKey(effect string) (key string, generation int) {
	if i := strings.LastIndexByte(effect, '#'); i > 0 && endsLikeGeneration(effect) {
		if n, err := strconv.Atoi(effect[i+1:]); err == nil {
			return effect[:i], n
		}
	}
	return effect, 0
}
