package engine_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
)

const levels = 10

// withPriorities opens an engine with a queue of priorities.
func withPriorities(t *testing.T, store kv.Store, step string) *runner {
	r := newRunner(t, engine.Open(store, engine.Config{InFlightMax: 1 << 40, Window: 100, Fault: func(s string) { panic(s) }}))
	r.do(&engine.Start{})
	r.do(&engine.CreateQueue{Queue: orders, NameSet: true, Tags: []row.Tag{{Key: "tenaq:priority", Value: step}}})
	return r
}

// sendLevel sends a message of a level.
func (r *runner) sendLevel(level int) {
	r.do(&engine.SendMessage{Queue: orders, Draft: engine.NewDraft(engine.Entry{Body: engine.Text{Value: "x", Set: true},
		Attributes: []engine.EntryAttribute{{Name: "tenaq.priority", Type: engine.Text{Value: "Number", Set: true},
			String: engine.Text{Value: fmt.Sprint(level), Set: true}}}})})
}

// take receives up to n messages and deletes them.
func (r *runner) take(n int64) []engine.Delivery {
	op := do(r, &engine.ReceiveMessage{Queue: orders, Max: engine.Int{Value: n, Set: true}})
	for _, m := range op.Messages {
		r.do(&engine.DeleteMessage{Queue: orders, Handle: engine.Handle{Text: "h", Valid: true, Incarnation: op.Incarnation,
			Space: m.Space, Seq: m.Seq, Generation: m.Generation}})
	}
	return op.Messages
}

// Priorities are what the step says, to within five percent. With a step longer than any wait,
// consumers that can take less than half of what is sent, of all levels alike, take the most urgent
// messages alone. With a short one and a backlog, they take as many of each level as are sent, and
// each level waits a step less than the one below. The order is that of a list that is sorted again
// for every receive. [EXT-46, EXT-47, EXT-48]
func TestPrioritiesUnderLoad(t *testing.T) {
	for _, test := range []struct {
		tag     string
		step    time.Duration
		backlog int       // messages before the first receive
		taken   int64     // of twenty that are sent
		shares  []float64 // of what is sent of each level
	}{
		{"14d", 14 * 24 * time.Hour, 0, 9, []float64{0, 0, 0, 0, 0, 0.5, 1, 1, 1, 1}},
		{"1s", time.Second, 2_000, 20, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
	} {
		t.Run(test.tag, func(t *testing.T) {
			r, random := withPriorities(t, kv.NewMemory(), test.tag), proof.Random(t)
			type waiting struct {
				seq   uint64
				level int
				sent  int64
			}
			var list []waiting
			var order []int // of the levels of the next ten messages
			rank := func(w waiting) int64 { return w.sent - int64(w.level)*test.step.Milliseconds() }
			var sent, taken, waited [levels]float64
			for i := range proof.Count(16_000, 20_000, 60_000, 200_000) {
				r.now += random.Int64N(21) // 100 messages a second
				if i%levels == 0 {
					order = random.Perm(levels)
				}
				level := order[i%levels]
				r.sendLevel(level)
				list = append(list, waiting{uint64(i + 1), level, r.now})
				if i < test.backlog {
					continue
				}
				if sent[level]++; i%20 != 0 {
					continue
				}
				slices.SortStableFunc(list, func(a, b waiting) int { return cmp.Compare(rank(a), rank(b)) })
				for n := test.taken; n > 0; n -= 10 {
					for _, d := range r.take(min(n, 10)) {
						next := list[0]
						if list = list[1:]; next.seq != d.Seq {
							t.Fatalf("message %d comes where %d of level %d should", d.Seq, next.seq, next.level)
						}
						taken[next.level]++
						waited[next.level] += float64(r.now-next.sent) / 1000
					}
				}
			}
			for level, want := range test.shares {
				if share := taken[level] / sent[level]; math.Abs(share-want) > 0.05 {
					t.Errorf("level %d: %.3f of what was sent is delivered, want %.3f", level, share, want)
				}
			}
			if test.backlog == 0 {
				return
			}
			less := waited[0]/taken[0] - waited[levels-1]/taken[levels-1]
			if want := (levels - 1) * test.step.Seconds(); math.Abs(less/want-1) > 0.05 {
				t.Errorf("level 9 waits %.3f s less than level 0, want %.3f", less, want)
			}
		})
	}
}

// Messages without a level cost the same on a queue with priorities as on one without: the same
// rows are read, and the same are written.
func TestLevelZeroCostsNothing(t *testing.T) {
	run := func(tags []row.Tag) (rows []string, read int) {
		store := &counting{Store: kv.NewMemory()}
		r := newRunner(t, engine.Open(store, engine.Config{InFlightMax: 1 << 40, Window: 10, Fault: func(s string) { panic(s) }}))
		r.do(&engine.Start{})
		r.do(&engine.CreateQueue{Queue: orders, NameSet: true, Tags: tags})
		for range 200 {
			r.now += 100
			r.send("x")
			r.send("y")
			r.do(&engine.ReceiveMessage{Queue: orders, Visibility: engine.Int{Value: 1, Set: true}})
			r.life()
		}
		read = store.rows
		for _, text := range engine.Rows(store) {
			if !strings.HasPrefix(text, fmt.Sprintf("%x", row.QueueKey(orders))) {
				rows = append(rows, text)
			}
		}
		return rows, read
	}
	plain, read := run(nil)
	tagged, again := run([]row.Tag{{Key: "tenaq:priority", Value: "1m"}})
	if !slices.Equal(plain, tagged) || read != again {
		t.Errorf("with priorities there are %d rows and %d were read, without %d and %d", len(tagged), again, len(plain), read)
	}
}

// The reads of a send, a receive and a delete depend neither on how many messages of each level
// wait, nor on how many were deleted in front of them. [EXT-46, DUR-26]
func TestPriorityDepthCostsNothing(t *testing.T) {
	cost := func(depth, deleted int) int {
		store := &counting{Store: kv.NewMemory()}
		r := withPriorities(t, store, "1m")
		for i := range depth + deleted {
			r.sendLevel(i % levels)
		}
		for range deleted / 10 {
			r.take(10)
		}
		r.life()
		store.rows = 0
		for i := range 200 {
			r.sendLevel(i % levels)
			r.life()
		}
		return store.rows
	}
	least := cost(2_000, 0)
	for _, test := range []struct{ depth, deleted int }{{20_000, 0}, {2_000, 20_000}} {
		if got := cost(test.depth, test.deleted); got > 2*least {
			t.Errorf("%d waiting, %d deleted: 200 lives read %d rows, want about %d", test.depth, test.deleted, got, least)
		}
	}
}

// While expiry is paused, urgent messages that have expired do not hide others, however many they
// are. [CLOCK-7, EXT-46]
func TestExpiredPrioritiesHideNothing(t *testing.T) {
	r := withPriorities(t, kv.NewMemory(), "14d")
	for range 2_500 {
		r.sendLevel(9)
	}
	r.expiryPaused = true
	r.now += (5 * 24 * time.Hour).Milliseconds()
	r.sendLevel(1)
	r.sendLevel(2)
	r.send("x")
	var got []uint64
	for _, d := range r.take(10) {
		got = append(got, d.Seq)
	}
	if want := []uint64{2502, 2501, 2503}; !slices.Equal(got, want) {
		t.Errorf("received %v, want %v", got, want)
	}
}
