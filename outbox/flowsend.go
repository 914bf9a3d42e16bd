package outbox

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/internal/work/clip"
	"tenaq/internal/work/queuename"
	"tenaq/internal/work/sqslimits"
)

// startRequests sends ready rows in as many requests as are allowed.
func (f *flow) startRequests() {
	now := time.Now()
	for _, name := range slices.Sorted(maps.Keys(f.queues)) {
		q := f.queues[name]
		if len(q.ready) == 0 && q.failures == 0 {
			delete(f.queues, name)
			continue
		}
		for f.requests < f.cfg.Parallel && len(q.ready) > 0 && !now.Before(q.pause) {
			batch, until := q.batch(now)
			if len(batch) == 0 {
				break
			}
			f.requests++
			go func() { f.answers <- f.send(q, batch, until) }()
			if q.failures > 0 {
				q.pause = now.Add(requestMax) // one request tries out the queue
			}
		}
	}
}

// batch takes the rows of one request, and returns when the request must end.
func (q *queue) batch(now time.Time) (batch []*item, until time.Time) {
	until = now.Add(requestMax)
	total := 0
	var left []*item
	for i, it := range q.ready {
		if len(batch) == sqslimits.BatchMax {
			left = append(left, q.ready[i:]...)
			break
		}
		switch {
		case it.deadline.Sub(now) < leastToSend, // it may be lost; the next renewal says so
			len(batch) > 0 && (total+it.size > sqslimits.MessageBytesMax || it.alone ||
				batch[0].alone):
			left = append(left, it)
			continue
		}
		if it.deadline.Before(until) {
			until = it.deadline
		}
		it.ready, it.away = false, true
		total += it.size
		batch = append(batch, it)
	}
	q.ready = left
	return batch, until
}

// heed processes the answer of a queue.
func (f *flow) heed(a answer) {
	f.requests--
	q, now := f.queue(a.queue.name), time.Now()
	var again []*item // to send
	var trouble error
	for i, it := range a.items {
		it.away = false
		held := f.hand[it.row.ID] == it
		refused, own := a.errs[i].(*refusal)
		switch {
		case a.errs[i] == nil:
			f.cfg.Events.Sent(it.row, a.ids[i])
			f.over(it, Outcome{Fate: Sent, SentTo: queuename.Of(a.url), MessageID: a.ids[i]})
		case !held: // its lease was lost meanwhile
		case own && len(a.items) > 1 && f.sameReason(a):
			it.alone = true
			again = append(again, it)
		case own:
			f.refused(it, refused.reason)
		default:
			trouble = a.errs[i]
			again = append(again, it)
		}
	}
	for _, it := range again {
		it.ready = true
	}
	q.ready = append(again, q.ready...)
	switch {
	case trouble == nil:
		q.failures, q.pause = 0, time.Time{}
	case len(again) < len(a.items): // it accepts other messages
		q.failures, q.pause = 0, now.Add(backoff.Jitter(troubleMin))
	default:
		q.failures++
		q.pause = now.Add(backoff.Jitter(backoff.Ceiling(q.failures, troubleMin, troubleMax)))
		if n := q.failures; n&(n-1) == 0 {
			f.cfg.Logger.Warn("a queue accepts no messages now; its rows wait", "queue", q.name,
				"attempt", n, "error", trouble)
		}
		if q.failures >= hopeless {
			f.giveBack(q, trouble)
		}
	}
	if f.stopping {
		for _, it := range slices.Clone(q.ready) {
			f.over(it, Outcome{Fate: Back, Reason: stopReason})
		}
	}
}

// sameReason reports whether a request was refused as a whole, so that it is unknown which message
// is the cause.
func (f *flow) sameReason(a answer) bool {
	first, ok := a.errs[0].(*refusal)
	return ok && !slices.ContainsFunc(a.errs, func(err error) bool { return err != error(first) })
}

// refused counts a failed attempt of a row.
func (f *flow) refused(it *item, reason string) {
	if it.row.Attempts+1 >= f.cfg.Attempts {
		f.park(it, reason)
		return
	}
	after := backoff.Full(it.row.Attempts+1, f.cfg.RetryBase, f.cfg.RetryMax, rand.Float64())
	f.cfg.Events.Failed(it.row, reason, after)
	f.over(it, Outcome{Fate: Failed, After: after, Reason: reason})
}

// giveBack gives back the rows of a queue, to make room for those of other queues. They are claimed
// again after the pause of the queue.
func (f *flow) giveBack(q *queue, why error) {
	for _, it := range slices.Clone(q.ready) {
		if f.hand[it.row.ID] == it {
			f.over(it, Outcome{Fate: Back, Reason: clip.To(why.Error(), 1024)})
		}
	}
}
