package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/work/backoff"
)

// A delivery is a message in the worker's hands.
type delivery struct {
	*Message
	hold    *hold
	bad     error // why the message cannot be handled at all
	unbegun bool  // it was claimed only to be dead-lettered

	endClaim func()          // ends the renewals of the claim
	held     context.Context // since keep: ends when the lease or the claim does
	err      error           // why there is no body, else what the handler said
}

// keep begins the renewals of the claim, unless they have begun.
func (d *delivery) keep() {
	if d.held != nil {
		return
	}
	d.held = d.hold.ctx
	if d.claim != nil {
		d.held, d.endClaim = d.claim.Hold(d.hold.ctx)
	}
}

// whyEnded is why the handler may not go on with the message; nil while it may.
func (d *delivery) whyEnded() error {
	why := context.Cause(d.held)
	if why == claims.ErrLost {
		return ErrLost
	}
	return why
}

// deliver takes a message that was received into custody.
func (w *Worker) deliver(work context.Context, raw types.Message, began time.Time) *delivery {
	m, err := w.newMessage(raw)
	d := &delivery{Message: m, bad: err, endClaim: func() {}}
	d.hold = w.custody.take(work, m.handle, began)
	w.cfg.Events.Received(m)
	return d
}

// lanes sorts what was received at once into what may be handled side by side. On a FIFO queue the messages
// of a group are one lane, in order. On a standard queue as many as a handler takes are.
func (w *Worker) lanes(deliveries []*delivery) (lanes [][]*delivery) {
	if !w.fifo() {
		for len(deliveries) > 0 {
			n := min(len(deliveries), w.cfg.BatchSize)
			lanes = append(lanes, deliveries[:n])
			deliveries = deliveries[n:]
		}
		return lanes
	}
	at := make(map[string]int)
	for _, d := range deliveries {
		i, ok := at[d.Group]
		if !ok {
			i = len(lanes)
			at[d.Group] = i
			lanes = append(lanes, nil)
		}
		lanes[i] = append(lanes[i], d)
	}
	return lanes
}

// runLane handles the messages of a lane in order. When one cannot be settled for good, so that it will come
// back, those behind it are given back: they must not overtake it.
func (w *Worker) runLane(ctx context.Context, lane []*delivery, report func(settled)) {
	for len(lane) > 0 {
		select {
		case <-ctx.Done():
		case w.slots <- struct{}{}:
			if ctx.Err() != nil { // both were so
				<-w.slots
			}
		}
		if ctx.Err() != nil {
			w.giveAllBack(lane, "the worker stops")
			report(settled{messages: len(lane)})
			return
		}
		n := min(len(lane), w.cfg.BatchSize)
		leave := sync.OnceFunc(func() { <-w.slots })
		gone, running := w.runUnit(lane[:n], leave)
		lane = lane[n:]
		if running == nil {
			leave()
			report(settled{messages: n})
		} else {
			report(settled{abandoned: n})
			go func() {
				<-running
				leave()
				report(settled{messages: n, abandoned: -n})
			}()
		}
		if !gone && w.fifo() {
			w.giveAllBack(lane, reasonBehind)
			report(settled{messages: len(lane)})
			return
		}
	}
}

const reasonBehind = "a message before it in its group is not settled"

// giveAllBack gives messages back that no handler has begun. On a FIFO queue they keep their order whatever
// the order in which they come back.
func (w *Worker) giveAllBack(deliveries []*delivery, reason string) {
	together(deliveries, func(d *delivery) { w.deferFor(d, 0, reason) })
}

// together does something with messages side by side, so that what it asks of the queue goes together.
func together(deliveries []*delivery, do func(*delivery)) {
	var doing sync.WaitGroup
	for i, d := range deliveries {
		if i == len(deliveries)-1 { // often the only one
			do(d)
			break
		}
		doing.Go(func() { do(d) })
	}
	doing.Wait()
}

// runUnit takes messages through claim, handler and end: one, or as many as a BatchHandler takes. It
// reports whether all of them are gone from the queue. It calls leave when the handler has returned: the next
// one need not wait for the queue to be told. When the handler does not return although its context has
// ended, running is closed when it does.
func (w *Worker) runUnit(unit []*delivery, leave func()) (gone bool, running <-chan struct{}) {
	var ready []*delivery
	gone = true
	w.fetchEarly(unit)
	for i, d := range unit {
		next := w.prepare(d)
		if next == handle {
			ready = append(ready, d)
		}
		if next == comesBack {
			gone = false
			if w.fifo() {
				w.giveAllBack(unit[i+1:], reasonBehind)
				break
			}
		}
	}
	ready, rest := w.fetchBodies(ready)
	gone = gone && rest
	if len(ready) == 0 {
		return gone, nil
	}
	began := time.Now()
	running, cause := w.call(ready)
	took := time.Since(began)
	if running != nil {
		for _, d := range ready {
			w.abandon(d, cause)
		}
		return false, running
	}
	leave()
	var back atomic.Bool
	finish := func(d *delivery) {
		if w.finish(d, cause, took) == comesBack {
			back.Store(true)
		}
	}
	if w.fifo() { // what is recorded and told of a group is in its order
		for _, d := range ready {
			if back.Load() { // it must not be over before the one that comes back
				w.letGo(d, 0, reasonBehind)
				d.endClaim()
			} else {
				finish(d)
			}
		}
	} else {
		together(ready, finish)
	}
	return gone && !back.Load(), nil
}

// call runs the handler over messages that have been claimed, puts what it says about each into its err, and
// returns why its context ended before it returned, if it did. When it has not returned within Config.Drain
// after that, running is closed when it does, and err must not be looked at.
func (w *Worker) call(unit []*delivery) (running <-chan struct{}, cause error) {
	ctx, cancel := context.WithCancelCause(unit[0].hold.work)
	defer cancel(nil)
	end := func(why error) func() { return func() { cancel(why) } }
	for _, d := range unit {
		d.keep()
		stop := context.AfterFunc(d.held, func() { cancel(d.whyEnded()) })
		defer stop()
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

	returned := make(chan struct{})
	errs := make([]error, len(unit))
	go func() {
		defer close(returned)
		for try := 1; ; try++ {
			w.handle(ctx, unit, errs, try)
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
		d.err = errs[i]
	}
	if ctx.Err() != nil {
		cause = context.Cause(ctx)
	}
	for _, d := range unit {
		cause = cmp.Or(cause, d.whyEnded()) // of which ctx is told on a goroutine of its own, perhaps later
	}
	return nil, cause
}

// awaitHandler waits when the handler can do no work at the moment. It reports whether to call it again.
func (w *Worker) awaitHandler(ctx context.Context, unit []*delivery, errs []error, try int) (again bool) {
	for _, err := range errs {
		var unavailable *unavailableError
		if !errors.As(err, &unavailable) {
			return false
		}
	}
	if try&(try-1) == 0 { // 1, 2, 4, 8, ...
		w.cfg.Logger.Warn("the handler cannot do any work, trying again", "try", try, "key", unit[0].Key, "message", unit[0].ID, "error", errs[0])
	}
	pause := backoff.Jitter(backoff.Ceiling(try, troublePauseMin, troublePauseMax))
	if w.cfg.Stall > 0 { // a pause is no stall
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

// handle calls the handler. A panic is an error of all of its messages, with the place where it happened.
func (w *Worker) handle(ctx context.Context, unit []*delivery, errs []error, try int) {
	defer func() {
		if p := recover(); p != nil {
			w.cfg.Logger.Error("the handler panicked", "key", unit[0].Key, "message", unit[0].ID, "panic", p, "stack", string(debug.Stack()))
			for i := range errs {
				errs[i] = fmt.Errorf("the handler panicked: %v", p)
			}
		}
	}()
	if try == 1 {
		for _, d := range unit {
			w.cfg.Events.Started(d.Message)
		}
	}
	if w.batch == nil {
		errs[0] = w.cfg.Handler.Handle(ctx, unit[0].Message)
		return
	}
	batch := make([]*Message, len(unit))
	for i, d := range unit {
		batch[i] = d.Message
	}
	err := w.batch.HandleBatch(ctx, batch)
	var some Failures
	partial := errors.As(err, &some)
	for i, d := range unit {
		if errs[i] = err; partial {
			errs[i] = some[d.ID]
		}
	}
}
