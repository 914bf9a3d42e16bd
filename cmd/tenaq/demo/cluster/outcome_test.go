package cluster

import (
	"slices"
	"testing"
	"time"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/internal/testing/audit"
)

// perfect is an outcome in which every check passes.
func perfect() *outcome {
	return &outcome{Ours: true, Kills: 3, Report: &audit.Report{Acknowledged: least}, Silence: silenceMax, Ended: "0"}
}

// Each check fails for the fault that it is about, and for no other.
func TestRows(t *testing.T) {
	if red := stage.Red(perfect().rows()); len(red) > 0 {
		t.Fatalf("%q fail although all is well", red)
	}
	broken := func(rule audit.Rule) func(*outcome) {
		return func(o *outcome) { o.Report.Violations = []audit.Violation{{Rule: rule}} }
	}
	for _, tt := range []struct {
		what string
		do   func(o *outcome)
		red  string
	}{
		{"too little was sent", func(o *outcome) { o.Report.Acknowledged-- }, "messages sent and acknowledged"},
		{"nothing is known", func(o *outcome) { o.Report = nil }, "messages sent and acknowledged"},
		{"a message is lost", broken(audit.Lost), "lost"},
		{"a message is there twice", broken(audit.Deduplicated), "stored twice under one deduplication id"},
		{"one send stored two", broken(audit.Multiplied), "stored twice under one deduplication id"},
		{"a later message overtook", broken(audit.Order), "delivered before an earlier one of their group"},
		{"a number went back", broken(audit.Sequence), "delivered before an earlier one of their group"},
		{"a hidden message was delivered", broken(audit.InFlight), "delivered while surely in flight elsewhere"},
		{"a deleted message was delivered", broken(audit.Deleted), "delivered after an acknowledged delete"},
		{"a receive was forgotten", broken(audit.Counts), "receive counts going backwards"},
		{"a message came from nowhere", broken(audit.Invented), "invented or altered"},
		{"a message changed", broken(audit.Fixed), "invented or altered"},
		{"a message is left", func(o *outcome) { o.Left = 1 }, "left in the queue, by its own counters"},
		{"a kill was left out", func(o *outcome) { o.Kills-- }, "leaders killed (kill -9)"},
		{"no answer for too long", func(o *outcome) { o.Silence += time.Millisecond },
			"longest time without an acknowledgement, in ms"},
		{"a node has other rows", func(o *outcome) { o.Differ = "node-2 has another hash" }, "rows of the three nodes"},
		{"a node hangs", func(o *outcome) { o.Ended = "it did not stop" }, "exit status of the nodes after SIGTERM"},
	} {
		o := perfect()
		tt.do(o)
		if red := stage.Red(o.rows()); !slices.Equal(red, []string{tt.red}) {
			t.Errorf("%s: %q fail, want %q", tt.what, red, tt.red)
		}
	}
}

// On nodes that are not the demo's own, nothing is said of kills.
func TestElsewhere(t *testing.T) {
	o := perfect()
	o.Ours, o.Kills, o.Ended, o.Silence = false, 0, "", time.Hour
	if red := stage.Red(o.rows()); len(red) > 0 {
		t.Errorf("%q fail", red)
	}
}

// The silence is between two acknowledgements, in the order of their answers.
func TestSilence(t *testing.T) {
	send := func(seconds int, o audit.Outcome) audit.Send {
		return audit.Send{Span: audit.Span{Return: time.Duration(seconds) * time.Second}, Outcome: o}
	}
	h := &audit.History{Sends: []audit.Send{send(9, audit.Done), send(2, audit.Done), send(5, audit.Unknown), send(4, audit.Done)}}
	if got := silence(h); got != 5*time.Second {
		t.Errorf("got %v, want 5s", got)
	}
	if got := silence(&audit.History{}); got != 0 {
		t.Errorf("without sends: got %v, want 0", got)
	}
}
