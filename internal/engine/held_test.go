package engine_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tenaq/internal/engine/enginetest"
	"tenaq/internal/testing/proof"
)

// However messages have moved, no group is held when every dead letter has expired: nothing stays
// held for ever. [HOLD-5]
func TestNoGroupStaysHeld(t *testing.T) {
	seed, scripts := proof.Seed(t), proof.Count(10, 40, 200, 2_000)
	held := 0
	for n := range uint64(scripts) {
		g := enginetest.NewGenerator(seed + n)
		v := randomVariant(rand.New(rand.NewPCG(seed+n, 1)))
		w := enginetest.NewWorld(v)
		p := enginetest.NewPlayer(w)
		play := func(text string) string {
			answer, err := p.Play(enginetest.Step{Text: text})
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed+n, text, err)
			}
			return answer
		}
		for i := range scriptSteps {
			step := g.Next(p.Receipts())
			if _, err := p.Play(step); err != nil {
				t.Fatalf("seed %d, step %d, %s: %v", seed+n, i, step, err)
			}
		}
		groups := func() (all string) {
			for _, q := range []string{"f.fifo", "g.fifo", "h.fifo"} {
				all += play("groups q=" + q + " locked")
			}
			return all
		}
		play("end") // of a turn that the script has opened, if it has
		held += strings.Count(groups(), " held, ")
		play("hold off")
		play("advance 1209600s")
		for range 3 {
			play("sweep max=100")
		}
		if left := groups(); strings.Contains(left, " held, ") {
			t.Errorf("seed %d, %+v: %s", seed+n, v, left)
		}
		w.Close()
	}
	if t.Logf("%d groups were held at the end of %d scripts", held, scripts); held == 0 {
		t.Error("no group was held, so this proves nothing")
	}
}
