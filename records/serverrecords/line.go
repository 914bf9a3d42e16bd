package serverrecords

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

// A line gathers the writes of a process into requests. It sends the first write at once. Writes
// that come during a request wait for the next one, which begins when the request in progress has
// ended, when there are enough of them, or after gatherMax.
type line struct {
	send func(ctx context.Context, body []byte, changes int) ([]result, error)

	mu       sync.Mutex
	waiting  []*write
	free     []*write // that no caller waits for
	running  int
	timing   bool // slow is about to be called
	closed   bool
	requests sync.WaitGroup
}

// A write is a change that waits for its result. The mutex of the line guards batch.
type write struct {
	change change // its value is the caller's until the request begins
	batch  *batch // its request, once that has begun

	result result
	err    error
	done   chan struct{} // gets a token when result or err is set
}

// A batch is the writes of one request, which ends when no caller waits for it.
type batch struct {
	writes  []*write
	body    []byte // of the request: the call of a write may return before it ends
	callers int
	cancel  context.CancelFunc
}

// Limits of requests. One write may have more bytes.
const (
	batchMax   = 32
	batchBytes = 512 << 10
	runningMax = 4
	gatherMax  = 20 * time.Millisecond
	requestMax = 15 * time.Second
)

var errClosed = errors.New("the store is closed")

// do has a change made in a request that it may share.
func (l *line) do(ctx context.Context, c change) (result, error) {
	if err := ctx.Err(); err != nil {
		return result{}, err
	}
	w := l.join(c)
	if w == nil {
		return result{}, errClosed
	}
	select {
	case <-w.done:
		r, err := w.result, w.err
		l.mu.Lock()
		*w = write{done: w.done}
		l.free = append(l.free, w)
		l.mu.Unlock()
		return r, err
	case <-ctx.Done():
		l.leave(w)
		return result{}, ctx.Err()
	}
}

// join puts a write of a change in line. It returns nil if the store is closed.
func (l *line) join(c change) (w *write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if n := len(l.free); n > 0 {
		w, l.free = l.free[n-1], l.free[:n-1]
	} else {
		w = &write{done: make(chan struct{}, 1)}
	}
	w.change = c
	l.waiting = append(l.waiting, w)
	switch {
	case l.running == 0 || len(l.waiting) >= batchMax:
		l.start()
	case !l.timing:
		l.timing = true
		time.AfterFunc(gatherMax, l.slow)
	}
	return w
}

// slow begins another request, because those in progress are slow. One timer serves all writes, so
// some wait for less than gatherMax.
func (l *line) slow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timing = false
	l.start()
}

// leave takes a write out of the line. If it has begun and no other caller waits for its request,
// the request ends.
func (l *line) leave(w *write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else if w.batch != nil {
		if w.batch.callers--; w.batch.callers == 0 {
			w.batch.cancel()
		}
	}
}

// start begins a request with the waiting writes, if another one is allowed. The caller holds the
// mutex.
func (l *line) start() {
	if len(l.waiting) > 0 && l.running < runningMax {
		l.running++
		l.requests.Go(l.run)
	}
}

// run sends requests. It continues while there are full ones, or while it is the only run.
func (l *line) run() {
	runtime.Gosched() // include writes that come at this moment
	for {
		ctx, cancel := context.WithTimeout(context.Background(), requestMax)
		if b := l.take(cancel); b != nil {
			l.carryOut(ctx, b)
		}
		cancel()
		l.mu.Lock()
		if len(l.waiting) == 0 || len(l.waiting) < batchMax && l.running > 1 {
			l.running--
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

// take takes the writes of the next request out of the line; nil if there are none.
func (l *line) take(cancel context.CancelFunc) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, len(bodyBegin)+len(bodyEnd)
	for n < min(len(l.waiting), batchMax) &&
		(n == 0 || size+l.waiting[n].change.size() < batchBytes) {
		size += l.waiting[n].change.size() + 1
		n++
	}
	if n == 0 {
		return nil
	}
	b := &batch{writes: slices.Clone(l.waiting[:n]), callers: n, cancel: cancel}
	l.waiting = slices.Delete(l.waiting, 0, n)
	body := append(make([]byte, 0, size), bodyBegin...)
	for i, w := range b.writes {
		if w.batch = b; i > 0 {
			body = append(body, ',')
		}
		body = w.change.appendTo(body)
	}
	b.body = append(body, bodyEnd...)
	return b
}

// A request is a list of changes between these.
const bodyBegin, bodyEnd = `{"writes":[`, `]}`

func (l *line) carryOut(ctx context.Context, b *batch) {
	results, err := l.send(ctx, b.body, len(b.writes))
	for i, w := range b.writes {
		if w.err = err; err == nil {
			if w.result = results[i]; w.result.Error != nil {
				w.err = w.result.Error
			}
		}
		w.done <- struct{}{}
	}
}

// close refuses further writes and waits for those in line.
func (l *line) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.requests.Wait()
}
