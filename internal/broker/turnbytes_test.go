package broker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// A full turn carries out nothing more. The rest follows in the next turns, in order, before later
// arrivals.
func TestTurnBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, body, sends = 10_000, 3000, 50
		g := &gate{Store: kv.NewMemory()}
		cfg := newConfig(t, g)
		cfg.TurnBytes = bound
		r := start(t, cfg)
		r.create("orders")
		g.close()
		first := len(g.bytes)
		var calls []*call
		for i := range sends {
			calls = append(calls, r.begin(sendOp("orders", fmt.Sprintf("%02d", i)+strings.Repeat("x", body))))
		}
		g.open()
		synctest.Wait()
		for i, c := range calls {
			if !c.answered() || c.err != nil {
				t.Fatalf("send %d: answered %v with error %v", i, c.answered(), c.err)
			}
		}
		if r.intake.bytes.Load() != 0 {
			t.Errorf("%d bytes count as waiting, want 0", r.intake.bytes.Load())
		}
		turns := g.bytes[first:]
		for i, n := range turns {
			if n > bound+body+1000 {
				t.Errorf("turn %d wrote %d bytes, want at most %d and one message", i, n, bound)
			}
		}
		if want := sends / (bound/body + 1); len(turns) < want {
			t.Errorf("%d turns, want at least %d", len(turns), want)
		}
		for i := range sends {
			if got := r.bodies(do(r, receiveOp("orders", 0)).Received); !strings.HasPrefix(got, fmt.Sprintf("%02d", i)) {
				t.Fatalf("message %d is %.2s", i, got)
			}
		}
	})
}

// Polls count too: those that a full turn has not served are served in the next ones.
func TestTurnBytesOfPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{Store: kv.NewMemory()}
		cfg := newConfig(t, g)
		cfg.TurnBytes = 1 // one operation a turn
		r := start(t, cfg)
		queues := []string{"a", "b", "c"}
		var polls []*call
		for _, q := range queues {
			r.create(q)
			for range 4 {
				polls = append(polls, r.begin(receiveOp(q, 20)))
			}
		}
		before := g.forces()
		for _, q := range queues {
			batch := &engine.SendMessageBatch{Queue: named(q), Given: true}
			for i := range 4 {
				entry := engine.Entry{ID: text(fmt.Sprint(i)), Body: text(fmt.Sprint(q, i))}
				batch.Drafts = append(batch.Drafts, engine.NewDraft(entry))
			}
			r.do(batch)
		}
		for i, c := range polls {
			c.wantAt(time.Since(c.begun), fmt.Sprint(queues[i/4], i%4))
		}
		if n := g.forces() - before; n < len(polls) {
			t.Errorf("%d turns for %d polls, want one for each", n, len(polls))
		}
	})
}

// A full turn that removes a queue still ends its polls, before a queue of the same name can be
// created. [QUEUE-17]
func TestTurnBytesOfRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := newConfig(t, kv.NewMemory())
		cfg.TurnBytes = 1
		r := start(t, cfg)
		r.create("orders")
		polls := []*call{r.begin(receiveOp("orders", 20)), r.begin(receiveOp("orders", 20))}
		r.do(&engine.DeleteQueue{Queue: named("orders")})
		for _, c := range polls {
			c.wantAt(0, "")
		}
	})
}
