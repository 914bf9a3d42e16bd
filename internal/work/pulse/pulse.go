// Package pulse is the signs of life that workers leave in the store of their ledger: how much of a
// queue's work they have done and how much has failed. By it a redriver knows that a consumer is
// well although what was redriven fails.
//
// Redriven messages do not count: what becomes of them is known otherwise.
package pulse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"tenaq/records"
)

// Every is how often a worker that has done something says so; Kept is how long that is remembered.
const (
	Every = 15 * time.Second
	Kept  = time.Hour
)

// Counts are what a worker has done since it started.
type Counts struct {
	Done   int `json:"done"`
	Failed int `json:"failed"`
}

// A Writer counts what one worker does with one queue. It may be used from any goroutine.
type Writer struct {
	store records.Store
	key   string

	mu      sync.Mutex
	counts  Counts
	written Counts
	version records.Version
}

// NewWriter returns a Writer for a worker that has an id of its own.
func NewWriter(store records.Store, queue, worker string) *Writer {
	return &Writer{store: store, key: prefix(queue) + worker}
}

func prefix(queue string) string { return "pulse/" + queue + "/" }

// Done counts work that was done; Failed an attempt that failed.
func (w *Writer) Done()   { w.add(Counts{Done: 1}) }
func (w *Writer) Failed() { w.add(Counts{Failed: 1}) }

func (w *Writer) add(c Counts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Done += c.Done
	w.counts.Failed += c.Failed
}

// Run writes the counts while they change, until ctx ends. What cannot be written is written later.
func (w *Writer) Run(ctx context.Context) {
	ticker := time.NewTicker(Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = w.flush(ctx)
		}
	}
}

func (w *Writer) flush(ctx context.Context) error {
	w.mu.Lock()
	counts, written, version := w.counts, w.written, w.version
	w.mu.Unlock()
	if counts == written {
		return nil
	}
	value, _ := json.Marshal(counts) // which cannot fail
	ctx, cancel := context.WithTimeout(ctx, Every)
	defer cancel()
	r, err := w.store.Put(ctx, records.Write{Key: w.key, Value: value, If: version, TTL: Kept})
	var conflict *records.Conflict
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.written, w.version = counts, r.Version
	case errors.As(err, &conflict): // it expired, or an answer was lost
		w.version = conflict.Current.Version
	}
	return err
}

// Read returns the counts of the workers of a queue that did something lately, by worker.
func Read(ctx context.Context, store records.Store, queue string) (map[string]Counts, error) {
	found, err := store.List(ctx, prefix(queue), "", 0)
	if err != nil {
		return nil, fmt.Errorf("read what the workers of %s have done: %w", queue, err)
	}
	all := make(map[string]Counts, len(found))
	for _, r := range found {
		var c Counts
		if json.Unmarshal(r.Value, &c) == nil {
			all[r.Key[len(prefix(queue)):]] = c
		}
	}
	return all, nil
}
