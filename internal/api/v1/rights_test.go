package v1

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
)

// Each route is refused without its right, whatever else a key may do, and is not with it.
// [AUTH-38, CONSOLE-14]
func TestEveryRight(t *testing.T) {
	keys := []string{`{"id": "TQALL", "secret": "the-secret-of-TQALL", "allow": ["*"]}`}
	k := newKeyed(t, keys...)
	k.cfg.Redrivers, k.cfg.Stores, k.cfg.Settings = newMadeRedrivers(), newMadeStores(), []Setting{{}}
	k.cfg.Status = func(*ServerStatus) {}
	k.cfg.SQS = func(context.Context, http.ResponseWriter, *http.Request, auth.Principal, string, []byte) ([]byte, error) {
		return nil, nil
	}
	k.useMonitor(t)
	without := make(map[string]string) // the key that lacks a right
	for i, right := range Actions() {
		id := fmt.Sprintf("TQWITHOUT%d", i)
		var allow []string
		for _, other := range Actions() {
			if other != right {
				allow = append(allow, fmt.Sprintf("%q", other))
			}
		}
		keys = append(keys, fmt.Sprintf(`{"id": %q, "secret": "the-secret-of-%s", "allow": ["sqs:*", "cloudwatch:*", %s]}`, id, id, strings.Join(allow, ", ")))
		without[right] = id
	}
	k.write(t, keys...)
	var tried, free []string
	for _, r := range routes {
		if r.free {
			free = append(free, r.action)
			continue
		}
		control, _, backup := needed(r)
		k.cfg.Control, k.cfg.Backup = control, backup
		path := root + strings.NewReplacer("{queue}", "q", "{task}", "q:1", "{key}", "k", "{kind}", "k", "{id}", "x", "{outbox}", "shop").Replace(r.path)
		body := map[bool]string{true: "{}"}[r.method != "GET"]
		status, text := k.as(t, "key "+without[r.right()], r.method, path, body)
		if status != http.StatusForbidden || !strings.Contains(text, "perform: "+strings.ToLower(r.right())+" on") {
			t.Errorf("%s %s without %s: got %d %s", r.method, path, r.right(), status, text)
		}
		if r.kind() == "text/event-stream" { // it would not end
			continue
		}
		if status, text := k.as(t, "key TQALL", r.method, path, body); status == http.StatusForbidden {
			t.Errorf("%s %s with all rights: got %d %s", r.method, path, status, text)
		}
		tried = append(tried, r.right())
	}
	slices.Sort(tried)
	if got := len(slices.Compact(tried)); got < 30 {
		t.Errorf("only %d rights were tried", got)
	}
	// Every key may use these. The parts of a trace, the actions of Do and the example need rights
	// of their own: see TestTraceRights, TestExampleRights, and TestDoRights in internal/server.
	if want := []string{"Describe", "Describe", "MakeToken", "Session", "SignIn", "SignOut", "Trace", "Do", "Example"}; !slices.Equal(free, want) {
		t.Errorf("the routes %q are free, want %q", free, want)
	}
}

// What /v1 lists leaves out the queues that deny the caller, on each page, and names them nowhere.
// [TASK-18, ID-11]
func TestDenyingQueuesAreLeftOut(t *testing.T) {
	k := newKeyed(t, keyOf("TQALL001", "*", ""), `{"id": "TQSEES01", "secret": "the-secret-of-TQSEES01", "allow": ["tenaq:ListTasks", "tenaq:PeekMessages"]}`)
	var secret string // id of a message
	var public int
	for i := range 8 {
		name, policy := fmt.Sprintf("public-%d", i), ""
		if i%3 != 0 {
			name = fmt.Sprintf("secret-%d", i)
			policy = `{"Statement":{"Effect":"Deny","Principal":{"AWS":"arn:aws:iam::` + account + `:user/TQSEES01"},"Action":"*","Resource":"*"}}`
		} else {
			public++
		}
		queue := engine.QueueName{Account: account, Name: name}
		k.do(t, &engine.CreateQueue{Queue: queue, NameSet: true, Attributes: map[string]string{"Policy": policy}})
		sent := &engine.SendMessage{Queue: queue, Draft: engine.NewDraft(engine.Entry{ID: text("a"), Body: text("x")})}
		if k.do(t, sent); policy != "" {
			secret = sent.Sent.ID.String()
		}
		body := fmt.Sprintf(`{"queue":%q,"do":"delete","confirm":1,"filter":{"text":"none"},"note":"note of %s"}`, name, name)
		if status, text := k.as(t, "key TQALL001", "POST", "/v1/tasks", body); status != 200 {
			t.Fatalf("got %d %s", status, text)
		}
	}
	// in 8 queues, each with one task
	for who, want := range map[string]int{"TQALL001": 8, "TQSEES01": public} {
		for _, list := range []struct{ path, next string }{{"/v1/tasks?limit=1", "&after="}, {"/v1/tasks?limit=2", "&after="}, {"/v1/tasks?limit=3", "&after="},
			{"/v1/tasks?limit=100", "&after="}, {"/v1/actions?limit=1", "&before="}, {"/v1/actions?limit=2", "&before="}, {"/v1/actions?limit=3", "&before="}, {"/v1/actions", "&before="}} {
			found, pages, path := 0, 0, list.path
			for path != "" && pages < 10 {
				status, text := k.as(t, "key "+who, "GET", path, "")
				var page struct {
					Tasks, Actions []any
					Next           any
				}
				if err := json.Unmarshal([]byte(text), &page); err != nil || status != 200 || who == "TQSEES01" && strings.Contains(text, "secret") {
					t.Errorf("%s: %s: got %d %s", who, path, status, text)
				}
				found, pages, path = found+len(page.Tasks)+len(page.Actions), pages+1, ""
				if page.Next != nil {
					path = list.path + list.next + fmt.Sprint(page.Next)
				}
			}
			if found != want {
				t.Errorf("%s sees %d of %s in %d pages, want %d", who, found, list.path, pages, want)
			}
		}
	}
	for who, want := range map[string]int{"TQALL001": 200, "TQSEES01": 404} {
		if status, text := k.as(t, "key "+who, "GET", "/v1/messages/"+secret, ""); status != want || strings.Contains(text, "secret-") != (want == 200) {
			t.Errorf("%s finds %d %s, want %d", who, status, text, want)
		}
	}
}
