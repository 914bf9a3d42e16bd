package breaker

import (
	"math/rand/v2"
	"tenaq/internal/testing/proof"
	"testing"
	"time"
)

var start = time.Unix(1_700_000_000, 0).UTC()

// A story in which each line is what happens and the state after it.
func TestStory(t *testing.T) {
	var (
		b   Breaker
		now = start
	)
	for i, step := range []struct {
		what  string
		after time.Duration
		want  State
	}{
		{"tick", 0, Closed},
		{"fail", 0, Closed}, {"fail", 0, Closed}, {"succeed", 0, Closed}, // not in a row
		{"fail", 0, Closed}, {"fail", 0, Closed}, {"fail", 0, Open},
		{"fail", time.Second, Open},    // let through before: nothing new
		{"succeed", time.Second, Open}, // the same
		{"tick", 57 * time.Second, Open},
		{"tick", time.Second, HalfOpen}, // 60 s after it opened
		{"fail", 0, Open},
		{"tick", 119 * time.Second, Open},
		{"tick", time.Second, HalfOpen}, // 120 s the second time
		{"succeed", 0, HalfOpen},
		{"succeed", 0, Closed},
		{"fail", 0, Closed}, {"fail", 0, Closed}, {"fail", 0, Open},
		{"tick", time.Minute, HalfOpen}, // it was closed in between
	} {
		now = now.Add(step.after)
		switch step.what {
		case "tick":
			b = b.Tick(Policy{}, now)
		case "fail":
			b = b.Fail(Policy{}, now)
		case "succeed":
			b = b.Succeed(Policy{}, now)
		}
		if b.State != step.want {
			t.Fatalf("step %d (%s): got %s, want %s", i, step.what, b.State, step.want)
		}
	}
}

// The time of the last change changes with the state and with nothing else, counts never pass their
// limits, and no cool-down is longer than the longest.
func TestRandom(t *testing.T) {
	seed := proof.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	p := Policy{Failures: 1 + r.IntN(4), Successes: 1 + r.IntN(3), CoolDown: time.Minute, CoolDownMax: 10 * time.Minute}
	b, now := Breaker{}.Tick(p, start), start
	for range 10_000 {
		now = now.Add(time.Duration(1+r.IntN(120)) * time.Second)
		before := b
		switch r.IntN(4) {
		case 0:
			b = b.Tick(p, now)
		case 1:
			b = b.Fail(p, now)
		case 2:
			b = b.Succeed(p, now)
		case 3:
			b = b.Attempt(now)
		}
		changed := b.LastChange != before.LastChange
		// Within one step an open one can become half open and open again.
		if b.State != before.State && !changed || b.State == before.State && changed && b.Trips == before.Trips {
			t.Fatalf("%+v became %+v", before, b)
		}
		if b.FailureCount >= p.Failures || b.SuccessCount >= p.Successes {
			t.Fatalf("counts of %+v under %+v", b, p)
		}
		if b.State == Open && b.Until(p).Sub(b.LastChange) > p.CoolDownMax {
			t.Fatalf("a cool-down of %v", b.Until(p).Sub(b.LastChange))
		}
	}
}

func TestGauge(t *testing.T) {
	for s, want := range map[State]int{Closed: 0, Open: 1, HalfOpen: 2} {
		if got := s.Gauge(); got != want {
			t.Errorf("%s: got %d, want %d", s, got, want)
		}
	}
}
