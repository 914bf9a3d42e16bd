package outbox

import (
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// An item is a row in hand.
type item struct {
	row      Row
	entry    types.SendMessageBatchRequestEntry
	bytes    int       // in memory
	size     int       // in a request
	deadline time.Time // end of the time for which the relay may rely on the lease
	since    time.Time // start of its claim
	ready    bool      // it is in queue.ready
	away     bool      // a request with it is in progress
	alone    bool      // its batch was refused as a whole: send it alone
}

// A queue is a destination of rows.
type queue struct {
	name     string // as rows name it
	ready    []*item
	failures int       // in a row
	pause    time.Time // no request before
}

// ready appends an item to those of its queue that can be sent.
func (f *flow) ready(it *item) {
	q := f.queue(it.row.Queue)
	it.ready = true
	q.ready = append(q.ready, it)
}

// queue returns the queue with a name.
func (f *flow) queue(name string) *queue {
	q := f.queues[name]
	if q == nil {
		q = &queue{name: name}
		f.queues[name] = q
	}
	return q
}

// over ends an item with an outcome. The next row of its stream follows if the item was sent or
// parked. Otherwise, the rows behind it are given back too, because they must not overtake it.
func (f *flow) over(it *item, o Outcome) {
	o.ID = it.row.ID
	f.unsettled = append(f.unsettled, o)
	f.frees = f.frees || it.row.Stream != "" || o.Fate != Sent
	first, behind := f.forget(it)
	switch {
	case o.Fate == Sent || o.Fate == Parked:
		if first && len(behind) > 0 {
			f.ready(behind[0])
		}
	default:
		for _, other := range behind {
			f.unsettled = append(f.unsettled,
				Outcome{ID: other.row.ID, Fate: Back,
					Reason: "an earlier row of its group is not sent"})
			f.forget(other)
		}
	}
}

// forget takes an item out of the hand. It reports whether the item was the first of its stream,
// and returns those behind it.
func (f *flow) forget(it *item) (first bool, behind []*item) {
	if f.hand[it.row.ID] != it { // it was lost during a request
		return false, nil
	}
	delete(f.hand, it.row.ID)
	f.bytes -= it.bytes
	if q := f.queues[it.row.Queue]; it.ready {
		it.ready = false
		q.ready = slices.DeleteFunc(q.ready, func(other *item) bool { return other == it })
	}
	if s := it.row.Stream; s != "" {
		stream := f.streams[s]
		at := slices.Index(stream, it)
		first, behind = at == 0, slices.Clone(stream[at+1:])
		if f.streams[s] = slices.Delete(stream, at, at+1); len(f.streams[s]) == 0 {
			delete(f.streams, s)
		}
	}
	return first, behind
}

func (f *flow) park(it *item, reason string) {
	f.cfg.Logger.Error("a row of the outbox is parked: relays do not try it again until an operator releases it",
		"id", it.row.ID, "queue", it.row.Queue, "key", it.row.Key, "reason", reason)
	f.cfg.Events.Parked(it.row, reason)
	f.over(it, Outcome{Fate: Parked, Reason: reason})
}

// takeAgain forgets rows in hand that a claim returns again, because their leases had ended and no
// other relay took them. The claim also returns the rest of their streams, or the relay disowns it.
func (f *flow) takeAgain(rows []Row) {
	for _, row := range rows {
		if it := f.hand[row.ID]; it != nil {
			f.forget(it)
		}
		for _, it := range slices.Clone(f.streams[row.Stream]) {
			f.forget(it)
		}
	}
}

// disown gives back rows that are leased to the relay but not in hand: the answer of a claim was
// lost, or the relay gave up a lease that had not ended in the database.
func (f *flow) disown(ids []string) {
	known := make(map[string]bool, len(f.unsettled))
	for _, o := range f.unsettled {
		known[o.ID] = true
	}
	for _, id := range ids {
		if _, inHand := f.hand[id]; !inHand && !known[id] {
			f.unsettled = append(f.unsettled,
				Outcome{ID: id, Fate: Back,
					Reason: "the relay did not get the answer of its claim"})
			f.frees = true
		}
	}
}

// lose forgets a row and those behind it in its stream, which another relay now sends.
func (f *flow) lose(it *item) {
	f.cfg.Events.Lost(it.row)
	_, behind := f.forget(it)
	for _, other := range behind {
		f.forget(other)
		f.cfg.Events.Lost(other.row)
	}
}
