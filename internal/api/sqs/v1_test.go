package sqs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"tenaq/internal/engine"
)

var (
	nextPattern  = regexp.MustCompile(`"next":"([^"]+)"`)
	afterPattern = regexp.MustCompile(`after=(p[0-9]+)`)
)

// get does the command of that name.
func (s *script) get(t *testing.T, d *datadriven.TestData) string {
	path, method, to, origin := d.CmdArgs[0].String(), http.MethodGet, host, ""
	d.MaybeScanArgs(t, "method", &method)
	d.MaybeScanArgs(t, "host", &to)
	d.MaybeScanArgs(t, "origin", &origin)
	path = afterPattern.ReplaceAllStringFunc(path, func(after string) string {
		return "after=" + s.values[strings.TrimPrefix(after, "after=")]
	})
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, to)
	if origin != "" {
		head += "Origin: " + origin + "\r\n"
	}
	conn := s.listener.dial()
	defer conn.Close()
	_, resp, body, err := exchange(conn, method, sign(t, s.as, head+"\r\n"))
	if err != nil {
		return err.Error() + "\n"
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", v1Header: "1",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %s is %q, want %q [PEEK-7]", path, name, got, want)
		}
	}
	line := fmt.Sprint(resp.StatusCode)
	if allow := resp.Header.Get("Allow"); allow != "" {
		line += " allow " + allow
	}
	body = nextPattern.ReplaceAllStringFunc(body, func(next string) string {
		return `"next":"` + s.name("p", nextPattern.FindStringSubmatch(next)[1]) + `"`
	})
	body = strings.ReplaceAll(body, `{"messageId"`, "\n"+`{"messageId"`) // a message on each line
	return line + "\n" + strings.TrimSuffix(s.hide(body), "\n") + "\n"
}

// What is asked of /v1 is counted under names of its own, and bodies that were asked for give their share of
// the budget back.
func TestV1IsCounted(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		conn := w.listener.dial()
		defer conn.Close()
		ask := func(text string) {
			t.Helper()
			if _, _, _, err := exchange(conn, "GET", text); err != nil {
				t.Fatal(err)
			}
		}
		get := func(path string) { ask("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n") }
		ask(request("AmazonSQS.CreateQueue", `{"QueueName":"q"}`))
		ask(request("AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"hello"}`))
		get("/v1/queues")
		for range 2 {
			get("/v1/queues/q/messages?body=10")
		}
		get("/v1/queues/nowhere/messages")
		get("/v1/queues/q/messages?state=strange")
		get("/v1/else")
		time.Sleep(time.Second)
		got := make(map[string]int64)
		for _, c := range w.handler.Counts() {
			got[c.Action+" "+c.Code] = c.N
		}
		for name, n := range map[string]int64{
			"v1.ListQueues ": 1, "v1.PeekMessages ": 2, "v1.PeekMessages NonExistentQueue": 1, "v1.PeekMessages InvalidParameterValue": 1, " NotFound": 1,
			"SendMessage ": 1, "ReceiveMessage ": 0,
		} {
			if got[name] != n {
				t.Errorf("%q is counted %d times, want %d", name, got[name], n)
			}
		}
		if w.handler.answers.total() != 0 {
			t.Error("a part of the budget was not given back")
		}
	})
}

// Who looks for messages in one state may be answered an empty page that is not the last, and gets to the end
// by going on. [PEEK-5]
func TestV1PageWithoutMessages(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		name := engine.QueueName{Account: account, Name: "q"}
		do := func(op engine.Op) {
			t.Helper()
			if _, err := w.broker.Do(t.Context(), op); err != nil {
				t.Fatal(err)
			}
		}
		do(engine.CreateQueue{Queue: name, NameSet: true})
		text := func(s string) engine.Text { return engine.Text{Value: s, Set: true} }
		send := func(body string, delay int64) engine.Draft {
			return engine.NewDraft(engine.Entry{ID: text("a"), Body: text(body), Delay: engine.Int{Value: delay, Set: true}})
		}
		for range v1Steps*600 + 1 {
			do(&engine.SendMessage{Queue: name, Draft: send("x", 0)})
		}
		do(&engine.SendMessage{Queue: name, Draft: send("late", 900)})
		conn := w.listener.dial()
		defer conn.Close()
		var bodies []string
		pages, after := 0, ""
		for {
			path := "/v1/queues/q/messages?state=delayed&body=10&after=" + after
			_, _, body, err := exchange(conn, "GET", "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
			if err != nil {
				t.Fatal(err)
			}
			var list v1MessageList
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
		if got := strings.Join(bodies, " "); got != "late" || pages != 2 {
			t.Errorf("the delayed messages are %q, after %d pages, want late after 2", got, pages)
		}
	})
}

// A message that was removed between the look and the reading of its body is left out. [PEEK-6]
func TestV1BodyIsGone(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		c := &call{Context: t.Context(), h: w.handler}
		if c.addContent(&v1Message{}, &engine.Peeked{Space: 1, Seq: 7}, 10) {
			t.Error("a message that is not there has a body")
		}
	})
}
