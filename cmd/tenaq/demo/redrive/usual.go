package redrive

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/internal/cli"
	"tenaq/worker"
)

// usualLimit is how often the usual redriver is meant to bring a message back before it parks it.
const usualLimit = 5

// Times of the usual part: the schedule, and how long the warehouse is down and is up at least.
// Both last until the harm is done, which takes longer on a busy machine, and usualMost at most.
const (
	usualEvery  = 200 * time.Millisecond
	usualOutage = 3 * time.Second
	usualAfter  = 4 * time.Second
	usualMost   = 2 * time.Minute
)

// usual lets the usual redriver work on dead letters of its own and counts the calls of its
// warehouse.
func (p *play) usual() {
	q, orders := p.create("redrive-usual"), names("usual", 20)
	w, o := newWarehouse(orders, p.RNG(2)), &p.out.Usual
	o.Orders = len(orders)
	stop := p.startWorker(q, w, nil, worker.Events{})
	p.send(q.Work, orders, "")
	redrives := make(map[string]int) // by message id
	redrive := func(least time.Duration, done func() bool) {
		for began := time.Now(); p.Ctx.Err() == nil && time.Since(began) < usualMost &&
			(time.Since(began) < least || !done()); stage.Pause(p.Ctx, usualEvery) {
			p.redriveAsUsual(q, redrives)
		}
	}
	redrive(usualOutage, func() bool { return w.sick() >= p.out.sickLeast(p.Server != nil) })
	o.Sick = w.sick()
	w.open()
	redrive(usualAfter, func() bool { return w.rounds() > usualLimit })
	stop()
	o.Rounds, o.Parked = w.rounds(), p.Left(q.Parking)
	p.Say("as usual: %d calls of the sick warehouse, poison went round %s", o.Sick,
		cli.Counted(o.Rounds, "time", "times"))
}

// redriveAsUsual is the usual program: at every tick of a schedule it sends up to two batches of
// dead letters back. It counts redrives by message id, and takes an accepted send for a success.
func (p *play) redriveAsUsual(q queues, redrives map[string]int) {
	for range 2 {
		p.Handle(q.Dead, 10, func(m types.Message) {
			to := q.Work
			if redrives[*m.MessageId]++; redrives[*m.MessageId] > usualLimit {
				to = q.Parking
			}
			p.Send(to, *m.Body)
		})
	}
}
