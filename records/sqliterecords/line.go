package sqliterecords

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"tenaq/internal/work/sqlitedb"
	"tenaq/records"
)

// A line holds the writes of this process that wait for a transaction. The first one starts a
// goroutine, which continues until Close. It waits for the write lock, takes the writes that are in
// line by then, commits them together, and answers them. It is one goroutine for all writes because
// SQLite needs a large stack, which would have to grow again in each new one.
type line struct {
	wait time.Duration // for other processes

	mu      sync.Mutex
	ready   sync.Cond // signaled when waiting or closed changes
	waiting []*write
	running bool
	closed  bool
	runs    sync.WaitGroup
}

// A write is a call that waits for its transaction.
type write struct {
	change func(*turn) error
	bytes  int
	until  time.Time // when it gives up waiting for other processes

	err  error
	done chan struct{} // closed when err is set
}

// Limits of a turn, so that its writes do not wait for long, and other processes do not either. One
// write may have more bytes.
const (
	turnMax   = 256
	turnBytes = 1 << 20
)

// errClosed is the error of writes after Close.
var errClosed = errors.New("the store is closed")

// write has a change made in a transaction that it may share. Change must not rely on ctx, and may
// be called again after a rollback.
func (s *Store) write(
	ctx context.Context, doing string, bytes int, change func(*turn) error,
) error {
	if err := ctx.Err(); err != nil {
		return s.explain(ctx, doing, err)
	}
	w := &write{change: change, bytes: bytes, done: make(chan struct{}),
		until: time.Now().Add(s.line.wait)}
	if !s.join(w) {
		return s.explain(ctx, doing, errClosed)
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		s.line.leave(w)
		return s.explain(ctx, doing, ctx.Err())
	}
	if _, conflict := errors.AsType[*records.Conflict](w.err); conflict {
		return w.err
	}
	return s.explain(ctx, doing, w.err)
}

// join puts a write in line, unless the store is closed.
func (s *Store) join(w *write) bool {
	l := &s.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.waiting = append(l.waiting, w)
	if !l.running {
		l.running = true
		l.runs.Go(s.run)
	}
	l.ready.Signal()
	return true
}

// leave takes a write out of the line, if it is still there.
func (l *line) leave(w *write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
}

// take takes the next group out of the line.
func (l *line) take() (group []*write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, bytes := 0, 0
	for n < min(len(l.waiting), turnMax) && (n == 0 || bytes+l.waiting[n].bytes <= turnBytes) {
		bytes += l.waiting[n].bytes
		n++
	}
	group = slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	return group
}

// putBack puts writes back to the front of the line.
func (l *line) putBack(group []*write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(group, l.waiting...)
}

// takeLate takes out of the line what has waited for too long.
func (l *line) takeLate() (late []*write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.waiting = slices.DeleteFunc(l.waiting, func(w *write) bool {
		if now.Before(w.until) {
			return false
		}
		late = append(late, w)
		return true
	})
	return late
}

// await waits until there are writes. It reports false after Close.
func (l *line) await() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) == 0 && !l.closed {
		l.ready.Wait()
	}
	return len(l.waiting) > 0
}

// close refuses further writes and waits for those in line.
func (l *line) close() {
	l.mu.Lock()
	l.closed = true
	l.ready.Signal()
	l.mu.Unlock()
	l.runs.Wait()
}

// run makes turns until Close.
func (s *Store) run() {
	for tries := 0; s.line.await(); {
		_, err := s.begin.Exec()
		switch tries++; {
		case err == nil:
			tries = 0
			s.apply(&turn{Store: s}, s.line.take())
		case sqlitedb.IsBusy(err):
			answer(s.line.takeLate(), err)
			time.Sleep(rand.N(time.Duration(min(tries, busyPauses)) * time.Millisecond))
		default:
			answer(s.line.take(), err)
		}
	}
}

// busyPauses limits the pause between two tries to get the write lock, in milliseconds. SQLite's
// own pauses grow to 100 ms. Between two turns, a busy process leaves the lock for microseconds;
// another process with such pauses might not get it within Config.Wait.
const busyPauses = 8

// apply makes the changes of a group, commits them together and answers them. A conflict waits for
// the commit as well, because it may report a change of the same turn.
func (s *Store) apply(t *turn, group []*write) {
	var err error
	for i, w := range group {
		w.err = w.change(t)
		if _, conflict := errors.AsType[*records.Conflict](w.err); w.err == nil || conflict {
			continue
		}
		err = w.err
		if sqlitedb.IsStatement(err) { // the others try again without it
			s.line.putBack(slices.Delete(slices.Clone(group), i, i+1))
			group = group[i : i+1]
		}
		break
	}
	if err = t.end(err); err != nil {
		answer(group, err)
		return
	}
	for _, w := range group {
		close(w.done)
	}
}

// answer answers writes with an error.
func answer(group []*write, err error) {
	for _, w := range group {
		w.err = err
		close(w.done)
	}
}
