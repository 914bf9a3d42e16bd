package redrive

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/redrive/breaker"
)

// A world is a consumer and its queues in virtual time, for the planner alone.
type world struct {
	t    *testing.T
	rand *rand.Rand
	p    Policy
	now  time.Time
	s    State

	healthy func(now time.Time) bool
	live    func(now time.Time) int  // other messages done per step
	down    func(now time.Time) bool // what some messages need
	skew    time.Duration            // of the clocks of redrivers, to either side at most
	slow    time.Duration            // from being visible to its end, for good or not

	dead   []*work
	flying []*work
	done   []*work
	parked []*work

	arrivals []arrival
	inVain   int // arrivals of what needed something that was down
	next     int
}

type arrival struct {
	at   time.Time
	sick bool
}

// A work is a message on its way through the world.
type work struct {
	name   string
	poison string // why it never succeeds; empty when it does
	needs  bool   // something that may be down
	letter Letter
	end    time.Time
	hidden time.Time // not to be had before
}

const simStep = 30 * time.Second

var simStart = time.Unix(1_800_000_000, 0).UTC()

func newWorld(t *testing.T, seed uint64) *world {
	proof.Unraced(t)
	w := &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 7)), now: simStart,
		healthy: func(time.Time) bool { return true },
		live:    func(time.Time) int { return 0 },
		down:    func(time.Time) bool { return false },
		slow:    10 * time.Second,
	}
	if err := w.p.setDefaults(); err != nil {
		t.Fatal(err)
	}
	w.s = first(&w.p)
	return w
}

// die puts a message into the dead-letter queue.
func (w *world) die(m *work, reason string) {
	w.next++
	m.letter.ID = fmt.Sprintf("d%d", w.next)
	m.letter.Lineage, m.letter.Key = m.name, m.name
	m.letter.Reason = reason
	m.letter.Died = w.now
	w.dead = append(w.dead, m)
}

func (w *world) add(n int, poison, reason string) {
	for range n {
		w.next++
		w.die(&work{name: fmt.Sprintf("m%d", w.next), poison: poison}, reason)
	}
}

// step lets simStep pass.
func (w *world) step() {
	w.now = w.now.Add(simStep)
	var outcomes []Outcome
	for _, m := range slices.Clone(w.flying) {
		if m.end.After(w.now) {
			continue
		}
		w.flying = slices.DeleteFunc(w.flying, func(o *work) bool { return o == m })
		visible := m.end.Add(-w.slow)
		sick := !w.healthy(m.end) // when its last attempt ends
		w.arrivals = append(w.arrivals, arrival{visible, sick})
		flight := m.letter.ID
		switch {
		case m.poison != "":
			outcomes = append(outcomes, Outcome{flight, Failed, m.poison, w.now})
			w.die(m, m.poison)
		case m.needs && w.down(m.end):
			w.inVain++
			outcomes = append(outcomes, Outcome{flight, Failed, "the shipper answers 503", w.now})
			w.die(m, "the shipper answers 503")
		case sick:
			reason := fmt.Sprintf("dial tcp 10.0.0.%d:5432: connection refused", w.rand.IntN(250))
			outcomes = append(outcomes, Outcome{flight, Failed, reason, w.now})
			w.die(m, reason)
		default:
			outcomes = append(outcomes, Outcome{flight, Succeeded, "", w.now})
			w.done = append(w.done, m)
		}
	}
	var h Health
	if w.healthy(w.now) {
		h.Done = w.live(w.now)
	}
	now := w.now // by the clock of the redriver that takes this step
	if w.skew > 0 {
		now = now.Add(time.Duration(w.rand.Int64N(int64(2*w.skew))) - w.skew)
	}
	w.s = w.s.Judge(&w.p, now, outcomes, h)
	if got := len(w.s.Flights); got != len(w.flying) {
		w.t.Fatalf("the planner knows of %d on their way, there are %d", got, len(w.flying))
	}
	for range len(w.dead) {
		room := w.s.Room(&w.p, now)
		m := w.dead[0]
		w.dead = w.dead[1:]
		if w.now.Before(m.hidden) {
			w.dead = append(w.dead, m)
			continue
		}
		var d Decision
		rate := w.s.Rate
		w.s, d = w.s.Decide(&w.p, now, m.letter, w.rand.Float64())
		switch d.Action {
		case Redrive:
			if room == 0 && w.s.Rate == rate { // its failure may turn out to be its own, and no reason to go slower
				w.t.Fatalf("%s was redriven without room: %s", m.name, d.Why)
			}
			m.letter.Strikes = d.Strikes
			m.letter.Sends++
			m.end = w.now.Add(d.Delay + w.slow)
			w.flying = append(w.flying, m)
		case Park:
			w.parked = append(w.parked, m)
			if m.poison == "" {
				w.t.Errorf("%s is healthy and was parked: %s", m.name, d.Why)
			}
		case Hold:
			m.hidden = d.Until
			w.dead = append(w.dead, m)
		}
		if d.Strikes > w.p.Redrives {
			w.t.Fatalf("%s has %d strikes", m.name, d.Strikes)
		}
		if room == 0 {
			break // as the runner does
		}
	}
}

// run lets time pass, up to a maximum, until no healthy message is a dead letter. It returns how
// long that took.
func (w *world) run(most time.Duration) time.Duration {
	began := w.now
	for w.now.Sub(began) < most && slices.ContainsFunc(append(slices.Clone(w.dead), w.flying...), func(m *work) bool { return m.poison == "" }) {
		w.step()
	}
	return w.now.Sub(began)
}

func (w *world) check(total int) {
	w.t.Helper()
	if got := len(w.dead) + len(w.flying) + len(w.done) + len(w.parked); got != total {
		w.t.Errorf("%d messages are left of %d", got, total)
	}
}

// A healthy consumer gets its dead letters back, all of them, ever faster.
func TestDrain_FB11(t *testing.T) {
	w := newWorld(t, proof.Seed(t))
	w.add(2000, "", "timeout")
	took := w.run(48 * time.Hour)
	w.check(2000)
	if len(w.done) != 2000 || len(w.parked) != 0 {
		t.Errorf("%d done, %d parked after %v", len(w.done), len(w.parked), took)
	}
	// With all the room from the start, each place would bring one message back per delay and a
	// half.
	ideal := time.Duration(2000/w.p.RateMax+1) * (w.p.DelayBase*3/2 + 2*simStep)
	t.Logf("drained in %v, ideal %v", took, ideal)
	if took > 2*ideal {
		t.Errorf("drained in %v, want at most twice %v", took, ideal)
	}
}

// An outage of twelve hours parks nothing that is healthy, however often each message has to try,
// and is not made worse.
func TestOutage_FB12(t *testing.T) {
	first := proof.Seed(t)
	for _, n := range []int{3, 500} {
		w := newWorld(t, first+uint64(n))
		until := simStart.Add(12 * time.Hour)
		w.healthy = func(now time.Time) bool { return now.After(until) }
		w.add(n, "", "dial tcp 10.0.0.1:5432: connection refused")
		for !w.now.After(until) {
			w.step()
		}
		pressure := len(w.arrivals)
		took := w.run(48 * time.Hour)
		w.check(n)
		if len(w.done) != n {
			t.Errorf("%d of %d done, %d parked", len(w.done), n, len(w.parked))
		}
		// The bound: messages on their way at the start, then canaries, six in the first hour and
		// one in each later hour.
		if most := w.p.RateFirst + 6 + 2*12; pressure > most {
			t.Errorf("%d of %d messages were sent to a sick consumer in 12 hours, want at most %d", pressure, n, most)
		}
		ideal := w.p.CoolDownMax + time.Duration(n/w.p.RateMax+1)*(w.p.DelayMax+simStep)
		t.Logf("%d arrivals while sick, drained %v after it, ideal %v", pressure, took, ideal)
		if took > 2*ideal {
			t.Errorf("drained %v after the outage, want at most twice %v", took, ideal)
		}
	}
}

// Poison of two kinds among healthy messages is parked, and nothing else is: that they fail as
// often, in an outage, makes no poison.
func TestPoison_FB13(t *testing.T) {
	first := proof.Seed(t)
	for i, live := range []int{0, 3} {
		w := newWorld(t, first+uint64(i))
		w.live = func(time.Time) int { return live }
		down := simStart.Add(12 * time.Hour)
		w.healthy = func(now time.Time) bool { return now.After(down) }
		w.add(5, "", "connection refused")
		w.run(12 * time.Hour)
		w.add(2, "cannot parse body: invalid character 'x' at 17", "cannot parse body: invalid character 'x' at 4")
		w.add(300, "", "timeout")
		w.add(1, "no such customer 7341", "no such customer 12")
		w.run(24 * time.Hour)
		for range 2880 { // a day
			w.step()
		}
		w.check(308)
		if len(w.done) != 305 {
			t.Errorf("%d healthy ones done", len(w.done))
		}
		if live > 0 && len(w.parked) != 3 {
			t.Errorf("with live traffic %d are parked, want 3: %+v", len(w.parked), w.s)
		}
	}
}

// Something that only some messages need is down for twelve hours: they are held, and few of them
// try; the others continue as if nothing were.
func TestDependencyDown_FB7(t *testing.T) {
	w := newWorld(t, proof.Seed(t))
	until := simStart.Add(12 * time.Hour)
	w.down = func(now time.Time) bool { return now.Before(until) }
	w.live = func(time.Time) int { return 2 }
	w.add(300, "", "the shipper answers 503")
	for _, m := range w.dead {
		m.needs = true
	}
	w.add(300, "", "timeout")
	for w.now.Before(simStart.Add(6 * time.Hour)) {
		w.step()
	}
	if len(w.done) != 300 {
		t.Errorf("%d of the others are done after six hours, want 300", len(w.done))
	}
	for w.now.Before(until) {
		w.step()
	}
	// Before it is known what it is, as many as the rate allows try; then one at a time, ever less
	// often.
	t.Logf("%d arrivals in vain", w.inVain)
	if w.inVain > 40 {
		t.Errorf("%d messages tried in vain in twelve hours, want few", w.inVain)
	}
	w.run(24 * time.Hour)
	w.check(600)
	if len(w.done) != 600 || w.s.Breaker.State != breaker.Closed {
		t.Errorf("%d done in the end, the breaker of all is %s", len(w.done), w.s.Breaker.State)
	}
}

// A few messages whose dependency is down are held just like many, even if the common breaker is
// half open in between. They are not at fault, and are done when the dependency is up again.
func TestFewNeedWhatIsDown(t *testing.T) {
	first := proof.Seed(t)
	for _, others := range []int{0, 100} {
		for _, n := range []int{broad, 5, 10, 50} {
			for _, state := range []breaker.State{breaker.Closed, breaker.HalfOpen} {
				w := newWorld(t, first+uint64(n))
				until := simStart.Add(12 * time.Hour)
				w.down = func(now time.Time) bool { return now.Before(until) }
				w.live = func(time.Time) int { return 2 }
				w.s.Breaker = breaker.Breaker{State: state, LastChange: simStart}
				w.add(n, "", "the shipper answers 503")
				for _, m := range w.dead {
					m.needs = true
				}
				w.add(others, "", "timeout")
				w.run(18 * time.Hour)
				if len(w.done) != n+others || w.inVain > 40 {
					t.Errorf("%d of %d, %d others, breaker %s: %d done, %d parked, %d tried in vain",
						n, n+others, others, state, len(w.done), len(w.parked), w.inVain)
				}
			}
		}
	}
}

// A larger amount of poison looks like an outage, and is parked after a day.
func TestMuchPoison(t *testing.T) {
	w := newWorld(t, proof.Seed(t))
	w.live = func(time.Time) int { return 2 }
	w.add(2*broad, "cannot parse body: invalid character 'x' at 17", "cannot parse body: invalid character 'x' at 4")
	for w.now.Before(simStart.Add(w.p.HoldMax + 6*time.Hour)) {
		w.step()
	}
	if len(w.parked) != 2*broad {
		t.Errorf("%d are parked, want %d: %+v", len(w.parked), 2*broad, w.s)
	}
}

// Redrivers whose clocks are minutes apart take turns. Nothing is lost or parked, and an outage is
// respected.
func TestClocksApart(t *testing.T) {
	w := newWorld(t, proof.Seed(t))
	w.skew = 2 * time.Minute
	until := simStart.Add(6 * time.Hour)
	w.healthy = func(now time.Time) bool { return now.After(until) }
	w.add(200, "", "timeout")
	for !w.now.After(until) {
		w.step()
	}
	if most := w.p.RateFirst + 10 + 2*6; len(w.arrivals) > most {
		t.Errorf("%d messages were sent to a sick consumer in 6 hours, want at most %d", len(w.arrivals), most)
	}
	w.run(24 * time.Hour)
	w.check(200)
	if len(w.done) != 200 {
		t.Errorf("%d done, %d parked", len(w.done), len(w.parked))
	}
}

// A consumer that is sick again and again loses nothing, and is let rest in between.
func TestFlapping(t *testing.T) {
	w := newWorld(t, proof.Seed(t))
	w.healthy = func(now time.Time) bool { return int(now.Sub(simStart).Minutes())/37%2 == 1 }
	w.add(400, "", "timeout")
	took := w.run(10 * 24 * time.Hour)
	w.check(400)
	sick := 0
	for _, a := range w.arrivals {
		if a.sick {
			sick++
		}
	}
	t.Logf("%d done, %d parked, %d arrivals of %d while sick, in %v", len(w.done), len(w.parked), sick, len(w.arrivals), took)
	if len(w.done) != 400 {
		t.Errorf("%d done, %d dead", len(w.done), len(w.dead))
	}
}

// For any consumer, no message is lost, the messages on their way stay within the rate, and the
// breaker changes its time only with its state.
func TestAnything(t *testing.T) {
	first := proof.Seed(t)
	for i := range uint64(30) {
		w := newWorld(t, first+i)
		period := time.Duration(1+w.rand.IntN(300)) * time.Minute
		share := w.rand.Float64()
		if sick := time.Duration((1 - share) * float64(period)); sick < 3*w.p.Near {
			share = 1 // what comes and goes so quickly cannot be told from messages that fail by themselves
		}
		w.healthy = func(now time.Time) bool {
			return float64(now.Sub(simStart)%period) < share*float64(period)
		}
		w.slow = time.Duration(1+w.rand.IntN(600)) * time.Second
		if w.rand.IntN(2) == 0 {
			w.live = func(time.Time) int { return w.rand.IntN(3) }
		}
		w.add(w.rand.IntN(300), "", "timeout")
		total := len(w.dead)
		if w.rand.IntN(2) == 0 {
			w.add(5, "poison 17", "poison 4")
			total += 5
		}
		for range 4000 {
			before := w.s.Breaker
			w.step()
			if w.s.Breaker.State == before.State && w.s.Breaker.LastChange != before.LastChange && w.s.Breaker.Trips == before.Trips {
				t.Fatalf("seed %d: %+v became %+v", first+i, before, w.s.Breaker)
			}
			canaries := 0
			for _, f := range w.s.Flights {
				if f.Canary {
					canaries++
				}
			}
			if len(w.s.Flights) > w.p.RateMax || w.s.Breaker.State == breaker.HalfOpen && canaries > 1 {
				t.Fatalf("seed %d: %d on their way, %d canaries", first+i, len(w.s.Flights), canaries)
			}
		}
		w.check(total)
		if t.Failed() {
			t.Fatalf("seed %d", first+i)
		}
	}
}
