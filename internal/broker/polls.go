package broker

import (
	"container/heap"
	"errors"

	"tenaq/internal/engine"
)

// polls are the receives that wait for messages. They belong to the writer. A waiting poll costs a
// list element and a place in a heap, no goroutine and no timer of its own.
type polls struct {
	queues    map[engine.QueueName]*pollQueue
	count     int
	stirred   []*pollQueue
	deadlines timeHeap[*request]
	readies   timeHeap[*pollQueue]
}

// A poll is a request's place among the polls.
type poll struct {
	queue      *pollQueue // nil while the request does not wait here
	deadline   int64      // broker time
	index      int        // in polls.deadlines
	prev, next *request
}

// A pollQueue is the polls of one queue, in the order they arrived.
type pollQueue struct {
	name        engine.QueueName
	first, last *request
	stirred     bool
	ready       int64 // when time alone makes a message receivable; zero for never
	index       int   // in polls.readies, -1 when ready is zero
}

func (p *polls) init() { p.queues = make(map[engine.QueueName]*pollQueue) }

// add lets a request wait for messages until deadline.
func (p *polls) add(r *request, name engine.QueueName, deadline, ready int64) {
	q := p.queues[name]
	if q == nil {
		q = &pollQueue{name: name, index: -1}
		p.queues[name] = q
	}
	r.poll = poll{queue: q, deadline: deadline, prev: q.last}
	if q.last != nil {
		q.last.poll.next = r
	} else {
		q.first = r
	}
	q.last = r
	heap.Push(&p.deadlines, r)
	p.sooner(q, ready)
	p.count++
}

// sooner is setReady, unless the queue is looked at earlier anyway, for a poll that waits for room.
func (p *polls) sooner(q *pollQueue, ready int64) {
	if q.ready == 0 || ready != 0 && ready < q.ready {
		p.setReady(q, ready)
	}
}

// remove takes a request out.
func (p *polls) remove(r *request) {
	q := r.poll.queue
	if r.poll.prev != nil {
		r.poll.prev.poll.next = r.poll.next
	} else {
		q.first = r.poll.next
	}
	if r.poll.next != nil {
		r.poll.next.poll.prev = r.poll.prev
	} else {
		q.last = r.poll.prev
	}
	heap.Remove(&p.deadlines, r.poll.index)
	r.poll = poll{}
	p.count--
	if q.first == nil {
		p.setReady(q, 0)
		delete(p.queues, q.name)
	}
}

// setReady sets when to look at the queue again if nothing happens in it; zero for never.
func (p *polls) setReady(q *pollQueue, ready int64) {
	q.ready = ready
	switch {
	case ready == 0 && q.index >= 0:
		heap.Remove(&p.readies, q.index)
	case ready != 0 && q.index >= 0:
		heap.Fix(&p.readies, q.index)
	case ready != 0:
		heap.Push(&p.readies, q)
	}
}

// stir notes that something happened in a queue for which its polls may be waiting.
func (p *polls) stir(name engine.QueueName) {
	if q := p.queues[name]; q != nil {
		p.mark(q)
	}
}

func (p *polls) mark(q *pollQueue) {
	if !q.stirred {
		q.stirred = true
		p.stirred = append(p.stirred, q)
	}
}

// next returns the next broker time at which there is something to do.
func (p *polls) next() (at int64, ok bool) {
	if len(p.deadlines) > 0 {
		at, ok = p.deadlines[0].poll.deadline, true
	}
	if len(p.readies) > 0 && (!ok || p.readies[0].ready < at) {
		at, ok = p.readies[0].ready, true
	}
	return at, ok
}

// servePolls lets the polls of every queue in which something happened try again, and ends those
// whose time is over. [POLL-3, POLL-4]
func (b *Broker) servePolls(t *turn) {
	p := &b.polls
	for _, r := range b.intake.takeAbandoned() {
		if r.poll.queue != nil {
			p.remove(r) // [POLL-10]
		}
	}
	for len(p.readies) > 0 && p.readies[0].ready <= b.now {
		q := p.readies[0]
		p.setReady(q, 0)
		p.mark(q)
	}
	stirred := p.stirred
	p.stirred = nil
	for i, q := range stirred {
		if b.full() {
			p.stirred = append(p.stirred, stirred[i:]...)
			b.signal()
			break
		}
		if q.stirred {
			b.serve(t, q)
		}
	}
	for len(p.deadlines) > 0 && (b.draining || p.deadlines[0].poll.deadline <= b.now) { // [POLL-11]
		r := p.deadlines[0]
		p.remove(r)
		if r.take() {
			if t.answers = append(t.answers, r); r.noRoom {
				r.err = ErrThrottled // an empty answer would say that there is no message
				continue
			}
			b.countEmpty(r.op.(*engine.ReceiveMessage).Queue)
		}
	}
}

// serve lets the polls of a queue try again, the longest waiting first, until one comes back empty
// or the turn is full. A poll without room for its answer stays, and polls of other owners pass it.
func (b *Broker) serve(t *turn, q *pollQueue) {
	p := &b.polls
	q.stirred = false
	var full roomless
	var next *request
	for r := q.first; r != nil; r = next {
		if next = r.poll.next; full.has(r) {
			r.noRoom = true
			continue
		}
		if !r.take() {
			p.remove(r)
			continue
		}
		op := r.op.(*engine.ReceiveMessage)
		err := b.applyOp(r)
		switch {
		case err == nil && op.NoRoom:
			r.release()
			r.noRoom = true
			full.add(r)
			p.setReady(q, b.now+roomRetry)
			continue
		case err == engine.ErrAgain:
			r.release()
			p.mark(q)
			b.signal()
			return
		case err == nil && len(op.Messages) == 0 && (op.WaitFor > 0 || !r.noRoom):
			r.release()
			r.noRoom = false
			p.setReady(q, op.NextReady)
			if len(full) > 0 { // those in front must learn that there are no messages
				p.sooner(q, b.now+roomRetry)
			}
			return
		}
		p.remove(r)
		var refusal *engine.Error
		if errors.As(err, &refusal) && refusal.Code == engine.CodeNoQueue {
			err = nil // the poll ends early, with nothing [QUEUE-17]
		}
		r.err = err
		t.answers, t.confirm = append(t.answers, r), true
		if next != nil && len(op.Messages) > 0 && b.full() {
			p.mark(q)
			b.signal()
			return
		}
	}
}

func (r *request) when() int64   { return r.poll.deadline }
func (r *request) place() *int   { return &r.poll.index }
func (q *pollQueue) when() int64 { return q.ready }
func (q *pollQueue) place() *int { return &q.index }

// A timeHeap is a heap by time whose elements know their places in it, -1 for none.
type timeHeap[T interface {
	when() int64
	place() *int
}] []T

func (h timeHeap[T]) Len() int           { return len(h) }
func (h timeHeap[T]) Less(i, j int) bool { return h[i].when() < h[j].when() }
func (h timeHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].place(), *h[j].place() = i, j
}

func (h *timeHeap[T]) Push(x any) {
	*x.(T).place() = len(*h)
	*h = append(*h, x.(T))
}

func (h *timeHeap[T]) Pop() any {
	n := len(*h) - 1
	last := (*h)[n]
	clear((*h)[n:])
	*h = (*h)[:n]
	*last.place() = -1
	return last
}
