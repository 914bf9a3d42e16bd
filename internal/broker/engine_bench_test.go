package broker

import (
	"encoding/binary"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/observe/tally"
)

// large lets the benchmarks run that first fill a store with millions of rows, for minutes.
var large = flag.Bool("large", false, "also run the benchmarks that begin by storing a million messages or more")

func needsLarge(b *testing.B, entries int) {
	if entries >= aMillion && !*large {
		b.Skip("this one stores a million messages or more before it begins: run it with -large")
	}
}

// An engineBench drives an engine on the real disk without a broker: one goroutine makes turns of
// as many commands as there are callers, and does not wait for the disk before it makes the next.
type engineBench struct {
	b         *testing.B
	cfg       Config
	engine    *engine.Engine
	now       int64
	seed      uint64
	waits     chan func() error
	committer sync.WaitGroup
	inTurn    int
}

// aBody is of the usual size.
const aBody = "an order of the usual size, which is some hundred bytes or so, with a name, an address and two items"

func newEngineBench(b *testing.B) *engineBench {
	x := &engineBench{b: b, cfg: newConfig(b, openDisk(b)), now: time.Now().UnixMilli(), waits: make(chan func() error, 2)}
	x.committer.Go(func() {
		for wait := range x.waits {
			wait()
		}
	})
	x.restart()
	return x
}

// restart opens the engine again over the same store, with nothing in memory.
func (x *engineBench) restart() {
	x.engine = engine.Open(x.cfg.Store, x.cfg.Engine)
	x.apply(&engine.Start{})
	x.commit()
}

func (x *engineBench) apply(op engine.Op) {
	for {
		c := engine.Command{Now: x.now, Op: op}
		x.seed++
		binary.LittleEndian.PutUint64(c.Seed[:], x.seed)
		err := x.engine.Apply(c)
		if err != nil && err != engine.ErrAgain {
			x.b.Fatal(err)
		}
		if x.inTurn++; x.inTurn >= callers || err != nil {
			x.commit()
		}
		if err == nil {
			return
		}
	}
}

func (x *engineBench) commit() {
	x.inTurn = 0
	if wait := x.engine.Commit(); wait != nil {
		x.waits <- wait
	}
}

func (x *engineBench) close() {
	x.commit()
	close(x.waits)
	x.committer.Wait()
}

func (x *engineBench) create(queue string, attributes map[string]string) {
	x.apply(&engine.CreateQueue{Queue: named(queue), NameSet: true, Attributes: attributes})
}

// send sends message number n of so many groups, or of none; on a FIFO queue, each with an id of
// its own.
func (x *engineBench) send(queue string, n, groups int) {
	entry := engine.Entry{Body: engine.Text{Value: aBody, Set: true}}
	if groups > 0 {
		entry.Group = engine.Text{Value: "customer-" + strconv.Itoa(n%groups), Set: true}
		if strings.HasSuffix(queue, ".fifo") {
			entry.Dedup = engine.Text{Value: "order-" + strconv.Itoa(n), Set: true}
		}
	}
	x.apply(&engine.SendMessage{Queue: named(queue), Draft: engine.NewDraft(entry)})
}

// receive receives up to ten messages and returns their handles.
func (x *engineBench) receive(queue string) (handles []engine.Handle) {
	op := &engine.ReceiveMessage{Queue: named(queue), Max: engine.Int{Value: 10, Set: true}}
	x.apply(op)
	for _, m := range op.Messages {
		handles = append(handles, engine.Handle{Text: "h", Valid: true, Incarnation: op.Incarnation,
			Space: m.Space, Seq: m.Seq, Generation: m.Generation})
	}
	return handles
}

// lives makes n messages live: rounds of sends, each one a command, then receives of ten and
// deletes, each one a command. First numbers the messages.
func (x *engineBench) lives(queue string, first, n, groups int) {
	for done := 0; done < n; done += callers {
		for i := range callers {
			x.send(queue, first+done+i, groups)
		}
		for left := callers; left > 0; {
			handles := x.receive(queue)
			if len(handles) == 0 {
				x.b.Fatal("a message is missing")
			}
			for _, h := range handles {
				x.apply(deleteOp(queue, h))
			}
			left -= len(handles)
		}
		x.now++
	}
}

var fifoAttributes = map[string]string{"FifoQueue": "true"}

// BenchmarkEngineLives measures whole lives of messages, one command for each send and delete and
// one for each receive of ten: on a standard queue, and on FIFO queues with few and many groups.
// The last has a million messages waiting, one in each group; so has the standard queue it is to be
// compared with.
func BenchmarkEngineLives(b *testing.B) {
	for _, test := range []struct {
		name            string
		groups, waiting int
	}{
		{"standard", 0, 0},
		{"fifo/groups=1", 1, 0},
		{"fifo/groups=1000", 1_000, 0},
		{"standard/waiting=1000000", 0, aMillion},
		{"fifo/groups=1000000", aMillion, aMillion},
	} {
		b.Run(test.name, func(b *testing.B) {
			needsLarge(b, test.waiting)
			b.ReportAllocs()
			x := newEngineBench(b)
			queue, attributes := "orders", map[string]string(nil)
			if test.groups > 0 {
				queue, attributes = "orders.fifo", fifoAttributes
			}
			x.create(queue, attributes)
			for n := range test.waiting {
				x.send(queue, n, test.groups)
			}
			b.ResetTimer()
			x.lives(queue, test.waiting, b.N, test.groups)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lives/s")
			x.close()
		})
	}
}

// BenchmarkEngineWatched measures deletes on a queue that is not watched and on one whose handling
// times are watched, in turns of the two. The ratio is that of their medians.
func BenchmarkEngineWatched(b *testing.B) {
	x := newEngineBench(b)
	x.cfg.Engine.Tally = new(tally.Queues)
	x.restart()
	queues := []string{"plain", "watched"}
	for _, queue := range queues {
		x.create(queue, nil)
	}
	x.cfg.Engine.Tally.Watch(named("watched").Account, "watched", true)
	took := make(map[string][]time.Duration)
	b.ResetTimer()
	for round := range b.N {
		for i := range queues {
			queue := queues[(round+i)%2]
			for n := range callers {
				x.send(queue, n, 0)
			}
			for left := callers; left > 0; {
				handles := x.receive(queue)
				x.commit()
				begun := time.Now()
				for _, h := range handles {
					x.apply(deleteOp(queue, h))
				}
				took[queue] = append(took[queue], time.Since(begun)/time.Duration(len(handles)))
				left -= len(handles)
			}
			x.now++
		}
	}
	b.StopTimer()
	median := func(queue string) float64 {
		slices.Sort(took[queue])
		return float64(took[queue][len(took[queue])/2])
	}
	b.ReportMetric(median("plain"), "ns/plain")
	b.ReportMetric(median("watched"), "ns/watched")
	b.ReportMetric(median("watched")/median("plain"), "ratio")
	x.close()
}

// BenchmarkEngineFair measures whole lives like BenchmarkEngineLives: of messages with groups on a
// standard queue, on a fair one, and on a fair one on which a hundred thousand groups wait.
func BenchmarkEngineFair(b *testing.B) {
	const many = 100_000
	for _, test := range []struct {
		name            string
		groups, waiting int
		fair            bool
	}{
		{"standard/groups=1000", 1_000, 0, false},
		{"fair/groups=1000", 1_000, 0, true},
		{"standard/groups=100000", many, many, false},
		{"fair/groups=100000", many, many, true},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			x := newEngineBench(b)
			create := &engine.CreateQueue{Queue: named("orders"), NameSet: true}
			if test.fair {
				create.Tags = []engine.Tag{{Key: "tenaq:fair", Value: "true"}}
			}
			x.apply(create)
			for n := range test.waiting {
				x.send("orders", n, test.groups)
			}
			x.now++
			b.ResetTimer()
			x.lives("orders", test.waiting, b.N, test.groups)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lives/s")
			x.close()
		})
	}
}

// BenchmarkEngineDedup measures sends to a FIFO queue that remembers no deduplication ids, or five
// million of the last minutes; and the same after a restart, which has forgotten where not to look
// for them. Then it does the same with a window of seven days.
func BenchmarkEngineDedup(b *testing.B) {
	const many = 5_000_000
	for _, test := range []struct {
		entries int
		window  string
		restart bool
	}{{0, "5m", false}, {many, "5m", false}, {many, "5m", true}, {0, "7d", false}, {many, "7d", false},
		{many, "7d", true}} {
		name := fmt.Sprintf("entries=%d/window=%s/restart=%v", test.entries, test.window, test.restart)
		b.Run(name, func(b *testing.B) {
			needsLarge(b, test.entries)
			b.ReportAllocs()
			x := newEngineBench(b)
			x.create("orders.fifo", fifoAttributes)
			pause := int64(1) // after twenty sends; it makes 250 seconds in all
			if test.window != "5m" {
				x.apply(&engine.TagQueue{Queue: named("orders.fifo"), Tags: []engine.Tag{
					{Key: "tenaq:dedup-window", Value: test.window}}})
				pause = 2400 // nearly seven days
			}
			for n := range test.entries {
				x.send("orders.fifo", n, 1000)
				if n%(many/250_000) == 0 {
					x.now += pause
				}
			}
			if test.restart {
				x.commit()
				x.restart()
			}
			b.ResetTimer()
			for n := range b.N {
				x.send("orders.fifo", test.entries+n, 1000)
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
			x.close()
		})
	}
}

// BenchmarkEngineAgain measures sends without the id of a call, with one, as the SDKs of AWS send
// them, and sends that are all second attempts of calls that are not known: the worst case.
func BenchmarkEngineAgain(b *testing.B) {
	for _, test := range []struct {
		name         string
		named, later bool
	}{{"none", false, false}, {"first", true, false}, {"second", true, true}} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			x := newEngineBench(b)
			x.create("orders", nil)
			entry := engine.Entry{Body: engine.Text{Value: aBody, Set: true}}
			b.ResetTimer()
			for n := range b.N {
				op := &engine.SendMessage{Queue: named("orders"), Draft: engine.NewDraft(entry)}
				if test.named {
					op.Call = engine.Invocation{Later: test.later,
						Hash: engine.HashInvocation(binary.BigEndian.AppendUint64(nil, uint64(n)))}
				}
				if x.apply(op); n%1000 == 0 {
					x.now += 20 // 50,000 sends a second
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
			x.close()
		})
	}
}

// BenchmarkEngineSearch measures how long a search takes for each message of a backlog, of which
// none has what it looks for: a text in its body, an attribute, a group, or the time of its send.
func BenchmarkEngineSearch(b *testing.B) {
	const waiting = 200_000
	x := newEngineBench(b)
	x.create("orders", nil)
	for n := range waiting {
		x.send("orders", n, 0)
	}
	x.commit()
	for _, test := range []struct {
		name   string
		filter engine.TaskFilter
	}{
		{"text", engine.TaskFilter{Text: "no message has this"}},
		{"attribute", engine.TaskFilter{Attributes: []engine.TaskAttribute{{Name: "kind", Value: "none"}}}},
		{"group", engine.TaskFilter{Group: "none"}},
		{"before", engine.TaskFilter{To: 1}},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			op := &engine.CountTask{Queue: named("orders"), Filter: test.filter}
			looked := 0
			for looked < b.N {
				op.After = op.Next
				x.apply(op)
				looked += int(op.Looked)
			}
		})
	}
	x.close()
}

// BenchmarkHistory measures whole lives of messages on a queue without a history and with one, and
// pages of searches in a history of 100,000 outcomes in 64 buckets.
func BenchmarkHistory(b *testing.B) {
	const outcomes = 100_000
	keeping := func(b *testing.B, tags ...engine.Tag) *engineBench {
		x := newEngineBench(b)
		x.apply(&engine.CreateQueue{Queue: named("orders"), NameSet: true, Tags: tags})
		return x
	}
	kept := engine.Tag{Key: "tenaq:history", Value: "1h"}
	for name, tags := range map[string][]engine.Tag{"lives/without": nil, "lives/with": {kept}} {
		b.Run(name, func(b *testing.B) {
			x := keeping(b, tags...)
			b.ResetTimer()
			x.lives("orders", 0, b.N, 0)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lives/s")
			x.close()
		})
	}
	x := keeping(b, kept)
	defer x.close()
	for first := 0; first < outcomes; first += outcomes / 64 {
		x.now += 3_500_000 / 64
		x.lives("orders", first, outcomes/64, 0)
	}
	search := func(q engine.HistoryQuery) (page []engine.Outcome) {
		op := &engine.History{Queue: named("orders"), HistoryQuery: q}
		x.apply(op)
		x.commit()
		page, _ = engine.ReadHistory(x.cfg.Store, op, func(s string) { b.Fatal(s) })
		return page
	}
	oldest := search(engine.HistoryQuery{Oldest: true, Max: 1})[0].ID
	for name, q := range map[string]engine.HistoryQuery{"search/id": {ID: oldest, Max: 100},
		"search/newest": {Max: 100}, "search/text": {Text: "nowhere", Max: 100}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				search(q)
			}
		})
	}
}
