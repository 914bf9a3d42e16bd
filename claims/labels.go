package claims

import (
	"context"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"tenaq/records"
)

// resultLabelMax is how much of a result is a label, in bytes. The whole of it is in the entry.
const resultLabelMax = 4 << 10

// reasonLabelMax is how much of a reason is a label, in bytes.
const reasonLabelMax = 1 << 10

// labels say what is in an entry, for people who look at the records with the tools of their backend. Times are those
// of the writer's clock.
func (s *stored) labels(now time.Time) map[string]string {
	labels := map[string]string{
		"State": string(s.State), "Owner": cut(s.Owner, MessageMax), "Attempts": strconv.Itoa(s.Attempts),
		"Message": cut(s.Message, MessageMax), "Reason": cut(s.Reason, reasonLabelMax), "Written": timeLabel(now),
	}
	if s.State == Held {
		labels["LeaseEnd"] = timeLabel(now.Add(s.lease()))
	}
	if utf8.Valid(s.Result) {
		labels["Result"] = cut(string(s.Result), resultLabelMax)
	}
	return labels
}

func timeLabel(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func (s *stored) lease() time.Duration { return time.Duration(s.LeaseMS) * time.Millisecond }

// due is when an entry wants to be looked at: a held one when its lease is over, one that anybody may take up, or a
// person has to decide about, at once. What is at its end, or with the dead letters, never does.
func (s *stored) due(now time.Time) time.Time {
	switch s.State {
	case Held:
		return now.Add(s.lease())
	case Failed, Released, Parked:
		return now
	}
	return time.Time{}
}

// Due returns up to limit entries that nobody is at and that are not at their end, the one of which that has been true
// for longest first: held ones whose lease was over by until, and failed, released and parked ones that were written
// by then. It goes by the clocks of those who wrote them.
//
// It asks an index of the store instead of reading all entries. The error is records.ErrNoIndex where there is none.
// Entries that were written by a version of this package without labels are not in it until their next write.
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

// Idle is for how long nobody has been at an entry that is not at its end, zero or less for a holder that still has its
// lease. Where the store has no clock it goes by that of the writer, which is in the version.
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
