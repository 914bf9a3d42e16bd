// Package pulse counts what the workers of a queue have done. Workers write their counts to the
// store of their ledger. A redriver reads them, to know that a consumer works although redriven
// messages fail.
//
// Redriven messages are not counted, because the redriver learns their outcomes elsewhere.
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

// Every is how often a worker writes counts that have changed; Kept is how long they stay.
const (
	Every = 15 * time.Second
	Kept  = time.Hour
)

// Counts are the numbers of one worker since it started.
type Counts struct {
	Done   int `json:"done"`
	Failed int `json:"failed"`
}

// A Writer counts what one worker does with one queue. It is safe for concurrent use.
type Writer struct {
	store records.Store
	key   string

	mu      sync.Mutex
	counts  Counts
	written Counts
	version records.Version
}

// NewWriter returns a Writer for a worker with a unique id.
func NewWriter(store records.Store, queue, worker string) *Writer {
	return &Writer{store: store, key: prefix(queue) + worker}
}

func prefix(queue string) string { return "pulse/" + queue + "/" }

// Done counts completed work, and Failed counts a failed attempt.
func (w *Writer) Done()   { w.add(Counts{Done: 1}) }
func (w *Writer) Failed() { w.add(Counts{Failed: 1}) }

func (w *Writer) add(c Counts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Done += c.Done
	w.counts.Failed += c.Failed
}

// Run writes the counts when they change, until ctx ends. It retries failed writes later.
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
	w.mu.Lock()
	defer w.mu.Unlock()
	if conflict, ok := errors.AsType[*records.Conflict](err); ok {
		w.version = conflict.Current.Version // the record expired, or an answer was lost
	} else if err == nil {
		w.written, w.version = counts, r.Version
	}
	return err
}

// Read returns the counts of the recently active workers of a queue, by worker.
func Read(ctx context.Context, store records.Store, queue string) (map[string]Counts, error) {
	found, err := store.List(ctx, prefix(queue), "", 0)
	if err != nil {
		return nil, fmt.Errorf("read the counts of the workers of %s: %w", queue, err)
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
