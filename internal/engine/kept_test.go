package engine_test

import (
	"math/rand/v2"
	"testing"

	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
)

// The message that expires next expires when it has been kept for the retention, and none before:
// also after deletes, and of dead letters, whose retention began in another queue. [RET-1, DLQ-25]
func TestKept(t *testing.T) {
	seed := proof.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 20 {
		a := newAger(t, kv.NewMemory())
		a.create("dead", "", "", "MessageRetentionPeriod", "3600")
		a.create("work", "dead", "1", "MessageRetentionPeriod", "3600")
		for range 60 {
			a.now += rng.Int64N(20_000)
			switch rng.IntN(4) {
			case 0, 1:
				a.send("work")
			case 2:
				a.receive("work", 1+rng.Int64N(3), rng.Int64N(2))
			case 3:
				for _, h := range a.receive("dead", 1, 0) {
					a.delete("dead", h)
				}
			}
		}
		for _, name := range []string{"work", "dead"} {
			for range 3 {
				g := a.gauge(name)
				live := g.Visible + g.InFlight + g.Delayed
				if live == 0 {
					if g.Kept != 0 {
						t.Fatalf("an empty queue has kept something for %d", g.Kept)
					}
					break
				}
				a.now += g.Retention - g.Kept - 1
				if g = a.gauge(name); g.Visible+g.InFlight+g.Delayed != live {
					t.Fatalf("%s: a message has expired a millisecond early", name)
				}
				a.now++
				if g = a.gauge(name); g.Visible+g.InFlight+g.Delayed >= live {
					t.Fatalf("%s: no message has expired after %d of %d", name, g.Kept, g.Retention)
				}
			}
		}
	}
}
