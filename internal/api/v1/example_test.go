package v1

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// kindsOf are the kinds of failure of a queue, each with its number of messages.
func (w *world) kindsOf(t *testing.T, queue string) (kinds []string) {
	t.Helper()
	var list reasonList
	w.json(t, "GET", "/queues/"+queue+"/reasons", "", 200, &list)
	for _, k := range list.Kinds {
		kinds = append(kinds, fmt.Sprintf("%d %s, receives %d", k.Count, k.Reason, k.Receives.Max))
	}
	return kinds
}

// The example has dead letters of three kinds, and messages that wait. It is in the action log. A
// second one is refused. [V1-26, TASK-16]
func TestExample(t *testing.T) {
	w := newWorldOn(t, kv.NewMemory(), 60_000)
	var made exampleMade
	w.json(t, "POST", "/example", "{}", 200, &made)
	if want := (exampleMade{"example-orders", "example-orders-dlq", 20, 11, 6}); made != want {
		t.Errorf("got %+v, want %+v", made, want)
	}
	want := []string{
		"3 Timeout: no answer to the payment of # within # s, receives 3",
		"2 InvalidAddress: the postcode # has a letter, receives 1",
		"1 SyntaxError: the body ends at byte #, within an object, receives 1",
	}
	if got := w.kindsOf(t, "example-orders-dlq"); !slices.Equal(got, want) {
		t.Errorf("the dead letters are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	waits := w.drain(t, engine.QueueName{Account: account, Name: "example-orders"})
	if len(waits) != 3 {
		t.Errorf("%d messages wait, want 3", len(waits))
	}
	for _, m := range waits {
		if !json.Valid([]byte(m.Body)) || !strings.HasPrefix(m.Body, `{"order": 10`) {
			t.Errorf("the body is %s", m.Body)
		}
	}
	var log struct{ Actions []Action }
	w.json(t, "GET", "/actions", "", 200, &log)
	if len(log.Actions) != 1 || log.Actions[0].Action != "Example" || log.Actions[0].About != "example-orders" {
		t.Errorf("the action log has %+v", log.Actions)
	}
	refused := func(status int, parts ...string) {
		t.Helper()
		got, text := w.ask("POST", "/v1/example", "application/json", "{}")
		for _, part := range parts {
			if got != status || !strings.Contains(text, part) {
				t.Errorf("got %d %s, want %d and %s", got, text, status, part)
			}
		}
	}
	refused(http.StatusConflict, "QueueAlreadyExists", "a queue example-orders, and a queue example-orders-dlq.",
		"delete example-orders, then example-orders-dlq, wait 60 seconds, and try again: tenaq queue delete example-orders")
	w.do(t, &engine.DeleteQueue{Queue: engine.QueueName{Account: account, Name: "example-orders"}})
	refused(http.StatusConflict, "already a queue example-orders-dlq. To", "delete example-orders-dlq, wait")
	w.do(t, &engine.DeleteQueue{Queue: engine.QueueName{Account: account, Name: "example-orders-dlq"}})
	refused(http.StatusBadRequest, "QueueDeletedRecently", "60 seconds")
	w.json(t, "GET", "/actions", "", 200, &log)
	if len(log.Actions) != 1 {
		t.Errorf("a refused request is in the action log: %+v", log.Actions)
	}
}

// A request that ends halfway says what to delete, and so does the next one. [V1-26]
func TestExampleUnfinished(t *testing.T) {
	w := newWorldOn(t, kv.NewMemory(), 60_000)
	name := engine.QueueName{Account: account, Name: "example-orders"}
	w.do(t, &engine.CreateQueue{Queue: name, NameSet: true})
	if status, text := w.ask("POST", "/v1/example", "application/json", "{}"); status != http.StatusConflict ||
		!strings.Contains(text, "already a queue example-orders. To") {
		t.Errorf("got %d %s", status, text)
	}
	w.do(t, &engine.DeleteQueue{Queue: name})
	status, text := w.ask("POST", "/v1/example", "application/json", "{}")
	if status != http.StatusBadRequest || !strings.Contains(text, "QueueDeletedRecently") ||
		!strings.Contains(text, "The example is unfinished. If example-orders or example-orders-dlq exists, delete example-orders, then example-orders-dlq, wait 60 seconds") {
		t.Errorf("got %d %s", status, text)
	}
	if status, text := w.ask("POST", "/v1/example", "application/json", "{}"); status != http.StatusConflict ||
		!strings.Contains(text, "already a queue example-orders-dlq. To") {
		t.Errorf("got %d %s", status, text)
	}
}

// Of two callers at a time, one makes the example. [V1-26]
func TestExampleTwice(t *testing.T) {
	w := newWorld(t)
	var statuses [4]int
	var asks sync.WaitGroup
	for i := range statuses {
		asks.Go(func() { statuses[i], _ = w.ask("POST", "/v1/example", "application/json", "{}") })
	}
	asks.Wait()
	slices.Sort(statuses[:])
	if want := [4]int{200, 409, 409, 409}; statuses != want {
		t.Errorf("got %v, want %v", statuses, want)
	}
	if got := w.kindsOf(t, "example-orders-dlq"); len(got) != 3 || !strings.HasPrefix(got[0], "3 ") {
		t.Errorf("the dead letters are %q", got)
	}
}

// Messages of another client stay, and messages that another client takes away are not waited for.
// [V1-26]
func TestExampleBesideOthers(t *testing.T) {
	w := newWorld(t)
	c := &call{Context: t.Context(), Handler: w.Handler}
	pending, err := w.cfg.Door.AuthenticateV1(httptest.NewRequest("POST", "/v1/example", nil))
	if err != nil {
		t.Fatal(err)
	}
	if c.principal, err = pending.Finish(nil); err != nil {
		t.Fatal(err)
	}
	name := engine.QueueName{Account: account, Name: exampleQueue}
	w.do(t, &engine.CreateQueue{Queue: engine.QueueName{Account: account, Name: exampleDead}, NameSet: true})
	made := exampleMade{}
	if err := c.fillExample(&made); err != nil {
		t.Fatal(err)
	}
	w.drain(t, name)
	w.do(t, &engine.SendMessage{Queue: name, Draft: engine.NewDraft(engine.Entry{Body: engine.Text{Value: "other", Set: true}})})
	gone := order{body: "gone"}
	open := map[engine.MessageID]*order{{1}: &gone}
	before := made
	for range 2 {
		if err := c.workOnce(open, &made); err != nil || made != before {
			t.Errorf("got %+v, %v, want %+v", made, err, before)
		}
	}
	var list messageList
	w.json(t, "GET", "/queues/"+exampleQueue+"/messages", "", 200, &list)
	if len(list.Messages) != 1 {
		t.Errorf("the queue has %d messages, want that of the other client", len(list.Messages))
	}
}

// The example needs the rights of all that it does, on its queues. [V1-26]
func TestExampleRights(t *testing.T) {
	rights := []string{"sqs:CreateQueue", "sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "tenaq:Nack"}
	key := func(id string, allow []string) string {
		list, _ := json.Marshal(allow)
		return fmt.Sprintf(`{"id": %q, "secret": "the-secret-of-%s", "allow": %s}`, id, id, list)
	}
	keys := []string{key("TQENOUGH", rights)}
	for i := range rights {
		keys = append(keys, key(fmt.Sprintf("TQLACKS%d", i), slices.Delete(slices.Clone(rights), i, i+1)))
	}
	k := newKeyed(t, keys...)
	for i, right := range rights {
		status, text := k.as(t, fmt.Sprintf("key TQLACKS%d", i), "POST", "/v1/example", "{}")
		if status != http.StatusForbidden || !strings.Contains(text, "perform: "+strings.ToLower(right)+" on") {
			t.Errorf("without %s: got %d %s", right, status, text)
		}
	}
	if status, text := k.as(t, "key TQENOUGH", "POST", "/v1/example", "{}"); status != http.StatusOK {
		t.Errorf("with all rights: got %d %s", status, text)
	}
}
