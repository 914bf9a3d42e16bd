package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"tenaq/internal/work/backoff"
)

// call runs the handler over claimed messages and sets their err. If the context of the handler
// ended before the handler returned, call returns the cause. If the handler does not return within
// Config.Drain after that, call returns running, which is closed when the handler returns; err is
// then not set. A handler does not begin without the lease and the claim of each message.
func (w *Worker) call(unit []*delivery) (running <-chan struct{}, cause error) {
	ctx, cancel := context.WithCancelCause(unit[0].hold.work)
	defer cancel(nil)
	end := func(why error) func() { return func() { cancel(why) } }
	for _, d := range unit {
		d.keep()
		stop := context.AfterFunc(d.held, func() { cancel(d.whyEnded()) })
		defer stop()
		if why := d.whyEnded(); why != nil {
			cancel(why) // without waiting for AfterFunc
		}
	}
	if ctx.Err() != nil { // such as when other claims took longer than the first one lasts
		for _, d := range unit {
			d.err = context.Cause(ctx)
		}
		return nil, context.Cause(ctx)
	}
	defer time.AfterFunc(w.cfg.Timeout, end(ErrTimeout)).Stop()
	if w.cfg.Stall > 0 {
		stall := time.AfterFunc(w.cfg.Stall, end(ErrStalled))
		defer stall.Stop()
		progress := func() { stall.Reset(w.cfg.Stall) }
		for _, d := range unit {
			d.progress.Store(&progress)
		}
	}

	began, returned := time.Now(), make(chan struct{})
	errs := make([]error, len(unit))
	go func() {
		defer close(returned)
		for try := 1; ; try++ {
			w.callOnce(ctx, unit, errs)
			if !w.awaitHandler(ctx, unit, errs, try) {
				return
			}
		}
	}()
	select {
	case <-returned:
	case <-ctx.Done():
		select {
		case <-returned:
		case <-time.After(w.cfg.Drain):
			return returned, context.Cause(ctx)
		}
	}
	for i, d := range unit {
		d.err, d.took = errs[i], time.Since(began)
	}
	if ctx.Err() != nil {
		cause = context.Cause(ctx)
	}
	for _, d := range unit {
		// ctx may end a moment later than the claim.
		cause = cmp.Or(cause, d.whyEnded())
	}
	return nil, cause
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
