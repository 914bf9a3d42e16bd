package v1

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"tenaq/internal/door/auth"
)

// Every route is reached by its own path, and its action is the right to it.
func TestRoutesAreReached(t *testing.T) {
	h := newWorld(t).Handler
	operations := make(map[string]bool)
	for _, r := range routes {
		if r.summary == "" || r.action == "" || strings.HasSuffix(r.summary, ".") {
			t.Errorf("%s %s: the summary is %q, the action %q", r.method, r.path, r.summary, r.action)
		}
		path := root + strings.NewReplacer("{", "", "}", "").Replace(r.path)
		h.cfg.SQS = func(context.Context, http.ResponseWriter, *http.Request, auth.Principal, string, []byte) ([]byte, error) {
			return nil, nil
		}
		req, err := http.NewRequest(r.method, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		served := *h
		served.cfg.Redrivers, served.cfg.Stores, served.cfg.Settings = newMadeRedrivers(), newMadeStores(), []Setting{{}}
		served.cfg.Status = func(*ServerStatus) {}
		served.cfg.Control, served.cfg.Monitor, served.cfg.Backup = needed(r)
		if found, _, allow := served.find(req); found != r {
			t.Errorf("%s %s is answered by %+v, or allows %v", r.method, path, found, allow)
		}
		if id := r.describe(newSchemas())["operationId"].(string); operations[id] {
			t.Errorf("two routes have the operationId %s", id)
		} else {
			operations[id] = true
		}
	}
}

// Each part of a path is decoded by itself, and an empty one is none.
func TestPaths(t *testing.T) {
	r := &route{segments: segmentsOf("/v1/queues/{queue}/messages")}
	for path, want := range map[string]string{
		"/v1/queues/q/messages": "q", "/v1/queues/a%2Fb/messages": "a/b", "/v1/queues/%71/messages": "q",
		"/v1/queues//messages": "", "/v1/queues/q": "", "/v1/queues/q/messages/": "", "/v1/queues/q/other": "", "/v1": "",
	} {
		values, ok := r.matches(segmentsOf(path))
		if ok != (want != "") || values["queue"] != want {
			t.Errorf("%s: got %v, %v, want %q", path, values, ok, want)
		}
	}
}

// Unknown input to a route is refused, with what the route accepts. [V1-3, V1-5]
func TestInputIsRefused(t *testing.T) {
	w := newWorld(t)
	w.useMonitor(t)
	for _, tt := range []struct {
		method, path, kind, body string
		status                   int
		part                     string
	}{
		{"GET", "/v1/queues?limit=0", "", "", 400, "Value 0 for parameter limit is invalid. Reason: Must be a number from 1 to 100."},
		{"GET", "/v1/queues?limit=x", "", "", 400, "a number from 1 to 100"},
		{"GET", "/v1/queues?limit=9999999999999999999", "", "", 400, "a number from 1 to 100"},
		{"GET", "/v1/queues?limit=1&limit=2", "", "", 400, "given more than once"},
		{"GET", "/v1/claims?state=held&prefix=%zz", "", "", 400, "cannot be read"},
		{"GET", "/v1/claims?prefix=a;state=held", "", "", 400, "cannot be read"},
		{"GET", "/v1/queues?what=1", "", "", 400, "The parameter what is unknown"},
		{"GET", "/v1/queues?queue=x", "", "", 400, "The parameter queue is unknown"},
		{"GET", "/v1/queues?X-Amz-Date=x", "", "", 400, "The parameter X-Amz-Date is unknown"},
		{"GET", "/v1/queues/q/messages?trail=2", "", "", 400, "Must be 1 or 0."},
		{"GET", "/v1/queues/q/messages?state=gone", "", "", 400, "Must be visible, in_flight, delayed, blocked or held."},
		{"POST", "/v1/alarms/silence?match=x", "application/json", `{"match":"x","for":"1h"}`, 400, "The parameter match is unknown"},
		{"POST", "/v1/alarms/silence", "application/json", `{"match":"x","for":"1h","until":"x"}`, 400, "The member until is unknown"},
		{"POST", "/v1/alarms/silence", "application/json", `{"match":"x","for":"1h"}{}`, 400, "text after the object"},
		{"POST", "/v1/alarms/silence", "application/json", ``, 400, "it ends early"},
		{"POST", "/v1/alarms/silence", "application/x-www-form-urlencoded", `{"match":"x","for":"1h"}`, 400, "Content-Type: application/json"},
		{"DELETE", "/v1/queues", "", "", 405, "use GET."},
		{"GET", "/v1/tokens", "", "", 405, "use POST."},
		{"GET", "/v1/nothing", "", "", 404, "GET /v1/openapi.json lists all paths"},
		{"GET", "/v1/", "", "", 404, "NotFound"},
		{"GET", "/v1%2fqueues", "", "", 404, "NotFound"},
		{"GET", "/v1%2Fnope", "", "", 404, "NotFound"},
		{"GET", "/v1%2f..%2fv1/queues", "", "", 404, "NotFound"},
		{"GET", "/v1/queues%2fq", "", "", 404, "NotFound"},
		{"GET", "/%76%31/queues", "", "", 404, "NotFound"},
	} {
		status, body := w.ask(tt.method, tt.path, tt.kind, tt.body)
		if status != tt.status || !strings.Contains(body, tt.part) {
			t.Errorf("%s %s %s: got %d %s, want %d and %s", tt.method, tt.path, tt.body, status, body, tt.status, tt.part)
		}
	}
}
