package tally

import (
	"strings"
	"sync/atomic"
	"time"

	"tenaq/internal/observe/metric"
)

// The bounds of Handled are far apart, because each is a series of /metrics for each queue. A queue
// that is watched gets a second histogram with fine buckets, for as long as requests ask for it and
// WatchLinger more. A delete on any other queue pays for one look at a pointer. [V1-22]

const (
	watchedMax  = 64 // as many queues as live streams show together
	WatchLinger = 10 * time.Minute
	watchPeriod = 5 * time.Minute // of a part; the latest two with messages are shown
	watchShown  = 5 * time.Second // so long after it was last shown, a queue may make room
)

// A watch is a queue that is watched.
type watch struct {
	before, now *times // before is nil in the first period
	seen, shown time.Time
}

// times are how long consumers took since a moment.
type times struct {
	began time.Time
	fine  metric.Fine
	late  atomic.Int64
}

// AddHandled notes, if the queue is watched, how long a consumer took from its receive to its
// delete, and whether that was too late: the message could be received again.
func (q *Queue) AddHandled(ms int64, late bool) {
	t := q.times.Load()
	if t == nil {
		return
	}
	t.fine.Observe(ms)
	if late {
		t.late.Add(1)
	}
}

// Handling says how long consumers took for the messages of a queue.
type Handling struct {
	Since    time.Time // zero if the queue is not watched
	Messages int64
	Late     int64
	MS       []int64 // one for each share; none without messages

	// The bounds of the bucket of each share, in seconds, of CoarseMessages since the start.
	Coarse         [][2]float64
	CoarseMessages int64
}

// Watch begins to watch a queue, which need not exist, or continues, and reports whether there is
// room. Shown means that a page shows it now: then a queue that no page shows makes room.
func (all *Queues) Watch(account, name string, shown bool) bool {
	now := time.Now()
	all.mu.Lock()
	defer all.mu.Unlock()
	all.endWatches(now)
	k := id{account, name}
	w := all.watched[k]
	switch {
	case w != nil && now.Sub(w.now.began) >= watchPeriod && w.now.count() > 0:
		w.before, w.now = w.now, &times{began: now}
	case w == nil:
		if len(all.watched) >= watchedMax && !(shown && all.makeRoom(now)) {
			return false
		}
		if all.watched == nil {
			all.watched = make(map[id]*watch)
		}
		k = id{strings.Clone(account), strings.Clone(name)}
		w = &watch{now: &times{began: now}}
		all.watched[k] = w
	}
	if w.seen = now; shown {
		w.shown = now
	}
	if q := all.find(k); q != nil {
		q.times.Store(w.now)
	}
	return true
}

// EndWatches ends the watches that no request has asked for in WatchLinger. Watch does that too, so
// its callers need this only after the last Watch.
func (all *Queues) EndWatches() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.endWatches(time.Now())
}

func (all *Queues) endWatches(now time.Time) {
	for k, w := range all.watched {
		if now.Sub(w.seen) >= WatchLinger {
			all.unwatch(k)
		}
	}
}

// makeRoom ends the watch that was not asked for the longest time and is on no screen.
func (all *Queues) makeRoom(now time.Time) bool {
	var oldest id
	for k, w := range all.watched {
		if now.Sub(w.shown) > watchShown &&
			(oldest == id{} || w.seen.Before(all.watched[oldest].seen)) {
			oldest = k
		}
	}
	if oldest == (id{}) {
		return false
	}
	all.unwatch(oldest)
	return true
}

func (all *Queues) unwatch(k id) {
	delete(all.watched, k)
	if q := all.find(k); q != nil {
		q.times.Store(nil)
	}
}

// find returns the counts of a queue; nil if it had no event.
func (all *Queues) find(k id) *Queue {
	q, _ := all.m.Load(k)
	found, _ := q.(*Queue)
	return found
}

// Handling returns how long consumers took, at most, for these shares of the messages.
func (all *Queues) Handling(account, name string, shares ...float64) (h Handling) {
	all.mu.Lock()
	defer all.mu.Unlock()
	k := id{account, name}
	if q := all.find(k); q != nil {
		h.Coarse, h.CoarseMessages = q.Handled.Quantiles(shares...)
	}
	w := all.watched[k]
	if w == nil {
		return h
	}
	var counts metric.FineCounts
	h.Since = w.now.began
	for _, t := range []*times{w.before, w.now} {
		if t != nil {
			h.Late += t.late.Load() // before the messages, so there are never more
			t.fine.AddTo(&counts)
		}
	}
	if w.before != nil {
		h.Since = w.before.began
	}
	if h.Messages = counts.Sum(); h.Messages > 0 {
		h.MS = counts.Quantiles(shares...)
	}
	return h
}

func (t *times) count() int64 {
	var counts metric.FineCounts
	t.fine.AddTo(&counts)
	return counts.Sum()
}
