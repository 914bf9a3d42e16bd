package outboxtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"tenaq/outbox"
)

// A Memory is a Box in memory, for tests: it knows the time of a synctest bubble, and a test says
// what its database does.
type Memory struct {
	mu     sync.Mutex
	seq    int
	rows   map[string]*memoryRow
	sent   map[string]memorySent
	books  []*memoryReplay // the place of one is its number less one
	wakes  chan struct{}   // closed when a row is written
	refuse func(call string) error
}

type memoryRow struct {
	outbox.Row
	seq    int
	due    time.Time
	lease  time.Time
	relay  string
	parked time.Time
	reason string
}

type memorySent struct {
	outbox.Outcome
	*memoryRow
	at time.Time
}

var _ outbox.History = (*Memory)(nil)

// NewMemory returns an empty Box.
func NewMemory() *Memory {
	return &Memory{rows: make(map[string]*memoryRow), sent: make(map[string]memorySent),
		wakes: make(chan struct{})}
}

// Enqueue writes messages, in one transaction that is committed at once.
func (b *Memory) Enqueue(messages ...outbox.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range messages {
		if err := messages[i].Check(); err != nil {
			return err
		}
		if b.has(messages[i].ID) {
			return fmt.Errorf("there is a row %s already", messages[i].ID)
		}
	}
	b.insert(messages)
	return nil
}

// insert writes rows, under the mutex.
func (b *Memory) insert(messages []outbox.Message) {
	for _, m := range messages {
		m.ID = cmp.Or(m.ID, outbox.NewID())
		b.seq++
		b.rows[m.ID] = &memoryRow{
			Row: outbox.Row{Message: m, Stream: streamOf(m), CreatedAt: time.Now()}, seq: b.seq,
			due: m.After,
		}
	}
	close(b.wakes)
	b.wakes = make(chan struct{})
}

func (b *Memory) has(id string) bool {
	_, pending := b.rows[id]
	_, sent := b.sent[id]
	return pending || sent
}

func streamOf(m outbox.Message) string {
	if m.Group == "" && !strings.HasSuffix(m.Queue, ".fifo") {
		return ""
	}
	return m.Queue + "\x1f" + cmp.Or(m.Group, m.Key)
}

// SetFault sets the function that decides about every call from now on. For a name with a "+", it
// returns the answer to a call that was carried out. Nil means no faults.
func (b *Memory) SetFault(refuse func(call string) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = refuse
}

// call carries a call out under the mutex, as far as faults let it.
func (b *Memory) call(ctx context.Context, name string, do func(now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	refuse := b.refuse
	if refuse == nil {
		refuse = func(string) error { return nil }
	}
	if err := refuse(name); err != nil {
		return err
	}
	if err := do(time.Now()); err != nil {
		return err
	}
	return refuse(name + "+")
}

// pending are the rows that are neither sent nor parked, in order.
func (b *Memory) pending() []*memoryRow {
	rows := slices.DeleteFunc(slices.Collect(maps.Values(b.rows)), func(r *memoryRow) bool {
		return !r.parked.IsZero()
	})
	slices.SortFunc(rows, func(x, y *memoryRow) int { return cmp.Compare(x.seq, y.seq) })
	return rows
}

// Claim implements outbox.Box.
func (b *Memory) Claim(
	ctx context.Context, c outbox.Claim,
) (rows []outbox.Row, next time.Duration, err error) {
	err = b.call(ctx, "Claim", func(now time.Time) error {
		next = outbox.NextMax
		blocked, taken, bytes := make(map[string]bool), make(map[string]int), 0
		for _, r := range b.pending() {
			if r.Stream != "" && blocked[r.Stream] {
				continue
			}
			size := len(r.Body)
			for name, value := range r.Headers {
				size += len(name) + len(value)
			}
			switch {
			case now.Before(r.lease), slices.Contains(c.Except, r.Queue):
				blocked[r.Stream] = true
			case now.Before(r.due):
				blocked[r.Stream] = true
				next = min(next, r.due.Sub(now))
			case len(rows) == c.Rows, len(rows) > 0 && bytes+size > c.Bytes,
				r.Stream != "" && taken[r.Stream] == c.Stream:
				blocked[r.Stream] = true
				next = 0
			default:
				taken[r.Stream]++
				bytes += size
				r.relay, r.lease = c.Relay, now.Add(c.Lease)
				rows = append(rows, r.Row)
			}
		}
		return nil
	})
	return rows, next, err
}

// Renew implements outbox.Box.
func (b *Memory) Renew(
	ctx context.Context, relay string, lease time.Duration,
) (ids []string, err error) {
	err = b.call(ctx, "Renew", func(now time.Time) error {
		for _, r := range b.pending() {
			if r.relay == relay && now.Before(r.lease) {
				r.lease = now.Add(lease)
				ids = append(ids, r.ID)
			}
		}
		return nil
	})
	return ids, err
}

// Settle implements outbox.Box.
func (b *Memory) Settle(ctx context.Context, relay string, outcomes []outbox.Outcome) error {
	return b.call(ctx, "Settle", func(now time.Time) error {
		for _, o := range outcomes {
			r := b.rows[o.ID]
			if r == nil || r.relay != relay {
				continue
			}
			r.relay, r.lease, r.reason = "", time.Time{}, o.Reason
			switch o.Fate {
			case outbox.Sent:
				delete(b.rows, o.ID)
				b.sent[o.ID] = memorySent{o, r, now}
			case outbox.Parked:
				r.parked = now
			case outbox.Failed:
				r.Attempts++
			}
			if (o.Fate == outbox.Failed || o.Fate == outbox.Back) && o.After > 0 {
				r.due = now.Add(o.After)
			}
		}
		return nil
	})
}

// Wait implements outbox.Box.
func (b *Memory) Wait(ctx context.Context, most time.Duration) error {
	b.mu.Lock()
	wakes := b.wakes
	b.mu.Unlock()
	select {
	case <-wakes:
	case <-time.After(most):
	case <-ctx.Done():
	}
	return b.call(ctx, "Wait", func(time.Time) error { return nil })
}

// Stats implements outbox.Box.
func (b *Memory) Stats(ctx context.Context) (s outbox.Stats, err error) {
	err = b.call(ctx, "Stats", func(now time.Time) error {
		blocked := make(map[string]bool)
		for _, r := range b.pending() {
			s.Pending++
			due := !now.Before(r.due) && (r.Stream == "" || !blocked[r.Stream])
			blocked[r.Stream] = blocked[r.Stream] || !due
			if due {
				s.Due++
				since := r.CreatedAt
				if r.due.After(since) {
					since = r.due
				}
				s.Oldest = max(s.Oldest, now.Sub(since))
			}
		}
		s.Parked = len(b.rows) - s.Pending
		return nil
	})
	return s, err
}

// Sweep implements outbox.Box.
func (b *Memory) Sweep(ctx context.Context, keep time.Duration, limit int) (n int, err error) {
	err = b.call(ctx, "Sweep", func(now time.Time) error {
		oldest := slices.SortedFunc(maps.Keys(b.sent), func(x, y string) int {
			return b.sent[x].at.Compare(b.sent[y].at)
		})
		for _, id := range oldest {
			if n < limit && now.Sub(b.sent[id].at) > keep {
				delete(b.sent, id)
				n++
			}
		}
		return nil
	})
	return n, err
}

// Parked implements outbox.Box.
func (b *Memory) Parked(
	ctx context.Context, after string, limit int,
) (parked []outbox.ParkedRow, err error) {
	err = b.call(ctx, "Parked", func(time.Time) error {
		rows := slices.DeleteFunc(slices.Collect(maps.Values(b.rows)), func(r *memoryRow) bool {
			return r.parked.IsZero()
		})
		slices.SortFunc(rows, func(x, y *memoryRow) int {
			return cmp.Or(x.parked.Compare(y.parked), cmp.Compare(x.seq, y.seq))
		})
		if i := slices.IndexFunc(rows, func(r *memoryRow) bool { return r.ID == after }); i >= 0 {
			rows = rows[i+1:]
		}
		for _, r := range rows[:min(len(rows), limit)] {
			parked = append(parked, outbox.ParkedRow{Row: r.Row, Reason: r.reason, At: r.parked})
		}
		return nil
	})
	return parked, err
}

// Release implements outbox.Box.
func (b *Memory) Release(ctx context.Context, ids ...string) (n int, err error) {
	return b.decide(ctx, "Release", anyTime(ids), b.release)
}

// Discard implements outbox.Box.
func (b *Memory) Discard(ctx context.Context, ids ...string) (n int, err error) {
	return b.decide(ctx, "Discard", anyTime(ids), b.discard)
}

// ReleaseSeen implements outbox.Decider.
func (b *Memory) ReleaseSeen(ctx context.Context, rows ...outbox.Seen) (n int, err error) {
	return b.decide(ctx, "ReleaseSeen", timesOf(rows), b.release)
}

// DiscardSeen implements outbox.Decider.
func (b *Memory) DiscardSeen(ctx context.Context, rows ...outbox.Seen) (n int, err error) {
	return b.decide(ctx, "DiscardSeen", timesOf(rows), b.discard)
}

func (b *Memory) release(r *memoryRow) {
	b.seq++
	r.seq, r.parked, r.Attempts, r.due, r.reason = b.seq, time.Time{}, 0, time.Time{}, ""
}

func (b *Memory) discard(r *memoryRow) { delete(b.rows, r.ID) }

// A wantedRow is the id of a row, and when it has to be parked; nil for any time.
type wantedRow struct {
	id string
	at *time.Time
}

func anyTime(ids []string) (rows []wantedRow) {
	for _, id := range ids {
		rows = append(rows, wantedRow{id, nil})
	}
	return rows
}

func timesOf(seen []outbox.Seen) (rows []wantedRow) {
	for _, s := range seen {
		rows = append(rows, wantedRow{s.ID, &s.At})
	}
	return rows
}

func (b *Memory) decide(
	ctx context.Context, name string, rows []wantedRow, do func(*memoryRow),
) (n int, err error) {
	err = b.call(ctx, name, func(time.Time) error {
		for _, row := range rows {
			r := b.rows[row.id]
			if r != nil && !r.parked.IsZero() && (row.at == nil || row.at.Equal(r.parked)) {
				do(r)
				n++
			}
		}
		return nil
	})
	return n, err
}

// ErrInjected is a fault of a test.
var ErrInjected = errors.New("fault in a test")
