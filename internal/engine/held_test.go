package engine_test

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"tenaq/internal/engine/enginetest"
	"tenaq/internal/testing/proof"
)

// However messages have moved, the dead letters that hold a group are those that say so [HOLD-10],
// and no group is held when every dead letter has expired: no group stays held forever. [HOLD-5]
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
			for _, q := range fifoQueues {
				all += play("groups q=" + q + " locked")
			}
			return all
		}
		play("end") // of a turn that the script has opened, if it has
		groups()    // and what has expired is found
		locked := groups()
		if of, say := holders(locked), holding(play); !maps.Equal(of, say) {
			t.Errorf("seed %d, %+v: groups are held by %v, and dead letters hold %v", seed+n, v, of, say)
		}
		held += strings.Count(locked, " held, ")
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

// fifoQueues are those of random scripts.
var fifoQueues = []string{"f.fifo", "g.fifo", "h.fifo"}

// A holdCount is how many messages of a queue hold a group of that name.
type holdCount map[struct{ queue, group string }]int

// holders reads the answers to groups.
func holders(groups string) holdCount {
	count := make(holdCount)
	for line := range strings.Lines(groups) {
		name, _, _ := strings.Cut(line, " held, ")
		for _, m := range regexp.MustCompile(`held by \S+ in ([^,\s]+)`).FindAllStringSubmatch(line, -1) {
			count[struct{ queue, group string }{m[1], name}]++
		}
	}
	return count
}

// holding asks each queue for messages that hold a group.
func holding(play func(string) string) holdCount {
	count := make(holdCount)
	for _, q := range fifoQueues {
		for _, m := range regexp.MustCompile(`, holds (\S+) of`).FindAllStringSubmatch(play("peek q="+q), -1) {
			count[struct{ queue, group string }{q, m[1]}]++
		}
	}
	return count
}
