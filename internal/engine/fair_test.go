package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

var fairTags = []engine.Tag{{Key: "tenaq:fair", Value: "true"}}

// sendOf sends a message to orders with a group.
func (r *runner) sendOf(group string) {
	some := func(s string) engine.Text { return engine.Text{Value: s, Set: s != ""} }
	r.do(&engine.SendMessage{Queue: orders,
		Draft: engine.NewDraft(engine.Entry{Body: some("x"), Group: some(group)})})
}

// The reads of a receive on a fair queue depend neither on the backlog of a group, nor on how many
// groups wait, nor on how much was deleted. [EXT-37, EXT-40]
func TestFairDepthCostsNothing(t *testing.T) {
	const window = 100
	cfg := engine.Config{InFlightMax: 1 << 40, Window: window, Fault: func(s string) { panic(s) }}
	cost := func(noisy, groups, deleted int) int {
		store := &counting{Store: kv.NewMemory()}
		r := newRunner(t, engine.Open(store, cfg))
		r.do(&engine.Start{})
		r.do(&engine.CreateQueue{Queue: orders, NameSet: true, Tags: fairTags})
		for range noisy {
			r.sendOf("noisy")
		}
		for n := range groups {
			r.sendOf(fmt.Sprint("g", n))
		}
		for range deleted {
			r.now++
			r.sendOf("noisy")
			r.life()
		}
		r.do(&engine.ReceiveMessage{Queue: orders, Max: engine.Int{Value: 10, Set: true}})
		store.rows = 0
		r = newRunner(t, engine.Open(store, cfg))
		r.do(&engine.Start{})
		for n := range 20 {
			r.now++
			r.sendOf(fmt.Sprint("quiet", n%5))
			r.life()
		}
		return store.rows
	}
	few := cost(200, 10, 0)
	for _, test := range []struct{ noisy, groups, deleted int }{
		{20_000, 10, 0}, {200, 20_000, 0}, {200, 10, 10_000},
	} {
		got := cost(test.noisy, test.groups, test.deleted)
		t.Logf("%d waiting in one group, %d groups, %d deleted: %d rows", test.noisy, test.groups, test.deleted, got)
		if got > few+4*window {
			t.Errorf("%d waiting in one group, %d groups, %d deleted: twenty lives read %d rows, want about %d", test.noisy,
				test.groups, test.deleted, got, few)
		}
	}
}

// Removing the tag from a queue with a long backlog takes bounded steps, and so do the operations
// after it. [EXT-42, EXT-43]
func TestFairEnds(t *testing.T) {
	const messages = 20_000
	store := &counting{Store: kv.NewMemory()}
	e := engine.Open(store, engine.Config{InFlightMax: 1 << 40, Window: 100, Fault: func(s string) { panic(s) }})
	r := newRunner(t, e)
	r.do(&engine.Start{})
	r.do(&engine.CreateQueue{Queue: orders, NameSet: true, Tags: fairTags})
	for n := range messages {
		r.sendOf(fmt.Sprint("g", n%7))
	}
	seen := make(map[uint64]bool)
	receive := func(want int) {
		t.Helper()
		for len(seen) < want {
			got := do(r, &engine.ReceiveMessage{Queue: orders, Max: engine.Int{Value: 10, Set: true}}).Messages
			if len(got) == 0 {
				t.Fatalf("%d messages received, want %d", len(seen), want)
			}
			for _, d := range got {
				if seen[d.Seq] {
					t.Fatalf("message %d is received twice", d.Seq)
				}
				seen[d.Seq] = true
			}
		}
	}
	receive(messages / 2)
	step := func(op engine.Op) (again bool) {
		t.Helper()
		store.rows = 0
		err := e.Apply(engine.Command{Now: r.now, Op: op})
		if wait := e.Commit(); wait != nil {
			wait()
		}
		if err != nil && err != engine.ErrAgain {
			t.Fatal(err)
		}
		if store.rows > 5_000 {
			t.Errorf("%T reads %d rows at once", op, store.rows)
		}
		return err != nil
	}
	for step(&engine.UntagQueue{Queue: orders, Keys: []string{"tenaq:fair"}}) {
	}
	receive(3 * messages / 4)
	for step(&engine.TagQueue{Queue: orders, Tags: fairTags}) {
	}
	receive(messages)
}

// A fairLoad is what TestFairWaits plays: consumers that take one message at a time and work for a
// while, and groups that send in bursts.
type fairLoad struct {
	consumers, work int64 // work in milliseconds
	groups, burst   int   // messages of each group
	every, bursts   int64 // milliseconds from one burst to the next
	noisy           int   // messages of the noisy group, which are there before
	fair            bool
}

// waits plays a load and returns how long the messages of the quiet groups waited, in order. Time
// is only counted, so it is the same on every machine.
func (l *fairLoad) waits(t *testing.T) (waits []int64) {
	r := newRunner(t, engine.Open(kv.NewMemory(), engine.Config{InFlightMax: 120_000, Fault: func(s string) { panic(s) }}))
	r.do(&engine.Start{})
	create := &engine.CreateQueue{Queue: orders, NameSet: true}
	if l.fair {
		create.Tags = fairTags
	}
	r.do(create)
	begin := r.now
	for range l.noisy {
		r.sendOf("noisy")
	}
	type job struct {
		until  int64
		handle engine.Handle
	}
	jobs := make([]job, l.consumers)
	total := int(l.bursts) * l.groups * l.burst
	for ; len(waits) < total; r.now++ {
		if at := r.now - begin; at%l.every == 0 && at/l.every < l.bursts {
			for n := range l.groups * l.burst {
				r.sendOf(fmt.Sprint("quiet", n%l.groups))
			}
		}
		for i := range jobs {
			j := &jobs[i]
			if j.until > r.now {
				continue
			}
			if j.handle.Valid {
				r.do(&engine.DeleteMessage{Queue: orders, Handle: j.handle})
				j.handle.Valid = false
			}
			got := do(r, &engine.ReceiveMessage{Queue: orders}).Received
			for _, d := range got.Messages {
				j.until = r.now + l.work + int64(i) // they do not work in step
				j.handle = engine.Handle{Text: "h", Valid: true, Incarnation: got.Incarnation, Space: d.Space, Seq: d.Seq,
					Generation: d.Generation}
				if d.Group != "noisy" {
					waits = append(waits, r.now-d.Sent)
				}
			}
		}
	}
	slices.Sort(waits)
	return waits
}

// Beside a group with a backlog of nearly two minutes, the messages of quiet groups wait at most
// one and a half times as long as without that group. Without the tag, they wait for the whole
// backlog. [EXT-37, EXT-40]
func TestFairWaits(t *testing.T) {
	load := fairLoad{consumers: 10, work: 100, groups: 20, burst: 3, every: 1000, bursts: 20}
	median := func(l fairLoad) int64 {
		waits := l.waits(t)
		return waits[len(waits)/2]
	}
	alone := median(load)
	load.noisy = 10_000
	plain := load
	load.fair = true
	beside, without := median(load), median(plain)
	t.Logf("median wait of quiet groups: %d ms alone; beside %d messages of one group %d ms, which is %.2f times as long, and %d ms without the tag",
		alone, load.noisy, beside, float64(beside)/float64(alone), without)
	if float64(beside) > 1.5*float64(alone) {
		t.Errorf("quiet groups wait for %d ms beside a noisy one, and %d ms without it: want at most 1.5 times as long", beside, alone)
	}
	if without < 10*alone {
		t.Errorf("without the tag they wait for %d ms, so this load proves nothing", without)
	}
}
