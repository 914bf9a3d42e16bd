package broker

import (
	"sync"
	"sync/atomic"

	"tenaq/internal/engine"
)

// A request is one operation on its way through the broker.
type request struct {
	op   engine.Op
	res  engine.Result
	err  error
	done chan struct{} // receives one element when res and err are set

	// state says who may decide about the request. The writer holds it while it is taken. The caller may
	// abandon it at any time: a receive that is then not held is never taken again, and what one that is
	// held at that moment finds is lost.
	state atomic.Int32

	arrived int64 // when the writer first saw it, in broker time; zero before
	poll    poll
}

const (
	waiting int32 = iota
	taken
	abandoned
)

// requestPool keeps answered requests for reuse. Each broker has its own, because a channel that was made
// in a synctest bubble cannot be used in another one.
type requestPool struct{ pool sync.Pool }

func (p *requestPool) get(op engine.Op) *request {
	r, ok := p.pool.Get().(*request)
	if !ok {
		r = &request{done: make(chan struct{}, 1)}
	}
	r.op = op
	return r
}

func (p *requestPool) put(r *request) {
	r.op, r.res, r.err, r.arrived, r.poll = nil, engine.Result{}, nil, 0, poll{}
	r.state.Store(waiting)
	p.pool.Put(r)
}

func (r *request) take() bool { return r.state.CompareAndSwap(waiting, taken) }
func (r *request) release()   { r.state.CompareAndSwap(taken, waiting) }
func (r *request) abandon()   { r.state.Store(abandoned) }
func (r *request) answer()    { r.done <- struct{}{} }

// The classes of requests, the most dispensable first. A queue whose deletes come late feeds itself
// with redeliveries, so under overload listings are refused first and deletes last. [DUR-25]
type class int

const (
	classListing class = iota
	classSend
	classReceive
	classVisibility
	classDelete
)

func classOf(op engine.Op) class {
	switch op.(type) {
	case *engine.SendMessage, *engine.SendMessageBatch:
		return classSend
	case *engine.ReceiveMessage:
		return classReceive
	case *engine.ChangeMessageVisibility, *engine.ChangeMessageVisibilityBatch:
		return classVisibility
	case *engine.DeleteMessage, *engine.DeleteMessageBatch:
		return classDelete
	default:
		return classListing
	}
}

// share is which part of the places each class may fill, in tenths. What a class may not fill is
// reserved for the more important ones.
var share = [...]int{classListing: 5, classSend: 6, classReceive: 7, classVisibility: 8, classDelete: 10}

// bytesMax bounds the memory of messages that wait to be sent.
const bytesMax = 64 << 20

// An intake is the line of requests in front of the writer.
type intake struct {
	mu       sync.Mutex
	waiting  []*request
	gone     []*request // whose callers have given up
	bytes    int64      // of the messages in them
	max      int
	draining bool
	stopped  bool
	full     bool // the disk
}

func sizeOf(op engine.Op) (n int64) {
	switch op := op.(type) {
	case *engine.SendMessage:
		return op.Draft.Size()
	case *engine.SendMessageBatch:
		for i := range op.Drafts {
			n += op.Drafts[i].Size()
		}
	}
	return n
}

// put takes up a request, or says why not.
func (in *intake) put(r *request) error {
	c, size := classOf(r.op), sizeOf(r.op)
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.stopped:
		return ErrStopped
	case in.full && c == classSend:
		return ErrNoSpace
	case len(in.waiting) >= in.max*share[c]/10, size > 0 && in.bytes > 0 && in.bytes+size > bytesMax:
		return ErrThrottled
	}
	in.waiting = append(in.waiting, r)
	in.bytes += size
	return nil
}

// take removes up to limit requests from the front of the line.
func (in *intake) take(limit int) (taken []*request, draining bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := min(limit, len(in.waiting))
	taken = in.waiting[:n:n]
	in.waiting = in.waiting[n:]
	for _, r := range taken {
		in.bytes -= sizeOf(r.op)
	}
	return taken, in.draining
}

// giveUp notes that the caller of an abandoned request has gone.
func (in *intake) giveUp(r *request) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.gone = append(in.gone, r)
}

func (in *intake) takeAbandoned() []*request {
	in.mu.Lock()
	defer in.mu.Unlock()
	gone := in.gone
	in.gone = nil
	return gone
}

func (in *intake) len() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.waiting)
}

func (in *intake) drain() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.draining = true
}

func (in *intake) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stopped, in.draining = true, true
}

func (in *intake) setFull(full bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.full = full
}
