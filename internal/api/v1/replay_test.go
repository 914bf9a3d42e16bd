package v1

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"tenaq/internal/engine"
)

// pastWorld has the queue jobs with a history: card-1, net-2 and card-3 were deleted.
func pastWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.addPast(t)
	return w
}

func (w *world) addPast(t *testing.T) {
	t.Helper()
	jobs := engine.QueueName{Account: account, Name: "jobs"}
	text := func(s string) engine.Text { return engine.Text{Value: s, Set: true} }
	w.do(t, &engine.CreateQueue{Queue: jobs, NameSet: true, Tags: []engine.Tag{{Key: "tenaq:history", Value: "7d"}}})
	w.do(t, &engine.CreateQueue{Queue: engine.QueueName{Account: account, Name: "lab"}, NameSet: true})
	for _, body := range []string{"card-1", "net-2", "card-3"} {
		w.do(t, &engine.SendMessage{Queue: jobs, Draft: engine.NewDraft(engine.Entry{Body: text(body), Attributes: []engine.EntryAttribute{
			{Name: "tenaq", Type: text("String"), String: text("v=1&key=" + body)}}})})
	}
	w.drain(t, jobs)
}

// drain receives and deletes all messages of a queue, and returns what they carry.
func (w *world) drain(t *testing.T, q engine.QueueName) (all []engine.Content) {
	t.Helper()
	for {
		op := &engine.ReceiveMessage{Queue: q, Max: engine.Int{Value: 10, Set: true}}
		w.do(t, op)
		if len(op.Messages) == 0 {
			return all
		}
		for _, d := range op.Messages {
			c, ok := w.broker.ReadContent(d)
			if !ok {
				t.Fatalf("message %s has no content", d.ID)
			}
			all = append(all, c)
			w.do(t, &engine.DeleteMessage{Queue: q, Handle: engine.Handle{Text: "x", Valid: true, Incarnation: op.Incarnation, Space: d.Space,
				Seq: d.Seq, Generation: d.Generation, Received: d.Received}})
		}
	}
}

// A replay is counted, started and watched; its messages have the next generation.
// [REPLAY-1, REPLAY-10]
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := pastWorld(t)
		var count taskCount
		w.json(t, "POST", "/tasks/count", `{"queue":"jobs","do":"replay","filter":{"text":"card","outcome":"deleted","before":"2999-01-01T00:00:00Z"}}`, 200, &count)
		if count.Count != 2 || !count.Complete || len(count.Samples) != 0 || len(count.Outcomes) != 2 || *count.Outcomes[0].Body != "card-1" || count.Skips == nil {
			t.Errorf("got %+v, want 2 outcomes", count)
		}
		var started task
		w.json(t, "POST", "/tasks", `{"queue":"jobs","do":"replay","filter":{"text":"card","key":"card-1","outcome":"deleted"},"note":"fixed"}`, 200, &started)
		if started.Do != "replay" || started.To != "" || started.Filter.Outcome != "deleted" || started.Filter.Key != "card-1" || started.Missing {
			t.Errorf("got %+v", started)
		}
		if end := w.ended(t, "jobs:1"); end.State != "COMPLETED" || end.Done != 1 {
			t.Errorf("at the end: %+v", end)
		}
		count = taskCount{}
		w.json(t, "POST", "/tasks/count", `{"queue":"jobs","do":"replay"}`, 200, &count)
		if count.Count != 2 || count.Skipped != 1 || *count.Skips != (ReplaySkips{Live: 1}) {
			t.Errorf("got %+v with %+v, want 2, and the one that is in the queue skipped", count, count.Skips)
		}
		sent := w.drain(t, engine.QueueName{Account: account, Name: "jobs"})
		if len(sent) != 1 || sent[0].Body != "card-1" || !strings.HasPrefix(sent[0].Attributes[0].String, "v=1&generation=1&key=card-1&lineage=") {
			t.Errorf("it sent %+v", sent)
		}
		w.json(t, "POST", "/tasks", `{"queue":"jobs","do":"replay","missing":true,"to":"lab"}`, 200, &started)
		if end := w.ended(t, "jobs:2"); !end.Missing || end.To != "lab" || end.State != "COMPLETED" || end.Done != 0 {
			t.Errorf("nothing is missing, and the replay is %+v", end)
		}
	})
}

// The end of a page of the history is not accepted as a place in the list of messages, nor the
// other way round. [HIST-9, PEEK-5]
func TestPlacesOfLists(t *testing.T) {
	w := pastWorld(t)
	w.do(t, &engine.SendMessage{Queue: engine.QueueName{Account: account, Name: "jobs"},
		Draft: engine.NewDraft(engine.Entry{Body: engine.Text{Value: "here", Set: true}})})
	var past outcomeList
	w.json(t, "GET", "/queues/jobs/history?limit=1", "", 200, &past)
	var here messageList
	w.json(t, "GET", "/queues/jobs/messages", "", 200, &here)
	outcome, message := url.QueryEscape(past.Next), here.Messages[0].Place
	for _, tt := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/queues/jobs/history?after=" + outcome, "", 200},
		{"GET", "/queues/jobs/messages?after=" + outcome, "", 400},
		{"GET", "/queues/jobs/messages?at=" + outcome, "", 400},
		{"POST", "/replace", `{"queue":"jobs","to":"lab","place":"` + past.Next + `"}`, 400},
		{"POST", "/tasks/count", `{"queue":"jobs","do":"replay","after":"` + past.Next + `"}`, 200},
		{"POST", "/tasks/count", `{"queue":"jobs","after":"` + past.Next + `"}`, 400},
		{"GET", "/queues/jobs/messages?after=" + message, "", 200},
		{"GET", "/queues/jobs/history?after=" + message, "", 400},
		{"POST", "/tasks/count", `{"queue":"jobs","after":"` + message + `"}`, 200},
		{"POST", "/tasks/count", `{"queue":"jobs","do":"replay","after":"` + message + `"}`, 400},
	} {
		status, text := w.ask(tt.method, "/v1"+tt.path, "application/json", tt.body)
		if status != tt.status || status == 400 && !strings.Contains(text, "not a place in this queue") {
			t.Errorf("%s %s %s: got %d %s, want %d", tt.method, tt.path, tt.body, status, text, tt.status)
		}
	}
}

// Invalid replays are refused. [REPLAY-1, REPLAY-3]
func TestReplayRefused(t *testing.T) {
	w := pastWorld(t)
	for _, tt := range []struct {
		path, body string
		status     int
		part       string
	}{
		{"/tasks", `{"queue":"lab","do":"replay"}`, 400, "keeps no history"},
		{"/tasks/count", `{"queue":"lab","do":"replay"}`, 400, "keeps no history"},
		{"/tasks", `{"queue":"jobs","do":"replay","filter":{"outcome":"burnt"}}`, 400, "deleted"},
		{"/tasks", `{"queue":"jobs","do":"replay","filter":{"key":""}}`, 400, "a part of the filter is empty"},
		{"/tasks", `{"queue":"jobs","do":"replay","filter":{"source":"lab"}}`, 400, "no such filter"},
		{"/tasks", `{"queue":"jobs","do":"replay","missing":true,"filter":{"outcome":"deleted"}}`, 400, "completed"},
		{"/tasks", `{"queue":"jobs","do":"move","to":"lab","missing":true}`, 400, "Only a replay"},
		{"/tasks", `{"queue":"jobs","do":"replay","to":"nowhere"}`, 400, "no such queue"},
		{"/tasks", `{"queue":"jobs","do":"replay","to":""}`, 400, "to is empty: name a queue, or leave it out"},
		{"/tasks/count", `{"queue":"jobs","do":"replay","to":""}`, 400, "to is empty"},
		{"/replace", `{"queue":"jobs","place":"x","to":""}`, 400, "to is empty"},
		{"/tasks/count", `{"queue":"jobs","do":"move"}`, 400, "replay"},
	} {
		status, text := w.ask("POST", "/v1"+tt.path, "application/json", tt.body)
		if status != tt.status || !strings.Contains(text, tt.part) {
			t.Errorf("%s %s: got %d %s, want %d and %s", tt.path, tt.body, status, text, tt.status, tt.part)
		}
	}
}

// A replay needs the rights to see what it sends, and to send. [REPLAY-14]
func TestReplayRights(t *testing.T) {
	key := func(id, allow string) string {
		return `{"id": "` + id + `", "secret": "the-secret-of-` + id + `", "allow": [` + allow + `]}`
	}
	k := newKeyed(t, key("TQTASK01", `"tenaq:ManageTasks", "tenaq:PeekMessages", "sqs:SendMessage"`),
		key("TQSEES01", `"tenaq:ManageTasks", "tenaq:PeekMessages", "tenaq:SearchHistory"`),
		key("TQALL001", `"tenaq:ManageTasks", "tenaq:SearchHistory", "sqs:SendMessage"`))
	k.addPast(t)
	k.do(t, &engine.SetQueueAttributes{Queue: engine.QueueName{Account: account, Name: "lab"}, Values: map[string]string{
		"Policy": `{"Statement":{"Effect":"Deny","Principal":"*","Action":"sqs:SendMessage","Resource":"*"}}`}})
	for _, tt := range []struct {
		path, body string
		want       map[string]int
	}{
		{"/v1/tasks/count", `{"queue":"jobs","do":"replay"}`, map[string]int{"TQTASK01": 403, "TQSEES01": 200, "TQALL001": 403}},
		{"/v1/tasks", `{"queue":"jobs","do":"replay","to":"lab"}`, map[string]int{"TQALL001": 403}},
		{"/v1/tasks", `{"queue":"jobs","do":"replay"}`, map[string]int{"TQTASK01": 403, "TQSEES01": 403}},
		{"/v1/tasks", `{"queue":"jobs","do":"replay","missing":true}`, map[string]int{"TQALL001": 200}},
	} {
		for _, id := range slices.Sorted(maps.Keys(tt.want)) {
			if status, text := k.as(t, "key "+id, "POST", tt.path, tt.body); status != tt.want[id] || !json.Valid([]byte(text)) {
				t.Errorf("%s: %s %s: got %d %s, want %d", id, tt.path, tt.body, status, text, tt.want[id])
			}
		}
	}
}
