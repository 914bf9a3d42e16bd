package sqs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"tenaq/internal/api/http1"
	"tenaq/internal/api/intake"
	"tenaq/internal/api/suspend"
	"tenaq/internal/api/wire"
	"tenaq/internal/broker"
	"tenaq/internal/engine"
)

// suspendAfter is how long a poll waits in its handler; polls of busy queues are answered before.
// While more than crowd polls wait in handlers it is suspendSoon. Of thousands that begin at the
// same moment, few then need the memory of a handler at the same time, which the process would keep
// for long.
const (
	suspendAfter = time.Second
	suspendSoon  = 20 * time.Millisecond
	crowd        = 1000
)

// errSuspended ends a handler whose poll continues without it.
var errSuspended = errors.New("the poll is suspended")

// A suspendedPoll is a poll that waits without a handler.
type suspendedPoll struct {
	attempt
	conn    suspend.Conn
	op      *operation
	receive *engine.ReceiveMessage // belongs to the broker until it is answered
	wanted  wantedAttributes
	room    *intake.Holding // for the answer
	body    *intake.Holding // of the request, whose text the poll still refers to
	pending broker.Pending
}

// poll asks the broker for messages. When it returns errSuspended, the rest happens elsewhere.
func (c *call) poll(op *engine.ReceiveMessage, wanted *wantedAttributes) error {
	pending, err := c.h.cfg.Broker.SubmitReceive(op, answerRoom{c.room})
	if err != nil {
		return err
	}
	if c.h.cfg.Rejoin == nil || op.Wait.Set && op.Wait.Value == 0 {
		return pending.Wait(c)
	}
	http1.Watch(c) // [POLL-10]
	after := suspendAfter
	if c.h.waiting.Add(1) > crowd {
		after = suspendSoon
	}
	answered, err := pending.WaitFor(c, after)
	c.h.waiting.Add(-1)
	switch {
	case answered:
		return err
	case c.suspend(op, pending, wanted):
		return errSuspended
	}
	return pending.Wait(c)
}

// suspend lets a poll wait without its handler. It reports false when that is not possible.
func (c *call) suspend(
	receive *engine.ReceiveMessage, pending broker.Pending, wanted *wantedAttributes,
) bool {
	p := &suspendedPoll{attempt: *c.attempt, op: c.op, receive: receive, wanted: *wanted,
		room: c.room, body: c.body, pending: pending}
	if !c.h.suspended.Take(&p.conn, c.w, c.http) {
		return false
	}
	c.room, c.body = nil, nil // p releases them
	pending.Then(p.answer)
	p.conn.Watch(p)
	return true
}

// Abandon ends the poll because its client has left. [POLL-10]
func (p *suspendedPoll) Abandon() bool {
	if !p.pending.Abandon() {
		return false
	}
	p.ends("ClientGone")
	p.release()
	return true
}

func (p *suspendedPoll) release() {
	p.room.Release()
	p.body.Release()
	p.h.cfg.Intake.End()
}

func (p *suspendedPoll) answer(err error) {
	p.conn.Answer(func(ctx context.Context, w http.ResponseWriter) bool {
		defer p.release()
		return p.write(ctx, w, err)
	})
}

// write reports whether there is an answer.
func (p *suspendedPoll) write(
	ctx context.Context, w http.ResponseWriter, err error,
) (ok bool) {
	defer func() {
		if v := recover(); v != nil { // as the HTTP server does for handlers
			p.h.cfg.Logger.Error("request failed", "error",
				fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
			ok = false
		}
	}()
	var resp response
	if err == nil {
		c := &call{Context: ctx, h: p.h, room: p.room}
		resp = c.deliver(&p.receive.Received, &p.wanted)
	}
	wire.SetRequestID(w, p.id)
	switch {
	case ctx.Err() != nil:
		p.ends("ClientGone")
		return false
	case err != nil:
		p.refuse(w, err)
	default:
		p.succeed(w, p.op, resp)
	}
	return true
}

// Drain suspends no more polls, and closes every connection of a suspended one with its answer, or
// at once when that was given. It comes before Broker.Drain, which makes the answers.
func (h *Handler) Drain() { h.suspended.Drain() }

// Shutdown waits until no poll is suspended. When ctx ends first, it cuts off those that are left
// and returns the error of ctx. It comes after Drain and does not wait for handlers.
func (h *Handler) Shutdown(ctx context.Context) error { return h.suspended.Shutdown(ctx) }
