package redrive

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/redrive/breaker"
)

// sent is a state with n messages on their way, each a kind of its own.
func sent(t *testing.T, n int) (*Policy, State) {
	t.Helper()
	p := new(Policy)
	if err := p.setDefaults(); err != nil {
		t.Fatal(err)
	}
	s := first(p)
	for i := range n {
		name := fmt.Sprint("m", i)
		var d Decision
		if s, d = s.Decide(p, simStart, Letter{ID: name, Lineage: name, Key: name, Reason: strings.Repeat("r", i), Died: simStart}, 0); d.Action != Redrive {
			t.Fatalf("%s was not redriven: %+v", name, d)
		}
	}
	return p, s
}

func fails(n int, at time.Time) (outcomes []Outcome) {
	for i := range n {
		outcomes = append(outcomes, Outcome{fmt.Sprint("m", i), Failed, strings.Repeat("broken ", i+1), at})
	}
	return outcomes
}

// However many fail in one step, the consumer is not to blame while it does at least as much other
// work well. When it does less, it is.
func TestFailuresOfAWellConsumer(t *testing.T) {
	for _, test := range []struct {
		health Health
		want   breaker.State
	}{
		{Health{}, breaker.Open},
		{Health{Done: 4}, breaker.Closed},
		{Health{Done: 1}, breaker.Open}, // three of the four are not excused
		{Health{Done: 100, Failed: 400}, breaker.Open},
		{Health{Done: 400, Failed: 100}, breaker.Closed},
	} {
		p, s := sent(t, 4)
		now := simStart.Add(5 * time.Minute)
		s = s.Judge(p, now, fails(4, now), test.health)
		if s.Breaker.State != test.want || len(s.Flights) != 0 {
			t.Errorf("%+v: the breaker is %s with %d on their way, want %s", test.health, s.Breaker.State, len(s.Flights), test.want)
		}
		if s.Rate >= p.RateFirst {
			t.Errorf("%+v: the rate is still %d", test.health, s.Rate)
		}
	}
}

// Failures are in a row when nothing succeeded between them, in whichever order they are heard of.
func TestInARow(t *testing.T) {
	now := simStart.Add(5 * time.Minute)
	for _, test := range []struct {
		success time.Duration // before now; the failures are 4, 3 and 2 minutes before
		want    breaker.State
	}{
		{5 * time.Minute, breaker.Open},
		{150 * time.Second, breaker.Closed},
		{time.Minute, breaker.Open},
	} {
		p, s := sent(t, 4)
		outcomes := fails(3, now)
		for i := range outcomes {
			outcomes[i].At = now.Add(time.Duration(i-4) * time.Minute)
		}
		outcomes = append(outcomes, Outcome{Letter: "m3", Result: Succeeded, At: now.Add(-test.success)})
		if s = s.Judge(p, now, outcomes, Health{}); s.Breaker.State != test.want {
			t.Errorf("a success %v ago leaves the breaker %s, want %s", test.success, s.Breaker.State, test.want)
		}
	}
}

// A message that failed waits until it is known whether others succeed, also while the breaker is
// half open: sent on at once it would lose what counts against it.
func TestStrikeWaitsForEvidence(t *testing.T) {
	p, s := sent(t, 1)
	s.Breaker = breaker.Breaker{State: breaker.HalfOpen, LastChange: simStart}
	now := simStart.Add(2 * time.Minute)
	s = s.Judge(p, now.Add(-time.Minute), nil, Health{Done: 1})
	s = s.Judge(p, now, fails(1, now), Health{})
	if s.Breaker.State != breaker.HalfOpen {
		t.Fatalf("the breaker is %s", s.Breaker.State)
	}
	l := Letter{ID: "again", Lineage: "m0", Reason: "broken", Sends: 1, Died: now}
	_, d := s.Decide(p, now.Add(time.Second), l, 0)
	if d.Action != Hold || !d.Until.IsZero() {
		t.Errorf("got %+v, want it held until the next look", d)
	}
	s = s.Judge(p, now.Add(time.Minute), nil, Health{Done: 1})
	if _, d = s.Decide(p, now.Add(2*time.Minute), l, 0); d.Action != Redrive || d.Strikes != 1 {
		t.Errorf("got %+v, want it redriven with a strike", d)
	}
	if _, d = s.Decide(p, l.Died.Add(p.Near), l, 0); d.Action != Redrive {
		t.Errorf("got %+v, want it redriven when its time is over", d)
	}
}

// While the breaker is half open, one message goes at a time. One that failed twice waits until the
// others have been tried, and its failures do not park it: perhaps all messages fail.
func TestOthersAreTriedFirst(t *testing.T) {
	p, s := sent(t, 1)
	s.Breaker = breaker.Breaker{State: breaker.HalfOpen, LastChange: simStart}
	now := simStart.Add(2 * time.Minute)
	s = s.Judge(p, now.Add(-time.Minute), nil, Health{Done: 1}) // others succeed, before and after it fails
	s = s.Judge(p, now, fails(1, now), Health{})
	s = s.Judge(p, now.Add(time.Minute), nil, Health{Done: 1})
	l := Letter{ID: "again", Lineage: "m0", Reason: "broken", Sends: 2, Strikes: 1, Died: now.Add(time.Second)}
	_, d := s.Decide(p, now.Add(2*time.Minute), l, 0)
	if d.Action != Hold || d.Strikes != 1 || !d.Until.Equal(l.Died.Add(p.near())) {
		t.Errorf("got %+v, want it held while others may be tried", d)
	}
	if _, d = s.Decide(p, l.Died.Add(p.near()), l, 0); d.Action != Redrive || d.Strikes != 2 {
		t.Errorf("got %+v, want it redriven with another strike", d)
	}
	l.Strikes = p.Strikes - 1
	if _, d = s.Decide(p, l.Died.Add(p.near()), l, 0); d.Action != Redrive || d.Strikes != p.Strikes {
		t.Errorf("half open: got %+v, want it redriven", d)
	}
	s.Breaker.State = breaker.Closed
	if _, d = s.Decide(p, l.Died.Add(p.near()), l, 0); d.Action != Park {
		t.Errorf("closed: got %+v, want it parked", d)
	}
}

// The ledger entry of a redriven message is an outcome only under a newer fence.
func TestResultOfEntry(t *testing.T) {
	f := Flight{Fence: 7}
	for _, test := range []struct {
		entry claims.Entry
		want  Result
	}{
		{claims.Entry{}, Silent},
		{claims.Entry{State: claims.Exhausted, Fence: 7}, Silent}, // which is why it is a dead letter
		{claims.Entry{State: claims.Exhausted, Fence: 8}, Failed},
		{claims.Entry{State: claims.Parked, Fence: 7}, Silent},
		{claims.Entry{State: claims.Parked, Fence: 8}, Failed},
		{claims.Entry{State: claims.Held, Fence: 8}, Silent},
		{claims.Entry{State: claims.Failed, Fence: 8}, Silent}, // it has attempts left
		{claims.Entry{State: claims.Released, Fence: 8}, Silent},
		{claims.Entry{State: claims.Completed, Fence: 8}, Succeeded},
		{claims.Entry{State: claims.Completed, Fence: 7}, Moot},
	} {
		if got := f.result(test.entry); got != test.want {
			t.Errorf("%s under fence %d is %v, want %v", test.entry.State, test.entry.Fence, got, test.want)
		}
	}
}

// A message whose work was done before it was sent is not evidence, and does not occupy a place.
func TestMoot(t *testing.T) {
	p, s := sent(t, 1)
	s.Breaker = breaker.Breaker{State: breaker.HalfOpen, LastChange: simStart, SuccessCount: 1}
	s.Flights[0].Canary = true
	now := simStart.Add(time.Minute)
	s = s.Judge(p, now, []Outcome{{Letter: "m0", Result: Moot, At: now}}, Health{})
	if s.Breaker.State != breaker.HalfOpen || s.Successes != 0 || s.Room(p, now) != 1 {
		t.Errorf("got %+v", s)
	}
}

// A pause applies to everything, also to work in progress and to messages that would be parked.
func TestPauseHoldsAll(t *testing.T) {
	p, s := sent(t, 1)
	s.Paused = "by somebody"
	for _, l := range []Letter{{ID: "m0", Lineage: "m0"}, {ID: "bad", Poison: true, Reason: "no JSON"}, {ID: "new", Strikes: p.Redrives}} {
		next, d := s.Decide(p, simStart.Add(time.Minute), l, 0)
		if d.Action != Hold || d.Strikes != l.Strikes || next.Parked != 0 || len(next.Flights) != 1 {
			t.Errorf("%s: got %+v and %+v", l.ID, d, next)
		}
	}
}

// An outage of more than HoldMax is nothing that any kind of failure is to blame for.
func TestKindsAfterAnOutage(t *testing.T) {
	p, s := sent(t, 4)
	began := simStart.Add(5 * time.Minute)
	outcomes := fails(3, began)
	for i := range outcomes {
		outcomes[i].Reason = "connection refused"
	}
	s = s.Judge(p, began, nil, Health{Done: 1})
	died := began.Add(30 * time.Second)
	s = s.Judge(p, began.Add(time.Minute), outcomes, Health{Done: 1}) // which was before it began
	s.Breaker = breaker.Breaker{State: breaker.HalfOpen, LastChange: began}
	ended := began.Add(p.HoldMax + time.Hour)
	for i := range 2 { // of another kind
		id := string(rune('x' + i))
		s.Flights = append(s.Flights, Flight{Letter: id, Kind: FingerprintOf("timeout"), Canary: true})
		s = s.Judge(p, ended, []Outcome{{Letter: id, Result: Succeeded, At: ended}}, Health{})
	}
	if s.Breaker.State != breaker.Closed {
		t.Fatalf("the breaker is %s", s.Breaker.State)
	}
	_, d := s.Decide(p, ended.Add(time.Minute), Letter{ID: "again", Lineage: "m0", Reason: "connection refused", Sends: 1, Died: died}, 0)
	if d.Action == Park {
		t.Errorf("it was parked: %s", d.Why)
	}
}

// Work that the workers did once excuses once, and ends a row of failures once, however many looks
// a step takes.
func TestHealthCountsOnce(t *testing.T) {
	p, s := sent(t, 5)
	now := time.Now()
	r := &Redriver{cfg: Config{Policy: *p}}
	w := &walk{Redriver: r, dry: true, report: new(Report), state: s, health: Health{Done: 1}}
	outcomes := append([]Outcome{{Letter: "none"}}, fails(4, now)...)
	for i := range outcomes {
		if err := w.judge(outcomes[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if w.state.Breaker.State != breaker.Open {
		t.Errorf("after one excused failure and three more the breaker is %+v", w.state.Breaker)
	}
}

// Successes before the previous step say nothing about later failures.
func TestStepBeforeIsOver(t *testing.T) {
	p, s := sent(t, 4)
	p.apart = 8 * time.Minute
	s = s.Judge(p, simStart, nil, Health{Done: 1})
	now := simStart.Add(p.Near + 20*time.Second)
	outcomes := fails(4, now)
	for i := range outcomes {
		outcomes[i].Reason = "connection refused"
	}
	if s = s.Judge(p, now, outcomes, Health{}); s.Breaker.State != breaker.Open {
		t.Errorf("the breaker is %+v", s.Breaker)
	}
}

// rounds has two others succeed and one message of no particular reason fail, again and again, as a
// consumer without a ledger would have it: then all dead letters are of one kind.
func rounds(p *Policy, s State, now time.Time, n int) (State, time.Time) {
	bad := Letter{ID: "bad", Lineage: "bad", Died: now}
	for i := range n {
		now = now.Add(2 * time.Minute)
		for _, id := range []string{fmt.Sprint("a", i), fmt.Sprint("b", i)} {
			s, _ = s.Decide(p, now, Letter{ID: id, Lineage: id, Died: now}, 0)
		}
		var d Decision
		s, d = s.Decide(p, now, bad, 0)
		now = now.Add(2 * time.Minute)
		s = s.Judge(p, now, []Outcome{{fmt.Sprint("a", i), Succeeded, "", now}}, Health{})
		if d.Action == Redrive {
			s = s.Judge(p, now.Add(time.Second), []Outcome{{"bad", Failed, "", now}}, Health{})
			bad = Letter{ID: "bad", Lineage: "bad", Sends: bad.Sends + 1, Strikes: d.Strikes, Died: now.Add(time.Second)}
		}
		s = s.Judge(p, now.Add(2*time.Second), []Outcome{{fmt.Sprint("b", i), Succeeded, "", now}}, Health{})
		now = now.Add(3 * time.Second)
	}
	return s, now
}

// A message that is known to be poison lowers no rate and counts towards no breaker, and the rate
// that its first failure lowered is restored when it is known.
func TestKnownPoisonSlowsNothing(t *testing.T) {
	p := new(Policy)
	if err := p.setDefaults(); err != nil {
		t.Fatal(err)
	}
	p.Redrives, p.Strikes = 100, 100
	s, _ := rounds(p, first(p), simStart, 10)
	if s.Rate < p.RateFirst+10 || !s.Steep || s.Breaker.State != breaker.Closed {
		t.Errorf("after twenty successes and ten failures of one message the rate is %d (doubling: %v), the breaker %s", s.Rate, s.Steep, s.Breaker.State)
	}
}

// Poison that fails in some way does not explain other messages that fail in the same way: if
// everything fails like it, and no other work succeeds, it is an outage.
func TestOutageLooksLikePoison(t *testing.T) {
	for _, since := range []time.Duration{10 * time.Second, 6 * time.Minute} { // the last success
		p := new(Policy)
		if err := p.setDefaults(); err != nil {
			t.Fatal(err)
		}
		s, now := rounds(p, first(p), simStart, 3)
		var outcomes []Outcome
		for i := range 4 {
			id := fmt.Sprint("m", i)
			s, _ = s.Decide(p, now, Letter{ID: id, Lineage: id, Died: now}, 0)
			outcomes = append(outcomes, Outcome{Letter: id, Result: Failed})
		}
		now = now.Add(since)
		for _, o := range outcomes {
			o.At = now
			s = s.Judge(p, now, []Outcome{o}, Health{})
		}
		_, d := s.Decide(p, now.Add(time.Second), Letter{ID: "next", Lineage: "next", Died: now}, 0)
		if d.Action != Hold || since > p.Near && s.Breaker.State != breaker.Open {
			t.Errorf("four of four fail, %v after the last success: the next one is to %s, the breaker is %s", since, d.Action, s.Breaker.State)
		}
	}
}

// A canary whose silence closed the breaker, and which comes back all the same, opens it again, for
// longer than before. Until then it holds no place, and few may follow it.
func TestSilenceWasNoSuccess(t *testing.T) {
	p := new(Policy)
	if err := p.setDefaults(); err != nil {
		t.Fatal(err)
	}
	s := first(p)
	s.Breaker = breaker.Breaker{State: breaker.HalfOpen, LastChange: simStart, Trips: 3}
	now := simStart
	for i := range 4 {
		id := fmt.Sprint("m", i)
		var d Decision
		if s, d = s.Decide(p, now, Letter{ID: id, Lineage: id, Died: now}, 0); d.Why != "a canary" {
			t.Fatalf("%s: %+v", id, d)
		}
		f := &s.Flights[len(s.Flights)-1]
		f.Judge, f.End = f.Due.Add(time.Minute), f.Due.Add(time.Hour)
		now = f.Judge.Add(time.Second)
		s = s.Judge(p, now, []Outcome{{id, Gone, "", now}}, Health{})
	}
	if s.Breaker.State != breaker.Closed || len(s.Flights) != 4 || s.OnTheirWay() != 0 || s.Room(p, now) != p.RateFirst || len(s.Well) != 0 {
		t.Fatalf("four were silent: %+v, room for %d", s, s.Room(p, now))
	}
	now = now.Add(30 * time.Minute)
	s = s.Judge(p, now, []Outcome{{"m0", Failed, "", now}}, Health{})
	if s.Breaker.State != breaker.Open || s.Breaker.Trips != 4 {
		t.Errorf("one came back: %+v", s.Breaker)
	}

	// One that comes back although others are known to succeed is poison, and no sign of a sick
	// consumer.
	s.Breaker = breaker.Breaker{State: breaker.Closed, LastChange: simStart}
	if v := s.Judge(p, now.Add(time.Minute), []Outcome{{"m1", Failed, "", now}}, Health{Done: 3}); v.Breaker.State != breaker.Closed {
		t.Errorf("others succeeded: %+v", v.Breaker)
	}

	// When none comes back they are successes in the end, by which others are judged.
	s.Breaker = breaker.Breaker{State: breaker.Closed, Trips: 4}
	now = now.Add(2 * time.Hour)
	if s = s.Judge(p, now, nil, Health{}); len(s.Flights) != 0 || len(s.Well) != 1 || s.Breaker.Trips != 0 {
		t.Errorf("none came back: %+v", s)
	}
}

// How long silence takes to mean something follows from the queue.
func TestSilence(t *testing.T) {
	for _, test := range []struct {
		visibility, policy string
		receives           int
		step               time.Duration
		fifo               bool
		half, settled      time.Duration
	}{
		{"30", `{"maxReceiveCount":10}`, 0, time.Minute, false, 90 * time.Second, 6 * time.Minute},
		{"30", `{"maxReceiveCount":"3"}`, 0, 5 * time.Minute, false, 150 * time.Second, 150 * time.Second},
		{"900", `{"maxReceiveCount":10}`, 0, 5 * time.Minute, false, 20 * time.Minute, 151 * time.Minute},
		{"900", `{"maxReceiveCount":10}`, 2, 5 * time.Minute, false, 20 * time.Minute, 31 * time.Minute},
		{"0", "", 0, 10 * time.Second, false, 10 * time.Second, 90 * time.Second},
		{"43200", `{"maxReceiveCount":10}`, 0, time.Minute, false, 12*time.Hour + time.Minute, 24 * time.Hour},
		{"30", `{"maxReceiveCount":10}`, 0, time.Minute, true, 6 * time.Minute, 6 * time.Minute},
	} {
		s := silenceOf(map[string]string{"VisibilityTimeout": test.visibility, "RedrivePolicy": test.policy}, &Policy{Receives: test.receives}, test.step, test.fifo)
		if s.Half() != test.half || s.Settled() != test.settled {
			t.Errorf("%+v: half a success after %v and settled after %v, want %v and %v", s, s.Half(), s.Settled(), test.half, test.settled)
		}
	}
}
