package v1

import (
	"encoding/json"
	"strings"
	"testing"

	"tenaq/internal/engine"
)

// A client that asks for messages in one state may get an empty page that is not the last, and
// reaches the end by going on. [PEEK-5]
func TestPageWithoutMessages(t *testing.T) {
	w := newWorld(t)
	name := engine.QueueName{Account: account, Name: "q"}
	text := func(s string) engine.Text { return engine.Text{Value: s, Set: true} }
	send := func(body string, delay int64) {
		t.Helper()
		w.do(t, &engine.SendMessage{Queue: name, Draft: engine.NewDraft(
			engine.Entry{ID: text("a"), Body: text(body), Delay: engine.Int{Value: delay, Set: true}})})
	}
	w.do(t, &engine.CreateQueue{Queue: name, NameSet: true})
	for range stepsMax*600 + 1 {
		send("x", 0)
	}
	send("late", 900)
	var bodies []string
	pages, after := 0, ""
	for {
		_, body := w.ask("GET", "/v1/queues/q/messages?state=delayed&body=10&after="+after, "", "")
		var list messageList
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		pages++
		for _, m := range list.Messages {
			bodies = append(bodies, *m.Body)
		}
		if after = list.Next; after == "" {
			break
		}
	}
	if len(bodies) != 1 || bodies[0] != "late" || pages != 2 {
		t.Errorf("the delayed messages are %q, after %d pages, want late after 2", bodies, pages)
	}
}

// A message that was removed after the look and before its body was read is left out. [PEEK-6]
func TestBodyIsGone(t *testing.T) {
	c := &call{Context: t.Context(), Handler: newWorld(t).Handler}
	if c.addContent(&message{}, &engine.Peeked{Delivery: engine.Delivery{Space: 1, Seq: 7}}, 10, true) {
		t.Error("a message that does not exist has a body")
	}
}

// Message attributes are shown when asked for, by both routes. [PEEK-11]
func TestAttributes(t *testing.T) {
	w := newWorld(t)
	name := engine.QueueName{Account: account, Name: "q"}
	w.do(t, &engine.CreateQueue{Queue: name, NameSet: true})
	text := func(s string) engine.Text { return engine.Text{Value: s, Set: true} }
	send := &engine.SendMessage{Queue: name, Draft: engine.NewDraft(engine.Entry{ID: text("a"), Body: text("x"),
		Attributes: []engine.EntryAttribute{{Name: "raw", Type: text("Binary"), Binary: []byte{0, 255}, HasBinary: true}, {Name: "tenant", Type: text("String"), String: text("7")}}})}
	w.do(t, send)
	const want = `"attributes":{"raw":{"type":"Binary","base64":"AP8="},"tenant":{"type":"String","value":"7"}}`
	for path, has := range map[string]bool{
		"/v1/queues/q/messages": false, "/v1/queues/q/messages?body=9": false, "/v1/queues/q/messages?attributes=1": true,
		"/v1/messages/" + send.Sent.ID.String(): false, "/v1/messages/" + send.Sent.ID.String() + "?attributes=1": true,
	} {
		status, body := w.ask("GET", path, "", "")
		if status != 200 || strings.Contains(body, "attributes") != has || has && !strings.Contains(body, want) {
			t.Errorf("%s: got %d %s", path, status, body)
		}
	}
}
