package recordstest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"tenaq/records"
)

// A Memory is a Store in memory, for tests of what is built on records. It goes by package time, so
// that in a bubble of testing/synctest its records age and expire in virtual time.
type Memory struct {
	mu   sync.Mutex
	rows map[string]row

	// floor is the largest version of a record that is gone and whose key may come back.
	floor records.Version
}

type row struct {
	value   []byte
	version records.Version
	written time.Time
	expires time.Time // zero for never
	due     time.Time // zero for never
}

// NewMemory returns a store without records. It may be used as if by several processes at once.
func NewMemory() *Memory { return &Memory{rows: make(map[string]row)} }

// record is a row as it is now, and says whether it exists.
func (r row) record(key string, now time.Time) (records.Record, bool) {
	if r.version == 0 || r.expired(now) {
		return records.Record{}, false
	}
	rec := records.Record{Key: key, Value: bytes.Clone(r.value), Version: r.version,
		Age: max(0, now.Sub(r.written))}
	if !r.expires.IsZero() {
		rec.TTL = r.expires.Sub(now)
	}
	return rec, true
}

func (r row) expired(now time.Time) bool { return !r.expires.IsZero() && !now.Before(r.expires) }

// Get returns a record.
func (m *Memory) Get(ctx context.Context, key string) (records.Record, error) {
	if err := check(ctx, key); err != nil {
		return records.Record{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	rec, ok := m.rows[key].record(key, time.Now())
	if !ok {
		return records.Record{}, records.ErrNotFound
	}
	return rec, nil
}

func check(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return records.CheckKey(key)
}

// Put writes a record if it has the version that w names.
func (m *Memory) Put(ctx context.Context, w records.Write) (records.Record, error) {
	if err := w.Check(); err != nil {
		return records.Record{}, err
	}
	if err := ctx.Err(); err != nil {
		return records.Record{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, before := time.Now(), m.rows[w.Key]
	if rec, _ := before.record(w.Key, now); rec.Version != w.If {
		return records.Record{}, &records.Conflict{Current: rec}
	}
	r := row{
		value:   bytes.Clone(w.Value),
		version: max(records.Version(now.UnixMicro()), before.version+1, m.floor+1),
		written: now,
		due:     w.Due,
	}
	if w.TTL > 0 {
		r.expires = now.Add(w.TTL)
	}
	m.rows[w.Key] = r
	rec, _ := r.record(w.Key, now)
	return rec, nil
}

// Delete removes a record if it has the version.
func (m *Memory) Delete(ctx context.Context, key string, version records.Version) error {
	if err := check(ctx, key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if rec, ok := m.rows[key].record(key, time.Now()); !ok || rec.Version != version {
		return &records.Conflict{Current: rec}
	}
	m.remove(key)
	return nil
}

func (m *Memory) remove(key string) {
	m.floor = max(m.floor, m.rows[key].version)
	delete(m.rows, key)
}

// List returns records in the order of their keys.
func (m *Memory) List(
	ctx context.Context, prefix, after string, limit int,
) ([]records.Record, error) {
	limit, err := records.CheckList(limit, prefix, after)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var found []records.Record
	for key, r := range m.rows {
		if !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		if rec, ok := r.record(key, now); ok {
			found = append(found, rec)
		}
	}
	slices.SortFunc(found, func(a, b records.Record) int { return strings.Compare(a.Key, b.Key) })
	return found[:min(limit, len(found))], nil
}

// ListDue returns records that are due, the earliest first.
func (m *Memory) ListDue(
	ctx context.Context, prefix string, until time.Time, limit int,
) ([]records.Record, error) {
	limit, err := records.CheckList(limit, prefix)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var found []records.Record
	for key, r := range m.rows {
		if rec, ok := r.record(key, now); ok && strings.HasPrefix(key, prefix) && !r.due.IsZero() &&
			!r.due.After(until) {
			found = append(found, rec)
		}
	}
	slices.SortFunc(found, func(a, b records.Record) int {
		return cmp.Or(m.rows[a.Key].due.Compare(m.rows[b.Key].due), strings.Compare(a.Key, b.Key))
	})
	return found[:min(limit, len(found))], nil
}

// Sweep removes expired records.
func (m *Memory) Sweep(ctx context.Context, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, n := time.Now(), 0
	for key, r := range m.rows {
		if n < limit && r.expired(now) {
			m.remove(key)
			n++
		}
	}
	return n, nil
}

// Close does nothing: the records live as long as the Memory, as they would in a backend that other
// processes have open too.
func (m *Memory) Close() error { return nil }
