package redrive

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/redrive"
)

// An outcome is what the scenario has found. Its rows are a function of it alone.
type outcome struct {
	stage.Outcome

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
}

// collect counts.
func (p *play) collect() {
	o, w := p.out, p.warehouse
	o.Outcome, o.Live = p.Outcome(), int(p.live.Load())
	o.TurnedAway, o.Booked, o.Doubled = int(p.away.Load()), w.booked(""), w.doubled()
	o.PoisonCalls = w.sum(func(order string, a *account) int {
		return stage.One(!w.isHealthy(order)) * (a.calls - a.sick)
	})
	o.Left = p.Left(p.queues.Work, p.queues.Dead)
	lot, err := redrive.NewParkingLot(redrive.ParkingLotConfig{Client: p.API, Store: p.store,
		URL: p.queues.Parking})
	p.Must(err)
	parked, err := lot.List(p.Outer, 100)
	p.Must(err)
	o.Parked, o.ParkedWrong = make(map[string]int), "none"
	for _, m := range parked {
		order := orderOf(m.Body)
		why := w.poison[order]
		if why == "" || m.Reason != answer(422, why+", in "+order).Error() {
			o.ParkedWrong = order + ": " + m.Reason
			continue
		}
		o.Parked[why]++
	}
	p.Must(lot.GiveBack(p.Outer, parked))
}

// rows judges the outcome.
func (o *outcome) rows() []stage.Row {
	steps := stepsOf(o.Reports)
	first, most := 0, 0
	for _, s := range steps {
		if first == 0 { // a step may find nothing, or fail
			first = s.Redriven
		}
		most = max(most, s.OnTheWay)
	}
	after := "they were not"
	if o.After > 0 {
		after = fmt.Sprintf("%.1f s", o.After)
	}
	least := o.sickLeast(o.Ours)
	return append(o.Outcome.Usual(
		stage.AtLeast("as usual: calls of the sick warehouse", least, o.Usual.Sick),
		stage.AtLeast("as usual: rounds of each poison message, to be parked after 5",
			usualLimit+1, o.Usual.Rounds),
		stage.Want("as usual: poison that was parked", 0, o.Usual.Parked)),

		stage.Show("dead letters at first", o.Orders),
		stage.Show("orders that came in meanwhile", o.Live),
		stage.Want("redriven in the first step", rateFirst, first),
		stage.AtMost("calls of the sick warehouse by redriven messages", rateFirst+o.Trips, o.Sick),
		stage.Want("breaker", "CLOSED, OPEN, HALF_OPEN, CLOSED", path(steps)),
		stage.AtLeast("times it opened in the outage", tripsLeast, o.Trips),
		stage.Want("messages redriven sooner than policy allows (1 s, then 2 s)", 0,
			hasty(o.Reports)),
		stage.Want("redrivers killed (kill -9) between send and delete", 1,
			len(o.At(stage.Killed))),
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
}

// sickLeast is how often the usual redriver has a sick warehouse called, at least.
func (o *outcome) sickLeast(ours bool) int {
	if !ours {
		return o.Usual.Orders + 1 // an emulator is slow
	}
	return 3 * o.Usual.Orders
}

func stepsOf(reports []stage.Report) (all []step) {
	for _, r := range stage.At(reports, pointStep) {
		var s step
		_ = json.Unmarshal([]byte(r.Text), &s) // the redriver wrote it
		all = append(all, s)
	}
	return all
}

// hasty counts messages that the first redriver sent back with a shorter delay than a second at
// their first redrive, two seconds at a further one. The redriver that follows finishes what the
// first one has begun, and that has no delay.
func hasty(reports []stage.Report) int {
	return stage.Count(stage.At(reports, pointSent), func(r stage.Report) bool {
		return r.From == "redriver-1" && r.Number < 1<<min(1, max(0, int(r.Fence)-1))
	})
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
