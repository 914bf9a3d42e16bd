package claims

import (
	"context"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"tenaq/internal/work/clip"
	"tenaq/records"
)

// Sizes to which labels are clipped, in bytes. The entry has the whole text.
const (
	resultLabelMax = 4 << 10
	reasonLabelMax = 1 << 10
)

// labels describes an entry to the tools of the backend. Times are by the clock of the writer.
func (s *stored) labels(now time.Time) map[string]string {
	labels := map[string]string{
		"State": string(s.State), "Owner": clip.To(s.Owner, MessageMax),
		"Attempts": strconv.Itoa(s.Attempts),
		"Message":  clip.To(s.Message, MessageMax), "Reason": clip.To(s.Reason, reasonLabelMax),
		"Written": timeLabel(now),
	}
	if s.State == Held {
		labels["LeaseEnd"] = timeLabel(now.Add(s.lease()))
	}
	if utf8.Valid(s.Result) {
		labels["Result"] = clip.To(string(s.Result), resultLabelMax)
	}
	return labels
}

func timeLabel(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func (s *stored) lease() time.Duration { return time.Duration(s.LeaseMS) * time.Millisecond }

// due returns the time from which Ledger.Due lists an entry: the end of the lease of a held one,
// and now for a failed, released or parked one. Completed and exhausted entries are never due.
func (s *stored) due(now time.Time) time.Time {
	switch s.State {
	case Held:
		return now.Add(s.lease())
	case Failed, Released, Parked:
		return now
	}
	return time.Time{}
}

// Due returns up to limit entries of work that is neither done nor in progress, the longest waiting
// first: held ones whose lease expired by until, and failed, released and parked ones that were
// written by then. Times are by the clocks of the processes that wrote the entries.
//
// It asks an index of the store instead of reading all entries, and returns records.ErrNoIndex if
// the store has none. Entries that an earlier version of this package wrote enter the index with
// their next write.
func (l *Ledger) Due(ctx context.Context, until time.Time, limit int) ([]Entry, error) {
	lister, ok := l.cfg.Store.(records.DueLister)
	if !ok {
		return nil, fmt.Errorf("list claims: %w", records.ErrNoIndex)
	}
	found, err := lister.ListDue(ctx, l.cfg.Prefix, until, limit)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	return l.entries(found), nil
}

// Idle returns the time since the lease of a held entry expired, or since an entry in another state
// was written. It is negative while a lease runs. If the store has no clock, it uses the clock of
// the writer, whose time is in the version.
func (e *Entry) Idle(now time.Time) time.Duration {
	age := e.Age
	if age == records.AgeUnknown {
		age = now.Sub(time.UnixMicro(int64(e.Version)))
	}
	if e.State == Held {
		age -= e.Lease
	}
	return age
}
