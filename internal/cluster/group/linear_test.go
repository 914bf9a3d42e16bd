package group

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/testing/audit"
	"tenaq/internal/testing/proof"
)

// Under every fault, the life of a queue looks as if each operation had happened at one moment
// between its call and its answer: sends, receives, deletes, changes of visibility, and counts of
// messages. Each queue has few operations, so that every order of them can be tried.
func TestLinearizable(t *testing.T) {
	rng := proof.Random(t)
	var sum lives
	lived := proof.Count(4, 24, 300, 6000)
	for sum.queues < lived && !t.Failed() {
		seed := rng.Uint64()
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { sum.add(t, live(t, seed)) })
	}
	t.Logf("%d queues, %d operations, %d of unknown outcome, %d counts, %d not decided in time", sum.queues,
		sum.operations, sum.unknown, sum.counts, sum.undecided)
	if !t.Failed() && (sum.operations < 20*sum.queues || sum.counts < sum.queues || sum.undecided > sum.queues/20) {
		t.Error("too little to judge")
	}
}

// A judge that finds nothing wrong in a wrong life is none.
func TestLinearizableFinds(t *testing.T) {
	at := int64(0)
	op := func(what lifeOp, found lifeResult) porcupine.Operation {
		at += 2
		return porcupine.Operation{Input: what, Output: found, Call: at, Return: at + 1}
	}
	send := func(i int) porcupine.Operation { return op(lifeOp{lifeSend, i}, lifeResult{known: true}) }
	receive := func(i int) porcupine.Operation {
		return op(lifeOp{lifeReceive, 0}, lifeResult{known: true, messages: 1 << i})
	}
	count := func(visible, hidden int) porcupine.Operation {
		return op(lifeOp{lifeCount, 0}, lifeResult{known: true, visible: visible, hidden: hidden})
	}
	for name, c := range map[string]struct {
		life []porcupine.Operation
		ok   bool
	}{
		"right":                   {[]porcupine.Operation{send(1), receive(1), count(0, 1)}, true},
		"received twice":          {[]porcupine.Operation{send(1), receive(1), receive(1)}, false},
		"released":                {[]porcupine.Operation{send(1), receive(1), op(lifeOp{lifeRelease, 1}, lifeResult{known: true}), receive(1)}, true},
		"received after delete":   {[]porcupine.Operation{send(1), receive(1), op(lifeOp{lifeDelete, 1}, lifeResult{known: true}), receive(1)}, false},
		"stale count":             {[]porcupine.Operation{send(1), send(2), count(1, 0)}, false},
		"unknown send, there":     {[]porcupine.Operation{op(lifeOp{lifeSend, 1}, lifeResult{}), receive(1)}, true},
		"unknown receive":         {[]porcupine.Operation{send(1), op(lifeOp{lifeReceive, 0}, lifeResult{}), count(0, 1)}, true},
		"unknown, no effect":      {[]porcupine.Operation{send(1), op(lifeOp{lifeReceive, 0}, lifeResult{}), count(1, 0)}, true},
		"received and never sent": {[]porcupine.Operation{receive(1)}, false},
	} {
		if got := porcupine.CheckOperations(lifeModel.ToModel(), c.life); got != c.ok {
			t.Errorf("%s: judged %v, want %v", name, got, c.ok)
		}
	}
}

// The operations in the life of a queue.
const (
	lifeSend = iota
	lifeReceive
	lifeDelete
	lifeRelease
	lifeCount
)

// A lifeOp is an operation on a message, if it is on one.
type lifeOp struct{ kind, message int }

func (o lifeOp) String() string {
	return fmt.Sprint([]string{"send", "receive", "delete", "release", "count"}[o.kind], " ", o.message)
}

// A lifeResult is the answer to one, if it is known.
type lifeResult struct {
	known           bool
	messages        uint64 // received, as bits
	visible, hidden int    // counted
}

// A lifeState is the state of a queue; messages are bits.
type lifeState struct{ visible, hidden uint64 }

// lifeModel is a queue in which nothing happens by itself: timeouts are longer than any life.
var lifeModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{lifeState{}} },
	Step: func(state, input, output any) []any {
		s, o, r := state.(lifeState), input.(lifeOp), output.(lifeResult)
		bit := uint64(1) << o.message
		switch o.kind {
		case lifeSend:
			s.visible |= bit
		case lifeDelete:
			s.visible, s.hidden = s.visible&^bit, s.hidden&^bit
		case lifeRelease:
			if s.hidden&bit != 0 {
				s.visible, s.hidden = s.visible|bit, s.hidden&^bit
			}
		case lifeReceive:
			if !r.known { // it may have taken any one, or none
				next := []any{s}
				for rest := s.visible; rest != 0; rest &= rest - 1 {
					bit := rest & -rest
					next = append(next, lifeState{s.visible &^ bit, s.hidden | bit})
				}
				return next
			}
			if s.visible&r.messages != r.messages {
				return nil
			}
			s.visible, s.hidden = s.visible&^r.messages, s.hidden|r.messages
		case lifeCount:
			if r.known && (r.visible != bits.OnesCount64(s.visible) || r.hidden != bits.OnesCount64(s.hidden)) {
				return nil
			}
		}
		return []any{s}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v -> %+v", input, output) },
}

// A life is what clients did with one queue.
type life struct {
	name     string
	mu       sync.Mutex
	messages int
	done     []porcupine.Operation
}

// lifeOps is how many operations each client of a queue tries, and livesEach how many queues a
// group of machines has.
const lifeOps, livesEach = 12, 2

// pauseLeader pauses a leader for long enough that another node is elected, but not so long that
// its next stamp reveals the pause.
func (s *story) pauseLeader() {
	for _, n := range s.nodes[:s.voters] {
		if n.running.Load() && n.broker.Load() != nil && n.paused.Load() == nil {
			n.pause()
			s.heals = append(s.heals, heal{time.Now().Add(2*time.Second +
				time.Duration(s.rng.IntN(2500))*time.Millisecond), n.resume})
			return
		}
	}
}

// live has some queues live in a group of machines in which things break.
func live(t *testing.T, seed uint64) (all []*life) {
	out := outside(t)
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, seed, out)
		defer s.rig.close()
		for i := range livesEach {
			l := &life{name: fmt.Sprintf("life-%d", i)}
			all = append(all, l)
			if _, err := s.do(func() engine.Op {
				return &engine.CreateQueue{Queue: queueName(l.name), NameSet: true}
			}); err != nil {
				t.Fatal(err)
			}
		}
		var clients sync.WaitGroup
		for _, l := range all {
			for id := range 4 {
				c := s.client()
				clients.Go(func() { c.live(l, id, id < 2) })
			}
		}
		living := make(chan struct{})
		go func() { clients.Wait(); close(living) }()
		for ended := false; !ended; {
			s.tend()
			if s.rng.IntN(2) == 0 {
				s.pauseLeader()
			} else {
				s.breakSomething()
			}
			select {
			case <-living:
				ended = true
			case <-time.After(time.Duration(s.rng.ExpFloat64() * float64(time.Second))):
			}
			if s.rng.IntN(8) == 0 {
				s.heal(false)
				time.Sleep(5 * time.Second)
			}
		}
		s.heal(true)
		s.rig.settle()
		s.compare()
	})
	return all
}

// live does some of the operations of a life. One that only counts often finds a leader that was
// paused, without changes in the same turn.
func (c *client) live(l *life, id int, changes bool) {
	var held []holding
	var of []int // messages
	take := func() (h holding, m int) {
		i := c.rng.IntN(len(held))
		h, m = held[i], of[i]
		held[i], of[i] = held[len(held)-1], of[len(of)-1]
		held, of = held[:len(held)-1], of[:len(of)-1]
		return h, m
	}
	handle := make(map[int]engine.Handle)
	for range lifeOps {
		what, op := lifeOp{kind: lifeCount}, engine.Op(nil)
		switch n := c.rng.IntN(10); {
		case !changes:
			op = &engine.GetQueueAttributes{Queue: queueName(l.name), Names: []string{"All"}}
		case n < 3:
			l.mu.Lock()
			what = lifeOp{lifeSend, l.messages}
			l.messages++
			l.mu.Unlock()
			op = &engine.SendMessage{Queue: queueName(l.name), Draft: engine.NewDraft(engine.Entry{Body: text(fmt.Sprint(what.message))})}
		case n < 6:
			what.kind = lifeReceive
			op = &engine.ReceiveMessage{Queue: queueName(l.name), Max: number(1), Visibility: number(43200), Wait: number(c.rng.Int64N(2))}
		case n < 8 && len(held) > 0:
			h, m := take()
			what = lifeOp{lifeDelete, m}
			op = &engine.DeleteMessage{Queue: queueName(l.name), Handle: h.handle}
			if c.rng.IntN(2) == 0 {
				what.kind = lifeRelease
				op = &engine.ChangeMessageVisibility{Queue: queueName(l.name), Handle: h.handle, Timeout: number(0)}
			}
		default:
			op = &engine.GetQueueAttributes{Queue: queueName(l.name), Names: []string{"All"}}
		}
		var r lifeResult
		a := c.do(func() engine.Op { return op }, false, func(b *broker.Broker, a *answer) {
			r.known = true
			switch op := op.(type) {
			case *engine.ReceiveMessage:
				for _, m := range op.Messages {
					content, ok := b.ReadContent(m)
					i, err := strconv.Atoi(content.Body)
					if !ok || err != nil {
						r.known = false
						return
					}
					r.messages |= 1 << i
					handle[i] = engine.Handle{Text: "handle", Valid: true, Incarnation: op.Incarnation,
						Space: m.Space, Seq: m.Seq, Generation: m.Generation}
				}
			case *engine.GetQueueAttributes:
				r.visible, _ = strconv.Atoi(op.Attributes["ApproximateNumberOfMessages"])
				r.hidden, _ = strconv.Atoi(op.Attributes["ApproximateNumberOfMessagesNotVisible"])
			}
		})
		switch {
		case a.Outcome == audit.Refused: // not carried out
			if a.op != nil {
				c.t.Errorf("%v was refused", what)
			}
			continue
		case r.known && what.kind == lifeReceive && r.messages == 0:
			continue // it may be answered by a leader that was replaced
		}
		if r.messages != 0 {
			i := bits.TrailingZeros64(r.messages)
			held, of = append(held, holding{l.name, handle[i]}), append(of, i)
		}
		x := porcupine.Operation{ClientId: id, Input: what, Output: r, Call: int64(a.Call), Return: int64(a.Return)}
		if !r.known {
			x.Return = math.MaxInt64
		}
		l.mu.Lock()
		l.done = append(l.done, x)
		l.mu.Unlock()
		time.Sleep(time.Duration(c.rng.ExpFloat64() * float64(500*time.Millisecond)))
	}
}

// lives are what happened in all of them.
type lives struct{ queues, operations, unknown, counts, undecided int }

// add judges the lives of a group.
func (x *lives) add(t *testing.T, all []*life) {
	for _, l := range all {
		x.queues++
		x.operations += len(l.done)
		for _, o := range l.done {
			if o.Return == math.MaxInt64 {
				x.unknown++
			}
			if o.Input.(lifeOp).kind == lifeCount {
				x.counts++
			}
		}
		switch porcupine.CheckOperationsTimeout(lifeModel.ToModel(), l.done, 10*time.Second) {
		case porcupine.Unknown:
			x.undecided++
		case porcupine.Illegal:
			var b strings.Builder
			for _, o := range l.done {
				fmt.Fprintf(&b, "\n%14d %14d %s", o.Call, o.Return, lifeModel.DescribeOperation(o.Input, o.Output))
			}
			t.Errorf("the life of %s is not linearizable:%s", l.name, b.String())
		}
	}
}
