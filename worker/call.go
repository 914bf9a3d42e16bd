package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"tenaq/internal/work/backoff"
)

// A call is a call of the handler over claimed messages.
type call struct {
	worker  *Worker
	unit    []*delivery
	errs    []error
	abandon func(cause error)
	cause   error // why the context of the handler ended before it returned

	ctx     context.Context // of the handler
	cancel  context.CancelCauseFunc
	timeout *time.Timer
	stall   *time.Timer // or nil
	began   time.Time

	mu   sync.Mutex
	over bool          // the handler has returned
	wait *time.Timer   // for the return of the handler, once its context has ended
	gone chan struct{} // closed when the messages have been given up; nil before
}

// newCall prepares a call. If the context of the handler ends before the handler returns, and the
// handler does not return within Config.Drain after that, abandon is called with the cause.
func (w *Worker) newCall(unit []*delivery, abandon func(cause error)) *call {
	c := &call{worker: w, unit: unit, errs: make([]error, len(unit)), abandon: abandon}
	c.ctx, c.cancel = context.WithCancelCause(unit[0].hold.ctx)
	return c
}

// run runs the handler. A handler does not begin without the lease and the claim of each message.
func (c *call) run() {
	w := c.worker
	for _, d := range c.unit {
		d.keep()
		if why := d.whyEnded(); why != nil {
			c.cancel(why)
		}
	}
	if c.ctx.Err() != nil { // such as when other claims took longer than the first one lasts
		for i := range c.unit {
			c.errs[i] = context.Cause(c.ctx)
		}
		return
	}
	for _, d := range c.unit {
		d.hold.watch(func() { c.end(d.whyEnded()) })
	}
	c.timeout = time.AfterFunc(w.cfg.Timeout, func() { c.end(ErrTimeout) })
	if w.cfg.Stall > 0 {
		c.stall = time.AfterFunc(w.cfg.Stall, func() { c.end(ErrStalled) })
		progress := func() { c.stall.Reset(w.cfg.Stall) }
		for _, d := range c.unit {
			d.progress.Store(&progress)
		}
	}
	c.began = time.Now()
	for try := 1; ; try++ {
		w.callOnce(c.ctx, c.unit, c.errs)
		if !w.awaitHandler(c.ctx, c.unit, c.errs, try) {
			return
		}
	}
}

// end ends the context of the handler, if the handler has not returned.
func (c *call) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.wait != nil {
		return
	}
	c.cancel(why)
	c.wait = time.AfterFunc(c.worker.cfg.Drain, func() {
		c.mu.Lock()
		if c.over {
			c.mu.Unlock()
			return
		}
		c.gone = make(chan struct{})
		c.mu.Unlock()
		c.abandon(context.Cause(c.ctx))
		close(c.gone)
	})
}

// returned is called when run has returned, or has been left by the end of its goroutine. It sets
// the err of each message and the cause, unless the messages have been abandoned.
func (c *call) returned() (abandoned bool) {
	c.mu.Lock()
	c.over = true
	gone := c.gone
	if c.wait != nil {
		c.wait.Stop()
	}
	c.mu.Unlock()
	if c.stall != nil {
		c.stall.Stop()
	}
	if c.timeout != nil {
		c.timeout.Stop()
	}
	defer c.cancel(nil)
	if gone != nil {
		<-gone
		return true
	}
	c.cause = context.Cause(c.ctx)
	for i, d := range c.unit {
		if d.err = c.errs[i]; !c.began.IsZero() {
			d.took = time.Since(c.began)
		}
		// The context may end a moment later than the claim.
		c.cause = cmp.Or(c.cause, d.whyEnded())
	}
	return false
}

// awaitHandler waits if the handler can do no work at the moment. It reports whether to call it
// again.
func (w *Worker) awaitHandler(
	ctx context.Context, unit []*delivery, errs []error, try int,
) (again bool) {
	for _, err := range errs {
		if _, ok := errors.AsType[*unavailableError](err); !ok {
			return false
		}
	}
	if try&(try-1) == 0 { // 1, 2, 4, 8, ...
		w.cfg.Logger.Warn("the handler cannot do any work, trying again", "try", try, "key",
			unit[0].Key, "message", unit[0].ID, "error", errs[0])
	}
	pause := backoff.Jitter(backoff.Ceiling(try, troublePauseMin, troublePauseMax))
	if w.cfg.Stall > 0 { // a pause is not a stall
		unit[0].Progress()
		pause = min(pause, w.cfg.Stall/2)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
	case <-w.ending:
	}
	return false
}

// errExited is the error of a handler that calls runtime.Goexit, so that no code after the call
// runs.
var errExited = errors.New("the handler ended its goroutine and did not return")

// callOnce calls the handler with its middleware.
func (w *Worker) callOnce(ctx context.Context, unit []*delivery, errs []error) {
	messages := make([]*Message, len(unit))
	for i, d := range unit {
		messages[i], errs[i] = d.Message, errExited
	}
	err := w.guarded(messages, func() error { return w.around(ctx, messages) })
	some, partial := errors.AsType[Failures](err)
	for i, d := range unit {
		if errs[i] = err; partial && w.batch != nil {
			errs[i] = some[d.ID]
		}
	}
}

// wrap returns the handler with the middleware around it. A middleware gets a panic as an error.
func (w *Worker) wrap() func(context.Context, []*Message) error {
	call := func(ctx context.Context, messages []*Message) error {
		return w.guarded(messages, func() error {
			if w.batch != nil {
				return w.batch.HandleBatch(ctx, messages)
			}
			return w.cfg.Handler.Handle(ctx, messages[0])
		})
	}
	for _, around := range slices.Backward(w.cfg.Middleware) {
		next := call
		call = func(ctx context.Context, messages []*Message) error {
			return around(ctx, messages, func(ctx context.Context) error {
				return next(ctx, messages)
			})
		}
	}
	return call
}

// guarded converts a panic to an error, and logs the stack.
func (w *Worker) guarded(messages []*Message, call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.cfg.Logger.Error("the handler panicked",
				"key", messages[0].Key, "message", messages[0].ID, "panic", p, "stack",
				string(debug.Stack()))
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return call()
}
