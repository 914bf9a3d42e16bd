package worker

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/backoff"
)

// A delivery is a received message that is not settled yet.
type delivery struct {
	*Message
	hold    *hold
	rival   *duplicate // its entry in Worker.duplicates
	unnamed error      // why the work of the message is unknown

	endClaim func()        // ends the renewals of the claim
	kept     bool          // they have begun, if there is a claim
	handled  bool          // a handler has returned, or there is no body for it
	err      error         // why there is no body, or the result of the handler
	took     time.Duration // time that the fetch or the handler took
	deleted  bool          // with the end of its claim

	// Of settleEach: it continues to the handler, or is not gone from the queue.
	continues, back bool
}

// keep begins the renewals of the claim, unless they have begun.
func (d *delivery) keep() {
	if !d.kept && d.claim != nil {
		d.endClaim = d.claim.Keep(d.hold.ctx, d.hold.lost)
	}
	d.kept = true
}

// whyEnded returns why the handler must not continue with the message; nil while it may, or before
// keep.
func (d *delivery) whyEnded() error {
	if !d.kept {
		return nil
	}
	return context.Cause(d.hold.ctx)
}

// deliver takes a received message into custody.
func (w *Worker) deliver(work context.Context, raw types.Message, began time.Time) *delivery {
	m, err := w.newMessage(raw)
	d := &delivery{Message: m, unnamed: err, endClaim: nothing}
	d.hold = w.custody.take(work, m.handle, began)
	w.cfg.Events.Received(m)
	return d
}

func nothing() {}

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

// A lane handles messages in order. On a FIFO queue, if one will come back, those behind it are
// given back too, because they must not overtake it.
type lane struct {
	worker *Worker
	ending context.Context // ends with Run
	report func(settled)
	rest   []*delivery // behind the unit

	unit  []*delivery // one message, or those of a batch
	ready []*delivery // of those, the ones for the handler
	gone  bool        // so far, all others of the unit are gone from the queue
}

// run handles the messages. Their handlers run on its goroutine, and may end it.
func (l *lane) run() {
	w := l.worker
	for len(l.rest) > 0 {
		if !w.enter(l.ending) {
			l.giveRestBack(reasonStopping)
			return
		}
		n := min(len(l.rest), w.cfg.BatchSize)
		l.unit, l.rest = l.rest[:n], l.rest[n:]
		l.ready, l.gone = w.begin(l.unit)
		if len(l.ready) > 0 {
			l.handle()
			continue
		}
		w.leave()
		l.settled(0)
	}
}

// settled goes on behind a unit, of which handled messages have been reported as handled.
func (l *lane) settled(handled int) {
	l.report(settled{messages: len(l.unit), handled: -handled})
	if !l.gone && l.worker.fifo() {
		l.giveRestBack(reasonBehind)
	}
}

// giveRestBack gives back the messages behind the unit, and ends the lane.
func (l *lane) giveRestBack(reason string) {
	rest := l.rest
	l.rest = nil
	if len(rest) > 0 {
		l.worker.giveAllBack(rest, reason)
		l.report(settled{messages: len(rest)})
	}
}

// handle calls the handler, and settles the messages when it has returned. It makes room for the
// next handler before that, so that this one need not wait for the queue.
//
// If the handler ends its goroutine, the rest of the lane has another one.
func (l *lane) handle() {
	w, n, returned := l.worker, len(l.unit), false
	c := w.newCall(l.ready, l.abandon)
	defer func() {
		if abandoned := c.returned(); abandoned {
			w.leave()
			l.report(settled{messages: n, abandoned: -n})
			return
		}
		w.leave()
		l.report(settled{handled: n})
		_, finished := w.settleEach(l.ready, func(d *delivery) facts {
			return facts{handled: true, err: d.err, stopped: c.cause, ended: d.whyEnded()}
		})
		l.gone = l.gone && finished
		l.settled(n)
		if !returned {
			w.crew.run(l.run)
		}
	}()
	c.run()
	returned = true
}

// abandon gives up the messages of a handler that does not return, and ends the lane.
func (l *lane) abandon(cause error) {
	for _, d := range l.ready {
		l.worker.giveUp(d, cause)
	}
	l.report(settled{abandoned: len(l.unit)})
	if l.worker.fifo() {
		l.giveRestBack(reasonBehind)
	}
}

// enter waits for a place for a handler. It reports false when ctx ends.
func (w *Worker) enter(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case w.slots <- struct{}{}:
		if ctx.Err() != nil { // both cases were ready
			w.leave()
			return false
		}
	}
	return true
}

// leave gives the place of a handler to another one.
func (w *Worker) leave() { <-w.slots }

// giveAllBack gives back messages whose work has not begun. A FIFO queue keeps their order.
func (w *Worker) giveAllBack(deliveries []*delivery, reason string) {
	together(deliveries, func(d *delivery) { w.carryOut(d, letGo(0, reason)) })
}

// together calls do for messages concurrently, so that batchers send their requests together.
func together(deliveries []*delivery, do func(*delivery)) {
	last := len(deliveries) - 1
	if last < 0 {
		return
	}
	if last == 0 { // so most often
		do(deliveries[0])
		return
	}
	var doing sync.WaitGroup
	for _, d := range deliveries[:last] {
		doing.Go(func() { do(d) })
	}
	do(deliveries[last])
	doing.Wait()
}

// begin takes a unit through its claims and the fetch of its bodies. It returns the messages for
// the handler, and whether the others are gone from the queue.
func (w *Worker) begin(unit []*delivery) (ready []*delivery, gone bool) {
	w.fetchEarly(unit)
	ready, claimed := w.settleEach(unit, w.claim)
	if !w.fetchLate(ready) { // and nothing else has happened to them since
		return ready, claimed
	}
	ready, fetched := w.settleEach(ready, w.fetched)
	return ready, claimed && fetched
}

// settleEach finds the facts about each message, decides, and carries out the verdict. It returns
// the messages that continue to the handler, and whether the others are gone from the queue. On a
// FIFO queue, it proceeds in order, and gives back the messages behind one that will come back.
func (w *Worker) settleEach(
	unit []*delivery, find func(*delivery) facts,
) (ready []*delivery, gone bool) {
	settle := func(d *delivery) {
		v := decide(w.complete(d, find(d)))
		d.continues = v.do == handle
		d.back = !d.continues && !w.carryOut(d, v)
	}
	if !w.fifo() {
		together(unit, settle)
	}
	ready, gone = unit[:0:0], true
	for i, d := range unit {
		if w.fifo() {
			settle(d)
		}
		if d.continues {
			ready = append(ready, d)
		}
		if gone = gone && !d.back; w.fifo() && !gone {
			w.giveAllBack(unit[i+1:], reasonBehind)
			break
		}
	}
	return ready, gone
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
