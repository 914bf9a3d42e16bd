package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/testing/proof"
)

var orders = engine.QueueName{Account: "000000000000", Name: "orders.fifo"}

func text(s string) engine.Text { return engine.Text{Value: s, Set: true} }

func number(n int64) engine.Int { return engine.Int{Value: n, Set: true} }

func (r *rig) create() {
	r.t.Helper()
	if _, err := r.do(func() engine.Op {
		return &engine.CreateQueue{Queue: orders, NameSet: true, Attributes: map[string]string{
			"FifoQueue": "true", "VisibilityTimeout": "30"}}
	}); err != nil {
		r.t.Fatal(err)
	}
}

// send sends until it is acknowledged; an attempt that is repeated has the same deduplication id.
func (r *rig) send(sender string, n int64) {
	if _, err := r.do(func() engine.Op { return sendOp(sender, n) }); err != nil {
		r.t.Errorf("send %s %d: %v", sender, n, err)
	}
}

func sendOp(sender string, n int64) *engine.SendMessage {
	return &engine.SendMessage{Queue: orders, Draft: engine.NewDraft(engine.Entry{
		Body: text(fmt.Sprintf("%s %d", sender, n)), Group: text(sender),
		Dedup: text(fmt.Sprintf("%s-%d", sender, n))})}
}

// A ledger notes what a consumer sees. Per sender, messages come in order and without gaps, and
// none comes again after its delete was acknowledged.
type ledger struct {
	mu      sync.Mutex
	seen    map[string]int64 // the last message of a sender
	deleted map[string]int64
	wrong   []string
}

func (a *ledger) delivered(body string) {
	var sender string
	var n int64
	fmt.Sscanf(body, "%s %d", &sender, &n)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch last := a.seen[sender]; {
	case n <= a.deleted[sender]:
		a.wrong = append(a.wrong, body+" was delivered after its delete")
	case n != last && n != last+1:
		a.wrong = append(a.wrong, fmt.Sprintf("%s was delivered after message %d", body, last))
	default:
		a.seen[sender] = n
	}
}

func (a *ledger) removed(body string) {
	var sender string
	var n int64
	fmt.Sscanf(body, "%s %d", &sender, &n)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deleted[sender] = max(a.deleted[sender], n)
}

// consume receives and deletes one message, if there is one.
func (r *rig) consume(a *ledger) (found bool) {
	op, err := r.do(func() engine.Op {
		return &engine.ReceiveMessage{Queue: orders, Wait: number(1), Visibility: number(5)}
	})
	if err != nil {
		r.t.Errorf("receive: %v", err)
		return false
	}
	received := op.(*engine.ReceiveMessage)
	for _, m := range received.Messages {
		c, ok := r.read(m)
		if !ok {
			continue // it comes again
		}
		a.delivered(c.Body)
		if _, err := r.do(func() engine.Op {
			return &engine.DeleteMessage{Queue: orders, Handle: engine.Handle{
				Text: "handle", Valid: true, Incarnation: received.Incarnation, Space: m.Space,
				Seq: m.Seq, Generation: m.Generation}}
		}); err == nil {
			a.removed(c.Body)
		}
	}
	return len(received.Messages) > 0
}

// Calls are sends to a standard queue that are repeated, as an SDK does, until they are answered.
// Beside it, a schedule ticks.
type calls struct {
	sent     map[string]engine.MessageID // by body
	repeated int                         // further attempts
}

var (
	parcels = engine.QueueName{Account: orders.Account, Name: "parcels"}
	ticks   = engine.QueueName{Account: orders.Account, Name: "ticks"}
)

func newCalls(r *rig) *calls {
	for _, create := range []engine.CreateQueue{{Queue: parcels}, {Queue: ticks,
		Tags: []engine.Tag{{Key: "tenaq:schedule", Value: "@every 1s"}}}} {
		if _, err := r.do(func() engine.Op {
			op := create
			op.NameSet = true
			return &op
		}); err != nil {
			r.t.Fatal(err)
		}
	}
	return &calls{sent: make(map[string]engine.MessageID)}
}

func (c *calls) send(r *rig) {
	body, attempts := fmt.Sprint("parcel ", len(c.sent)), 0
	op, err := r.do(func() engine.Op {
		attempts++
		return &engine.SendMessage{Queue: parcels,
			Draft: engine.NewDraft(engine.Entry{Body: text(body)}),
			Call:  engine.Invocation{Hash: engine.HashInvocation([]byte(body)), Later: attempts > 1}}
	})
	if err != nil {
		r.t.Errorf("send %s: %v", body, err)
		return
	}
	c.sent[body] = op.(*engine.SendMessage).Sent.ID
	c.repeated += attempts - 1
}

// drain ends the schedule and finds each call once, under the id that it was answered, and each
// tick once. [AGAIN-1, SCHED-6]
func (c *calls) drain(r *rig) (found int) {
	if _, err := r.do(func() engine.Op {
		return &engine.UntagQueue{Queue: ticks, Keys: []string{"tenaq:schedule"}}
	}); err != nil {
		r.t.Errorf("end the schedule: %v", err)
		return found
	}
	seen := make(map[string]bool) // calls and ticks
	for _, queue := range []engine.QueueName{parcels, ticks} {
		for left := true; left; {
			op, err := r.do(func() engine.Op {
				return &engine.ReceiveMessage{Queue: queue, Max: number(10), Visibility: number(43200)}
			})
			if err != nil {
				r.t.Errorf("receive: %v", err)
				return found
			}
			received := op.(*engine.ReceiveMessage).Messages
			left = len(received) > 0
			for _, m := range received {
				content, _ := r.read(m)
				what := content.Body
				for _, a := range content.Attributes {
					if a.Name == "tenaq.tick" {
						what = a.String
						found++
					}
				}
				if id, ok := c.sent[what]; seen[what] || ok && id != m.ID {
					r.t.Errorf("%q is there twice, or not as it was answered", what)
				}
				seen[what] = true
			}
		}
	}
	for body := range c.sent {
		if !seen[body] {
			r.t.Errorf("%s is lost", body)
		}
	}
	return found
}

// Acknowledged messages are never lost, whichever node loses power, is cut off, or comes back. FIFO
// order holds, no message comes back after its delete, repeated calls are carried out once, no tick
// is sent twice, and all nodes end with the same rows.
func TestLeadersDie(t *testing.T) {
	rng := proof.Random(t)
	var messages, terms int64
	parcels, repeated, ticks := 0, 0, 0
	rounds := proof.Count(1, 2, 20, 100)
	for range rounds {
		seed := rng.Uint64()
		bubble(t, seed, func(t *testing.T, r *rig) {
			var stop atomic.Bool
			var clients sync.WaitGroup
			acknowledged := make([]int64, 4)
			for i := range acknowledged {
				clients.Go(func() {
					for !stop.Load() {
						r.send(fmt.Sprintf("s%d", i), acknowledged[i]+1)
						acknowledged[i]++
						time.Sleep(time.Duration(i+1) * 20 * time.Millisecond)
					}
				})
			}
			a := &ledger{seen: map[string]int64{}, deleted: map[string]int64{}}
			clients.Go(func() {
				for !stop.Load() {
					r.consume(a)
				}
			})
			calls := newCalls(r)
			clients.Go(func() {
				for !stop.Load() {
					calls.send(r)
					time.Sleep(10 * time.Millisecond)
				}
			})
			for i := range 6 {
				time.Sleep(time.Duration(r.rng.IntN(1000)) * time.Millisecond)
				n := r.leader()
				began := time.Now()
				switch i % 3 {
				case 0:
					n.cutPower()
					r.leader()
					n.start()
				case 1: // cut off, and back
					n.disconnect()
					time.Sleep(time.Duration(r.rng.IntN(4000)) * time.Millisecond)
					n.connect()
				case 2: // a follower
					for _, f := range r.nodes[:r.voters] {
						if f != n {
							f.cutPower()
							f.start()
							break
						}
					}
				}
				r.leader()
				if d := time.Since(began); d > 10*time.Second {
					t.Errorf("no leader for %v", d)
				}
			}
			stop.Store(true)
			clients.Wait()
			for empty := 0; empty < 10; {
				if r.consume(a) {
					empty = 0
				} else {
					empty++
				}
			}
			ticks += calls.drain(r)
			parcels, repeated = parcels+len(calls.sent), repeated+calls.repeated
			r.settle()
			// The leader itself writes now and then, so an entry may be on its way.
			kept := func() int { return r.leader().store.Load().Bytes() }
			for tries := 0; kept() != 0 && tries < 100; tries++ {
				time.Sleep(10 * time.Millisecond)
			}
			if n := kept(); n != 0 {
				t.Errorf("the leader keeps %d bytes over its rows, want none", n)
			}
			for i, n := range acknowledged {
				if got := a.seen[fmt.Sprintf("s%d", i)]; got != n {
					t.Errorf("sender %d: %d messages acknowledged, the last one delivered is %d", i,
						n, got)
				}
			}
			for _, w := range a.wrong {
				t.Error(w)
			}
			for _, n := range acknowledged {
				messages += n
			}
			for _, n := range r.nodes {
				terms += n.terms.Load()
			}
		})
	}
	t.Logf("%d messages, %d times of leading; %d calls with %d repeats, %d ticks", messages, terms,
		parcels, repeated, ticks)
	if messages < 50*int64(rounds) || terms < 3*int64(rounds) || repeated < rounds || ticks < rounds {
		t.Errorf("too few for a proof")
	}
}

// A node whose rows differ leaves the group with the next entry, and the others continue.
func TestDifferentRows(t *testing.T) {
	bubble(t, 1, func(t *testing.T, r *rig) {
		leader := r.leader()
		wrong := r.nodes[0]
		if wrong == leader {
			wrong = r.nodes[1]
		}
		wrong.spoil()
		p := wrong.state.Position()
		r.send("s", 1)
		time.Sleep(time.Second)
		if err := wrong.group.Err(); !errors.Is(err, ErrMismatch) {
			t.Errorf("the node with other rows has error %v, want ErrMismatch", err)
		}
		if got := wrong.state.Position(); got != p {
			t.Errorf("it has applied an entry: %+v, was %+v", got, p)
		}
		for i := range int64(5) {
			r.send("s", 2+i)
		}
		if r.leader() != leader || leader.group.Err() != nil {
			t.Error("the other nodes did not go on")
		}
	})
}

// spoil changes the hash of the rows of a node, as if a bit of its memory had flipped earlier.
func (n *node) spoil() {
	p := n.state.Position()
	p.Mark.Hash ^= 1
	if err := n.state.Apply(p, nil); err != nil {
		n.rig.t.Fatal(err)
	}
}

// win makes a node win an election, without a word to the leader's broker. Nothing may be under
// way.
func (n *node) win() {
	n.rig.t.Helper()
	if err := n.rig.leader().group.raft.LeadershipTransferToServer(n.id,
		raft.ServerAddress(n.id)).Error(); err != nil {
		n.rig.t.Fatal(err)
	}
}

// A leader with wrong rows leaves the group before it proposes anything, and the nodes that are
// right continue.
func TestLeaderWithWrongRows(t *testing.T) {
	bubble(t, 1, func(t *testing.T, r *rig) {
		r.send("s", 1)
		r.settle()
		wrong := r.follower()
		wrong.spoil()
		wrong.win()
		r.send("s", 2)
		for _, n := range r.nodes[:r.voters] {
			if err := n.group.Err(); (err != nil) != (n == wrong) {
				t.Errorf("%s: error %v; the one with wrong rows is %s", n.id, err, wrong.id)
			}
		}
	})
}

// If two nodes have different rows, neither serves and neither leaves the group. The third node
// decides when it is back.
func TestTwoNodesDiffer(t *testing.T) {
	bubble(t, 1, func(t *testing.T, r *rig) {
		r.send("s", 1)
		r.settle()
		wrong, leader := r.follower(), r.leader()
		var third *node
		for _, n := range r.nodes[:r.voters] {
			if n != wrong && n != leader {
				third = n
			}
		}
		third.stop()
		wrong.spoil()
		wrong.win()
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			for _, n := range []*node{wrong, leader} {
				if n.broker.Load() != nil || n.group.Err() != nil {
					t.Fatalf("%s: leads %v, error %v", n.id, n.broker.Load() != nil, n.group.Err())
				}
			}
		}
		third.start()
		r.send("s", 2)
		if !errors.Is(wrong.group.Err(), ErrMismatch) || leader.group.Err() != nil || third.group.Err() != nil {
			t.Errorf("errors %v, %v and %v, want the first one only", wrong.group.Err(), leader.group.Err(), third.group.Err())
		}
	})
}

// A leader that cannot reach a majority answers nothing that depends on its lead.
func TestCutOffLeader(t *testing.T) {
	bubble(t, 1, func(t *testing.T, r *rig) {
		old := r.leader()
		b := old.broker.Load()
		old.disconnect()
		err := b.Do(t.Context(), &engine.GetQueueAttributes{Queue: orders, Names: []string{"All"}})
		if err == nil {
			t.Error("a leader that is cut off has answered a read")
		}
		for range 500 {
			if n := r.leader(); n != old {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if r.leader() == old {
			t.Fatal("no other node leads")
		}
		r.send("s", 1)
		old.connect()
		r.settle()
	})
}

// A leader forgets proposals that were not committed: when it leads again, a message that was lost
// with its leadership is not there, and its deduplication id is unknown.
func TestOverlayIsForgotten(t *testing.T) {
	bubble(t, 1, func(t *testing.T, r *rig) {
		old := r.leader()
		b := old.broker.Load()
		old.disconnect()
		if err := b.Do(t.Context(), sendOp("lost", 1)); !errors.Is(err, broker.ErrOutcomeUnknown) {
			t.Fatalf("a send without a majority: error %v, want ErrOutcomeUnknown", err)
		}
		r.send("kept", 1)
		old.connect()
		r.settle()
		for range 100 {
			if r.leader() == old {
				break
			}
			old.win()
			time.Sleep(time.Second)
		}
		r.send("lost", 1)
		r.settle()
		r.follower().win()
		op, err := r.do(func() engine.Op {
			return &engine.GetQueueAttributes{Queue: orders, Names: []string{"All"}}
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := op.(*engine.GetQueueAttributes).Attributes["ApproximateNumberOfMessages"]; got != "2" {
			t.Errorf("%s messages, want 2", got)
		}
	})
}

// A read waits for a majority that knows of no later term than the leader's.
func TestReadAsksForTerms(t *testing.T) {
	bubble(t, 1, func(t *testing.T, r *rig) {
		n := r.leader()
		n.later.Store(1) // as if another leader had been elected while this one was paused
		answered := make(chan error, 1)
		go func() {
			answered <- n.broker.Load().Do(context.Background(),
				&engine.GetQueueAttributes{Queue: orders, Names: []string{"All"}})
		}()
		time.Sleep(300 * time.Millisecond)
		select {
		case err := <-answered:
			t.Errorf("answered with error %v although all others know of a later term", err)
		default:
			n.later.Store(0)
			if err := <-answered; err != nil {
				t.Errorf("error %v", err)
			}
		}
	})
}

// After all nodes were away for an hour, the first leader's clock is the wall clock: that it
// applies the end of its log now says nothing about when that was written.
func TestClockAfterRestartOfAll(t *testing.T) {
	bubble(t, 1, func(t *testing.T, r *rig) {
		r.send("s", 1)
		receive := func(visibility int64) int {
			op, err := r.do(func() engine.Op {
				return &engine.ReceiveMessage{Queue: orders, Wait: number(0),
					Visibility: number(visibility)}
			})
			if err != nil {
				t.Fatal(err)
			}
			return len(op.(*engine.ReceiveMessage).Messages)
		}
		if receive(3000) != 1 {
			t.Fatal("the message was not delivered")
		}
		for _, n := range r.nodes[:r.voters] {
			n.stop()
		}
		time.Sleep(time.Hour)
		for _, n := range r.nodes[:r.voters] {
			n.start()
		}
		if receive(3000) != 1 {
			t.Error("the message is still hidden, 10 minutes after its timeout")
		}
	})
}
