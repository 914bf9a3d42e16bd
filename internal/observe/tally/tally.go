// Package tally counts events of queues while the process runs. The counts are not on disk, and no
// answer to a client depends on them. The engine and the broker write them; the metrics and the
// monitor read them at any time.
package tally

import (
	"strings"
	"sync"
	"sync/atomic"

	"tenaq/internal/observe/metric"
)

// A Queue counts the events of one queue since the process started.
type Queue struct {
	Account, Name string

	Sent         metric.Counter // messages that clients have sent and that were stored
	Deduplicated metric.Counter // sends that were duplicates
	Received     metric.Counter // messages that were handed out
	Redelivered  metric.Counter // of these, those that had been handed out before
	Empty        metric.Counter // receives that were answered without a message

	// Deliveries whose visibility timeout expired, counted at the next receive or move of the
	// message. A message put back with a timeout of zero does not count. In TimedOutChanged the
	// consumer had changed the timeout: it stopped extending it, or postponed the message.
	// [METRIC-21]
	TimedOut, TimedOutChanged metric.Counter

	// Successful deletes: with the handle of the newest delivery, with an older one, which removes
	// nothing, or of a message that was already gone.
	Deleted, DeletedStale, DeletedGone metric.Counter

	Expired     metric.Counter // messages whose retention was over
	DeadLetters metric.Counter // messages that left for the dead-letter queue
	Moved       metric.Counter // messages that a move task took away
	Arrived     metric.Counter // messages that came from another queue in one of these ways

	Sizes   *metric.Histogram // of messages that clients have sent and that were stored, in bytes
	Waited  *metric.Histogram // seconds from the send to the first receive
	Handled *metric.Histogram // seconds from the newest receive to the delete with its handle

	// SizeExtremes are those of Sizes, for the monitor.
	SizeExtremes metric.Extremes

	times atomic.Pointer[times] // while the queue is watched
}

// AddSent counts a message, with its size in bytes.
func (q *Queue) AddSent(bytes int64) {
	q.Sent.Add(1)
	q.Sizes.Observe(float64(bytes))
	q.SizeExtremes.Observe(float64(bytes))
}

// AddFirst counts a first receive, ms milliseconds after the send.
func (q *Queue) AddFirst(ms int64) { q.Waited.Observe(float64(ms) / 1000) }

// AddDeleted counts a delete with the newest handle, ms milliseconds after the receive.
func (q *Queue) AddDeleted(ms int64) {
	q.Deleted.Add(1)
	q.Handled.Observe(float64(ms) / 1000)
}

// Queues are the queues with events. The zero value is ready, and may be used from any goroutine.
type Queues struct {
	m sync.Map // of *Queue, by id

	mu      sync.Mutex
	watched map[id]*watch // also of queues without events
}

type id struct{ account, name string }

// Of returns the counts of a queue.
func (all *Queues) Of(account, name string) *Queue {
	k := id{account, name}
	if found, ok := all.m.Load(k); ok {
		return found.(*Queue)
	}
	k = id{strings.Clone(account), strings.Clone(name)} // they may be parts of a whole request
	found, _ := all.m.LoadOrStore(k, &Queue{
		Account: k.account, Name: k.name,
		Sizes: metric.NewHistogram(metric.Sizes...), Waited: metric.NewHistogram(metric.Ages...),
		Handled: metric.NewHistogram(metric.Ages...),
	})
	q := found.(*Queue)
	all.mu.Lock()
	defer all.mu.Unlock()
	if w := all.watched[k]; w != nil {
		q.times.Store(w.now)
	}
	return q
}

// Drop forgets a deleted queue. One that is created under its name begins anew.
func (all *Queues) Drop(account, name string) {
	k := id{account, name}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.unwatch(k)
	all.m.Delete(k)
}

// Each calls f with all queues, in no particular order.
func (all *Queues) Each(f func(*Queue)) {
	all.m.Range(func(_, v any) bool {
		f(v.(*Queue))
		return true
	})
}
