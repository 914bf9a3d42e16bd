package v1

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/door/auth"
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
