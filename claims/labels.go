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

// resultLabelMax is how much of a result is a label, in bytes. The whole of it is in the entry.
const resultLabelMax = 4 << 10

// reasonLabelMax is how much of a reason is a label, in bytes.
const reasonLabelMax = 1 << 10

// labels describe an entry in the tools of their backend. Times are by the clock of
// the writer.
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

// due is from when on an entry is listed by Ledger.Due: a held one from the end of its lease, a
// failed, released or parked one at once. A completed one never is, nor is an exhausted one, whose
// message is with the dead letters.
func (s *stored) due(now time.Time) time.Time {
	switch s.State {
	case Held:
		return now.Add(s.lease())
	case Failed, Released, Parked:
		return now
	}
	return time.Time{}
}

// Due returns up to limit entries of work that is not done and that no holder is doing, the longest
// waiting first: held ones whose lease was over by until, and failed, released and parked ones that
// were written by then. It goes by the clocks of the processes that wrote them.
//
// It asks an index of the store instead of reading all entries. The error is records.ErrNoIndex
// when the store has none. Entries that an earlier version of this package wrote are not in the
// index until their next write.
func (l *Ledger) Due(ctx context.Context, until time.Time, limit int) ([]Entry, error) {
	lister, ok := l.store.(records.DueLister)
	if !ok {
		return nil, fmt.Errorf("list claims: %w", records.ErrNoIndex)
	}
	found, err := lister.ListDue(ctx, l.cfg.Prefix, until, limit)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	var entries []Entry
	for _, r := range found {
		s, err := decode(r)
		if err != nil {
			s = stored{State: Unreadable, Reason: err.Error()}
		}
		entries = append(entries, l.entryOf(r, &s))
	}
	return entries, nil
}

// Idle is how long ago the lease of a held entry ended, or an entry in another state was written.
// It is negative while a lease runs. If the store has no clock it goes by the clock of the writer,
// whose time is in the version.
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
