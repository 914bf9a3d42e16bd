package v1

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/api/handle"
	"tenaq/internal/engine"
)

// json asks with a body of JSON, wants a status, and reads the answer.
func (w *world) json(t *testing.T, method, path, body string, status int, answer any) {
	t.Helper()
	got, text := w.ask(method, "/v1"+path, "application/json", body)
	if got != status || json.Unmarshal([]byte(text), answer) != nil {
		t.Fatalf("%s %s %s: got %d %s, want %d", method, path, body, got, text, status)
	}
}

// deadWorld has the queue dead with dead letters of orders: card-1, net-2, card-3 and so on.
func deadWorld(t *testing.T, letters int) *world {
	t.Helper()
	w := newWorld(t)
	w.addLetters(t, letters)
	return w
}

func (w *world) addLetters(t *testing.T, letters int) {
	t.Helper()
	name := func(q string) engine.QueueName { return engine.QueueName{Account: account, Name: q} }
	text := func(s string) engine.Text { return engine.Text{Value: s, Set: true} }
	number := func(n int64) engine.Int { return engine.Int{Value: n, Set: true} }
	for _, q := range []string{"dead", "lot"} {
		w.do(t, &engine.CreateQueue{Queue: name(q), NameSet: true})
	}
	w.do(t, &engine.CreateQueue{Queue: name("orders"), NameSet: true, Attributes: map[string]string{
		"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:` + account + `:dead","maxReceiveCount":"1"}`}})
	for i := range letters {
		kind := []string{"card", "net"}[i%2]
		w.do(t, &engine.SendMessage{Queue: name("orders"), Draft: engine.NewDraft(engine.Entry{
			ID: text("a"), Body: text(kind + "-" + strconv.Itoa(i+1)), Sender: "alice",
			Attributes: []engine.EntryAttribute{{Name: "kind", Type: text("String"), String: text(kind)}}})})
	}
	for range letters/10 + 2 {
		w.do(t, &engine.ReceiveMessage{Queue: name("orders"), Max: number(10), Visibility: number(0)})
	}
}

// ended waits for the end of a task.
func (w *world) ended(t *testing.T, id string) (shown task) {
	t.Helper()
	for {
		w.json(t, "GET", "/tasks/"+id, "", 200, &shown)
		if shown.Ended != nil {
			return shown
		}
		synctest.Wait()
		time.Sleep(time.Second)
	}
}

// A task is counted, started, watched and found in the lists. [TASK-1, TASK-8, TASK-11, TASK-16]
func TestTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deadWorld(t, 12)
		var count taskCount
		w.json(t, "POST", "/tasks/count", `{"queue":"dead","filter":{"text":"card","source":"orders","attributes":{"kind":"card"}}}`, 200, &count)
		if count.Count != 6 || !count.Complete || len(count.Samples) != 3 || *count.Samples[0].Body != "card-1" || count.Bytes == 0 {
			t.Errorf("got %+v, want 6 messages with 3 samples", count)
		}
		var started, found task
		w.json(t, "POST", "/tasks", `{"queue":"dead","do":"move","filter":{"text":"card"},"expected":6,"rate":2,"note":"fixed"}`, 200, &started)
		if started.ID != "dead:1" || started.State != "RUNNING" || started.Filter.Text != "card" || started.By != "unsigned" {
			t.Errorf("got %+v", started)
		}
		for path, body := range map[string]string{"/tasks": `{"queue":"dead","do":"move"}`, "/tasks/dead:1/rate": `{"rate":501,"x":1}`} {
			status := map[string]int{"/tasks": 409, "/tasks/dead:1/rate": 400}[path]
			w.json(t, "POST", path, body, status, new(problem))
		}
		w.json(t, "POST", "/tasks/dead:1/pause", `{"note":"lunch"}`, 200, &found)
		if found.State != "PAUSED" {
			t.Errorf("after a pause it is %s", found.State)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		w.json(t, "GET", "/tasks/dead:1", "", 200, &found)
		if found.State != "PAUSED" || found.Done > 1 {
			t.Errorf("an hour after a pause: %+v", found)
		}
		w.json(t, "POST", "/tasks/dead:1/resume", `{}`, 200, &found)
		w.json(t, "POST", "/tasks/dead:1/rate", `{"rate":0}`, 200, &found)
		if end := w.ended(t, "dead:1"); end.State != "COMPLETED" || end.Done != 6 || end.Expected != 6 || end.Skipped != 0 {
			t.Errorf("at the end: %+v", end)
		}
		w.json(t, "POST", "/tasks/dead:1/cancel", `{}`, 409, new(problem))
		w.json(t, "POST", "/tasks/dead:9/cancel", `{}`, 404, new(problem))

		w.json(t, "POST", "/tasks", `{"queue":"dead","do":"park","to":"lot","limit":4}`, 200, new(task))
		w.ended(t, "dead:2")
		w.json(t, "POST", "/tasks", `{"queue":"dead","do":"delete","confirm":2}`, 200, new(task))
		w.ended(t, "dead:3")
		var list taskList
		w.json(t, "GET", "/tasks?queue=dead&limit=2", "", 200, &list)
		if len(list.Tasks) != 2 || list.Tasks[0].ID != "dead:3" || list.Tasks[0].Do != "delete" || list.Tasks[0].Done != 2 || list.Tasks[1].To != "lot" {
			t.Errorf("got %+v", list)
		}
		next := list.Next
		list = taskList{}
		w.json(t, "GET", "/tasks?limit=2&after="+next, "", 200, &list)
		if len(list.Tasks) != 1 || list.Tasks[0].ID != "dead:1" || list.Next != "" {
			t.Errorf("the second page has %+v", list)
		}
		w.json(t, "GET", "/tasks?state=active", "", 200, &list)
		if len(list.Tasks) != 0 {
			t.Errorf("active are %+v", list)
		}
		var log ActionList
		w.json(t, "GET", "/actions?limit=4", "", 200, &log)
		if len(log.Actions) != 4 || log.Actions[0].About != "dead:3" || log.Actions[0].Text != "delete" || log.Next != 3 || log.Actions[2].Action != "SetTaskRate" {
			t.Errorf("got %+v", log)
		}
	})
}

// A move takes the latest messages, delays them, and sends them as its edit leaves them. The task
// says which parts change, and not into what. [TASK-20, TASK-21, TASK-22]
func TestTaskOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deadWorld(t, 5)
		const edit = `"edit":{"body":"better","attributes":{"n":{"type":"Number","value":"7"},"b":{"type":"Binary","base64":"AQI="},"kind":null}}`
		var count taskCount
		w.json(t, "POST", "/tasks/count", `{"queue":"dead","order":"newest","limit":2,`+edit+`}`, 200, &count)
		if s := count.Samples; count.Count != 2 || len(s) != 2 || *s[0].Body != "better" || s[0].Size != 23 || len(s[0].Attributes) != 2 ||
			s[0].Attributes["n"].Value != "7" || string(s[0].Attributes["b"].Base64) != "\x01\x02" {
			t.Errorf("got %+v", count)
		}
		var letters messageList
		w.json(t, "GET", "/queues/dead/messages", "", 200, &letters)
		if last := letters.Messages[4]; count.Samples[0].ID != last.ID {
			t.Errorf("the first sample is %s, want the latest message %s", count.Samples[0].ID, last.ID)
		}
		var started task
		w.json(t, "POST", "/tasks", `{"queue":"dead","do":"move","order":"newest","limit":2,"delayMs":60000,`+edit+`}`, 200, &started)
		shown, err := json.Marshal(started.Edit)
		if err != nil || string(shown) != `{"body":true,"set":["b","n"],"removed":["kind"]}` || started.Order != "newest" || *started.Delay != 60_000 {
			t.Errorf("got %s in %+v", shown, started)
		}
		if end := w.ended(t, "dead:1"); end.State != "COMPLETED" || end.Done != 2 {
			t.Errorf("at the end: %+v", end)
		}
		w.json(t, "GET", "/queues/orders/messages?body=100&state=delayed", "", 200, &letters)
		if len(letters.Messages) != 2 || *letters.Messages[0].Body != "better" || letters.Messages[0].Size != 23 {
			t.Errorf("delayed are %+v", letters)
		}
		w.json(t, "POST", "/tasks", `{"queue":"dead","do":"move","delayMs":0}`, 200, &started)
		if started.Delay == nil || *started.Delay != 0 {
			t.Errorf("a delay of 0 is shown as %v", started.Delay)
		}
		w.ended(t, "dead:2")
		var log ActionList
		w.json(t, "GET", "/actions?limit=2", "", 200, &log)
		if log.Actions[1].Text != "edit and move" {
			t.Errorf("the log says %+v", log)
		}
	})
}

// Invalid tasks are refused with what to do. [TASK-3]
func TestTasksRefused(t *testing.T) {
	w := deadWorld(t, 2)
	for _, tt := range []struct {
		path, body string
		status     int
		part       string
	}{
		{"/tasks", `{"queue":"dead"}`, 400, "move, delete, park or replay"},
		{"/tasks", `{"queue":"dead","do":"burn"}`, 400, "move, delete, park or replay"},
		{"/tasks", `{"queue":"none","do":"move"}`, 404, "does not exist"},
		{"/tasks", `{"queue":"dead","do":"delete"}`, 400, "count them first"},
		{"/tasks", `{"queue":"dead","do":"move","filter":{"id":"x"}}`, 400, "a message id"},
		{"/tasks", `{"queue":"dead","do":"move","filter":{"id":"00000000-0000-0000-0000-000000000000"}}`, 400, "a message id"},
		{"/tasks", `{"queue":"dead","do":"move","filter":{"before":"1970-01-01T00:00:00Z"}}`, 400, "a time after 1970"},
		{"/tasks/count", `{"queue":"dead","filter":{"receivesMax":0}}`, 400, "a number from 1"},
		{"/tasks", `{"queue":"dead","do":"move","filter":{"colour":"x"}}`, 400, "colour"},
		{"/tasks", `{"queue":"dead","do":"move","filter":{"from":"2026-01-02T00:00:00Z","before":"2026-01-01T00:00:00Z"}}`, 400, "later than from"},
		{"/tasks/count", `{"queue":"dead","after":"x"}`, 400, "not a place"},
		{"/tasks/count", `{"queue":"dead","to":"none"}`, 400, "no such queue"},
		{"/tasks/count", `{"queue":"dead","order":"random"}`, 400, "oldest or newest"},
		{"/tasks", `{"queue":"dead","do":"move","order":"random"}`, 400, "oldest or newest"},
		{"/tasks", `{"queue":"dead","do":"move","delayMs":900001}`, 400, "between 0 and 900000"},
		{"/replace", `{"queue":"dead","receiptHandle":"x","delayMs":900001}`, 400, "a number from 0 to 900000"},
		{"/tasks", `{"queue":"dead","do":"park","to":"lot","delayMs":0}`, 400, "Only a move delays"},
		{"/tasks", `{"queue":"dead","do":"move","edit":{"body":""}}`, 400, "body"},
		{"/tasks", `{"queue":"dead","do":"move","edit":{"colour":"x"}}`, 400, "colour"},
		{"/tasks", `{"queue":"dead","do":"move","edit":{"attributes":{"a":{"type":"Number","value":"x"}}}}`, 400, "to a number"},
		{"/tasks", `{"queue":"dead","do":"move","edit":{"attributes":{"tenaq":null}}}`, 400, "identity"},
		{"/replace", `{"queue":"dead"}`, 400, "place of a message"},
		{"/replace", `{"queue":"dead","place":"x"}`, 400, "not a place"},
	} {
		status, text := w.ask("POST", "/v1"+tt.path, "application/json", tt.body)
		if status != tt.status || !strings.Contains(text, tt.part) {
			t.Errorf("%s %s: got %d %s, want %d and %s", tt.path, tt.body, status, text, tt.status, tt.part)
		}
	}
}

// A message is replaced once, and keeps every part that the request does not name. [TASK-17]
func TestReplace(t *testing.T) {
	w := deadWorld(t, 2)
	var letters, after messageList
	w.json(t, "GET", "/queues/dead/messages?body=100", "", 200, &letters)
	var out replaced
	body := `{"queue":"dead","place":"` + letters.Messages[0].Place + `","body":"better"}`
	w.json(t, "POST", "/replace", body, 200, &out)
	w.json(t, "GET", "/queues/orders/messages?body=100", "", 200, &after)
	if m := after.Messages[0]; len(after.Messages) != 1 || *m.Body != "better" || m.ID != out.ID || m.Lineage != letters.Messages[0].Lineage || m.Lineage != out.Lineage {
		t.Errorf("got %+v, replaced %+v", m, letters.Messages[0])
	}
	var gone problem
	if w.json(t, "POST", "/replace", body, http.StatusConflict, &gone); gone.Code != "ResourceNotFoundException" || !strings.Contains(gone.Detail, "Find it by its lineage id") {
		t.Errorf("the second edit answers %+v", gone)
	}
	w.json(t, "POST", "/replace", strings.Replace(body, `"dead"`, `"nowhere"`, 1), http.StatusNotFound, new(problem))
	w.json(t, "GET", "/queues/dead/messages?at="+letters.Messages[0].Place, "", 200, &after)
	if len(after.Messages) != 0 {
		t.Errorf("the message is still there: %+v", after)
	}
	w.json(t, "POST", "/replace", `{"queue":"dead","place":"`+letters.Messages[1].Place+`","to":"lot","attributes":{"a":{"type":"Binary","base64":"AQI="},"b":{"type":"String","value":"x"},"kind":null}}`, 200, &out)
	op := &engine.ReceiveMessage{Queue: engine.QueueName{Account: account, Name: "lot"}}
	w.do(t, op)
	c, ok := w.broker.ReadContent(op.Messages[0])
	if !ok || c.Body != "net-2" || c.Sender != "alice" || len(c.Attributes) != 2 || string(c.Attributes[0].Binary) != "\x01\x02" || c.Attributes[1].String != "x" {
		t.Errorf("got %+v", c)
	}
	place := letters.Messages[1].Place
	w.json(t, "POST", "/replace", `{"queue":"dead","place":"`+place+`"}`, 409, new(problem))
}

// A consumer moves what it has received in one step: to the dead-letter queue with a trail, from
// there back with a delay, or to a parking lot as it is. A repeated request says that the message
// is gone. [NACK-7, NACK-8, NACK-18 to NACK-20]
func TestReceivedMessageIsMoved(t *testing.T) {
	w := deadWorld(t, 2)
	orders, dead := engine.QueueName{Account: account, Name: "orders"}, engine.QueueName{Account: account, Name: "dead"}
	receive := func(q engine.QueueName) (receipt string, m *engine.Delivery) {
		t.Helper()
		op := &engine.ReceiveMessage{Queue: q, Visibility: engine.Int{Value: 60, Set: true}}
		w.do(t, op)
		if len(op.Messages) != 1 {
			t.Fatalf("%s has %d messages", q.Name, len(op.Messages))
		}
		m = &op.Messages[0]
		return string(w.cfg.Sealer.AppendSeal(nil, handle.Handle{Incarnation: op.Incarnation, Space: m.Space, Seq: m.Seq,
			Generation: m.Generation, Received: m.Received})), m
	}
	attributes := func(m *engine.Delivery) string {
		c, _ := w.broker.ReadContent(*m)
		return fmt.Sprint(c.Attributes)
	}
	h, letter := receive(dead)
	back := `{"queue":"dead","receiptHandle":"` + h + `","delayMs":0,"attributes":{"tenaq":{"type":"String","value":"v=1&redrives=1"}}}`
	var out replaced
	w.json(t, "POST", "/replace", back, 200, &out)
	var gone problem
	if w.json(t, "POST", "/replace", back, http.StatusConflict, &gone); gone.Code != "ResourceNotFoundException" {
		t.Errorf("a repeated request answers %+v", gone)
	}
	var fate messageFate
	w.json(t, "GET", "/queues/orders/fate?mark="+out.Mark, "", 200, &fate)
	first, m := receive(orders)
	if m.ID.String() != out.ID || m.Lineage != letter.Lineage || out.Lineage != letter.Lineage.String() ||
		!strings.Contains(attributes(m), "redrives=1") || fate.State != engine.StateVisible {
		t.Errorf("got %+v with %s, %+v and %+v", m, attributes(m), out, fate)
	}

	var told NackOutcomes
	nack := `{"entries":[{"receiptHandle":"` + first + `","verdict":"exhausted","text":"sick","trail":"v=1&reason=sick"}]}`
	w.json(t, "POST", "/queues/orders/nack", nack, 200, &told)
	if !told.Outcomes[0].Done {
		t.Errorf("got %+v", told)
	}
	if w.json(t, "POST", "/queues/orders/nack", nack, 200, &told); told.Outcomes[0].Code != "ResourceNotFoundException" {
		t.Errorf("a repeated verdict answers %+v", told)
	}
	receive(dead) // the other letter
	h, again := receive(dead)
	if again.ID != m.ID || again.Lineage != letter.Lineage || !strings.Contains(attributes(again), "reason=sick") {
		t.Errorf("the dead letter is %+v with %s", again, attributes(again))
	}
	w.json(t, "POST", "/replace", `{"queue":"dead","receiptHandle":"`+h+`","to":"lot","park":true}`, 200, &out)
	if out.ID != m.ID.String() {
		t.Errorf("a parked message has the id %s, want %s", out.ID, m.ID)
	}
	for _, tt := range []struct{ body, part string }{
		{`{"queue":"dead","receiptHandle":"x","to":"lot"}`, "not of a message in this queue"},
		{`{"queue":"orders","receiptHandle":"` + h + `","to":"lot"}`, "not of a message in this queue"},
		{`{"queue":"dead","receiptHandle":"` + h + `","place":"y"}`, "the place of a message, or absent"},
	} {
		if status, text := w.ask("POST", "/v1/replace", "application/json", tt.body); status < 400 || !strings.Contains(text, tt.part) {
			t.Errorf("%s: got %d %s, want %s", tt.body, status, text, tt.part)
		}
	}
}

// A caller that may only nack writes no attribute of a dead letter. Its message stays, and it can
// move it with a reason. [NACK-22]
func TestTrailTakesTheRightToSend(t *testing.T) {
	k := newKeyed(t, keyOf("TQNACK01", "tenaq:Nack", ""),
		`{"id": "TQSENDS1", "secret": "the-secret-of-TQSENDS1", "allow": ["tenaq:Nack", "sqs:SendMessage"]}`)
	k.addLetters(t, 0)
	orders, dead := engine.QueueName{Account: account, Name: "orders"}, engine.QueueName{Account: account, Name: "dead"}
	for _, tt := range []struct{ key, trail, code string }{
		{"TQNACK01", "v=1&key=order-17&redrives=9", "AccessDenied"},
		{"TQNACK01", "", ""},
		{"TQSENDS1", "v=1&key=order-17&redrives=9", ""},
	} {
		k.do(t, &engine.SendMessage{Queue: orders, Draft: engine.NewDraft(engine.Entry{Body: engine.Text{Value: "a", Set: true}})})
		receive := &engine.ReceiveMessage{Queue: orders, Visibility: engine.Int{Value: 60, Set: true}}
		k.do(t, receive)
		m := &receive.Messages[0]
		h := k.cfg.Sealer.AppendSeal(nil, handle.Handle{Incarnation: receive.Incarnation, Space: m.Space, Seq: m.Seq,
			Generation: m.Generation, Received: m.Received})
		body := `{"entries":[{"receiptHandle":"` + string(h) + `","verdict":"poison","text":"sick","trail":"` + tt.trail + `"}]}`
		status, text := k.as(t, "key "+tt.key, "POST", "/v1/queues/orders/nack", body)
		var told NackOutcomes
		if err := json.Unmarshal([]byte(text), &told); err != nil || status != 200 || len(told.Outcomes) != 1 || told.Outcomes[0].Code != tt.code {
			t.Fatalf("%s with the trail %q: got %d %s, want %q", tt.key, tt.trail, status, text, tt.code)
		}
		letters := &engine.ReceiveMessage{Queue: dead}
		k.do(t, letters)
		if want := tt.code == ""; (len(letters.Messages) == 1) != want {
			t.Fatalf("%s with the trail %q: %d dead letters", tt.key, tt.trail, len(letters.Messages))
		} else if want {
			c, _ := k.broker.ReadContent(letters.Messages[0])
			if got := strings.Contains(fmt.Sprint(c.Attributes), "redrives=9"); got != (tt.trail != "") {
				t.Errorf("%s: the dead letter has %v", tt.key, c.Attributes)
			}
		}
	}
}

// Ten entries with the largest trails that a worker writes are not too much. [NACK-2, NACK-18]
func TestLargeTrails(t *testing.T) {
	w := deadWorld(t, 1)
	entry := `{"receiptHandle":"x","verdict":"exhausted","text":"` + strings.Repeat("t", 1024) + `","trail":"` + strings.Repeat("%0A", 4000) + `"}`
	var told NackOutcomes
	w.json(t, "POST", "/queues/orders/nack", `{"entries":[`+strings.Repeat(entry+",", 9)+entry+`]}`, 200, &told)
	if len(told.Outcomes) != 10 {
		t.Errorf("got %+v", told)
	}
}

// A key needs the right to tasks, and the rights for the effects of the task. [TASK-18]
func TestTaskRights(t *testing.T) {
	key := func(id, allow string) string {
		return fmt.Sprintf(`{"id": %q, "secret": "the-secret-of-%s", "allow": [%s]}`, id, id, allow)
	}
	k := newKeyed(t, key("TQALL001", `"*"`), key("TQSEES01", `"tenaq:ListTasks", "tenaq:PeekMessages"`), key("TQONLY01", `"tenaq:*"`),
		key("TQEDITS1", `"tenaq:ManageTasks", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:SendMessage"`),
		key("TQMOVE01", `"tenaq:*", "sqs:ReceiveMessage", "sqs:DeleteMessage"`),
		key("TQSENDS1", `"tenaq:*", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:SendMessage"`))
	k.addLetters(t, 3)
	k.do(t, &engine.CreateQueue{Queue: engine.QueueName{Account: account, Name: "payments"}, NameSet: true, Attributes: map[string]string{
		"Policy": `{"Statement":{"Effect":"Deny","Principal":{"AWS":"arn:aws:iam::` + account + `:user/TQSENDS1"},"Action":"sqs:SendMessage","Resource":"*"}}`}})
	var letters messageList
	_, text := k.as(t, "key TQALL001", "GET", "/v1/queues/dead/messages", "")
	if err := json.Unmarshal([]byte(text), &letters); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	replace := fmt.Sprintf(`{"queue":"dead","place":%q,"to":"lot"}`, letters.Messages[0].Place)
	giveBack := fmt.Sprintf(`{"queue":"dead","place":%q}`, letters.Messages[1].Place)
	for _, tt := range []struct {
		method, path, body string
		want               map[string]int
	}{
		{"GET", "/v1/tasks", "", map[string]int{"TQSEES01": 200, "TQONLY01": 200}},
		{"GET", "/v1/actions", "", map[string]int{"TQSEES01": 200}},
		{"POST", "/v1/tasks/count", `{"queue":"dead"}`, map[string]int{"TQSEES01": 200}},
		{"POST", "/v1/tasks", `{"queue":"dead","do":"park","to":"lot"}`, map[string]int{"TQSEES01": 403, "TQONLY01": 403, "TQMOVE01": 403}},
		{"POST", "/v1/replace", replace, map[string]int{"TQSEES01": 403, "TQONLY01": 403, "TQMOVE01": 403, "TQALL001": 200}},
		{"POST", "/v1/replace", giveBack, map[string]int{"TQMOVE01": 403, "TQSENDS1": 403, "TQALL001": 200}},
		{"POST", "/v1/tasks", `{"queue":"dead","do":"move"}`, map[string]int{"TQMOVE01": 403, "TQSENDS1": 403}},
		{"POST", "/v1/tasks", `{"queue":"lot","do":"move","to":"dead"}`, map[string]int{"TQSENDS1": 200}},
		{"POST", "/v1/tasks", `{"queue":"dead","do":"move","limit":1}`, map[string]int{"TQALL001": 200}},
		{"POST", "/v1/tasks", `{"queue":"lot","do":"move","to":"dead","limit":1,"edit":{"body":"x"}}`, map[string]int{"TQEDITS1": 403, "TQALL001": 200}},
		{"POST", "/v1/tasks/count", `{"queue":"dead","to":"lot"}`, map[string]int{"TQSEES01": 403, "TQALL001": 200}},
		{"POST", "/v1/tasks/dead:1/pause", `{}`, map[string]int{"TQSEES01": 403}},
	} {
		for _, id := range slices.Sorted(maps.Keys(tt.want)) {
			if status, text := k.as(t, "key "+id, tt.method, tt.path, tt.body); status != tt.want[id] {
				t.Errorf("%s: %s %s %s: got %d %s, want %d", id, tt.method, tt.path, tt.body, status, text, tt.want[id])
			}
		}
	}
}
