package v1

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/observe/monitor"
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

// A kind is shown with its note: what, who and when. It is in the action log. Only keys of the
// account of the server with the right write notes, and only they see those of its queues.
// [NACK-23, TASK-16]
func TestNotes(t *testing.T) {
	k := newKeyed(t, keyOf("TQALL001", "*", `, "name": "anna"`), keyOf("TQSEES01", "tenaq:Peek*", ""), keyOf("TQOTHER1", "*", `, "account": "111122223333"`))
	failedMessages(t, k.world, 9)
	k.do(t, &engine.CreateQueue{Queue: engine.QueueName{Account: "111122223333", Name: "dead"}, NameSet: true})
	k.do(t, &engine.SendMessage{Queue: engine.QueueName{Account: "111122223333", Name: "dead"}, Draft: engine.NewDraft(engine.Entry{
		Body: engine.Text{Value: "x", Set: true}, Attributes: []engine.EntryAttribute{{Name: "tenaq", Type: engine.Text{Value: "String", Set: true}, String: engine.Text{Value: "v=1&reason=card+1+declined", Set: true}}}})})
	kinds := func(who string) (of map[string]*kind) {
		t.Helper()
		status, body := k.as(t, "key "+who, "GET", "/v1/queues/dead/reasons", "")
		var list reasonList
		if err := json.Unmarshal([]byte(body), &list); err != nil || status != 200 {
			t.Fatalf("%s: got %d %s", who, status, body)
		}
		if err := matchesSchema(k.Handler, httptest.NewRequest("GET", "/v1/queues/dead/reasons", nil), status, body); err != nil {
			t.Error(err)
		}
		of = make(map[string]*kind)
		for _, one := range list.Kinds {
			of[one.Reason] = one
		}
		return of
	}
	before := kinds("TQALL001") // of a server without a monitor
	m := k.useMonitor(t)
	path := "/v1/queues/dead/reasons/" + before["card # declined"].Kind + "/note"
	for _, tt := range []struct {
		who, path, body string
		status          int
		part            string
	}{
		{"TQALL001", path, `{}`, 400, "The member text is missing"},
		{"TQALL001", path, `{"text": null}`, 400, "The member text is missing"},
		{"TQALL001", path, `{"text": "a\nb"}`, 400, `"message":"a note is one line of text`},
		{"TQALL001", path, `{"text": "` + strings.Repeat("x", 501) + `"}`, 400, "the note has 501 bytes, and at most 500 are allowed: shorten it"},
		{"TQALL001", "/v1/queues/dead/reasons/A%2FB/note", `{"text": "x"}`, 400, "A/B is not a kind of failure"},
		{"TQALL001", "/v1/queues/nowhere/reasons/k/note", `{"text": "x"}`, 404, "NonExistentQueue"},
		{"TQSEES01", path, `{"text": "x"}`, 403, "tenaq:notereason"},
		{"TQOTHER1", path, `{"text": "x"}`, 403, "tenaq:notereason"},
		{"TQALL001", path, `{"text": "ask bank"}`, 200, "{}"},
	} {
		status, body := k.as(t, "key "+tt.who, "POST", tt.path, tt.body)
		if status != tt.status || !strings.Contains(body, tt.part) {
			t.Errorf("%s %s %.60s: got %d %s, want %d and %s", tt.who, tt.path, tt.body, status, body, tt.status, tt.part)
		}
	}
	for _, who := range []string{"TQALL001", "TQSEES01"} {
		of := kinds(who)
		if n := of["card # declined"].Note; n == nil || n.Text != "ask bank" || n.By != "anna" || time.Since(n.At).Abs() > time.Hour {
			t.Errorf("%s sees the note %+v", who, n)
		}
		if n := of["no customer #"].Note; n != nil || len(of) != 2 {
			t.Errorf("%s sees %d kinds and another note %+v", who, len(of), n)
		}
	}
	if of := kinds("TQOTHER1"); len(of) != 1 || of["card # declined"].Note != nil {
		t.Errorf("another account sees %+v", of)
	}
	if status, body := k.as(t, "key TQALL001", "POST", path, `{"text": ""}`); status != 200 {
		t.Errorf("remove it: got %d %s", status, body)
	}
	if n := kinds("TQALL001")["card # declined"].Note; n != nil {
		t.Errorf("removed, it is %+v", n)
	}
	_, log := k.as(t, "key TQALL001", "GET", "/v1/actions", "")
	kind := before["card # declined"].Kind
	for _, want := range []string{`"action":"NoteReason","about":"dead","text":"kind ` + kind + `: ask bank"`, `"text":"kind ` + kind + `, removed"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the action log has no %s: %s", want, log)
		}
	}
	for i := range 500 {
		if err := m.PutNote(t.Context(), monitor.Note{Queue: "dead", Kind: fmt.Sprint("k", i), Text: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if status, body := k.as(t, "key TQALL001", "POST", path, `{"text": "one more"}`); status != 409 || !strings.Contains(body, "TooManyNotes") ||
		!strings.Contains(body, "tenaq dead note dead k0 --remove") {
		t.Errorf("one more: got %d %s", status, body)
	}
}

// The answer to a note that cannot be stored says that the disk is full. [NACK-23]
func TestNoteOnFullDisk(t *testing.T) {
	w := newWorld(t)
	failedMessages(t, w, 0)
	var err error
	w.cfg.Monitor, err = monitor.New(monitor.Config{Queues: w.broker, Account: account, Keeper: fullDisk{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	status, body := w.ask("POST", "/v1/queues/dead/reasons/k/note", "application/json", `{"text": "x"}`)
	if status != 503 || !strings.Contains(body, "Nothing was changed, because the server cannot write to its disk: no space left on device. Check the disk of the server") ||
		strings.Contains(body, "/data") {
		t.Errorf("got %d %s", status, body)
	}
}

type fullDisk struct{}

func (fullDisk) Load() ([]byte, error)       { return nil, nil }
func (fullDisk) SetAside(*slog.Logger) error { return nil }
func (fullDisk) Store([]byte) error {
	return fmt.Errorf("check the disk of the server: %w", &fs.PathError{Op: "write", Path: "/data/alarms.json.new", Err: syscall.ENOSPC})
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

// A key that a queue denies cannot write or remove its notes. [AUTH-50, NACK-23]
func TestNoteOfDenyingQueue(t *testing.T) {
	for _, action := range []string{"*", "sqs:ReceiveMessage"} {
		k := newKeyed(t, keyOf("TQNOTES1", "tenaq:NoteReason", ""))
		m := k.useMonitor(t)
		k.deny(t, "dead", action)
		if err := m.PutNote(t.Context(), monitor.Note{Queue: "dead", Kind: "k", Text: "as it was"}); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"", "another"} {
			if status, body := k.as(t, "key TQNOTES1", "POST", "/v1/queues/dead/reasons/k/note", `{"text": "`+text+`"}`); status != 403 {
				t.Errorf("%s is denied, and the note becomes %q: got %d %s", action, text, status, body)
			}
		}
		if notes, err := m.Notes(t.Context(), "dead"); err != nil || notes["k"] == nil || notes["k"].Text != "as it was" {
			t.Errorf("%s is denied: the notes are %v, %v", action, notes, err)
		}
	}
}
