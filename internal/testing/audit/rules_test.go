package audit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"tenaq/internal/testing/proof"
	"testing"
	"time"
)

// ofGuilty are the queues of the histories below.
var ofGuilty = map[string]Queue{
	"orders": {FIFO: true},
	"jobs":   {DeadLetter: "dead", MaxReceives: 2},
	"dead":   {},
	"short":  {Retention: time.Minute},
	"source": {},
	"target": {},
	"told":   {History: true},
}

// guilty has, for each rule, a history of drained queues that breaks it and no other.
var guilty = map[Rule]History{
	Lost: {Sends: []Send{sent(0, 10, "a")}},
	Invented: {
		Deliveries: []Delivery{got(20, 30, "a", 1)},
		Deletes:    []Delete{deleted(40, 50, "a1", Done)},
	},
	Multiplied: {
		Sends: []Send{sent(0, 10, "a")},
		Deliveries: []Delivery{
			got(20, 30, "a", 1), {Span: at(20, 30), Body: "a", MessageID: "id-b", Handle: "x", Count: 1},
		},
		Deletes: []Delete{deleted(40, 50, "a1", Done), deleted(40, 50, "x", Done)},
	},
	InFlight: {
		Sends:      []Send{sent(0, 10, "a")},
		Deliveries: []Delivery{got(20, 30, "a", 1), got(800, 900, "a", 2)},
		Deletes:    []Delete{deleted(910, 920, "a2", Done)},
	},
	Deleted: {
		Sends:      []Send{sent(0, 10, "a")},
		Deliveries: []Delivery{got(20, 30, "a", 1), got(1500, 1510, "a", 2)},
		Deletes:    []Delete{deleted(40, 50, "a1", Done)},
	},
	Counts: {
		Sends: []Send{sent(0, 10, "a")},
		Deliveries: []Delivery{
			got(20, 30, "a", 1),
			{Span: at(1500, 1510), Body: "a", MessageID: "id-a", Handle: "x", Count: 1, Sent: 5, FirstReceive: 7},
		},
		Deletes: []Delete{deleted(1520, 1530, "x", Done)},
	},
	Fixed: {
		Sends: []Send{sent(0, 10, "a")},
		Deliveries: []Delivery{
			got(20, 30, "a", 1),
			{Span: at(1500, 1510), Body: "a", MessageID: "id-a", Handle: "x", Count: 2, Sent: 5, FirstReceive: 8},
		},
		Deletes: []Delete{deleted(1520, 1530, "x", Done)},
	},
	Order: {
		Sends:      []Send{put(0, 10, "orders", "a", 1), put(20, 30, "orders", "b", 2)},
		Deliveries: []Delivery{give(40, 50, "orders", "b", 1, 2), give(60, 70, "orders", "a", 1, 1)},
		Deletes:    []Delete{deleted(80, 90, "orders/b1", Done), deleted(80, 90, "orders/a1", Done)},
	},
	Sequence: {
		Sends:      []Send{put(0, 10, "orders", "a", 2), put(20, 30, "orders", "b", 1)},
		Deliveries: []Delivery{give(40, 50, "orders", "b", 1, 1).in(1), give(40, 50, "orders", "a", 1, 2).in(1)},
		Deletes:    []Delete{deleted(80, 90, "orders/b1", Done), deleted(80, 90, "orders/a1", Done)},
	},
	Deduplicated: {
		Sends: []Send{put(0, 10, "orders", "a", 1), put(20, 30, "orders", "a", 2).renamed("id-b")},
		Deliveries: []Delivery{
			give(40, 50, "orders", "a", 1, 1).in(1), give(40, 50, "orders", "a", 1, 2).renamed("id-b").in(1),
		},
		Deletes: []Delete{deleted(80, 90, "orders/a1", Done), deleted(80, 90, "orders/a1-of-id-b", Done)},
	},
	DeadLetter: {
		Sends:      []Send{job(0, 10, "jobs", "a")},
		Deliveries: []Delivery{take(20, 30, "jobs", "a", 2), take(1100, 1110, "jobs", "a", 3)},
		Deletes:    []Delete{deleted(1120, 1130, "jobs/a3", Done)},
	},
	Delayed: {
		Sends:      []Send{sent(0, 10, "a").delayed(5 * time.Second)},
		Deliveries: []Delivery{got(4000, 4900, "a", 1)},
		Deletes:    []Delete{deleted(5000, 5010, "a1", Done)},
	},
	Expired: {
		Sends:      []Send{job(0, 10, "short", "a")},
		Deliveries: []Delivery{take(66_000, 66_010, "short", "a", 1)},
		Deletes:    []Delete{deleted(66_020, 66_030, "short/a1", Done)},
	},
	Selected: {
		Sends:      []Send{job(0, 10, "source", "a")},
		Tasks:      []Task{tasked(20, MoveWork, "no a here")},
		Deliveries: []Delivery{take(40, 50, "target", "a", 1).renamed("id-b")},
		Deletes:    []Delete{deleted(60, 70, "target/a1-of-id-b", Done)},
	},
	Confirmed: {
		Sends: []Send{job(0, 10, "source", "a"), job(0, 10, "source", "b")},
		Tasks: []Task{tasked(20, DeleteWork, "").confirmed(1)},
	},
	Counted: {
		Sends: []Send{job(0, 10, "source", "a")},
		Tasks: []Task{tasked(20, DeleteWork, "a").confirmed(1).ended(0)},
	},
	Replaced: {
		Sends: []Send{job(0, 10, "source", "a")},
		Replacements: []Replacement{{Span: at(100, 110), Outcome: Done, Queue: "source",
			Destination: "target", MessageID: "id-a", Body: "a", Gives: "b", NewID: "id-b"}},
		Deliveries: []Delivery{take(200, 210, "source", "a", 1)},
		Deletes:    []Delete{deleted(220, 230, "source/a1", Done)},
	},
	Recorded: {
		Sends:      []Send{job(0, 10, "told", "a")},
		Deliveries: []Delivery{take(20, 30, "told", "a", 1)},
		Deletes:    []Delete{deleted(40, 50, "told/a1", Done)},
	},
}

// rules reads the constants of type Rule from the source, so that none is forgotten.
func rules(t *testing.T) (all []Rule) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "audit.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Rule" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, Rule(text))
		}
		return true
	})
	return all
}

// Every rule can be broken alone, and is then the one that is reported.
func TestEveryRuleAlone(t *testing.T) {
	all := rules(t)
	if len(all) != len(guilty) {
		t.Errorf("there are %d rules and histories that break %d", len(all), len(guilty))
	}
	for _, rule := range all {
		h, ok := guilty[rule]
		if !ok {
			t.Errorf("no history breaks %q", rule)
			continue
		}
		h.Queues, h.Drained = ofGuilty, true
		if got := Check(&h, Options{}).Violations; len(got) != 1 || got[0].Rule != rule {
			t.Errorf("got %v, want one violation of %q", got, rule)
		}
	}
}

// One violation of each rule is found among many operations of queues that do nothing wrong.
func TestEveryRuleAmongMany(t *testing.T) {
	operations := 100_000
	if testing.Short() {
		operations = 10_000
	}
	seed := proof.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	var innocent History
	innocent.add(standardHistory(seed, operations/2), "standard ", 0)
	innocent.add(fifoHistory(seed, operations/2), "FIFO ", 0)
	innocent.Drained = true
	end := time.Duration(0)
	for _, d := range innocent.Deletes {
		end = max(end, d.Return)
	}
	if got := innocent.operations(); got < operations {
		t.Fatalf("there are %d operations, want %d", got, operations)
	}
	if got := Check(&innocent, Options{}).Violations; len(got) > 0 {
		t.Fatalf("got %d violations by correct queues, the first %v", len(got), got[0])
	}
	all := rules(t)
	for _, rule := range all {
		h := guilty[rule]
		h.Queues = ofGuilty
		innocent.add(h, string(rule)+" ", time.Duration(rng.Int64N(int64(end))))
	}
	var found []Rule
	for _, v := range Check(&innocent, Options{}).Violations {
		found = append(found, v.Rule)
		if want := string(v.Rule) + " "; !strings.HasPrefix(v.MessageID, want) {
			t.Errorf("got %v, want it in the history that breaks this rule", v)
		}
	}
	slices.Sort(found)
	slices.Sort(all)
	if !slices.Equal(found, all) {
		t.Errorf("got violations of %q, want one of each rule", found)
	}
}

// delayed is a send with a delay.
func (s Send) delayed(d time.Duration) Send { s.Delay = d; return s }

func (h *History) operations() int {
	return len(h.Sends) + len(h.Deliveries) + len(h.Changes) + len(h.Deletes) + len(h.Moves)
}

// add appends another history, which began later. All its names begin with prefix then, so that
// they differ.
func (h *History) add(o History, prefix string, later time.Duration) {
	if h.Queues == nil {
		h.Queues = map[string]Queue{}
	}
	h.Queues[prefix] = Queue{}
	for name, q := range o.Queues {
		if q.DeadLetter != "" {
			q.DeadLetter = prefix + q.DeadLetter
		}
		h.Queues[prefix+name] = q
	}
	named := func(texts ...*string) {
		for _, s := range texts {
			if *s != "" {
				*s = prefix + *s
			}
		}
	}
	moved := func(s Span) Span { return Span{s.Call + later, s.Return + later} }
	answers, batches := len(h.Deliveries), len(h.Sends) // more than there are
	for _, s := range o.Sends {
		s.Span, s.Queue = moved(s.Span), prefix+s.Queue
		named(&s.Body, &s.MessageID, &s.Dedup)
		if s.Batch > 0 {
			s.Batch += batches
		}
		h.Sends = append(h.Sends, s)
	}
	for _, d := range o.Deliveries {
		d.Span, d.Queue = moved(d.Span), prefix+d.Queue
		named(&d.Body, &d.MessageID, &d.Handle, &d.Dedup)
		if d.Receive > 0 {
			d.Receive += answers
		}
		h.Deliveries = append(h.Deliveries, d)
	}
	for _, c := range o.Changes {
		c.Span = moved(c.Span)
		named(&c.Handle)
		h.Changes = append(h.Changes, c)
	}
	for _, d := range o.Deletes {
		d.Span = moved(d.Span)
		named(&d.Handle)
		h.Deletes = append(h.Deletes, d)
	}
	for _, k := range o.Tasks {
		k.Span = moved(k.Span)
		named(&k.ID, &k.Source, &k.Destination)
		h.Tasks = append(h.Tasks, k)
	}
	for _, r := range o.Replacements {
		r.Span = moved(r.Span)
		named(&r.Queue, &r.Destination, &r.MessageID, &r.Body, &r.Gives, &r.NewID)
		h.Replacements = append(h.Replacements, r)
	}
	h.End = max(h.End, o.End+later)
	for _, m := range o.Moves {
		m.Span, m.Source = moved(m.Span), prefix+m.Source
		named(&m.Destination)
		h.Moves = append(h.Moves, m)
	}
}

// standardHistory and fifoHistory are what clients of correct queues did, in the given number of
// operations or a few more.

func standardHistory(seed uint64, operations int) History {
	m := &model{rng: rand.New(rand.NewPCG(seed, 0)), now: time.Millisecond}
	m.run(func() bool { return m.h.operations() >= operations })
	return m.h
}

func fifoHistory(seed uint64, operations int) History {
	m := newFIFOModel(seed, "")
	m.run(func() bool { return m.h.operations() >= operations })
	return m.h
}

// Judging takes hardly longer for each operation when there are more of them: operations are
// sorted, and else looked at a few times each.
func BenchmarkCheck(b *testing.B) {
	for _, kind := range []struct {
		name string
		make func(seed uint64, operations int) History
		most int // the model that makes FIFO histories is too slow for more
	}{{"standard", standardHistory, 1_000_000}, {"FIFO", fifoHistory, 100_000}} {
		for n := 10_000; n <= kind.most; n *= 10 {
			b.Run(kind.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				h := kind.make(1, n)
				began := processorTime(b)
				for b.Loop() {
					if v := Check(&h, Options{}).Violations; len(v) > 0 {
						b.Fatal(v[0])
					}
				}
				all := float64(h.operations()) * float64(b.N)
				b.ReportMetric(all/b.Elapsed().Seconds(), "ops/s")
				b.ReportMetric(all/(processorTime(b)-began).Seconds(), "ops/cpu-s")
			})
		}
	}
}

// processorTime is what the process has used, which says more than the clock on a machine that does
// other things as well.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
