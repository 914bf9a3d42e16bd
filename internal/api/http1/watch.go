package http1

import (
	"context"
	"sync"
	"time"
)

// watchAfter is how long a handler may wait for the end of its context before the connection is
// watched, unless it calls Watch.
const watchAfter = 25 * time.Millisecond

// A watch is the context of the requests of a connection. It ends when the client leaves, which
// only a read from the connection reveals. Such a read goes on when the handler has returned: it
// then reads the next request. The fields are guarded by conn.mu.
type watch struct {
	c     *conn
	gone  chan struct{}
	err   error
	timer *time.Timer // begins the read

	serving bool  // a handler runs
	asked   bool  // it waits for the end of the context
	whole   bool  // the body of its request has arrived
	reading bool  // into conn.buf, which is empty
	stopped bool  // interrupt has ended the read, not the client
	failed  error // why nothing more can be read
	ended   sync.Cond
}

// Watch makes the context of a request end at once when its client leaves. It is for handlers that
// wait for long. The contexts of other servers need no such call.
func Watch(ctx context.Context) {
	if w, ok := ctx.Value(watchKey{}).(*watch); ok {
		w.Done()
		w.read()
	}
}

type watchKey struct{}

// begin is called with each request.
func (w *watch) begin(whole bool) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.serving, w.asked, w.whole = true, false, whole
}

// arrived is called when the body of the request has arrived.
func (w *watch) arrived() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.whole = true
	w.arm()
}

// arm starts the timer when there is something to find out. conn.mu is held.
func (w *watch) arm() {
	switch {
	case !w.asked || !w.whole:
	case w.timer == nil:
		w.timer = time.AfterFunc(watchAfter, w.read)
	default:
		w.timer.Reset(watchAfter)
	}
}

// read begins to read, unless the handler has returned or the next request is there.
func (w *watch) read() {
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.asked || !w.whole || w.reading || w.failed != nil || c.r < c.w {
		return
	}
	w.reading = true
	c.r, c.w = 0, 0
	c.reads.apply()
	go func() {
		n, err := c.raw.Read(c.buf)
		c.mu.Lock()
		defer c.mu.Unlock()
		if w.reading, c.w = false, n; n == 0 && err != nil && !w.stopped {
			w.fail(err)
		}
		w.ended.Broadcast()
	}()
}

// fail ends the context because the connection cannot be read from. conn.mu is held.
func (w *watch) fail(err error) {
	if w.failed = err; w.err == nil {
		w.err = context.Canceled
		close(w.gone)
	}
}

// pause is called when the handler has returned.
func (w *watch) pause() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.serving, w.asked = false, false; w.timer != nil {
		w.timer.Stop()
	}
}

// join waits until nothing is being read, and returns why no more can be.
func (w *watch) join() error {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.reading {
		w.c.reads.apply()
	}
	for w.reading {
		w.ended.Wait()
	}
	return w.failed
}

// interrupt ends the watch for good.
func (w *watch) interrupt() {
	w.pause()
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.stopped = true; w.reading {
		w.c.reads.move(time.Unix(1, 0))
	}
	for w.reading {
		w.ended.Wait()
	}
}

// end is called when the connection leaves the loop.
func (w *watch) end() {
	w.interrupt()
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.fail(context.Canceled)
}

func (w *watch) Done() <-chan struct{} {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.serving && !w.asked {
		w.asked = true
		w.arm()
	}
	return w.gone
}

func (w *watch) Err() error {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	return w.err
}

func (w *watch) Value(key any) any {
	if key == (watchKey{}) {
		return w
	}
	return nil
}

func (w *watch) Deadline() (time.Time, bool) { return time.Time{}, false }
