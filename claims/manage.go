package claims

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"tenaq/internal/work/clip"
	"tenaq/records"
)

// This file is for people and their tools: it reads the ledger, and records decisions of people.

// ErrNoEntry is the error for a key without an entry. The key or Config.Prefix may be wrong.
var ErrNoEntry = errors.New("the ledger has no entry for this key")

// ErrChanged is the error of a decision about an entry that has changed in the meantime.
var ErrChanged = errors.New("has changed in the meantime: look at it again before you decide")

// ErrFinal is the error of an Undo of what cannot be taken back: there is no decision, or it ended
// a claim whose holder may have learned that.
var ErrFinal = errors.New("has no decision that can be taken back")

// Entry returns the entry of key, or ErrNoEntry.
func (l *Ledger) Entry(ctx context.Context, key string) (Entry, error) {
	e, _, err := l.read(ctx, key)
	return e, err
}

func (l *Ledger) read(ctx context.Context, key string) (Entry, stored, error) {
	r, err := l.cfg.Store.Get(ctx, l.cfg.Prefix+key)
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

// List returns up to limit entries whose keys begin with prefix and come after the key after, in
// order of key. It includes unreadable records, in the state Unreadable.
func (l *Ledger) List(ctx context.Context, prefix, after string, limit int) ([]Entry, error) {
	if after != "" {
		after = l.cfg.Prefix + after
	}
	found, err := l.cfg.Store.List(ctx, l.cfg.Prefix+prefix, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	return l.entries(found), nil
}

func (l *Ledger) entries(found []records.Record) []Entry {
	entries := make([]Entry, len(found))
	for i, r := range found {
		s, err := decode(r)
		if err != nil {
			s = stored{State: Unreadable, Reason: err.Error()}
		}
		entries[i] = l.entryOf(r, &s)
	}
	return entries
}

// Reopen makes a key claimable at once, in any state: parked, after a person found out that the
// work can be repeated; held by a holder that is known to be dead; completed by mistake. A holder
// that is still alive loses its claim. Attempts start again.
func (l *Ledger) Reopen(ctx context.Context, key, reason string) error {
	return l.ReopenSeen(ctx, Entry{Key: key}, reason)
}

// ReopenSeen is Reopen for a caller that has looked at the entry first. If the entry has changed
// since, for example because a worker has claimed the key, it returns ErrChanged.
func (l *Ledger) ReopenSeen(ctx context.Context, seen Entry, reason string) error {
	return l.override(ctx, seen, func(s *stored) {
		s.State, s.Reason, s.Attempts, s.Result = Released, clip.To(reason, reasonMax), 0, nil
	})
}

// Settle records a person's decision that the work of a key is done. A holder that is still alive
// loses its claim.
func (l *Ledger) Settle(ctx context.Context, key string, result []byte, reason string) error {
	return l.SettleSeen(ctx, Entry{Key: key}, result, reason)
}

// SettleSeen is to Settle what ReopenSeen is to Reopen.
func (l *Ledger) SettleSeen(ctx context.Context, seen Entry, result []byte, reason string) error {
	if err := checkResult(result); err != nil {
		return fmt.Errorf("settle %q: %w", seen.Key, err)
	}
	return l.override(ctx, seen, func(s *stored) {
		s.State, s.Reason, s.Result = Completed, clip.To(reason, reasonMax), result
	})
}

// GiveUp is Claim.Exhaust without a claim, for a message that its queue has moved to the
// dead-letter queue by itself, so that no holder will end its claim. Another message may claim the
// key, and its attempts start at one.
//
// GiveUp changes the entry only if message claimed the key last and the entry is Stranded. If a
// holder was lost, it is still unknown how far that came, and the next claim calls Config.Lost. If
// the entry changes meanwhile, for example because the message was brought back, GiveUp writes
// nothing. It reports whether it changed the entry.
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
	s.Before = nil
	switch conflict, err := l.replace(ctx, key, e.Version, s); {
	case conflict:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("give up the claim on %q: %w", key, err)
	}
	return true, nil
}

// override records a decision about the entry that the caller has seen, or about any entry of its
// key if it has no version.
func (l *Ledger) override(ctx context.Context, seen Entry, change func(*stored)) error {
	e, s, err := l.read(ctx, seen.Key)
	if err != nil {
		return err
	}
	conflict := seen.Version != 0 && seen.Version != e.Version
	if !conflict {
		was := before{s.State, s.Owner, s.Attempts, s.Result, s.Reason, s.Unknown}
		change(&s)
		s.LeaseMS, s.Unknown, s.Before = 0, false, nil
		if left, known := e.Remaining(); known && left == 0 {
			s.Before = &was
			if len(s.encode()) > records.ValueMax-undoRoom {
				s.Before = nil // two large results
			}
		}
		conflict, err = l.replace(ctx, seen.Key, e.Version, s)
	}
	switch {
	case conflict:
		return fmt.Errorf("the claim on %q %w", seen.Key, ErrChanged)
	case err != nil:
		return fmt.Errorf("change the claim on %q: %w", seen.Key, err)
	}
	return nil
}

// undoRoom is what an entry takes in a record beside its encoding without owner and nonce.
const undoRoom = 8 << 10

// Undo takes back a decision of a person: the entry is again what Reopen or Settle has replaced. It
// does so only while the entry is that decision, whose fence is Entry.Fence. If a worker has
// claimed the key since, or another decision was taken, it returns ErrChanged. A worker that has
// seen the work settled has deleted its message, which does not come back.
//
// A decision about a claim whose lease may still have run is final, because its holder has lost
// the claim: then Undo returns ErrFinal. A holder whose lease had expired does not get its claim
// back either; its entry is again that of a holder that was lost.
func (l *Ledger) Undo(ctx context.Context, key string, decision uint64) error {
	e, s, err := l.read(ctx, key)
	switch {
	case err != nil:
		return err
	case s.Fence != decision:
		return fmt.Errorf("the claim on %q %w", key, ErrChanged)
	case s.Before == nil:
		return fmt.Errorf("the claim on %q %w", key, ErrFinal)
	}
	was := s.Before
	s.State, s.Attempts, s.Result, s.Reason, s.Unknown = was.State, was.Attempts, was.Result,
		was.Reason, was.Unknown
	s.Before = nil
	conflict, err := l.replaceAs(ctx, was.Owner, key, e.Version, s)
	switch {
	case conflict:
		return fmt.Errorf("the claim on %q %w", key, ErrChanged)
	case err != nil:
		return fmt.Errorf("take back the decision about %q: %w", key, err)
	}
	return nil
}

// replace writes an entry over a version without having its claim. It takes a new fence, so that a
// holder does not believe that it wrote the entry itself.
func (l *Ledger) replace(
	ctx context.Context, key string, version records.Version, s stored,
) (conflict bool, err error) {
	return l.replaceAs(ctx, l.cfg.Owner, key, version, s)
}

func (l *Ledger) replaceAs(
	ctx context.Context, owner, key string, version records.Version, s stored,
) (conflict bool, err error) {
	s.Owner, s.Nonce, s.Fence = owner, rand.Text(), 0
	_, err = l.put(ctx, plainPut, l.writeOf(key, version, &s), s.Nonce)
	_, conflict = errors.AsType[*records.Conflict](err)
	return conflict, err
}
