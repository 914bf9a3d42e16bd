package workertest

import (
	"context"
	"sync"
	"time"

	"tenaq/records"
)

// A record is a store for one record, whose next version and whose age can be chosen.
type record struct {
	mu  sync.Mutex
	now records.Record
	at  time.Time // when it was written
	old time.Duration
	put records.Version // the version of the next write; zero for one more than now
}

// setNext chooses the version of the next write.
func (r *record) setNext(version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put = records.Version(version)
}

// expire makes the record older than a lease.
func (r *record) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.old = 2 * lease
}

// current returns the record as it is. The mutex is locked.
func (r *record) current() records.Record {
	now := r.now
	if now.Version != 0 {
		now.Age = time.Since(r.at) + r.old
	}
	return now
}

// Get returns the record.
func (r *record) Get(_ context.Context, key string) (records.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.Version == 0 || r.now.Key != key {
		return records.Record{}, records.ErrNotFound
	}
	return r.current(), nil
}

// Put writes the record if it has the version.
func (r *record) Put(_ context.Context, w records.Write) (records.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.If != r.now.Version {
		return records.Record{}, &records.Conflict{Current: r.current()}
	}
	version := r.now.Version + 1
	if r.put != 0 {
		version, r.put = r.put, 0
	}
	r.now = records.Record{Key: w.Key, Value: w.Value, Version: version, TTL: w.TTL}
	r.at, r.old = time.Now(), 0
	return r.current(), nil
}

// Delete removes the record if it has the version.
func (r *record) Delete(_ context.Context, _ string, version records.Version) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version == 0 || version != r.now.Version {
		return &records.Conflict{Current: r.current()}
	}
	r.now = records.Record{}
	return nil
}

// List returns nothing: a ledger of one claim needs no list.
func (r *record) List(context.Context, string, string, int) ([]records.Record, error) {
	return nil, nil
}

// Sweep returns zero: the record does not expire.
func (r *record) Sweep(context.Context, int) (int, error) { return 0, nil }

// Close does nothing.
func (r *record) Close() error { return nil }
