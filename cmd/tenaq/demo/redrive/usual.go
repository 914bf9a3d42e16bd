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

// Times of the usual part: the schedule, how long the warehouse is down, and how long the redriver
// then goes on.
const (
	usualEvery  = 200 * time.Millisecond
	usualOutage = 3 * time.Second
	usualAfter  = 4 * time.Second
)

// usual lets the usual redriver work on dead letters of its own and counts the calls of its
// warehouse.
func (p *play) usual() {
	q, orders := p.create("redrive-usual"), names("usual", 20)
	w := newWarehouse(orders, p.RNG(2))
	stop := p.startWorker(q, w, nil, worker.Events{})
	p.send(q.Work, orders, "")
	redrives := make(map[string]int) // by message id
	began := time.Now()
	for p.Ctx.Err() == nil && time.Since(began) < usualOutage+usualAfter {
		if time.Since(began) > usualOutage {
			w.open()
		}
		p.redriveAsUsual(q, redrives)
		stage.Pause(p.Ctx, usualEvery)
	}
	stop()
	o := &p.out.Usual
	o.Orders, o.Rounds, o.Parked = len(orders), 1<<30, p.Left(q.Parking)
	o.Sick = w.sum(func(order string, a *account) int {
		if !w.isHealthy(order) {
			o.Rounds = min(o.Rounds, a.calls-a.sick)
		}
		return a.sick
	})
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
