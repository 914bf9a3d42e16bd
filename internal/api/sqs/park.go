package sqs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/broker"
	"tenaq/internal/engine"
)

// A poll that waits in a handler keeps a goroutine with a deep stack, another one that watches the connection, buffers, headers
// and contexts: 27 KB for a client that is told nothing for 20 seconds. So one that has waited for a moment is parked. Its
// connection is taken from the HTTP server, and of all that a small struct and a goroutine that reads are left. The answer is made
// when there is one, on a new goroutine, and the HTTP server gets the connection back with the next request.

// parkAfter is how long a poll waits in its handler. Those of busy queues are answered before. While more than crowd wait in
// handlers it is parkSoon: of thousands that begin in the same moment few then need the memory of a handler at the same time. The
// process would keep it for long.
const (
	parkAfter = time.Second
	parkSoon  = 20 * time.Millisecond
	crowd     = 1000
)

// errParked ends a handler whose poll goes on without it.
var errParked = errors.New("the poll is parked")

// A parkedPoll is a poll that waits without a handler, and then its connection until the next request.
type parkedPoll struct {
	attempt
	op      *operation
	wanted  wantedAttributes
	room    *intake.Holding // for the answer
	body    *intake.Holding // of the request, whose text the poll still refers to
	pending broker.Pending
	last    bool    // the client wants the connection closed
	first   [1]byte // is where watch reads

	// Guarded by parking.mu.
	conn  net.Conn           // nil until it has been taken over
	ahead []byte             // what was read of the next request
	idle  bool               // answered; whatever happens next is up to watch
	gone  bool               // the client
	stop  context.CancelFunc // of the answer under way
}

// parking is all polls that are parked, and the connections of those that were.
type parking struct {
	wg      sync.WaitGroup
	waiting atomic.Int64 // polls in handlers

	mu       sync.Mutex
	polls    map[*parkedPoll]struct{}
	draining bool
	cut      bool
}

// poll asks the broker for messages. When it returns errParked, all that is left to do is done elsewhere.
func (c *call) poll(op *engine.ReceiveMessage, wanted *wantedAttributes) (engine.Result, error) {
	pending, err := c.h.cfg.Broker.SubmitReceive(op, answerRoom{c.room})
	if err != nil {
		return engine.Result{}, err
	}
	if c.h.cfg.Rejoin == nil || op.Wait.Set && op.Wait.Value == 0 {
		return pending.Wait(c)
	}
	after := parkAfter
	if c.h.parking.waiting.Add(1) > crowd {
		after = parkSoon
	}
	res, answered, err := pending.WaitFor(c, after)
	c.h.parking.waiting.Add(-1)
	switch {
	case answered:
		return res, err
	case c.park(pending, wanted):
		return engine.Result{}, errParked
	}
	return pending.Wait(c)
}

// park takes the connection of a poll over. It reports false when that cannot be.
func (c *call) park(pending broker.Pending, wanted *wantedAttributes) bool {
	p := &parkedPoll{attempt: *c.attempt, op: c.op, wanted: *wanted, room: c.room, body: c.body, pending: pending, last: c.http.Close}
	k := &c.h.parking
	if !c.http.ProtoAtLeast(1, 1) || !k.enter(p) {
		return false
	}
	conn, buf, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		k.leave(p)
		return false
	}
	ahead, _ := buf.Reader.Peek(buf.Reader.Buffered())
	c.room, c.body = nil, nil // they are those of p now
	k.took(p, conn, bytes.Clone(ahead))
	pending.Then(p.answer)
	if len(ahead) == 0 {
		go p.watch()
	}
	return true
}

// watch reads from the connection, for nothing else tells when the client has gone. Like the HTTP server it stops to do so when
// the next request is there before the answer to this one.
func (p *parkedPoll) watch() {
	n, _ := io.ReadFull(p.conn, p.first[:])
	if n == 0 && p.pending.Abandon() { // [POLL-10]
		p.room.Release()
		p.body.Release()
		p.ends("ClientGone")
		p.h.cfg.Intake.End()
		p.close()
		return
	}
	k := &p.h.parking
	k.mu.Lock()
	p.ahead = p.first[:n]
	idle := p.idle
	if n == 0 {
		p.clientGone()
	} else {
		p.idle = false // what comes now is for the HTTP server, also when a stop begins
	}
	k.mu.Unlock()
	switch {
	case !idle: // answer does the rest
	case n == 0:
		p.close()
	default:
		p.rejoin()
	}
}

// clientGone notes that nobody waits for the answer any more. parking.mu is held.
func (p *parkedPoll) clientGone() {
	p.gone = true
	if p.stop != nil {
		p.stop()
	}
}

// answer makes the answer and writes it.
func (p *parkedPoll) answer(res engine.Result, err error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	k := &p.h.parking
	k.mu.Lock()
	p.stop = stop
	if p.gone {
		stop()
	}
	last := p.last || k.draining
	k.mu.Unlock()

	written := p.write(ctx, last, &res, err)
	p.room.Release()
	p.body.Release()
	p.h.cfg.Intake.End()

	k.mu.Lock()
	keep := written && !last && !k.draining && !p.gone
	p.idle = keep && len(p.ahead) == 0
	if p.idle {
		p.conn.SetReadDeadline(time.Now().Add(p.h.cfg.IdleMax))
	}
	idle := p.idle
	k.mu.Unlock()
	switch {
	case idle: // watch does the rest
	case keep:
		p.rejoin()
	default:
		p.close()
	}
}

// write reports whether the connection can be used on.
func (p *parkedPoll) write(ctx context.Context, last bool, res *engine.Result, err error) (ok bool) {
	defer func() {
		if v := recover(); v != nil { // as the HTTP server does for handlers
			p.h.cfg.Logger.Error("request failed", "error", fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
			ok = false
		}
	}()
	var resp response
	if err == nil {
		c := &call{Context: ctx, h: p.h, room: p.room}
		resp = c.deliver(res, &p.wanted)
	}
	w := &plainWriter{conn: p.conn, header: http.Header{"x-amzn-RequestId": {p.id}}, last: last}
	switch {
	case ctx.Err() != nil:
		p.ends("ClientGone")
		return false
	case err != nil:
		p.refuse(w, err)
	default:
		p.succeed(w, p.op, resp)
	}
	return w.err == nil
}

// close is the end of the connection.
func (p *parkedPoll) close() {
	p.conn.Close()
	p.h.parking.leave(p)
}

// rejoin gives the connection back to the HTTP server.
func (p *parkedPoll) rejoin() {
	p.conn.SetDeadline(time.Time{})
	p.h.cfg.Rejoin(p.conn, p.ahead)
	p.h.parking.leave(p)
}

// enter notes that a poll is being parked, unless none may be any more.
func (k *parking) enter(p *parkedPoll) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.draining {
		return false
	}
	k.wg.Add(1)
	k.polls[p] = struct{}{}
	return true
}

func (k *parking) took(p *parkedPoll, conn net.Conn, ahead []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.conn, p.ahead = conn, ahead
	if k.cut {
		p.clientGone()
		conn.Close()
	}
}

func (k *parking) leave(p *parkedPoll) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.polls, p)
	k.wg.Done()
}

// Drain parks no more polls, and has every connection of a parked one closed with its answer, or at once when that was given. It
// comes before Broker.Drain, which is what makes the answers.
func (h *Handler) Drain() {
	k := &h.parking
	k.mu.Lock()
	defer k.mu.Unlock()
	k.draining = true
	for p := range k.polls {
		if p.idle {
			p.conn.Close()
		}
	}
}

// Shutdown waits until no poll is parked any more. When ctx ends first it cuts off those that are left, and returns the error of
// ctx. It comes after Drain; handlers are none of its business.
func (h *Handler) Shutdown(ctx context.Context) error {
	k := &h.parking
	none := make(chan struct{})
	go func() { k.wg.Wait(); close(none) }()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
	}
	k.mu.Lock()
	k.cut = true
	for p := range k.polls {
		p.clientGone() // an answer may be waiting for its part of a budget
		if p.conn != nil {
			p.conn.Close()
		}
	}
	k.mu.Unlock()
	<-none
	return ctx.Err()
}

// A plainWriter is the http.ResponseWriter of an answer that is written in one go to a connection nobody else uses. What it
// writes is what that of the HTTP server would.
type plainWriter struct {
	conn   net.Conn
	header http.Header
	status int
	last   bool // answer of the connection
	err    error
}

func (w *plainWriter) Header() http.Header { return w.header }

func (w *plainWriter) WriteHeader(status int) { w.status = status }

// SetWriteDeadline is for http.ResponseController.
func (w *plainWriter) SetWriteDeadline(t time.Time) error { return w.conn.SetWriteDeadline(t) }

// Write writes a part of the body, and the header in front of the first.
func (w *plainWriter) Write(body []byte) (n int, err error) {
	if n = len(body); w.header != nil {
		buf := intake.Buffer()
		defer intake.Recycle(buf)
		fmt.Fprintf(buf, "HTTP/1.1 %d %s\r\n", w.status, http.StatusText(w.status))
		w.header.Write(buf)
		fmt.Fprintf(buf, "Date: %s\r\n", time.Now().UTC().Format(http.TimeFormat))
		if w.last {
			buf.WriteString("Connection: close\r\n")
		}
		buf.WriteString("\r\n")
		w.header = nil
		if len(body) <= intake.Small {
			buf.Write(body)
			body = nil
		}
		w.conn.SetWriteDeadline(time.Now().Add(intake.StallMax))
		_, w.err = w.conn.Write(buf.Bytes())
	}
	if w.err == nil && len(body) > 0 {
		_, w.err = w.conn.Write(body)
	}
	return n, w.err
}
