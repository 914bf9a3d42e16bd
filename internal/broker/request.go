package broker

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"tenaq/internal/engine"
)

// A request is one operation on its way through the broker.
type request struct {
	op    engine.Op
	class engine.Class
	size  int64 // bytes of messages that it would send

	err  error
	done chan struct{} // receives one element when the answer is in op, or in err

	// state says who decides about the request. The writer decides while it is taken. The caller
	// may abandon it at any time. A waiting receive is then never taken again, and the messages
	// that a taken one finds are lost.
	state atomic.Int32

	// then is called when the request is answered, in place of a caller that waits for done. It is
	// &settled once the request is answered or abandoned.
	then atomic.Pointer[func()]

	arrived int64 // when the writer first saw it, in broker time; zero before
	poll    poll

	room   Room // for the answer to a receive; nil for no bound
	noRoom bool // it found messages and had no room for them
}

const (
	waiting int32 = iota
	taken
	abandoned
)

var settled func()

// requestPool keeps answered requests for reuse. Each broker has its own, because a channel that
// was made in a synctest bubble cannot be used in another one.
type requestPool struct{ pool sync.Pool }

func (p *requestPool) get(op engine.Op) *request {
	r, ok := p.pool.Get().(*request)
	if !ok {
		r = &request{done: make(chan struct{}, 1)}
	}
	r.op, r.class, r.size = op, engine.ClassListing, 0
	if op, ok := op.(interface{ Class() engine.Class }); ok {
		r.class = op.Class()
	}
	if op, ok := op.(interface{ Size() int64 }); ok {
		r.size = op.Size()
	}
	return r
}

func (p *requestPool) put(r *request) {
	r.op, r.err, r.arrived, r.poll = nil, nil, 0, poll{}
	r.room, r.noRoom = nil, false
	r.state.Store(waiting)
	r.then.Store(nil)
	p.pool.Put(r)
}

func (r *request) take() bool { return r.state.CompareAndSwap(waiting, taken) }
func (r *request) release()   { r.state.CompareAndSwap(taken, waiting) }
func (r *request) abandon()   { r.state.Store(abandoned) }

// answer tells the caller that its operation is answered. Once done has its element, the request
// may be reused at any moment.
func (r *request) answer() {
	then := r.then.Swap(&settled)
	r.done <- struct{}{}
	if then != nil && then != &settled {
		go (*then)()
	}
}

// share is how many of the places each class may fill, in fortieths. The rest is reserved for more
// important classes.
//
// Every request in front of a send delays it by its share of a turn, so refusing sends early keeps
// those that are taken up quick. Listings and sends therefore have few places: those of two to ten
// turns, depending on their size. Receives have many, for thousands of clients that begin to poll
// in the same moment. Nearly all of them find nothing and soon leave the line for the polls. A
// refused receive would only come again.
var share = [...]int{engine.ClassListing: 5, engine.ClassSend: 6, engine.ClassReceive: 28,
	engine.ClassVisibility: 32, engine.ClassDelete: shares}

const shares = 40

// bytesMax bounds the memory of messages that wait to be sent.
const bytesMax = 64 << 20

// An intake is the line of requests in front of the writer.
type intake struct {
	mu       sync.Mutex
	waiting  []*request
	gone     []*request // abandoned
	max      int
	draining bool
	stopped  error // why no more operations are accepted
	noSpace  bool  // on the disk

	// Counts of waiting, for isFull, which takes no lock.
	places atomic.Int64 // requests
	bytes  atomic.Int64 // of their messages
}

// isFull reports whether a request of a class would be refused for overload.
func (in *intake) isFull(class engine.Class, size int64) bool {
	bytes := in.bytes.Load()
	return in.places.Load() >= int64(in.max*share[class]/shares) ||
		size > 0 && bytes > 0 && bytes+size > bytesMax
}

// put takes up a request and returns how many wait with it, or says why not.
func (in *intake) put(r *request) (waiting int, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.stopped != nil:
		return 0, in.stopped
	case in.noSpace && r.class == engine.ClassSend:
		return 0, ErrNoSpace
	case in.isFull(r.class, r.size):
		return 0, ErrThrottled
	}
	in.waiting = append(in.waiting, r)
	in.bytes.Add(r.size)
	in.places.Store(int64(len(in.waiting)))
	return len(in.waiting), nil
}

// take removes up to limit requests from the front of the line.
func (in *intake) take(limit int) (taken []*request, draining bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := min(limit, len(in.waiting))
	taken = in.waiting[:n:n]
	in.waiting = in.waiting[n:]
	in.places.Store(int64(len(in.waiting)))
	for _, r := range taken {
		in.bytes.Add(-r.size)
	}
	return taken, in.draining
}

// putBack returns requests to the front of the line.
func (in *intake) putBack(requests []*request) {
	if len(requests) == 0 {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.waiting = slices.Concat(requests, in.waiting)
	in.places.Store(int64(len(in.waiting)))
	for _, r := range requests {
		in.bytes.Add(r.size)
	}
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

func (in *intake) len() int { return int(in.places.Load()) }

func (in *intake) drain() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.draining = true
}

// stop refuses what comes from now on with why.
func (in *intake) stop(why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stopped, in.draining = cmp.Or(in.stopped, why), true
}

func (in *intake) setFull(full bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.noSpace = full
}
