package demo

import (
	"maps"
	"testing"
	"time"

	"tenaq/internal/demo/redrive"
)

// soundRedrive is what a run finds in which everything holds.
func soundRedrive() *redrive.Outcome {
	o := &redrive.Outcome{
		Scale: redrive.Full, Live: 10, First: redrive.RateFirst, Sick: redrive.RateFirst + 2, Trips: redrive.TripsLeast,
		States: []string{"CLOSED", "OPEN", "HALF_OPEN", "OPEN", "HALF_OPEN", "CLOSED", "OPEN"},
		Killed: 1, TurnedAway: 1, Booked: redrive.Full.Orders + 10 - 3, After: time.Second,
		Parked: maps.Clone(redrive.Poison),
	}
	o.Usual.Sick, o.Usual.Rounds = redrive.UsualTimes*redrive.Full.Usual, redrive.UsualRounds
	return o
}

// Every promise has a row that fails when it is broken.
func TestRedriveRowsShowEveryPromise(t *testing.T) {
	failed := func(o *redrive.Outcome, broken redrive.Breakage) (n int) {
		for _, row := range redriveRows(o, broken) {
			if row.OK == rowFailed {
				n++
			}
		}
		return n
	}
	for _, broken := range []redrive.Breakage{redrive.Nothing, redrive.Breakers} {
		if n := failed(soundRedrive(), broken); n != 0 {
			t.Errorf("sound run, without %q: got %d rows that fail, want none", broken, n)
		}
	}
	for what, harm := range map[string]func(o *redrive.Outcome){
		"the usual one spares the sick": func(o *redrive.Outcome) { o.Usual.Sick = 7 },
		"the usual one finds poison":    func(o *redrive.Outcome) { o.Usual.Rounds = 5 },
		"too many at first":             func(o *redrive.Outcome) { o.First = 10 },
		"too many calls":                func(o *redrive.Outcome) { o.Sick = redriveBound(o) + 1 },
		"never closed":                  func(o *redrive.Outcome) { o.States = o.States[:5] },
		"opened once":                   func(o *redrive.Outcome) { o.Trips, o.Sick = 1, 5 },
		"nobody killed":                 func(o *redrive.Outcome) { o.Killed = 0 },
		"no copy":                       func(o *redrive.Outcome) { o.TurnedAway = 0 },
		"lost":                          func(o *redrive.Outcome) { o.Booked-- },
		"booked twice":                  func(o *redrive.Outcome) { o.Doubled++ },
		"healthy and parked":            func(o *redrive.Outcome) { o.ParkedWrong++ },
		"left":                          func(o *redrive.Outcome) { o.Left++ },
		"not all poison": func(o *redrive.Outcome) {
			for why := range o.Parked {
				o.Parked[why]--
				return
			}
		},
	} {
		o := soundRedrive()
		harm(o)
		if n := failed(o, redrive.Nothing); n != 1 {
			t.Errorf("%s: got %d rows that fail, want 1", what, n)
		}
	}
}

func TestBreakerPath(t *testing.T) {
	for _, c := range []struct {
		states []string
		want   string
	}{
		{nil, ""},
		{[]string{"CLOSED"}, "CLOSED"},
		{[]string{"CLOSED", "OPEN", "HALF_OPEN", "OPEN"}, "CLOSED, OPEN"},
		{[]string{"CLOSED", "OPEN", "HALF_OPEN", "OPEN", "HALF_OPEN", "CLOSED", "OPEN", "HALF_OPEN"}, "CLOSED, OPEN, HALF_OPEN, CLOSED"},
		{[]string{"CLOSED", "HALF_OPEN", "CLOSED"}, "CLOSED, HALF_OPEN, CLOSED"},
	} {
		if got := breakerPath(c.states); got != c.want {
			t.Errorf("%v: got %s, want %s", c.states, got, c.want)
		}
	}
}
