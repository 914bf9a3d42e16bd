package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// An ours is the second part.
type ours struct {
	*demo
	fail      context.CancelCauseFunc
	ctx       context.Context // ends when the run has failed
	orders    []string        // the dead letters at first
	poison    map[string]string
	warehouse *warehouse
	worker    *running
	keeper    *keeper
	traffic   *traffic

	live   []string       // orders that came in meanwhile
	before map[string]int // calls of the sick warehouse before the redriver began
	opened time.Time      // when the warehouse was up again
	trips  int            // how often the breaker had opened by then
	booked time.Duration  // from then until everything was booked
}

// TripsLeast is how often the breaker opens before the warehouse is up again.
const TripsLeast = 3

// Bounds for machines that are in trouble, and how long is waited where something is left out.
const (
	outageMax      = time.Minute
	recoveryMax    = 100 * time.Second
	brokenRecovery = 40 * time.Second
	restMax        = 20 * time.Second
)

// newOurs prepares the second part.
func (d *demo) newOurs(ctx context.Context) (*ours, error) {
	o := &ours{demo: d, orders: names("order", d.Scale.Orders), before: make(map[string]int)}
	o.ctx, o.fail = context.WithCancelCause(ctx)
	o.poison = poisonOf(o.orders, d.rng(2))
	var err error
	if o.warehouse, err = newWarehouse(o.poison); err != nil {
		return nil, err
	}
	if o.worker, err = d.startWorker(o.ctx, d.Ours, o.warehouse, d.ledger); err != nil {
		return nil, errors.Join(err, o.close())
	}
	if o.keeper, err = d.newKeeper(o.fail, o.poison); err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

func (o *ours) close() (err error) {
	if o.keeper != nil {
		err = o.keeper.close()
	}
	if o.traffic != nil {
		o.traffic.stop()
		<-o.traffic.done
	}
	if o.worker != nil {
		err = errors.Join(err, o.worker.end())
	}
	o.warehouse.close()
	o.fail(nil)
	return err
}

// run tells the story.
func (o *ours) run() error {
	ctx := o.ctx
	if err := o.fill(ctx); err != nil {
		return err
	}
	o.traffic = o.startTraffic(ctx, o.Ours.Work)
	if err := o.keeper.start(); err != nil {
		return err
	}
	if err := o.outage(ctx); err != nil {
		return err
	}
	if err := o.recovery(ctx); err != nil {
		return err
	}
	return o.rest(ctx)
}

// fill makes the dead letters.
func (o *ours) fill(ctx context.Context) error {
	o.Say("%d dead letters to our redriver, and the warehouse is down", len(o.orders))
	if err := o.sendAll(ctx, o.Ours.Work, o.orders[:o.Scale.ByWorker], nil); err != nil {
		return err
	}
	if err := o.sendAll(ctx, o.Ours.Dead, o.orders[o.Scale.ByWorker:], asDead(o.Ours.DeadSource)); err != nil {
		return err
	}
	all, err := until(ctx, outageMax, func() (bool, error) {
		n, err := o.messagesIn(ctx, o.Ours.Dead)
		o.Line("%d dead letters", n)
		return n >= len(o.orders), err
	})
	if err == nil && !all {
		err = fmt.Errorf("the worker has not dead-lettered %d orders in %v", o.Scale.ByWorker, outageMax)
	}
	o.warehouse.look(func(order string, a account) { o.before[order] = a.sick })
	return err
}

// outage lets the redriver work while the warehouse is down.
func (o *ours) outage(ctx context.Context) error {
	_, err := until(ctx, outageMax, func() (bool, error) {
		s, sick := o.keeper.look(), o.sick()
		o.Line("the warehouse is down, and was called %d times; the breaker has opened %d times", sick, s.trips)
		switch o.Break {
		case Breakers:
			return sick > 6*RateFirst && s.first > 0, nil
		case Identities:
			return sick >= RateFirst, nil
		}
		return s.trips >= TripsLeast, nil
	})
	if err != nil {
		return err
	}
	o.trips = o.keeper.look().trips
	o.warehouse.open()
	o.opened = time.Now()
	o.Say("the warehouse is up again; redriven messages called it %d times meanwhile, and the breaker opened %d times", o.sick(), o.trips)
	return nil
}

// sick is how often redriven messages called the warehouse while it was down.
func (o *ours) sick() (n int) {
	o.warehouse.look(func(order string, a account) {
		before := o.before[order]
		if isLive(order) {
			before = min(a.sick, Attempts)
		}
		n += a.sick - before
	})
	return n
}

// progress is how many of some orders are booked.
func (o *ours) progress(orders []string) (n int) {
	for _, order := range orders {
		if o.warehouse.account(order).booked > 0 {
			n++
		}
	}
	return n
}

// doubled is how many orders were booked twice or more.
func (o *ours) doubled() (n int) {
	o.warehouse.look(func(_ string, a account) {
		if a.booked > 1 {
			n++
		}
	})
	return n
}

// recovery waits until the dead letters of the outage have come to their end, and kills the redriver half way.
func (o *ours) recovery(ctx context.Context) error {
	most, healthy := recoveryMax, len(o.orders)-len(o.poison)
	o.keeper.killAfter(healthy / 2)
	if o.Break != Nothing {
		most = brokenRecovery
	}
	if o.Break == Identities {
		o.keeper.killAfter(1)
	}
	killed := 0
	_, err := until(ctx, most, func() (bool, error) {
		s, done := o.keeper.look(), o.progress(o.orders)
		if s.killed > killed {
			killed = s.killed
			o.Say("killed the redriver after it had sent an order and before it had deleted the dead letter; %d of %d orders are booked", done, healthy)
		}
		if done == healthy && o.booked == 0 {
			o.booked = time.Since(o.opened)
			o.Say("all %d orders are booked, %.0f s after the warehouse was up again", done, o.booked.Seconds())
		}
		o.Line("%d of %d orders booked, %d parked, %d on their way at most", done, healthy, s.parked, s.most)
		if o.Break == Identities {
			return o.doubled() > 0, nil // the rest would take for ever
		}
		return done == healthy && s.parked >= len(o.poison), nil
	})
	return err
}

// rest lets no more orders come in, and waits until nothing is left in the queues.
func (o *ours) rest(ctx context.Context) (err error) {
	if o.live, err = o.traffic.end(); err != nil || o.Break == Identities {
		return err
	}
	_, err = until(ctx, restMax, func() (bool, error) {
		left, err := o.messagesIn(ctx, o.Ours.Work, o.Ours.Dead)
		o.Line("%d messages are left in the queues", left)
		return left == 0 && o.progress(o.live) == len(o.live), err
	})
	return err
}
