package redrive

import (
	"encoding/json"
	"slices"
	"testing"

	"tenaq/cmd/tenaq/demo/stage"
)

// perfect is an outcome in which every check passes.
func perfect() *outcome {
	o := &outcome{
		Outcome: stage.Outcome{Ours: true}, Orders: 40, Live: 10, Sick: 7, Trips: 2, TurnedAway: 1, Booked: 47,
		Parked: map[string]int{noArticle: 2, noCountry: 1}, ParkedWrong: "none",
	}
	o.Usual.Orders, o.Usual.Sick, o.Usual.Rounds = 20, 200, 9
	for _, s := range []step{
		{Breaker: "CLOSED", Redriven: 5, OnTheWay: 5}, {Breaker: "OPEN", Trips: 1}, {Breaker: "HALF_OPEN", Trips: 1},
		{Breaker: "HALF_OPEN", Trips: 2}, {Breaker: "CLOSED"},
	} {
		text, _ := json.Marshal(s)
		o.Reports = append(o.Reports, stage.Report{From: "redriver-1", Point: pointStep, Text: string(text)})
	}
	o.Reports = append(o.Reports,
		stage.Report{From: "redriver-1", Point: pointSent, Key: "order-1", Fence: 1, Number: 1},
		stage.Report{From: "redriver-1", Point: pointSent, Key: "order-1", Fence: 2, Number: 2},
		stage.Report{From: "redriver-1", Point: stage.Killed},
		stage.Report{From: "redriver-2", Point: pointSent, Key: "order-2", Fence: 1}, // which the first one had begun
	)
	return o
}

// Each check fails for the fault that it is about, and for no other.
func TestRows(t *testing.T) {
	if red := stage.Red(perfect().rows()); len(red) > 0 {
		t.Fatalf("%q fail although all is well", red)
	}
	const hasty = "messages redriven sooner than policy allows (1 s, then 2 s)"
	for _, tt := range []struct {
		what string
		do   func(o *outcome)
		red  []string
	}{
		{"the usual one does no harm", func(o *outcome) { o.Usual.Sick = 20 }, []string{"as usual: calls of the sick warehouse"}},
		{"the usual one finds poison", func(o *outcome) { o.Usual.Rounds, o.Usual.Parked = 5, 3 },
			[]string{"as usual: rounds of each poison message, to be parked after 5", "as usual: poison that was parked"}},
		{"no breaker", func(o *outcome) { o.Sick, o.Trips, o.Reports = 40, 0, o.Reports[4:] }, []string{"redriven in the first step",
			"calls of the sick warehouse by redriven messages", "breaker", "times it opened in the outage"}},
		{"no delay", func(o *outcome) { o.Reports[5].Number = 0 }, []string{hasty}},
		{"a delay that does not grow", func(o *outcome) { o.Reports[6].Number = 1 }, []string{hasty}},
		{"no redriver was killed", func(o *outcome) { o.Reports[7].Point = "" },
			[]string{"redrivers killed (kill -9) between send and delete"}},
		{"no copy was turned away", func(o *outcome) { o.TurnedAway = 0 }, []string{"copies that the worker turned away"}},
		{"an order is lost", func(o *outcome) { o.Booked--; o.Left = 1 }, []string{"orders booked", "messages left in the queues"}},
		{"an order twice", func(o *outcome) { o.Doubled = 1 }, []string{"orders booked twice"}},
		{"the outage is evidence", func(o *outcome) { o.ParkedWrong = "order-1: overloaded" }, []string{"parked without need"}},
		{"poison is not found", func(o *outcome) { o.Parked = nil }, []string{"parked: " + noArticle, "parked: " + noCountry}},
		{"a redriver does not end", func(o *outcome) { o.Unclean = 1 }, []string{"redrivers that did not end when told to"}},
	} {
		o := perfect()
		tt.do(o)
		if red := stage.Red(o.rows()); !slices.Equal(red, tt.red) {
			t.Errorf("%s: got %q, want %q", tt.what, red, tt.red)
		}
	}
}
