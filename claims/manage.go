package claims

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"tenaq/internal/work/clip"
	"tenaq/records"
)

// For people and their tools: looking at the ledger, and deciding what it cannot decide.

// ErrNoEntry is what the ledger answers about a key that it knows nothing of.
var ErrNoEntry = errors.New("the ledger has no entry for this key")

// Entry returns what the ledger says about key, or ErrNoEntry.
func (l *Ledger) Entry(ctx context.Context, key string) (Entry, error) {
	e, _, err := l.read(ctx, key)
	return e, err
}

func (l *Ledger) read(ctx context.Context, key string) (Entry, stored, error) {
	r, err := l.store.Get(ctx, l.cfg.Prefix+key)
	if errors.Is(err, records.ErrNotFound) {
		return Entry{}, stored{}, fmt.Errorf("%q: %w", key, ErrNoEntry)
	}
	if err != nil {
		return Entry{}, stored{}, fmt.Errorf("read the claim on %q: %w", key, err)
	}
	s, err := decode(r)
	if err != nil {
		return Entry{}, s, err
	}
	return l.entryOf(r, &s), s, nil
}

// List returns up to limit entries whose keys begin with prefix and come behind after, in order of
// key. What is in the ledger and cannot be read is among them, as Unreadable, so that it hides
// nothing else.
func (l *Ledger) List(ctx context.Context, prefix, after string, limit int) ([]Entry, error) {
	if after != "" {
		after = l.cfg.Prefix + after
	}
	found, err := l.store.List(ctx, l.cfg.Prefix+prefix, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	entries := make([]Entry, len(found))
	for i, r := range found {
		s, err := decode(r)
		if err != nil {
			s = stored{State: Unreadable, Reason: err.Error()}
		}
		entries[i] = l.entryOf(r, &s)
	}
	return entries, nil
}

// Reopen makes a key claimable at once, whatever state it is in: parked after a person has found
// out that the work can be done again, held by a holder that is known to be dead, completed by
// mistake. A holder that is alive after all loses its claim. Attempts begin again.
func (l *Ledger) Reopen(ctx context.Context, key, reason string) error {
	return l.override(ctx, key, func(s *stored) {
		s.State, s.Reason, s.Attempts, s.Result = Released, clip.To(reason, reasonMax), 0, nil
	})
}

// Settle records that the work of a key is done, by the word of a person. A holder that is alive
// after all loses its claim.
func (l *Ledger) Settle(ctx context.Context, key string, result []byte, reason string) error {
	if err := checkResult(result); err != nil {
		return fmt.Errorf("settle %q: %w", key, err)
	}
	return l.override(ctx, key, func(s *stored) {
		s.State, s.Reason, s.Result = Completed, clip.To(reason, reasonMax), result
	})
}

// GiveUp records that the attempts of a key are used up by a message that no holder will bring to
// an end, because its queue has moved it to the dead-letter queue by itself. It is Claim.Exhaust
// without a claim: another message may claim the key, and the attempts begin at one.
//
// It changes the entry only if that message claimed the key last, and the claim was released, has
// failed, or has a lease that is over: then it is still unknown how far the lost holder came, and
// Config.Lost is asked by the next claim. It reports whether it changed the entry. The change is
// made to the entry that was read; if anything happens to the entry meanwhile, such as a claim by a
// message that was brought back, nothing is written.
func (l *Ledger) GiveUp(ctx context.Context, key, message, reason string) (bool, error) {
	e, s, err := l.read(ctx, key)
	switch {
	case errors.Is(err, ErrNoEntry):
		return false, nil
	case err != nil:
		return false, err
	case !e.Stranded() || message == "" || e.Message != message:
		return false, nil
	}
	s.Unknown = s.Unknown || s.State == Held
	s.State, s.Reason, s.Result, s.LeaseMS = Exhausted, clip.To(reason, reasonMax), nil, 0
	// It takes a fence of its own: a holder must not believe that it ended the claim itself.
	s.Owner, s.Nonce, s.Fence = l.cfg.Owner, rand.Text(), 0
	_, err = l.put(ctx, l.writeOf(key, e.Version, &s), s.Nonce)
	var conflict *records.Conflict
	if errors.As(err, &conflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("give up the claim on %q: %w", key, err)
	}
	return true, nil
}

// override changes the entry of a key without having its claim.
func (l *Ledger) override(ctx context.Context, key string, change func(*stored)) error {
	e, s, err := l.read(ctx, key)
	if err != nil {
		return err
	}
	change(&s)
	// It takes a fence of its own: a holder must not believe that it ended the claim itself.
	s.Owner, s.Nonce, s.Fence, s.LeaseMS, s.Unknown = l.cfg.Owner, rand.Text(), 0, 0, false
	_, err = l.put(ctx, l.writeOf(key, e.Version, &s), s.Nonce)
	var conflict *records.Conflict
	if errors.As(err, &conflict) {
		return fmt.Errorf("the claim on %q changed meanwhile: look at it again before you decide",
			key)
	}
	if err != nil {
		return fmt.Errorf("change the claim on %q: %w", key, err)
	}
	return nil
}
