package redrivehost

import (
	"testing"
	"time"

	"tenaq/records"
	"tenaq/records/recordstest"
	"tenaq/redrive"
)

func TestPace(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	store := recordstest.NewMemory()
	writer := newPaceKeeper(store, "dead")
	for _, step := range []struct {
		after  time.Duration
		ended  int
		writes bool
		want   drainRate // as who looks sees it
	}{
		{0, 100, true, drainRate{}},                                     // what was before does not count
		{20 * time.Second, 101, false, drainRate{}},                     // too soon to mean something
		{2 * time.Minute, 110, true, drainRate{10, 2 * time.Minute}},    //
		{30 * time.Minute, 110, false, drainRate{10, 30 * time.Minute}}, // nothing more, so it slows down
		{63 * time.Minute, 110, true, drainRate{}},                      // a new window begins
		{65 * time.Minute, 150, true, drainRate{40, 2 * time.Minute}},   //
		{130 * time.Minute, 150, true, drainRate{}},                     //
		{135 * time.Minute, 3, true, drainRate{}},                       // the state was deleted
		{140 * time.Minute, 13, true, drainRate{10, 5 * time.Minute}},   //
	} {
		s := redrive.State{Successes: step.ended - 1, Parked: 1}
		before := writer.version
		writer.note(t.Context(), at(step.after), &s)
		if got := writer.version != before; got != step.writes {
			t.Errorf("after %v it was written: %t, want %t", step.after, got, step.writes)
		}
		got, err := newPaceKeeper(store, "dead").rate(t.Context(), at(step.after), &s)
		if err != nil || got != step.want {
			t.Errorf("after %v the rate is %v, error %v, want %v", step.after, got, err, step.want)
		}
	}

	// Two redrivers write over each other and both continue.
	other := newPaceKeeper(store, "dead")
	turn := 0
	note := func(k *paceKeeper) records.Version {
		turn++
		s := redrive.State{Successes: 14 + turn}
		if r := k.note(t.Context(), at(141*time.Minute+time.Duration(turn)*time.Minute), &s); turn > 2 && r.count == 0 {
			t.Errorf("turn %d: no rate", turn)
		}
		found, err := store.Get(t.Context(), k.key)
		if err != nil {
			t.Fatal(err)
		}
		return found.Version
	}
	for range 3 {
		note(writer)
		note(other)
	}
	before := note(writer)
	if after := note(writer); after == before {
		t.Error("what the other had written was never written over")
	}
}

func TestDrainTime(t *testing.T) {
	for _, test := range []struct {
		depth int
		rate  drainRate
		want  time.Duration
	}{
		{100, drainRate{}, 0},
		{0, drainRate{10, time.Minute}, 0},
		{100, drainRate{10, time.Minute}, 10 * time.Minute},
		{1 << 40, drainRate{1, time.Hour}, 100 * 365 * 24 * time.Hour},
	} {
		if got := drainTime(test.depth, test.rate); got != test.want {
			t.Errorf("%d at %v take %v, want %v", test.depth, test.rate, got, test.want)
		}
	}
}
