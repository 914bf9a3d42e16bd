package redrive

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	redriver "tenaq/redrive"
)

// An Outcome is what the demo has found.
type Outcome struct {
	// Of the usual redriver.
	Usual struct {
		Sick   int // calls of the warehouse while it was down
		Booked int // orders
		Rounds int // of the poison message that made the fewest, once the warehouse was up
		Parked int
	}

	Scale Scale
	Live  int // orders that came in meanwhile

	First  int      // messages redriven in the first step
	Sick   int      // calls of the warehouse by redriven messages, while it was down
	Trips  int      // how often the breaker had opened by then
	States []string // of the breaker, one after the other
	Most   int      // messages on their way

	Killed     int // redrivers
	TurnedAway int // deliveries of orders that were being booked, or were booked

	Booked  int           // orders
	Doubled int           // orders that were booked twice or more
	After   time.Duration // from the end of the outage until all dead letters were booked; zero if they were not

	Parked      map[string]int // the reason that the warehouse gave, and how many orders
	ParkedWrong int            // orders that were parked though they can be booked
	PoisonCalls int            // of the warehouse by poison, in all, once it was up

	Left int // messages in the queue and its dead-letter queue
}

// Poison is how many of the orders nobody can fulfil, and why.
var Poison = map[string]int{noArticle: 2, noCountry: 1}

// collect counts.
func (o *ours) collect(ctx context.Context, out *Outcome) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	s := o.keeper.look()
	out.Live = len(o.live)
	out.First, out.Trips, out.States, out.Most, out.Killed = s.first, o.trips, s.states, s.most, s.killed
	out.Sick, out.Doubled, out.After = o.sick(), o.doubled(), o.booked
	out.TurnedAway = o.worker.away()
	o.warehouse.look(func(order string, a account) {
		out.Booked += min(1, a.booked)
		if o.poison[order] != "" {
			out.PoisonCalls += a.calls - a.sick
		}
	})
	if out.Left, err = o.messagesIn(ctx, o.Ours.Work, o.Ours.Dead); err != nil {
		return err
	}
	return o.collectParked(ctx, out)
}

// collectParked looks at what was parked, and at what it says about itself.
func (o *ours) collectParked(ctx context.Context, out *Outcome) error {
	lot, err := redriver.NewParkingLot(redriver.ParkingLotConfig{Client: o.API, Store: o.store, URL: o.Ours.Parking})
	if err != nil {
		return err
	}
	parked, err := lot.List(ctx, 100)
	if err != nil {
		return err
	}
	out.Parked = make(map[string]int)
	for _, p := range parked {
		var b booking
		if err := json.Unmarshal([]byte(p.Body), &b); err != nil {
			return fmt.Errorf("a parked message: %w", err)
		}
		why := o.poison[b.Order]
		if why == "" || p.Reason != answer(422, why+", in "+b.Order).Error() {
			out.ParkedWrong++
			continue
		}
		out.Parked[why]++
	}
	return lot.GiveBack(ctx, parked)
}
