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
)

var (
	nextPattern  = regexp.MustCompile(`"next":"([^"]+)"`)
	placePattern = regexp.MustCompile(`,"place":"[^"]+"`) // of messages: no script needs them
	afterPattern = regexp.MustCompile(`after=(p[0-9]+)`)
	idPattern    = regexp.MustCompile(`/messages/m[0-9]+`)
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
	path = idPattern.ReplaceAllStringFunc(path, func(id string) string {
		return "/messages/" + s.values[strings.TrimPrefix(id, "/messages/")]
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
	kind := "application/json"
	if resp.StatusCode >= 400 {
		kind, body = "application/problem+json", shortProblem(t, resp, body)
	}
	for name, want := range map[string]string{
		"Content-Type": kind, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Tenaq-Api": "1",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %s is %q, want %q [PEEK-7]", path, name, got, want)
		}
	}
	line := fmt.Sprint(resp.StatusCode)
	if allow := resp.Header.Get("Allow"); allow != "" {
		line += " allow " + allow
	}
	body = placePattern.ReplaceAllString(body, "")
	body = nextPattern.ReplaceAllStringFunc(body, func(next string) string {
		return `"next":"` + s.name("p", nextPattern.FindStringSubmatch(next)[1]) + `"`
	})
	body = strings.ReplaceAll(body, `{"messageId"`, "\n"+`{"messageId"`) // a message on each line
	return line + "\n" + strings.TrimSuffix(s.hide(body), "\n") + "\n"
}

// shortProblem checks a problem document and returns what scripts show of it. [V1-4]
func shortProblem(t *testing.T, resp *http.Response, body string) string {
	t.Helper()
	if body == "" {
		return "" // of HEAD
	}
	var p struct {
		Type, Title, Detail, Instance, Code, Message string
		Status                                       int
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Errorf("%v in %s", err, body)
	}
	if p.Type != "urn:tenaq:error:"+p.Code || p.Title != http.StatusText(resp.StatusCode) || p.Status != resp.StatusCode || p.Detail != p.Message ||
		p.Instance != "urn:uuid:"+resp.Header.Get("X-Amzn-Requestid") {
		t.Errorf("a problem is %s [V1-4]", body)
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.Encode(struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}{p.Code, p.Message})
	return b.String()
}

// post does the command of that name, in both worlds.
func (s *script) post(t *testing.T, d *datadriven.TestData, input string) string {
	path := d.CmdArgs[0].String()
	var answers [2]string
	for i, one := range [2]*side{s.side, s.twin} {
		body := one.show(input)
		conn := one.listener.dial()
		_, resp, text, err := exchange(conn, http.MethodPost, sign(t, s.as, fmt.Sprintf(
			"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, host, len(body), body)))
		conn.Close()
		if err != nil {
			return err.Error() + "\n"
		}
		if resp.StatusCode >= 400 {
			text = shortProblem(t, resp, text)
		}
		text = strings.ReplaceAll(one.hide(text), `},{`, "},\n{")
		answers[i] = fmt.Sprintf("%d\n%s\n", resp.StatusCode, strings.TrimSuffix(text, "\n"))
	}
	if answers[0] != answers[1] {
		t.Errorf("%s: the worlds answer %s and %s", path, answers[0], answers[1])
	}
	return answers[0]
}

// Requests to /v1 are counted under names of their own, and bodies in their answers return their
// share of the budget.
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
		for _, c := range w.intake.Ends.All() {
			got[c.Action+" "+c.Code] = c.N.Value()
		}
		for name, n := range map[string]int64{
			"v1.ListQueues ": 1, "v1.PeekMessages ": 2, "v1.PeekMessages NonExistentQueue": 1, "v1.PeekMessages InvalidParameterValue": 1, " NotFound": 1,
			"SendMessage ": 1, "ReceiveMessage ": 0,
		} {
			if got[name] != n {
				t.Errorf("%q is counted %d times, want %d", name, got[name], n)
			}
		}
		if w.intake.Answers.Total() != 0 {
			t.Error("a part of the budget was not given back")
		}
	})
}
