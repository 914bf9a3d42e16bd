package redrivehost

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"tenaq/records"
	"tenaq/redrive"
)

// A pace is how fast dead letters have come to an end lately: as completed work or in the parking
// lot. Redrivers record it, so that the status of a queue does not take an hour of watching.
type pace struct {
	Samples []paceSample `json:"samples"` // the oldest first
}

// A paceSample is how many had come to an end, in all, at a time.
type paceSample struct {
	At    time.Time `json:"at"`
	Ended int       `json:"ended"`
}

// Limits of a pace.
const (
	paceWindow = time.Hour        // older samples are forgotten
	paceEvery  = 30 * time.Second // between two samples, at least
	paceLeast  = time.Minute      // a shorter time says nothing
)

// ended is how many dead letters have come to an end.
func ended(s *redrive.State) int { return s.Successes + s.Parked }

// add notes how many had come to an end at a time. It reports whether that is new.
func (p pace) add(now time.Time, n int) (_ pace, changed bool) {
	kept := slices.Clone(p.Samples)
	if len(kept) > 0 && kept[len(kept)-1].Ended > n { // the redriver has begun anew
		kept, changed = nil, true
	}
	kept = slices.DeleteFunc(kept, func(s paceSample) bool { return now.Sub(s.At) > paceWindow })
	if last := len(kept) - 1; last < 0 || kept[last].Ended < n &&
		now.Sub(kept[last].At) >= paceEvery {
		kept, changed = append(kept, paceSample{now, n}), true
	}
	return pace{kept}, changed
}

// A drainRate is how many dead letters came to an end in a time. The zero value means unknown.
type drainRate struct {
	count int
	in    time.Duration
}

// rate is the rate until now, at which n have come to an end.
func (p pace) rate(now time.Time, n int) drainRate {
	i := slices.IndexFunc(p.Samples, func(s paceSample) bool { return now.Sub(s.At) <= paceWindow })
	if i < 0 {
		return drainRate{}
	}
	r := drainRate{n - p.Samples[i].Ended, now.Sub(p.Samples[i].At)}
	if r.count <= 0 || r.in < paceLeast {
		return drainRate{}
	}
	return r
}

// drainTime is how long depth dead letters take at a rate, if none are added; 0 if unknown.
func drainTime(depth int, r drainRate) time.Duration {
	if r.count <= 0 {
		return 0
	}
	const most = 100 * 365 * 24 * time.Hour
	return time.Duration(min(float64(depth)/float64(r.count)*float64(r.in), float64(most)))
}

// A paceKeeper keeps the pace of one dead-letter queue in a record. Several redrivers may write it:
// they count the same things, so it does not matter whose samples are kept.
type paceKeeper struct {
	store   records.Store
	key     string
	loaded  bool
	known   pace
	version records.Version
}

func newPaceKeeper(store records.Store, queue string) *paceKeeper {
	return &paceKeeper{store: store, key: "redrive-pace/" + queue}
}

// rate is the rate until now, as far as it was recorded.
func (k *paceKeeper) rate(ctx context.Context, now time.Time, s *redrive.State) (drainRate, error) {
	if err := k.load(ctx); err != nil {
		return drainRate{}, err
	}
	return k.known.rate(now, ended(s)), nil
}

// note records where a redriver is and returns the rate. If the store fails, a later step records
// it: an estimate is not worth a failure.
func (k *paceKeeper) note(ctx context.Context, now time.Time, s *redrive.State) drainRate {
	if !k.loaded {
		_ = k.load(ctx)
	}
	if next, changed := k.known.add(now, ended(s)); changed {
		k.known = next
		value, _ := json.Marshal(next) // it cannot fail
		found, err := k.store.Put(ctx,
			records.Write{Key: k.key, Value: value, If: k.version, TTL: 2 * paceWindow})
		var conflict *records.Conflict
		switch {
		case err == nil:
			k.version = found.Version
		case errors.As(err, &conflict): // it expired, or another redriver wrote it
			k.version = conflict.Current.Version
		}
	}
	return k.known.rate(now, ended(s))
}

func (k *paceKeeper) load(ctx context.Context) error {
	found, err := k.store.Get(ctx, k.key)
	if err != nil && !errors.Is(err, records.ErrNotFound) {
		return err
	}
	k.loaded, k.known, k.version = true, pace{}, found.Version
	if err == nil && json.Unmarshal(found.Value, &k.known) != nil {
		k.known = pace{} // a later version wrote it in another form
	}
	return nil
}
