package broker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// runLost runs a broker over a gate that can lose what is forced; ended receives what Run returns.
func runLost(t *testing.T, cfg Config) (r *rig, ended chan error) {
	t.Helper()
	r, ended = &rig{Broker: mustNew(t, cfg), t: t}, make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r.stop = cancel
	go func() { ended <- r.Run(ctx) }()
	r.create("orders")
	return r, ended
}

func (c *call) wantError(want error) {
	c.r.t.Helper()
	synctest.Wait()
	if !c.answered() || !errors.Is(c.err, want) {
		c.r.t.Errorf("answered %v with error %v, want %v", c.answered(), c.err, want)
	}
}

// If the commit is lost, the outcome of a request that was carried out is unknown, and so is that
// of one that has only seen the lost turn. A waiting request was not carried out.
func TestLostCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{Store: kv.NewMemory()}
		cfg := newConfig(t, g)
		cfg.TurnMax = 4 // so that one request is many
		r, ended := runLost(t, cfg)
		r.create("empty")
		poll := r.begin(receiveOp("empty", 20))
		g.close()
		first := r.begin(sendOp("orders", "first"))
		saw := r.begin(&engine.GetQueueAttributes{Queue: named("orders"), Names: []string{"All"}})
		behind := r.begin(sendOp("orders", "behind"))
		for _, c := range []*call{first, saw, behind, poll} {
			c.wantWaiting()
		}
		g.lose()
		first.wantError(ErrOutcomeUnknown)
		saw.wantError(ErrOutcomeUnknown)
		behind.wantError(ErrNotLeader)
		poll.wantError(ErrNotLeader)
		if err := <-ended; !errors.Is(err, kv.ErrLost) {
			t.Errorf("Run returned %v, want ErrLost", err)
		}
		r.begin(sendOp("orders", "late")).wantError(ErrNotLeader)
	})
}

// A leader that learns that another node has taken over answers at once the requests that it has
// not carried out. It answers the rest when their outcome is known; they may have succeeded.
func TestAbandon(t *testing.T) {
	for name, lost := range map[string]bool{"committed": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &gate{Store: kv.NewMemory()}
				r, ended := runLost(t, newConfig(t, g))
				poll := r.begin(receiveOp("orders", 20))
				r.create("other")
				g.close()
				flying := r.begin(sendOp("other", "flying"))
				waiting := r.begin(sendOp("other", "waiting"))
				r.Abandon()
				r.Abandon()
				waiting.wantError(ErrNotLeader)
				poll.wantError(ErrNotLeader)
				flying.wantWaiting()
				want := error(nil)
				if lost {
					g.lose()
					want = ErrOutcomeUnknown
				} else {
					g.open()
				}
				flying.wantError(want)
				if err := <-ended; !errors.Is(err, kv.ErrLost) {
					t.Errorf("Run returned %v, want ErrLost", err)
				}
			})
		})
	}
}

// A poll that a send has served gets no message when their turn is lost: the next leader may give
// it to another consumer.
func TestLostCommitOfPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{Store: kv.NewMemory()}
		r, ended := runLost(t, newConfig(t, g))
		poll := r.begin(receiveOp("orders", 20))
		synctest.Wait()
		g.close()
		send := r.begin(sendOp("orders", "served"))
		send.wantWaiting()
		poll.wantWaiting()
		g.lose()
		send.wantError(ErrOutcomeUnknown)
		poll.wantError(ErrOutcomeUnknown)
		<-ended
	})
}

// No clean stop is recorded by a leader that was deposed, so the next one gives the grace.
func TestAbandonIsNoCleanStop(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"stopped":   func(r *rig) { r.stop() },
		"abandoned": func(r *rig) { r.Abandon() },
	} {
		synctest.Test(t, func(t *testing.T) {
			store := kv.NewMemory()
			r, ended := runLost(t, newConfig(t, store))
			r.send("orders", "hidden")
			r.take("orders", 5)
			end(r)
			<-ended
			time.Sleep(10 * time.Second)
			cfg := newConfig(t, store)
			cfg.Grace = time.Minute
			next := start(t, cfg)
			got := len(do(next, receiveOp("orders", 0)).Messages)
			if want := map[string]int{"stopped": 1, "abandoned": 0}[name]; got != want {
				t.Errorf("%s: the next start delivers %d messages, want %d", name, got, want)
			}
		})
	}
}

// A node that loses the lead while it takes it never serves.
func TestLostAtStart(t *testing.T) {
	g := &gate{Store: kv.NewMemory()}
	g.lose()
	if _, err := New(newConfig(t, g)); !errors.Is(err, kv.ErrLost) {
		t.Errorf("New returned %v, want ErrLost", err)
	}
}

// A stop while the last turns are lost still answers everything.
func TestStopWhileLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{Store: kv.NewMemory()}
		r, ended := runLost(t, newConfig(t, g))
		poll := r.begin(receiveOp("orders", 20))
		g.close()
		flying := r.begin(sendOp("orders", "flying"))
		r.stop()
		g.lose()
		flying.wantError(ErrOutcomeUnknown)
		<-poll.done
		if err := <-ended; !errors.Is(err, kv.ErrLost) {
			t.Errorf("Run returned %v, want ErrLost", err)
		}
	})
}

// A turn that wrote nothing is answered when it is confirmed that no other node has written
// meanwhile. Its requests share the question, and so do those that ask while it is out.
func TestConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, make(chan error)
		cfg := newConfig(t, kv.NewMemory())
		cfg.Confirm = func() error { asked++; return <-answer }
		r, ended := runLost(t, cfg)
		read := func() *call { return r.begin(&engine.ListQueues{Account: "000000000000"}) }
		refused := func() *call { return r.begin(sendOp("none", "")) }

		r.begin(receiveOp("orders", 0)).wantAt(0, "") // needs no confirmation
		poll := r.begin(receiveOp("orders", 1))
		time.Sleep(2 * time.Second)
		poll.wantAt(time.Second, "")
		r.send("orders", "its commit confirms it")
		if asked != 0 {
			t.Fatalf("asked %d times, want never", asked)
		}

		calls := []*call{read()}
		for range 20 {
			calls = append(calls, read(), refused())
		}
		for range 2 {
			answer <- nil
			synctest.Wait()
		}
		for _, c := range calls {
			if !c.answered() {
				t.Fatalf("not answered after two confirmations")
			}
		}
		if asked != 2 {
			t.Errorf("asked %d times for %d reads, want 2", asked, len(calls))
		}

		last := read()
		last.wantWaiting()
		answer <- kv.ErrLost
		last.wantError(ErrOutcomeUnknown)
		if err := <-ended; !errors.Is(err, kv.ErrLost) {
			t.Errorf("Run returned %v, want ErrLost", err)
		}
	})
}
