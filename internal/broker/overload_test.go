package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// crowded runs f on a broker whose writer is busy and whose line has room for 100 requests. The
// queue orders has 200 messages, half of which are in flight under the handles.
func crowded(t *testing.T, f func(t *testing.T, r *rig, handles []engine.Handle, resume func())) {
	synctest.Test(t, func(t *testing.T) {
		cfg := newConfig(t, kv.NewMemory())
		cfg.QueueMax = 100
		r := start(t, cfg)
		r.create("orders")
		var handles []engine.Handle
		for i := range 200 {
			r.send("orders", fmt.Sprint("m", i))
		}
		for range 100 {
			handles = append(handles, r.take("orders", 600))
		}
		f(t, r, handles, r.occupy())
	})
}

// put submits an operation and says whether it was taken up. IsFull must have known.
func (r *rig) put(op engine.Op) (*call, bool) {
	r.t.Helper()
	of := r.requests.get(op)
	full := r.IsFull(of.class, of.size)
	c := r.begin(op)
	if c.answered() != full {
		r.t.Errorf("%T was answered: %v; IsFull reported %v", op, !full, full)
	}
	if !c.answered() {
		return c, true
	}
	if !errors.Is(c.err, ErrThrottled) {
		r.t.Errorf("%T was answered with %v, want it taken up or %v", op, c.err, ErrThrottled)
	}
	return c, false
}

// operations has one operation of every kind, by the share of the line that its kind may fill.
var operations = map[int][]engine.Op{
	12: {
		&engine.ListQueues{Account: named("").Account},
		&engine.CreateQueue{Queue: named("new"), NameSet: true},
		&engine.DeleteQueue{Queue: named("nowhere")},
		&engine.GetQueueURL{Queue: named("orders"), NameSet: true},
		&engine.GetQueueAttributes{Queue: named("orders")},
		&engine.SetQueueAttributes{Queue: named("orders")},
		&engine.ListQueueTags{Queue: named("orders")},
		&engine.TagQueue{Queue: named("orders")},
		&engine.UntagQueue{Queue: named("orders")},
		&engine.PurgeQueue{Queue: named("nowhere")},
		&engine.ListRecords{Max: 1},
	},
	15:  {sendOp("orders", "hello"), &engine.SendMessageBatch{Queue: named("orders")}, putOp("new", 0, 0)},
	70:  {receiveOp("orders", 0), getOp("claim")},
	80:  {&engine.ChangeMessageVisibility{Queue: named("orders")}, &engine.ChangeMessageVisibilityBatch{Queue: named("orders")}, putOp("claim", 1, 0)},
	100: {&engine.DeleteMessage{Queue: named("orders")}, &engine.DeleteMessageBatch{Queue: named("orders")}, &engine.DeleteRecord{Key: "claim"}},
}

// Every kind of request is refused from a fill level of its own: listings first, then sends,
// receives and visibility changes, and deletes last. [DUR-25, REC-9]
func TestOrderOfSacrifice(t *testing.T) {
	for share, ops := range operations {
		for _, op := range ops {
			t.Run(fmt.Sprintf("%T", op), func(t *testing.T) {
				crowded(t, func(t *testing.T, r *rig, handles []engine.Handle, resume func()) {
					defer resume()
					for i := range share {
						// Deletes are taken up at any level and so can make each one.
						if _, ok := r.put(deleteOp("orders", handles[i])); !ok {
							t.Fatalf("a delete was refused with %d in line, want it taken up below 100", i)
						}
						if i == share-2 {
							if _, ok := r.put(op); !ok {
								t.Errorf("refused with %d in line, want it taken up below %d", share-1, share)
							}
							break
						}
					}
					if _, ok := r.put(op); ok {
						t.Errorf("taken up with %d in line, want it refused", share)
					}
				})
			})
		}
	}
}

// The queue of requests, filled by one kind after the other, keeps its reserved places for the
// kinds that they are for. Each accepted request gets its real outcome, and no refused one was
// carried out. [DUR-25]
func TestTakenUpMeansCarriedOut(t *testing.T) {
	crowded(t, func(t *testing.T, r *rig, handles []engine.Handle, resume func()) {
		taken := make(map[string][]*call)
		fill := func(kind string, op func(i int) engine.Op) {
			for i := range 100 {
				if c, ok := r.put(op(i)); ok {
					taken[kind] = append(taken[kind], c)
				}
			}
		}
		fill("read", func(int) engine.Op {
			return &engine.GetQueueAttributes{Queue: named("orders"), Names: []string{"All"}}
		})
		fill("send", func(i int) engine.Op { return sendOp("orders", fmt.Sprint("new", i)) })
		fill("receive", func(int) engine.Op { return receiveOp("orders", 20) })
		fill("change", func(i int) engine.Op { return changeOp("orders", handles[i], 900) })
		fill("delete", func(i int) engine.Op { return deleteOp("orders", handles[i]) })
		for kind, want := range map[string]int{"read": 12, "send": 3, "receive": 55, "change": 10, "delete": 20} {
			if got := len(taken[kind]); got != want {
				t.Errorf("%d of kind %s were taken up, want %d", got, kind, want)
			}
		}
		resume()
		for kind, calls := range taken {
			for _, c := range calls {
				if <-c.done; c.err != nil {
					t.Errorf("%s: %v", kind, c.err)
				}
			}
		}
		for _, c := range taken["receive"] {
			if got := len(c.res.Messages); got != 1 {
				t.Errorf("a receive got %d messages, want 1", got)
			}
		}
		// 100 in flight + 55 received - 20 deleted; 100 waiting - 55 received + 3 sent.
		if got := r.attribute("orders", "ApproximateNumberOfMessagesNotVisible"); got != "135" {
			t.Errorf("%s messages in flight, want 135", got)
		}
		if got := r.attribute("orders", "ApproximateNumberOfMessages"); got != "48" {
			t.Errorf("%s messages wait, want 48", got)
		}
	})
}

// Ten thousand clients that begin to poll at the same moment are all admitted, and so are more
// important requests behind them; sends have only as many places as can be served soon. [DUR-25]
func TestHerdOfPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newConfig(t, kv.NewMemory()))
		r.create("orders")
		r.send("orders", "hello")
		h := r.take("orders", 600)
		resume := r.occupy()
		sends := 0
		for ; sends < 4096; sends++ {
			if _, ok := r.put(sendOp("nowhere", "hello")); !ok {
				break
			}
		}
		if sends != 2457 {
			t.Errorf("%d sends were taken up, want 2457", sends)
		}
		resume()
		synctest.Wait()

		resume = r.occupy()
		polls := make([]*call, 10_000)
		for i := range polls {
			polls[i] = r.beginOutside(receiveOp("orders", 20))
		}
		synctest.Wait()
		for _, op := range []engine.Op{changeOp("orders", h, 900), deleteOp("orders", h)} {
			if _, ok := r.put(op); !ok {
				t.Errorf("behind the polls %T was refused", op)
			}
		}
		resume()
		synctest.Wait()
		for i, p := range polls {
			if p.answered() {
				t.Fatalf("poll %d was answered with %v, want it to wait", i, p.err)
			}
		}
	})
}

// Polls that wait for messages take no place in the line. [DUR-25]
func TestPollsTakeNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := newConfig(t, kv.NewMemory())
		cfg.QueueMax = 10
		r := start(t, cfg)
		r.create("orders")
		var polls []*call
		for range 100 {
			polls = append(polls, r.begin(receiveOp("orders", 20)))
		}
		for _, p := range polls {
			p.wantWaiting()
		}
		r.send("orders", "hello")
		polls[0].wantAt(0, "hello")
	})
}

// The messages that wait to be sent take a bounded amount of memory. One message always has room,
// and other requests do not count. [DUR-25, DUR-27]
func TestBytesInLine(t *testing.T) {
	const size = 1 << 20
	crowded(t, func(t *testing.T, r *rig, handles []engine.Handle, resume func()) {
		r.intake.max = 10_000
		large := strings.Repeat("x", size)
		calls := make(map[bool][]*call)
		for range bytesMax/size + 10 {
			c, ok := r.put(sendOp("orders", large))
			calls[ok] = append(calls[ok], c)
		}
		if got := len(calls[true]); got != bytesMax/size {
			t.Errorf("%d sends of 1 MiB were taken up, want %d", got, bytesMax/size)
		}
		if _, ok := r.put(&engine.SendMessageBatch{Queue: named("orders"), Given: true, Drafts: []engine.Draft{draft("x")}}); ok {
			t.Errorf("a batch was taken up beyond the bound on bytes")
		}
		if _, ok := r.put(deleteOp("orders", handles[0])); !ok {
			t.Errorf("a delete was refused because of bytes")
		}
		resume()
		for _, c := range calls[true] {
			if <-c.done; c.err != nil {
				t.Errorf("send: %v", c.err)
			}
		}
		synctest.Wait()
		if got := r.intake.bytes.Load(); got != 0 {
			t.Errorf("%d bytes are counted in an empty line, want 0", got)
		}
		r.send("orders", large)
	})
	in := intake{max: 10}
	if _, err := in.put(&request{op: sendOp("orders", strings.Repeat("x", bytesMax+1))}); err != nil {
		t.Errorf("a message alone was refused with %v, want it taken up at any size", err)
	}
}

// While the disk reserve is reached, sends are refused and everything else continues; later sends
// continue too. [DUR-20, DUR-21, DUR-22]
func TestRefuseSends(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("orders", "hello")
		r.RefuseSends(true)
		for _, op := range []engine.Op{sendOp("orders", "no"), &engine.SendMessageBatch{Queue: named("orders")}} {
			if err := r.Do(context.Background(), op); !errors.Is(err, ErrNoSpace) {
				t.Errorf("%T answered %v, want %v", op, err, ErrNoSpace)
			}
		}
		h := r.take("orders", 30)
		r.do(changeOp("orders", h, 0))
		r.do(deleteOp("orders", r.take("orders", 30)))
		r.do(&engine.PurgeQueue{Queue: named("orders")})
		r.RefuseSends(false)
		r.send("orders", "yes")
		r.begin(receiveOp("orders", 0)).wantAt(0, "yes")
	})
}

// Under overload a turn takes all waiting requests, so that the disk is forced less often for them.
// Only long messages are divided among turns.
func TestTurnsGrow(t *testing.T) {
	for _, c := range []struct{ size, sends, turns int }{
		{100, 1024, 1}, {100, 2048, 2}, {4 << 10, 1024, 4}, {64 << 10, 512, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &gate{Store: kv.NewMemory()}
			r := start(t, newConfig(t, g))
			r.create("orders")
			resume := r.occupy()
			body := strings.Repeat("x", c.size)
			calls := make([]*call, c.sends)
			for i := range calls {
				calls[i] = r.begin(sendOp("orders", body))
			}
			before := g.forces()
			resume()
			synctest.Wait()
			for _, c := range calls {
				if !c.answered() || c.err != nil {
					t.Fatalf("answered %v with %v", c.answered(), c.err)
				}
			}
			if got := g.forces() - before; got != c.turns {
				t.Errorf("%d sends of %d bytes took %d turns, want %d", c.sends, c.size, got, c.turns)
			}
		})
	}
}
