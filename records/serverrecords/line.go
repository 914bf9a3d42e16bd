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
	send func(ctx context.Context, changes [][]byte) ([]result, error)

	mu       sync.Mutex
	waiting  []*write
	running  int
	timing   bool // slow is about to be called
	closed   bool
	requests sync.WaitGroup
}

// A write is a change that waits for its result. The mutex of the line guards batch.
type write struct {
	change []byte // encoded, because the call may return before the request
	batch  *batch // its request, once that has begun

	result result
	err    error
	done   chan struct{} // closed when result or err is set
}

// A batch is the writes of one request, which ends when no caller waits for it.
type batch struct {
	writes  []*write
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
	w := &write{change: c.encode(), done: make(chan struct{})}
	if !l.join(w) {
		return result{}, errClosed
	}
	select {
	case <-w.done:
		return w.result, w.err
	case <-ctx.Done():
		l.leave(w)
		return result{}, ctx.Err()
	}
}

// join puts a write in line, unless the store is closed.
func (l *line) join(w *write) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.waiting = append(l.waiting, w)
	switch {
	case l.running == 0 || len(l.waiting) >= batchMax:
		l.start()
	case !l.timing:
		l.timing = true
		time.AfterFunc(gatherMax, l.slow)
	}
	return true
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
	n, size := 0, 0
	for n < min(len(l.waiting), batchMax) &&
		(n == 0 || size+len(l.waiting[n].change) <= batchBytes) {
		size += len(l.waiting[n].change)
		n++
	}
	if n == 0 {
		return nil
	}
	b := &batch{writes: slices.Clone(l.waiting[:n]), callers: n, cancel: cancel}
	l.waiting = slices.Delete(l.waiting, 0, n)
	for _, w := range b.writes {
		w.batch = b
	}
	return b
}

func (l *line) carryOut(ctx context.Context, b *batch) {
	changes := make([][]byte, len(b.writes))
	for i, w := range b.writes {
		changes[i] = w.change
	}
	results, err := l.send(ctx, changes)
	for i, w := range b.writes {
		if w.err = err; err == nil {
			if w.result = results[i]; w.result.Error != nil {
				w.err = w.result.Error
			}
		}
		close(w.done)
	}
}

// close refuses further writes and waits for those in line.
func (l *line) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.requests.Wait()
}
