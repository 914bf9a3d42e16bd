package v1

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"tenaq/internal/engine"
)

// failedMessages makes a dead-letter queue of n messages. Every third says in its attribute tenaq
// why it failed; of the others, the consumer told the server.
func failedMessages(tb testing.TB, w *world, n int) {
	tb.Helper()
	do := func(op engine.Op) {
		tb.Helper()
		if err := w.broker.Do(tb.Context(), op); err != nil {
			tb.Fatal(err)
		}
	}
	work, dead := engine.QueueName{Account: account, Name: "work"}, engine.QueueName{Account: account, Name: "dead"}
	text := func(s string) engine.Text { return engine.Text{Value: s, Set: true} }
	do(&engine.CreateQueue{Queue: dead, NameSet: true})
	do(&engine.CreateQueue{Queue: work, NameSet: true, Attributes: map[string]string{
		"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:` + account + `:dead","maxReceiveCount":9}`}})
	for i := range n {
		e := engine.Entry{ID: text("a"), Body: text("x")}
		if i%3 == 0 {
			e.Attributes = []engine.EntryAttribute{{Name: "tenaq", Type: text("String"), String: text(fmt.Sprintf("v=1&reason=card+%d+declined", i))}}
			do(&engine.SendMessage{Queue: dead, Draft: engine.NewDraft(e)})
			continue
		}
		do(&engine.SendMessage{Queue: work, Draft: engine.NewDraft(e)})
		got := &engine.ReceiveMessage{Queue: work}
		do(got)
		m := got.Messages[0]
		do(&engine.Nack{Queue: work, Entries: []engine.NackEntry{{Verdict: engine.Poison, Text: fmt.Sprintf("no customer %d", i), Handle: engine.Handle{
			Text: "h", Valid: true, Incarnation: got.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation}}}})
	}
}

// Page by page, every message is grouped once, whatever the limit is. [NACK-15]
func TestReasonsPageByPage(t *testing.T) {
	w := newWorld(t)
	failedMessages(t, w, 250)
	for _, limit := range []int{1, 7, 100, 101, 1000} {
		grouped, counts, after := 0, make(map[string]int), ""
		for {
			_, body := w.ask("GET", fmt.Sprintf("/v1/queues/dead/reasons?limit=%d&after=%s", limit, after), "", "")
			var list reasonList
			if err := json.Unmarshal([]byte(body), &list); err != nil {
				t.Fatalf("%v in %s", err, body)
			}
			if list.Grouped > limit {
				t.Fatalf("limit %d: %d messages were grouped", limit, list.Grouped)
			}
			grouped += list.Grouped
			for _, k := range list.Kinds {
				counts[k.Reason] += k.Count
			}
			if after = list.Next; list.Complete != (after == "") {
				t.Fatalf("complete is %v and next is %q", list.Complete, after)
			}
			if list.Complete {
				break
			}
		}
		if grouped != 250 || counts["no customer #"] != 166 || counts["card # declined"] != 84 || len(counts) != 2 {
			t.Errorf("limit %d: %d messages, %v", limit, grouped, counts)
		}
	}
}

// The memory of a request is bounded even if every message has another reason. [NACK-15]
func TestReasonsAllDifferent(t *testing.T) {
	w := newWorld(t)
	failedMessages(t, w, 0)
	const n = 1500
	long := strings.Repeat("very ", 150)
	for i := range n {
		word := strings.Map(func(r rune) rune { return 'g' + r - '0' }, fmt.Sprint(i))
		e := engine.Entry{ID: engine.Text{Value: "a", Set: true}, Body: engine.Text{Value: "x", Set: true}}
		e.Attributes = []engine.EntryAttribute{{Name: "tenaq", Type: engine.Text{Value: "String", Set: true},
			String: engine.Text{Value: "v=1&reason=" + word + "+is+" + strings.ReplaceAll(long, " ", "+"), Set: true}}}
		if err := w.broker.Do(t.Context(), &engine.SendMessage{Queue: engine.QueueName{Account: account, Name: "dead"},
			Draft: engine.NewDraft(e)}); err != nil {
			t.Fatal(err)
		}
	}
	grouped, pages := 0, 0
	for after := ""; pages == 0 || after != ""; pages++ {
		_, body := w.ask("GET", "/v1/queues/dead/reasons?limit=10000&after="+after, "", "")
		var list reasonList
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		if len(body) > keptMax+keptMax/2 || list.Grouped == 0 {
			t.Fatalf("%d messages in an answer of %d bytes", list.Grouped, len(body))
		}
		grouped += list.Grouped
		after = list.Next
	}
	if grouped != n || pages < 2 {
		t.Errorf("%d of %d messages in %d pages", grouped, n, pages)
	}
}

// BenchmarkReasons is one page of a thousand messages. It should take less than 20 ms.
func BenchmarkReasons(b *testing.B) {
	w := newWorld(b)
	failedMessages(b, w, 2000)
	for b.Loop() {
		if status, body := w.ask("GET", "/v1/queues/dead/reasons", "", ""); status != 200 {
			b.Fatal(body)
		}
	}
}
