package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tenaq/claims"
	"tenaq/internal/work/parallel"
)

// This file asks the ledger of the consumers what is missing, see ReplayConfig.MissingOnly.

// A fate is the state of the work of a message in the ledger.
type fate int

const (
	missing   fate = iota // no consumer has completed it
	completed             // in its generation or a later one
	later                 // a later generation of it has begun, or is in the source
	parked                // a person must decide about it
)

// seen notes that the source has a message in its generation.
func (r *Replayer) seen(m Message) {
	if m.Generation > 0 {
		name := (&Row{Message: m}).work()
		r.latest[name] = max(r.latest[name], m.Generation)
	}
}

// known returns the fates of messages. It asks the ledger about several at once.
func (r *Replayer) known(ctx context.Context, messages []Message) ([]fate, error) {
	laterOnes, err := r.generations(ctx)
	if err != nil {
		return nil, err
	}
	fates, errs := make([]fate, len(messages)), make([]error, len(messages))
	parallel.Each(looksAtOnce, len(messages), func(i int) {
		row := &Row{Message: messages[i]}
		fates[i], errs[i] = r.fate(ctx, row, laterOnes)
		if fates[i] == missing && r.latest[row.work()] > row.Generation {
			fates[i] = later
		}
	})
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("ask the ledger what is completed: %w", err)
		}
	}
	return fates, nil
}

// count counts a row that is left out because of its fate.
func (t *Tally) count(f fate) {
	switch f {
	case completed:
		t.Completed++
	case later:
		t.Later++
	case parked:
		t.Parked++
	}
}

// generations returns the generations that earlier replays gave to their messages, the latest
// first.
func (r *Replayer) generations(ctx context.Context) ([]int, error) {
	if r.later != nil {
		return r.later, nil
	}
	all, err := patiently(ctx, r, func() ([]Replay, error) {
		return r.cfg.Box.Replays(ctx, replaysMax)
	})
	if err != nil {
		return nil, err
	}
	r.later = []int{}
	for _, other := range all {
		if !other.MissingOnly && other.Written > 0 {
			r.later = append(r.later, other.Generation)
		}
	}
	slices.Sort(r.later)
	r.later = slices.Compact(r.later)
	slices.Reverse(r.later)
	return r.later, nil
}

// fate asks about the work of one message, in the generations of later replays first.
func (r *Replayer) fate(ctx context.Context, row *Row, laterOnes []int) (fate, error) {
	for _, generation := range append(slices.Clone(laterOnes), row.Generation) {
		if generation < row.Generation {
			continue
		}
		entry, err := patiently(ctx, r, func() (claims.Entry, error) {
			entry, err := r.cfg.Ledger.Entry(ctx, claims.EffectKey(row.work(), generation))
			if errors.Is(err, claims.ErrNoEntry) {
				return claims.Entry{}, nil
			}
			return entry, err
		})
		switch {
		case err != nil:
			return missing, err
		case entry.State == claims.Completed && entry.Key != "":
			return completed, nil
		case entry.Key != "" && entry.State == claims.Parked:
			return parked, nil
		case entry.Key != "" && generation > row.Generation:
			return later, nil
		}
	}
	return missing, nil
}
