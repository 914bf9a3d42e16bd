package redrive

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/redrive"
)

// An outcome is what the scenario has found. Its rows are a function of it alone.
type outcome struct {
	Ours   bool
	Broken string

	// Of the usual redriver: its dead letters, calls of the warehouse while it was down, rounds of
	// the poison message that made the fewest once it was up, and messages parked.
	Usual struct{ Orders, Sick, Rounds, Parked int }

	Orders, Live int // dead letters at first, and orders that came in meanwhile
	Sick         int // calls by redriven messages while the warehouse was down
	Trips        int // how often the breaker had opened by then
	TurnedAway   int // deliveries of orders that were being booked, or were booked
	Booked       int // orders
	Doubled      int // orders booked twice or more
	// seconds from the end of the outage until all were booked; zero if they were not
	After       float64
	Parked      map[string]int
	ParkedWrong string // an order that was parked though it can be booked, or for another reason
	PoisonCalls int    // of the healthy warehouse
	Left        int    // messages in the queues
	Unclean     int
	Reports     []stage.Report
}

// collect counts.
func (p *play) collect(ctx context.Context) (err error) {
	o := p.out
	o.Reports, o.Unclean, o.Doubled = p.crew.Reports(), p.crew.Unclean(), p.warehouse.doubled()
	p.mu.Lock()
	o.Live, o.TurnedAway = len(p.live), p.away
	p.mu.Unlock()
	p.warehouse.each(func(order string, a *account) {
		o.Booked += min(1, a.booked)
		if !p.warehouse.isHealthy(order) {
			o.PoisonCalls += a.calls - a.sick
		}
	})
	if o.Left, err = p.sqs.Left(ctx, p.queues.Work, p.queues.Dead); err != nil {
		return err
	}
	lot, err := redrive.NewParkingLot(redrive.ParkingLotConfig{Client: p.sqs.API, Store: p.store,
		URL: p.queues.Parking})
	if err != nil {
		return err
	}
	parked, err := lot.List(ctx, 100)
	if err != nil {
		return err
	}
	o.Parked, o.ParkedWrong = make(map[string]int), "none"
	for _, m := range parked {
		order := orderOf(m.Body)
		why := p.warehouse.poison[order]
		if why == "" || m.Reason != answer(422, why+", in "+order).Error() {
			o.ParkedWrong = order + ": " + m.Reason
			continue
		}
		o.Parked[why]++
	}
	return lot.GiveBack(ctx, parked)
}

// rows judges the outcome.
func (o *outcome) rows() []stage.Row {
	steps := stepsOf(o.Reports)
	first, most := 0, 0
	if len(steps) > 0 {
		first = steps[0].Redriven
	}
	for _, s := range steps {
		most = max(most, s.OnTheWay)
	}
	after := "they were not"
	if o.After > 0 {
		after = fmt.Sprintf("%.1f s", o.After)
	}
	rows := append(o.usualRows(),
		stage.Show("dead letters at first", o.Orders),
		stage.Show("orders that came in meanwhile", o.Live),
		stage.Want("redriven in the first step", rateFirst, first),
		stage.AtMost("calls of the sick warehouse by redriven messages", rateFirst+o.Trips, o.Sick),
		stage.Want("breaker", "CLOSED, OPEN, HALF_OPEN, CLOSED", path(steps)),
		stage.AtLeast("times it opened in the outage", tripsLeast, o.Trips),
		stage.Want("messages redriven sooner than policy allows (1 s, then 2 s)", 0,
			hasty(o.Reports)),
		stage.Want("redrivers killed (kill -9) between send and delete", 1,
			len(stage.At(o.Reports, stage.Killed))),
		stage.AtLeast("copies that the worker turned away", 1, o.TurnedAway),
		stage.Want("orders booked", o.Orders+o.Live-poisoned, o.Booked),
		stage.Want("orders booked twice", 0, o.Doubled),
		stage.Want("parked: "+noArticle, 2, o.Parked[noArticle]),
		stage.Want("parked: "+noCountry, 1, o.Parked[noCountry]),
		stage.Want("parked without need", "none", o.ParkedWrong),
		stage.Want("messages left in the queues", 0, o.Left),
		stage.Want("redrivers that did not end when told to", 0, o.Unclean),
		stage.Show("calls of the healthy warehouse by poison", o.PoisonCalls),
		stage.Show("messages on their way, at most", most),
		stage.Show("from the end of the outage until all were booked", after),
	)
	return rows
}

// usualRows judges the usual redriver. If it did no harm, the rest would prove nothing.
func (o *outcome) usualRows() []stage.Row {
	const sick, rounds = "as usual: calls of the sick warehouse",
		"as usual: rounds of each poison message"
	if o.Broken != "" {
		return []stage.Row{stage.Skip(sick, "left out too"), stage.Skip(rounds, "left out too")}
	}
	least := 3 * o.Usual.Orders
	if !o.Ours {
		least = o.Usual.Orders + 1 // an emulator is slow
	}
	return []stage.Row{
		stage.AtLeast(sick, least, o.Usual.Sick),
		stage.AtLeast(rounds+", to be parked after 5", usualLimit+1, o.Usual.Rounds),
		stage.Want("as usual: poison that was parked", 0, o.Usual.Parked),
	}
}

func stepsOf(reports []stage.Report) (all []step) {
	for _, r := range stage.At(reports, pointStep) {
		var s step
		_ = json.Unmarshal([]byte(r.Text), &s) // the redriver wrote it
		all = append(all, s)
	}
	return all
}

// trips is how often the breaker has opened since it was closed, and parked how many messages were
// parked.
func trips(reports []stage.Report) int {
	if s := stepsOf(reports); len(s) > 0 {
		return s[len(s)-1].Trips
	}
	return 0
}

func parked(reports []stage.Report) int {
	if s := stepsOf(reports); len(s) > 0 {
		return s[len(s)-1].Parked
	}
	return 0
}

// hasty counts messages that the first redriver sent back with a shorter delay than a second at
// their first redrive, two seconds at a further one. The redriver that follows finishes what the
// first one has begun, and that has no delay.
func hasty(reports []stage.Report) (n int) {
	for _, r := range stage.At(reports, pointSent) {
		if r.From == "redriver-1" && r.Number < 1<<min(1, max(0, int(r.Fence)-1)) {
			n++
		}
	}
	return n
}

// path is how the breaker came from state to state until it was closed again, without the canaries
// that failed.
func path(steps []step) string {
	states, trips := []string{"CLOSED"}, 0 // as it begins
	pass := func(state string) {
		if states[len(states)-1] != state {
			states = append(states, state)
		}
	}
	for _, s := range steps {
		if s.Trips > trips {
			pass("OPEN") // and half open by the end of the same step, perhaps
		}
		trips = s.Trips
		pass(s.Breaker)
	}
	var short []string
	for _, state := range states {
		if i := slices.Index(short, state); i > 0 {
			short = short[:i]
		}
		short = append(short, state)
		if state == "CLOSED" && len(short) > 1 {
			break
		}
	}
	return strings.Join(short, ", ")
}
