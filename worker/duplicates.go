package worker

import (
	"slices"
	"sync"
	"time"
)

// duplicates records which messages of this worker were given back because their key was busy. If
// the holder is in this Worker, these become visible as soon as it has completed the work, without
// waiting for the rest of its lease.
type duplicates struct {
	mu   sync.Mutex
	keys map[string][]*duplicate
}

// A duplicate is a delivery that asks for a claim, or was refused one as busy. The mutex guards its
// fields.
type duplicate struct {
	handle string
	// until when it is hidden, so that no other worker can have received it; zero before it is
	// given back
	until     time.Time
	completed bool // this worker has completed the work meanwhile
}

// expect notes that a delivery is about to ask for the claim on a key. It must come first, because
// the holder may complete the work between the answer and giveBack.
func (d *duplicates) expect(key, handle string) *duplicate {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil {
		d.keys = make(map[string][]*duplicate)
	}
	one := &duplicate{handle: handle}
	d.keys[key] = append(d.keys[key], one)
	return one
}

// forget drops a delivery that was not busy, or whose pause has ended.
func (d *duplicates) forget(key string, one *duplicate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(key, func(other *duplicate) bool { return other == one })
}

// hidden notes until when a busy message is hidden. It reports whether to show it at once, because
// the work has been completed since expect.
func (d *duplicates) hidden(key string, one *duplicate, until time.Time) (show bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one.completed {
		d.remove(key, func(other *duplicate) bool { return other == one })
		return time.Now().Before(until)
	}
	one.until = until
	time.AfterFunc(time.Until(until), func() { d.forget(key, one) })
	return false
}

// complete returns the handles of the messages to show, now that this worker has completed the work
// of a key.
func (d *duplicates) complete(key string) (handles []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.remove(key, func(one *duplicate) bool {
		one.completed = true
		if now.Before(one.until) {
			handles = append(handles, one.handle)
		}
		return !one.until.IsZero()
	})
	return handles
}

// remove drops the deliveries of a key for which gone is true. The caller holds the mutex.
func (d *duplicates) remove(key string, gone func(*duplicate) bool) {
	rest := slices.DeleteFunc(d.keys[key], gone)
	if d.keys[key] = rest; len(rest) == 0 {
		delete(d.keys, key)
	}
}

// busy gives back a message whose key is claimed, until the lease of the holder ends, or until the
// holder completes the work if it is in this Worker.
func (w *Worker) busy(d *delivery, v verdict) {
	began, retryIn := time.Now(), v.after
	if !w.giveBack(d, v, retryIn) { // in whole seconds, rounded up
		w.duplicates.forget(d.EffectKey(), d.rival)
		return
	}
	// After that, another worker may have received the message, and the old handle could still show
	// it. The margin is for a request in progress.
	until := began.Add(retryIn - retryIn/10)
	if w.duplicates.hidden(d.EffectKey(), d.rival, until) {
		w.show(d.handle)
	}
}

// showDuplicates makes the duplicates of a completed message receivable. The next receive finds
// that they are done and deletes them.
func (w *Worker) showDuplicates(d *delivery) {
	if w.cfg.Claims == nil {
		return
	}
	var showing sync.WaitGroup
	for _, handle := range w.duplicates.complete(d.EffectKey()) {
		showing.Go(func() { w.show(handle) })
	}
	showing.Wait()
}

// show makes a message receivable that was given back. After an error, the message comes back after
// its pause.
func (w *Worker) show(handle string) {
	if err := w.shows.do(show{handle, 0}); err != nil {
		w.queueError("change the visibility", 1, err)
	}
}
