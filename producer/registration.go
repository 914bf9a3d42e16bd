package producer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tenaq/claims"
	"tenaq/internal/work/parallel"
	"tenaq/records"
)

// A Registration is what the ledger knows about a key to send.
type Registration struct {
	Key        string
	Generation int

	// State says how far the send is:
	//
	//   - Completed: the message was sent.
	//   - Held: a sender is sending it, or died while doing so.
	//   - Failed: it was not sent, or it is unknown whether it was; Reason says which.
	//   - Released: it is still to be sent.
	//   - Unreadable: another program wrote the record.
	State    claims.State
	Reason   string
	Owner    string // the last sender
	Attempts int    // how often a sender began to send it

	// Registered is the time of the registration by the clock of the producer, or zero if unknown.
	Registered time.Time

	// Age is the time since the last write of the registration, which is the send of a Completed
	// one. In a store without a clock, it depends on the clocks of the producers;
	// records.AgeUnknown if they do not say.
	Age time.Duration

	// Message is the registered message, or nil if it was too large to keep. Then Resend cannot
	// send it.
	Message *Message

	// MessageID and SequenceNumber are those of the sent message if State is Completed.
	MessageID, SequenceNumber string

	entry claims.Entry
}

// Lookup returns the registration of a key, or claims.ErrNoEntry if there is none.
func (p *Producer) Lookup(ctx context.Context, key string, generation int) (Registration, error) {
	e, err := p.ledger.Entry(ctx, claims.EffectKey(key, generation))
	if err != nil {
		return Registration{}, fmt.Errorf("look up the registration: %w", err)
	}
	return RegistrationOf(e), nil
}

// Stuck returns the registrations that need attention, in order of key. All were written longer
// than olderThan ago. There are two kinds:
//
//   - registrations that were never completed and whose lease has expired: the message may not have
//     been sent;
//   - with Config.Work, completed registrations whose key is not in the ledger of the work: the
//     message was sent, but no worker ever began its work.
//
// The second kind includes messages that still wait in the queue, so make olderThan longer than
// messages usually wait. Pass each registration to Resend, or show it to a person first. Stuck
// reads all registrations of the queue, and with Config.Work an entry for each one that is old
// enough.
func (p *Producer) Stuck(ctx context.Context, olderThan time.Duration) ([]Registration, error) {
	var found []Registration
	for after := ""; ; {
		entries, err := p.ledger.List(ctx, "", after, records.ListMax)
		if err != nil {
			return nil, fmt.Errorf("list registrations: %w", err)
		}
		stuck := make([]*Registration, len(entries))
		errs := make([]error, len(entries))
		parallel.Each(p.cfg.Parallel, len(entries), func(i int) {
			r := RegistrationOf(entries[i])
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

// stuck reports whether Stuck returns a registration.
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
		return false, nil // the work may be done and its entry just expired
	}
	_, err := p.cfg.Work.Entry(ctx, r.entry.Key)
	if errors.Is(err, claims.ErrNoEntry) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("check whether the work was begun: %w", err)
	}
	return false, nil
}

// RegistrationOf returns the registration in an entry of a ledger of registrations, for programs
// that read the ledger themselves.
func RegistrationOf(e claims.Entry) Registration {
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

// splitEffectKey undoes claims.EffectKey. It is unambiguous, because no key ends like a generation.
func splitEffectKey(effect string) (key string, generation int) {
	if i := strings.LastIndexByte(effect, '#'); i > 0 && endsLikeGeneration(effect) {
		if n, err := strconv.Atoi(effect[i+1:]); err == nil {
			return effect[:i], n
		}
	}
	return effect, 0
}
