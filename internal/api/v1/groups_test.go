package v1

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tenaq/internal/engine"
)

// Groups are shown page by page, and one can be released. [V1-10, V1-11]
func TestGroups(t *testing.T) {
	w := newWorld(t)
	name := engine.QueueName{Account: account, Name: "q.fifo"}
	text := func(s string) engine.Text { return engine.Text{Value: s, Set: true} }
	w.do(t, &engine.CreateQueue{Queue: name, NameSet: true, Attributes: map[string]string{"FifoQueue": "true"}})
	for i := range 6 {
		w.do(t, &engine.SendMessage{Queue: name, Draft: engine.NewDraft(
			engine.Entry{Body: text("x"), Group: text(fmt.Sprint("g/", i/2)), Dedup: text(fmt.Sprint(i))})})
	}
	receive := &engine.ReceiveMessage{Queue: name}
	w.do(t, receive)
	var seen []string
	for after := ""; ; {
		status, body := w.ask("GET", "/v1/queues/q.fifo/groups?limit=2&after="+after, "", "")
		var list groupList
		if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK {
			t.Fatalf("%v in %d %s", err, status, body)
		}
		for _, g := range list.Groups {
			seen = append(seen, fmt.Sprint(g.Group, " ", g.State, " ", g.Messages, " ", g.Receives, " ", g.WaitMS > 29_000))
		}
		if after = list.Next; after == "" {
			break
		}
	}
	if got, want := strings.Join(seen, ", "), "g/0 in_flight 2 1 true, g/1 visible 2 0 false, g/2 visible 2 0 false"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	const asJSON = "application/json"
	for _, tt := range []struct {
		method, path, body string
		status             int
		part               string
	}{
		{"GET", "/v1/queues/q.fifo/groups?only=locked", "", 200, `"group":"g/0"`},
		{"GET", "/v1/queues/q.fifo/groups?group=g/1", "", 200, `{"groups":[{"group":"g/1","state":"visible"`},
		{"GET", "/v1/queues/q.fifo/groups?group=none", "", 200, `{"groups":[]}`},
		{"GET", "/v1/queues/q.fifo/groups?after=x", "", 400, "not a place in the groups"},
		{"GET", "/v1/queues/q.fifo/groups?only=open", "", 400, "Must be locked."},
		{"GET", "/v1/queues/none/groups", "", 404, "NonExistentQueue"},
		{"POST", "/v1/queues/q.fifo/groups", "{}", 405, "use GET"},
		{"GET", "/v1/queues/q.fifo/groups/release", "", 405, "use POST"},
		{"POST", "/v1/queues/q.fifo/groups/release", `{"group":"g/0"}`, 200, `{"released":1}`},
		{"POST", "/v1/queues/q.fifo/groups/release", `{"group":"g/0"}`, 200, `{"released":0}`},
		{"POST", "/v1/queues/q.fifo/groups/release", `{"group":"none"}`, 400, "The group has no messages"},
		{"POST", "/v1/queues/q.fifo/groups/release", `{"group":"g/0","Queue":"other"}`, 400, "The member Queue is unknown"},
		{"GET", "/v1/queues/q.fifo/groups?only=locked", "", 200, `{"groups":[]}`},
	} {
		if status, body := w.ask(tt.method, tt.path, asJSON, tt.body); status != tt.status || !strings.Contains(body, tt.part) {
			t.Errorf("%s %s %s: got %d %s, want %d and %s", tt.method, tt.path, tt.body, status, body, tt.status, tt.part)
		}
	}
}
