package worker

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/work/backoff"
)

// A delivery is a received message that is not settled yet.
type delivery struct {
	*Message
	hold    *hold
	rival   *duplicate // its entry in Worker.duplicates
	unnamed error      // why the work of the message is unknown

	endClaim func()          // ends the renewals of the claim
	held     context.Context // since keep: ends when the lease or the claim does
	handled  bool            // a handler has returned, or there is no body for it
	err      error           // why there is no body, or the result of the handler
	took     time.Duration   // time that the fetch or the handler took
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

// whyEnded returns why the handler must not continue with the message; nil while it may, or before
// keep.
func (d *delivery) whyEnded() error {
	if d.held == nil {
		return nil
	}
	why := context.Cause(d.held)
	if why == claims.ErrLost {
		return ErrLost
	}
	return why
}

// deliver takes a received message into custody.
func (w *Worker) deliver(work context.Context, raw types.Message, began time.Time) *delivery {
	m, err := w.newMessage(raw)
	d := &delivery{Message: m, unnamed: err, endClaim: func() {}}
	d.hold = w.custody.take(work, m.handle, began)
	w.cfg.Events.Received(m)
	return d
}

// lanes sorts the messages of a receive into lanes, which may be handled concurrently. On a FIFO
// queue, the messages of a group are one lane, in order. On a standard queue, a lane has as many as
// a handler takes.
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

// runLane handles the messages of a lane in order. On a FIFO queue, if one will come back, those
// behind it are given back too, because they must not overtake it.
func (w *Worker) runLane(ctx context.Context, lane []*delivery, report func(settled)) {
	for len(lane) > 0 {
		select {
		case <-ctx.Done():
		case w.slots <- struct{}{}:
			if ctx.Err() != nil { // both cases were ready
				<-w.slots
			}
		}
		if ctx.Err() != nil {
			w.giveAllBack(lane, reasonStopping)
			report(settled{messages: len(lane)})
			return
		}
		n := min(len(lane), w.cfg.BatchSize)
		handled := 0
		leave := sync.OnceFunc(func() { <-w.slots })
		gone, running := w.runUnit(lane[:n], func() {
			leave()
			handled = n
			report(settled{handled: n})
		})
		lane = lane[n:]
		if running == nil {
			leave()
			report(settled{messages: n, handled: -handled})
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

// giveAllBack gives back messages whose work has not begun. A FIFO queue keeps their order.
func (w *Worker) giveAllBack(deliveries []*delivery, reason string) {
	together(deliveries, func(d *delivery) { w.carryOut(d, letGo(0, reason)) })
}

// together calls do for messages concurrently, so that batchers send their requests together.
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

// runUnit takes one message, or those of a batch, through claim, handler and end. It reports
// whether all of them are gone from the queue. It calls leave when the handler has returned, so
// that the next one need not wait for the queue. If the handler does not return although its
// context has ended, running is closed when it does.
func (w *Worker) runUnit(unit []*delivery, leave func()) (gone bool, running <-chan struct{}) {
	w.fetchEarly(unit)
	ready, claimed := w.settleEach(unit, w.claim)
	w.fetchLate(ready)
	ready, fetched := w.settleEach(ready, w.fetched)
	if len(ready) == 0 {
		return claimed && fetched, nil
	}
	running, stopped := w.call(ready)
	if running != nil {
		for _, d := range ready {
			w.giveUp(d, stopped)
		}
		return false, running
	}
	leave()
	_, finished := w.settleEach(ready, func(d *delivery) facts {
		return facts{handled: true, err: d.err, stopped: stopped, ended: d.whyEnded()}
	})
	return claimed && fetched && finished, nil
}

// settleEach finds the facts about each message, decides, and carries out the verdict. It returns
// the messages that continue to the handler, and whether the others are gone from the queue. On a
// FIFO queue, it proceeds in order, and gives back the messages behind one that will come back.
func (w *Worker) settleEach(
	unit []*delivery, find func(*delivery) facts,
) (ready []*delivery, gone bool) {
	goesOn, back := make(map[*delivery]bool, len(unit)), false
	var mu sync.Mutex
	settle := func(d *delivery) {
		v := decide(w.complete(d, find(d)))
		on := v.do == handle
		off := !on && !w.carryOut(d, v)
		mu.Lock()
		defer mu.Unlock()
		goesOn[d], back = on, back || off
	}
	if !w.fifo() {
		together(unit, settle)
	}
	for i, d := range unit {
		if w.fifo() {
			settle(d)
		}
		if goesOn[d] {
			ready = append(ready, d)
		}
		if w.fifo() && back {
			w.giveAllBack(unit[i+1:], reasonBehind)
			break
		}
	}
	return ready, !back
}

// complete adds the facts that are known about every message.
func (w *Worker) complete(d *delivery, f facts) facts {
	d.handled = f.handled
	f.attempt, f.attempts, f.dead = max(f.attempt, d.attempt), w.cfg.Attempts, w.dead.url != ""
	f.retry = backoff.Full(d.attempt, w.cfg.RetryBase, w.cfg.RetryMax, rand.Float64())
	// The server may not count the receives of messages that were not tried.
	tries := max(d.Receives, w.ledger.inARow(), w.bodies.inARow())
	f.pause = backoff.Jitter(backoff.Ceiling(tries, w.cfg.Lease/3, w.cfg.RetryMax))
	return f
}
