package http1

import (
	"context"
	"sync"
	"time"
)

// watchAfter is how long a handler may wait for the end of its context before the connection is
// watched. It is longer than polls wait in handlers while there are many.
const watchAfter = 25 * time.Millisecond

// A watch is the context of the requests of a connection. It ends when the client leaves, which
// only a read from the connection reveals; the read is begun when a handler has waited for a
// while. Its fields are guarded by conn.mu.
type watch struct {
	c     *conn
	gone  chan struct{}
	err   error
	timer *time.Timer // begins the read

	serving bool // a handler runs
	asked   bool // it wants to know the end of the context
	whole   bool // the body of its request has arrived
	reading bool
	ended   sync.Cond // no longer reading
}

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

// read reads from the connection until the client sends its next request or leaves.
func (w *watch) read() {
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.asked || !w.whole || w.reading || c.r < c.w {
		return // the handler is another one, or the next request is there
	}
	w.reading = true
	c.reads.apply()
	c.mu.Unlock()
	n, err := c.raw.Read(c.buf)
	c.mu.Lock()
	if c.r, c.w = 0, n; n == 0 && err != nil && w.asked {
		w.close()
	}
	w.reading = false
	w.ended.Broadcast()
}

// close ends the context. conn.mu is held.
func (w *watch) close() {
	if w.err == nil {
		w.err = context.Canceled
		close(w.gone)
	}
}

// pause ends the reading when the handler has returned.
func (w *watch) pause() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.stop()
}

// stop ends the reading. conn.mu is held.
func (w *watch) stop() {
	if w.serving, w.asked = false, false; w.timer != nil {
		w.timer.Stop()
	}
	if w.reading {
		w.c.reads.move(time.Unix(1, 0))
		for w.reading {
			w.ended.Wait()
		}
	}
}

// end is called when the connection leaves the loop.
func (w *watch) end() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.stop()
	w.close()
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

func (w *watch) Deadline() (time.Time, bool) { return time.Time{}, false }
func (w *watch) Value(any) any               { return nil }
