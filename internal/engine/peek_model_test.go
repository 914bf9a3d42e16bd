package engine_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tenaq/internal/engine/enginetest"
	"tenaq/internal/testing/proof"
	"tenaq/internal/work/extension"
)

// Peeking at all queues after every command changes no answer: the answers are those of the model,
// where nothing peeks. A peek always shows what the counters say, in order and each message once.
// On a FIFO queue, a message is blocked if an earlier message of its group cannot be received.
// [PEEK-1, PEEK-2, PEEK-3, PEEK-4]
//
// A look is a use of the queue, though, and the first use after something has happened to the whole
// server is what removes expired messages and gives the visibility grace. A server makes that use
// by itself, in its rounds; here it is made by the steps alone, so those after which it matters are
// left out: that expiry is paused, and that the server stops uncleanly. [CLOCK-7, CLOCK-10] So are
// surveys, which tell whether a message that was purged had been found expired before, and
// histories, which have expired messages in the order in which they were found [HIST-2], and holds,
// which end when a dead letter that has expired is found in its queue. [HOLD-5]
func TestPeekIsNoDelivery(t *testing.T) {
	seed, scripts := proof.Seed(t), proof.Count(4, 20, 20, 1_000)
	for range scripts {
		r := rand.New(rand.NewPCG(seed, 1))
		v := randomVariant(r)
		v.Peek = true
		g, model := enginetest.NewGenerator(seed), enginetest.NewPlayer(enginetest.NewModel())
		w := enginetest.NewWorld(v)
		p := enginetest.NewPlayer(w)
		for range scriptSteps {
			s := g.Next(model.Receipts())
			if strings.HasPrefix(s.Text, "hold ") || strings.HasPrefix(s.Text, "restart unclean") || s.Text == "survey" ||
				strings.Contains(s.Text, extension.History) || strings.Contains(s.Text, extension.OnDeadLetter) {
				continue
			}
			want, err := model.Play(s)
			if err != nil {
				t.Fatalf("-model.seed=%d: %v", seed, err)
			}
			got, err := p.Play(s)
			if err != nil {
				t.Fatalf("-model.seed=%d: %v", seed, err)
			}
			if got != want {
				t.Fatalf("-model.seed=%d: %s\ngot:\n%swant:\n%s", seed, s, got, want)
			}
		}
		w.Close()
		seed++
	}
}
