package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/engine/verify"
	"tenaq/internal/kv"
)

var historyTags = []engine.Tag{{Key: "tenaq:history", Value: "1h"}}

// historyRunner returns a runner on a queue with a history, and its store.
func historyRunner(t *testing.T) (*runner, *counting) {
	store := &counting{Store: kv.NewMemory()}
	r := newRunner(t, engine.Open(store, engine.Config{InFlightMax: 1 << 40, Fault: func(s string) { panic(s) }}))
	r.do(&engine.Start{})
	r.do(&engine.CreateQueue{Queue: orders, NameSet: true, Tags: historyTags})
	return r, store
}

// search reads one page.
func search(r *runner, store kv.Store, q engine.HistoryQuery) (page []engine.Outcome, op *engine.History) {
	op = &engine.History{Queue: orders, HistoryQuery: q}
	op.Max = max(op.Max, 1)
	r.do(op)
	page, op.After = engine.ReadHistory(store, op, func(s string) { panic(s) })
	return page, op
}

// The cost of a page of a search, and of the end of a message, does not depend on how much is kept.
// [HIST-9]
func TestHistoryDepthCostsNothing(t *testing.T) {
	cost := func(outcomes int) (indexed, newest, searched, life int) {
		r, store := historyRunner(t)
		for i := range outcomes {
			r.send(fmt.Sprintf("body %d", i))
			r.life()
		}
		count := func(q engine.HistoryQuery) int {
			q.Max = 10
			_, op := search(r, store, q) // which settles the queue
			store.rows = 0
			if page, _ := engine.ReadHistory(store, op, func(s string) { panic(s) }); len(page) == 0 && q.Text == "" {
				t.Fatalf("a search for %+v found nothing among %d", q, outcomes)
			}
			return store.rows
		}
		all, _ := search(r, store, engine.HistoryQuery{Max: 1, Oldest: true})
		indexed = count(engine.HistoryQuery{ID: all[0].ID})
		newest = count(engine.HistoryQuery{})
		searched = count(engine.HistoryQuery{Text: "not there"})
		store.rows = 0
		r.send("x")
		r.life()
		return indexed, newest, searched, store.rows
	}
	indexed, newest, searched, life := cost(3_000)
	moreIndexed, moreNewest, moreSearched, moreLife := cost(30_000)
	if moreIndexed > indexed || moreNewest > newest || moreSearched > searched || moreLife > life {
		t.Errorf("with 30,000 outcomes a search by id reads %d rows, the newest %d, a search for text %d and a life %d; with 3,000 outcomes %d, %d, %d and %d",
			moreIndexed, moreNewest, moreSearched, moreLife, indexed, newest, searched, life)
	}
}

// However much expires at once, each command writes a bounded part of it, and each message has its
// outcome. [HIST-2]
func TestHistoryOfMuchThatExpires(t *testing.T) {
	r, store := historyRunner(t)
	const messages, size = 40, 1 << 20
	for range messages {
		r.send(strings.Repeat("x", size))
	}
	r.now += 345_600_000
	applied := 0
	for done := false; !done; applied++ {
		err := r.e.Apply(engine.Command{Now: r.now, Op: &engine.GetQueueAttributes{Queue: orders, Names: []string{"All"}}})
		if done = err == nil; !done && err != engine.ErrAgain {
			t.Fatal(err)
		}
		if n := r.e.TurnBytes(); n > 10<<20 {
			t.Errorf("a command has written %d bytes", n)
		}
		if wait := r.e.Commit(); wait != nil {
			wait()
		}
	}
	page, op := search(r, store, engine.HistoryQuery{Max: 1000})
	for op.After != "" {
		var more []engine.Outcome
		r.do(op)
		more, op.After = engine.ReadHistory(store, op, func(s string) { panic(s) })
		page = append(page, more...)
	}
	if len(page) != messages || applied < messages*size/(10<<20) {
		t.Errorf("%d outcomes after %d commands, want %d after several", len(page), applied, messages)
	}
	for _, o := range page {
		if o.Kind.String() != "expired" || len(o.Content.Body) != size {
			t.Errorf("message %d %s with %d bytes", o.Seq, o.Kind, len(o.Content.Body))
		}
	}
}

// A bucket that falls between the look of the writer and the search leaves out its outcomes and
// harms nothing. [HIST-9]
func TestHistoryFallsDuringSearch(t *testing.T) {
	r, store := historyRunner(t)
	for i := range 300 {
		r.now += 20_000
		r.send(fmt.Sprint(i))
		r.life()
	}
	var before []engine.Outcome
	views := map[string]*engine.History{}
	for name, q := range map[string]engine.HistoryQuery{"newest": {}, "oldest": {Oldest: true},
		"period": {From: r.now - 1_000_000, To: r.now - 500_000}} {
		q.Max = 1000
		page, op := search(r, store, q)
		if name == "newest" {
			before = page
		}
		views[name] = op
	}
	r.now += 1_800_000
	r.do(&engine.Sweep{Max: 10})
	for name, op := range views {
		page, _ := engine.ReadHistory(store, op, func(s string) { t.Error(s) })
		if len(page) >= len(before) {
			t.Errorf("%s: found %d outcomes, of which half have fallen from %d", name, len(page), len(before))
		}
		for _, o := range page {
			if o.Ended < r.now-1_800_000-3_600_000 {
				t.Errorf("%s: an outcome of %d ms ago", name, r.now-o.Ended)
			}
		}
	}
}

// A history has few buckets whatever its bounds, and takes no more room than its bounds say.
// [HIST-5]
func TestHistoryBounds(t *testing.T) {
	for _, value := range []string{"1m", "1MiB", "1h/1MiB", "3650d"} {
		r, store := historyRunner(t)
		r.do(&engine.TagQueue{Queue: orders, Tags: []engine.Tag{{Key: "tenaq:history", Value: value}}})
		for range 4_000 {
			r.now += 500
			r.send(strings.Repeat("x", 2000))
			r.life()
		}
		_, op := search(r, store, engine.HistoryQuery{})
		outcomes, bytes := op.View.Totals()
		if n := len(op.View.Buckets); n > 140 || outcomes == 0 {
			t.Errorf("%s: %d outcomes in %d buckets", value, outcomes, n)
		}
		if strings.Contains(value, "MiB") && bytes > 1<<20 {
			t.Errorf("%s: %d bytes", value, bytes)
		}
		if age := r.now - op.View.Oldest(); value == "1m" && age > 62_000 {
			t.Errorf("%s: the oldest outcome is of %d ms ago", value, age)
		}
		verify.Verifier{Store: store, Found: func(f verify.Finding) { t.Errorf("%s: row %x: %s", value, f.Key, f.Text) }}.Run()
	}
}

// Without a history nothing of it is written.
func TestNoHistory(t *testing.T) {
	r, store := historyRunner(t)
	r.do(&engine.UntagQueue{Queue: orders, Keys: []string{"tenaq:history"}})
	for range 10 {
		r.send("x")
		r.life()
	}
	for k := range store.Scan([]byte{0x11}, []byte{0x12}) {
		t.Errorf("there is a row %x", k)
	}
}

// The queues of an account that keep a history are listed by name, page by page. [HIST-1]
func TestHistories(t *testing.T) {
	store := kv.NewMemory()
	r := newRunner(t, engine.Open(store, peekConfig()))
	r.do(&engine.Start{})
	name := func(account, q string) engine.QueueName { return engine.QueueName{Account: account, Name: q} }
	keeps := []engine.Tag{{Key: "tenaq:history", Value: "1d"}}
	for _, q := range []string{"a", "b", "c", "d"} {
		r.do(&engine.CreateQueue{Queue: name("1", q), NameSet: true, Tags: keeps})
	}
	r.do(&engine.CreateQueue{Queue: name("1", "bb"), NameSet: true})
	r.do(&engine.CreateQueue{Queue: name("2", "a"), NameSet: true, Tags: keeps})
	r.do(&engine.DeleteQueue{Queue: name("1", "c")})
	r.do(&engine.UntagQueue{Queue: name("1", "d"), Keys: []string{"tenaq:history"}})
	fault := func(sentence string) { t.Fatal(sentence) }
	for _, most := range []int{1, 2, 10} {
		var all []string
		for after, pages := "", 0; ; pages++ {
			found, next := engine.Histories(store, "1", after, most, fault)
			for _, q := range found {
				all = append(all, q.Account+" "+q.Name)
			}
			if after = next; after == "" || pages > 10 {
				break
			}
		}
		if !slices.Equal(all, []string{"1 a", "1 b"}) {
			t.Errorf("in pages of %d: got %v", most, all)
		}
	}
}
