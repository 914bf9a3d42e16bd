package v1

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/claims"
	"tenaq/internal/engine"
)

// A lived world has the queues jobs, with a dead-letter queue dead, and lot. In it, a second passes
// with every step.
type lived struct {
	*world
	t     *testing.T
	names map[string]string // of message ids: m1, m2
}

func newLived(t *testing.T, history ...string) *lived {
	t.Helper()
	l := &lived{world: newWorld(t), t: t, names: make(map[string]string)}
	for _, q := range []string{"dead", "jobs", "lot"} {
		op := &engine.CreateQueue{Queue: l.queue(q), NameSet: true}
		if q == "jobs" {
			op.Attributes = map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:` + account + `:dead","maxReceiveCount":3}`}
		}
		if slices.Contains(history, q) {
			op.Tags = []engine.Tag{{Key: "tenaq:history", Value: "7d"}}
		}
		l.step(op)
	}
	return l
}

func (l *lived) queue(name string) engine.QueueName {
	return engine.QueueName{Account: account, Name: name}
}

func (l *lived) step(op engine.Op) {
	l.t.Helper()
	l.do(l.t, op)
	time.Sleep(time.Second)
}

// send sends a message with a trail, and returns its id.
func (l *lived) send(queue, trail string) string {
	l.t.Helper()
	e := engine.Entry{ID: text("a"), Body: text("x")}
	if trail != "" {
		e.Attributes = []engine.EntryAttribute{{Name: "tenaq", Type: text("String"), String: text("v=1&" + trail)}}
	}
	op := &engine.SendMessage{Queue: l.queue(queue), Draft: engine.NewDraft(e)}
	l.step(op)
	return op.Sent.ID.String()
}

func text(s string) engine.Text { return engine.Text{Value: s, Set: true} }

// receive receives a message and returns its handle.
func (l *lived) receive(queue string) engine.Handle {
	l.t.Helper()
	op := &engine.ReceiveMessage{Queue: l.queue(queue)}
	l.step(op)
	if len(op.Messages) == 0 {
		return engine.Handle{}
	}
	m := op.Messages[0]
	return engine.Handle{Text: "h", Valid: true, Incarnation: op.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation}
}

func (l *lived) nack(queue string, h engine.Handle, verdict engine.Verdict, reason string) {
	l.t.Helper()
	l.step(&engine.Nack{Queue: l.queue(queue), Entries: []engine.NackEntry{{Handle: h, Verdict: verdict, Text: reason}}})
}

func (l *lived) delete(queue string, h engine.Handle) {
	l.t.Helper()
	l.step(&engine.DeleteMessage{Queue: l.queue(queue), Handle: h})
}

// task runs a task to its end.
func (l *lived) task(body string) {
	l.t.Helper()
	var started task
	l.json(l.t, "POST", "/tasks", body, 200, &started)
	l.ended(l.t, started.ID)
	time.Sleep(time.Second)
}

func (l *lived) trace(query string) (found trace) {
	l.t.Helper()
	l.json(l.t, "GET", "/trace?"+query, "", 200, &found)
	return found
}

// tell writes the events of a trace in lines, with ids by the order in which they were met.
func (l *lived) tell(found *trace) (lines []string) {
	name := func(id string) string {
		if id != "" && l.names[id] == "" {
			l.names[id] = "m" + strconv.Itoa(len(l.names)+1)
		}
		return l.names[id]
	}
	for _, e := range found.Events {
		var line []string
		add := func(format string, args ...any) { line = append(line, fmt.Sprintf(format, args...)) }
		switch {
		case e.At == nil:
			add("sometime")
		case e.Clock != "":
			add("by %s", e.Clock)
		}
		add("%s", e.What)
		if e.Queue+e.To != "" {
			add("%s", strings.TrimSuffix(e.Queue+">"+e.To, ">"))
		}
		if e.Message != "" {
			add("%s", name(e.Message))
		}
		for _, part := range []struct{ name, value string }{{"new", name(e.New)}, {"from", e.From}, {"of", name(e.Of)}, {"by", e.Owner},
			{"verdict", e.Verdict}, {"text", e.Text}} {
			if part.value != "" {
				add("%s=%s", part.name, part.value)
			}
		}
		for _, part := range []struct {
			name  string
			value uint64
		}{{"receive", uint64(e.Receive)}, {"count", e.Count}, {"generation", e.Generation}} {
			if part.value != 0 {
				add("%s=%d", part.name, part.value)
			}
		}
		if e.Fence != 0 && e.Ledger == "" {
			add("fence=%d", e.Fence)
		}
		lines = append(lines, strings.Join(line, " "))
	}
	return lines
}

func (l *lived) want(found *trace, want string) {
	l.t.Helper()
	got := l.tell(found)
	if lines := strings.Split(strings.ReplaceAll(strings.TrimSpace(want), "\t", ""), "\n"); !slices.Equal(got, lines) {
		l.t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
	var last time.Time
	for _, e := range found.Events {
		if e.At != nil && e.At.Before(last) {
			l.t.Errorf("%s at %v comes after %v", e.What, e.At, last)
		} else if e.At != nil {
			last = *e.At
		}
	}
}

// fullLife fails twice in jobs, dies, is brought back, and is deleted.
func (l *lived) fullLife() (id string) {
	id = l.send("jobs", "key=order-17")
	l.nack("jobs", l.receive("jobs"), engine.Retry, "no answer")
	l.nack("jobs", l.receive("jobs"), engine.Poison, "no customer")
	l.task(`{"queue":"dead","do":"move"}`)
	l.delete("jobs", l.receive("jobs"))
	return id
}

// The whole life of a message is one list, whether its id or its key is asked for.
// [TRACE-1, TRACE-4]
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLived(t, "jobs", "dead")
		id := l.fullLife()
		for _, query := range []string{"id=" + id, "key=order-17", "id=" + strings.ToUpper(id)} {
			found := l.trace(query)
			l.want(&found, `
				sent jobs m1
				received jobs m1 receive=1 fence=1
				returned jobs m1 verdict=retry text=no answer receive=1
				received jobs m1 receive=2 fence=2
				returned jobs m1 verdict=poison text=no customer receive=2
				dead_lettered jobs>dead m1 fence=2
				moved dead>jobs m1 new=m2 fence=2
				received jobs m2 receive=1 fence=3
				deleted jobs m2 fence=3`)
			if !found.Complete || found.Next != "" || len(found.Unknown) != 0 || len(found.Messages) != 0 || found.Histories != 2 ||
				!slices.Equal(found.Lineages, []string{id}) || !slices.Contains(found.Keys, "order-17") {
				t.Errorf("%s: got %+v", query, found)
			}
		}
	})
}

// While it lives, its message is shown as it is now. Events that no history has are reported as
// unknown, and nothing is made up. [TRACE-1, TRACE-5]
func TestTraceWithoutHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLived(t)
		id := l.send("jobs", "key=order-17")
		l.receive("jobs") // its consumer reports no outcome
		time.Sleep(time.Minute)
		l.receive("jobs")
		time.Sleep(time.Minute)
		l.nack("jobs", l.receive("jobs"), engine.Retry, "no answer")
		l.receive("jobs") // dies
		found := l.trace("id=" + id)
		l.want(&found, `
			sent m1
			received m1 receive=1
			sometime received m1 count=1
			received m1 receive=3
			returned m1 verdict=retry text=no answer receive=3
			dead_lettered jobs>dead m1`)
		gap := found.Events[2]
		if gap.After == nil || gap.Before == nil || !gap.After.Before(*gap.Before) {
			t.Errorf("the receive without a time is between %v and %v", gap.After, gap.Before)
		}
		var off []string
		for _, u := range found.Unknown {
			off = append(off, u.Part+" "+u.Queue+" "+u.Why)
		}
		slices.Sort(off)
		if !slices.Equal(off, []string{"history dead off", "history jobs off"}) || !found.Complete {
			t.Errorf("unknown is %v, complete %v", off, found.Complete)
		}
		if m := found.Messages; len(m) != 1 || m[0].Queue != "dead" || m[0].State != engine.StateVisible || m[0].Reason != "no answer" {
			t.Errorf("the message is %+v", m)
		}

		l.task(`{"queue":"dead","do":"park","to":"lot"}`)
		found = l.trace("id=" + id)
		if last := found.Events[len(found.Events)-1]; last.What != "parked" || last.To != "lot" || last.From != "jobs" || last.Queue != "" {
			t.Errorf("it was parked from a queue that is unknown: %+v", last)
		}
		l.task(`{"queue":"lot","do":"move"}`)
		found = l.trace("id=" + id)
		l.want(&found, `
			sent m1
			sometime received count=2
			received receive=3
			returned verdict=retry text=no answer receive=3
			moved >jobs m2`)
	})
}

// A worker's dead letter is another message, and a redriver's, too. Their key links them, and what
// waits in a dead-letter queue is found by it. [TRACE-2]
func TestTraceByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, history := range []bool{true, false} {
			l := newLived(t)
			if history {
				l.step(&engine.TagQueue{Queue: l.queue("jobs"), Tags: []engine.Tag{{Key: "tenaq:history", Value: "1d"}}})
			}
			first := l.send("jobs", "key=order-17")
			l.register("order-17", first)
			h := l.receive("jobs")
			for range 30 {
				l.do(t, &engine.SendMessage{Queue: l.queue("dead"), Draft: engine.NewDraft(engine.Entry{ID: text("a"), Body: text("other")})})
			}
			l.send("dead", "key=order-17&lineage="+first+"&attempts=3&reason=card+declined&source=arn:aws:sqs:us-east-1:"+account+":jobs")
			l.delete("jobs", h)
			found := l.trace("key=order-17")
			want := `
				by client registered jobs by=batch
				sent jobs m1
				received jobs m1 receive=1 fence=1
				sent dead m2 from=jobs of=m1 text=card declined
				deleted jobs m1 fence=1`
			if !history {
				want = `
				by client registered jobs by=batch
				by version sent jobs m1 by=batch
				sent dead m2 from=jobs of=m1 text=card declined`
			}
			l.want(&found, want)
			if len(found.Messages) != 1 || found.Messages[0].Queue != "dead" {
				t.Errorf("the messages are %+v", found.Messages)
			}
		}
	})
}

// register writes the registration of a message that was sent, as a producer does.
func (l *lived) register(key, id string) {
	l.t.Helper()
	now := time.Now().UnixMilli()
	memo := fmt.Sprintf(`{"v":1,"key":%q,"at":%d,"sum":"x"}`, key, now-3000)
	result := fmt.Sprintf(`{"v":1,"message_id":%q,"at":%d}`, id, now-1000)
	ledger, err := claims.New(claims.Config{Store: serverRecords{l.broker, account}, Prefix: "send/jobs/", Owner: "batch"})
	if err != nil {
		l.t.Fatal(err)
	}
	claim, err := ledger.AcquireWith(l.t.Context(), key, claims.Note{Memo: []byte(memo)})
	if err == nil {
		err = claim.Complete(l.t.Context(), []byte(result))
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// Claims are part of the life, with every generation of the key. [TRACE-1]
func TestTraceClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLived(t)
		var taken claimView
		l.json(t, "POST", "/claims/order-17/acquire", `{"owner":"w1","leaseMs":60000}`, 200, &taken)
		time.Sleep(5 * time.Second)
		found := l.trace("key=order-17")
		l.want(&found, `by version claimed by=w1`)
		if c := found.Claims[0]; c.State != claims.Held || c.LeaseOver || c.RemainingMS != 55000 || c.Fence != taken.Fence {
			t.Errorf("the claim is %+v", c)
		}
		time.Sleep(time.Minute)
		found = l.trace("key=order-17")
		l.want(&found, "by version claimed by=w1\nby version lease_over by=w1")
		if gap := found.Events[1].At.Sub(*found.Events[0].At); gap != time.Minute {
			t.Errorf("the lease was over after %v", gap)
		}
		l.json(t, "POST", "/claims/order-17/complete", fmt.Sprintf(`{"fence":%d,"result":"ch_1"}`, taken.Fence), 200, &taken)
		time.Sleep(time.Second)
		l.json(t, "POST", "/claims/order-17%231/acquire", `{"owner":"w2"}`, 200, &taken)
		l.json(t, "POST", "/claims/order-17%231/fail", fmt.Sprintf(`{"fence":%d,"reason":"no"}`, taken.Fence), 200, &taken)
		for _, key := range []string{"order-17", "order-17%231"} {
			found = l.trace("key=" + key)
			l.want(&found, `
				by version claimed by=w1
				by version completed by=w1
				by version claimed by=w2 generation=1
				by version failed by=w2 text=no generation=1`)
			if len(found.Claims) != 2 || *found.Claims[0].Result != "ch_1" || found.Claims[1].Generation != 1 {
				t.Errorf("the claims are %+v", found.Claims)
			}
		}
	})
}

// An answer searches a bounded number of histories and says where to continue. The answers together
// have what one would have. [TRACE-3]
func TestTracePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLived(t)
		for i := range 2*traceHistories + 1 {
			l.do(t, &engine.CreateQueue{Queue: l.queue(fmt.Sprintf("q%03d", i)), NameSet: true, Tags: []engine.Tag{{Key: "tenaq:history", Value: "1d"}}})
		}
		for _, q := range []string{"q000", "q120", "q200"} {
			l.send(q, "key=order-17")
			l.delete(q, l.receive(q))
		}
		var all []string
		pages, after := 0, ""
		for {
			found := l.trace("key=order-17&after=" + after)
			if pages++; found.Complete || found.Histories > traceHistories+3 {
				if found.Next != "" || pages == 1 {
					t.Errorf("page %d is complete: %v, and searched %d histories", pages, found.Complete, found.Histories)
				}
			}
			for _, e := range found.Events {
				if e.What == "deleted" {
					all = append(all, e.Queue)
				}
			}
			if after = found.Next; after == "" {
				break
			}
		}
		if pages != 3 || !slices.Equal(all, []string{"q000", "q120", "q200"}) {
			t.Errorf("%d pages have the deletions of %v", pages, all)
		}
	})
}

// Bounds are named in the answer. [TRACE-3]
func TestTraceBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLived(t, "jobs")
		for range traceSearch + 1 {
			l.do(t, &engine.SendMessage{Queue: l.queue("jobs"), Draft: engine.NewDraft(engine.Entry{ID: text("a"), Body: text("x"),
				Attributes: []engine.EntryAttribute{{Name: "tenaq", Type: text("String"), String: text("v=1&key=same")}}})})
			l.delete("jobs", l.receive("jobs"))
		}
		for range traceLook + 1 {
			l.do(t, &engine.SendMessage{Queue: l.queue("dead"), Draft: engine.NewDraft(engine.Entry{ID: text("a"), Body: text("other")})})
		}
		found := l.trace("key=same")
		why := make(map[string]string)
		for _, u := range found.Unknown {
			why[u.Part+" "+u.Queue] += u.Why
		}
		if found.Complete || why["history jobs"] != "bound" || why["messages dead"] != "bound" || why["messages "] != "bound" {
			t.Errorf("complete is %v, unknown %+v", found.Complete, found.Unknown)
		}
	})
}

// Each part needs its right, and parts that the caller may not see are named. [TRACE-6]
func TestTraceRights(t *testing.T) {
	// no bubble: signatures are checked against the time
	k := newKeyed(t, keyOf("TQALL001", "*", ""), keyOf("TQPEEK01", "tenaq:PeekMessages", ""),
		keyOf("TQHIST01", "tenaq:SearchHistory", ""), keyOf("TQCLAIM1", "tenaq:GetClaim", ""), keyOf("TQSEND01", "sqs:SendMessage", ""))
	l := &lived{world: k.world, t: t, names: make(map[string]string)}
	shut := "" // the message in that queue
	for q, policy := range map[string]string{"open": "", "shut": `{"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":"sqs:ReceiveMessage","Resource":"*"}}`} {
		op := &engine.CreateQueue{Queue: l.queue(q), NameSet: true, Tags: []engine.Tag{{Key: "tenaq:history", Value: "1d"}}}
		if policy != "" {
			op.Attributes = map[string]string{"Policy": policy}
		}
		l.do(t, op)
		for _, live := range []bool{false, true} {
			sent := &engine.SendMessage{Queue: l.queue(q), Draft: engine.NewDraft(engine.Entry{ID: text("a"), Body: text("x"),
				Attributes: []engine.EntryAttribute{{Name: "tenaq", Type: text("String"), String: text("v=1&key=" + q)}}})}
			if l.do(t, sent); live && q == "shut" {
				shut = sent.Sent.ID.String()
			}
			if !live {
				got := &engine.ReceiveMessage{Queue: l.queue(q)}
				l.do(t, got)
				m := got.Messages[0]
				l.do(t, &engine.DeleteMessage{Queue: l.queue(q), Handle: engine.Handle{Text: "h", Valid: true, Incarnation: got.Incarnation,
					Space: m.Space, Seq: m.Seq, Generation: m.Generation}})
			}
		}
	}
	if status, body := k.as(t, "key TQALL001", "POST", "/v1/claims/open/acquire", "{}"); status != 200 {
		t.Fatal(body)
	}
	if status, body := k.as(t, "key TQALL001", "GET", "/v1/trace?id="+shut, ""); status != 404 || strings.Contains(body, "shut") {
		t.Errorf("a message in a queue that denies receives: got %d %s", status, body)
	}
	if _, body := k.as(t, "key TQALL001", "GET", "/v1/trace?key=open", ""); strings.Contains(body, "shut") || !strings.Contains(body, "the policy of a queue denies the caller tenaq:SearchHistory") {
		t.Errorf("beside a queue that denies receives: got %s", body)
	}
	for _, tt := range []struct {
		who, key string
		status   int
		parts    string // what the answer has
		unknown  string
	}{
		{"TQALL001", "open", 200, "claims events messages", "history  denied"},
		{"TQPEEK01", "open", 403, "", ""}, // it waits, and its id is not known
		{"TQHIST01", "open", 200, "events", "claims  denied, history  denied, messages  denied"},
		{"TQCLAIM1", "open", 200, "claims events", "history  denied, messages  denied"},
		{"TQSEND01", "open", 403, "", ""},
		{"TQALL001", "shut", 404, "", ""},
		{"TQALL001", "none", 404, "", ""},
	} {
		status, body := k.as(t, "key "+tt.who, "GET", "/v1/trace?key="+tt.key, "")
		var found trace
		if json.Unmarshal([]byte(body), &found) != nil || status != tt.status || (status == 403) != strings.Contains(body, "AccessDenied") {
			t.Errorf("%s, %s: got %d %s, want %d", tt.who, tt.key, status, body, tt.status)
		}
		var parts, missing []string
		for _, p := range []struct {
			name string
			n    int
		}{{"claims", len(found.Claims)}, {"events", len(found.Events)}, {"messages", len(found.Messages)}} {
			if p.n > 0 {
				parts = append(parts, p.name)
			}
		}
		for _, u := range found.Unknown {
			if u.Why == "denied" {
				missing = append(missing, u.Part+" "+u.Queue+" "+u.Why)
			}
		}
		slices.Sort(missing)
		if got, denied := strings.Join(parts, " "), strings.Join(missing, ", "); status == 200 && (got != tt.parts || denied != tt.unknown || found.Complete) {
			t.Errorf("%s, %s: got %q without %q, complete %v; want %q without %q", tt.who, tt.key, got, denied, found.Complete, tt.parts, tt.unknown)
		}
	}
}

// Invalid traces are refused. [TRACE-1]
func TestTraceRefused(t *testing.T) {
	w := newWorld(t)
	for query, part := range map[string]string{
		"": "needs one of the parameters key and id", "key=a&id=b": "needs one of", "id=x": "a message id, which is a UUID",
		"key=" + strings.Repeat("k", keyMax+1): "at most 512 bytes",
	} {
		if status, body := w.ask("GET", "/v1/trace?"+query, "", ""); status != 400 || !strings.Contains(body, part) {
			t.Errorf("%s: got %d %s, want %s", query, status, body, part)
		}
	}
	if status, body := w.ask("GET", "/v1/trace?key=nobody", "", ""); status != 404 || !strings.Contains(body, "NothingKnown") {
		t.Errorf("got %d %s", status, body)
	}
}
