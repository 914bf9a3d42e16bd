package v1

import (
	"encoding/json"
	"slices"
	"testing"
)

// GET /v1 says which parts of the API a handler has. [V1-1]
func TestDescribe(t *testing.T) {
	w := newWorld(t)
	ask := func() (d description) {
		t.Helper()
		status, body := w.ask("GET", "/v1", "", "")
		if err := json.Unmarshal([]byte(body), &d); err != nil || status != 200 {
			t.Fatalf("%v in %d %s", err, status, body)
		}
		return d
	}
	d := ask()
	if d.Server != "tenaq" || d.API != "1" || d.Caller.Account != account || d.Caller.Key != "" || !slices.Equal(d.Allowed, Actions()) {
		t.Errorf("got %+v", d)
	}
	if slices.Contains(d.Features, "alarms") || !slices.Contains(d.Features, "messages") || slices.Contains(d.Features, "cluster") {
		t.Errorf("without a monitor there are %v", d.Features)
	}
	w.useMonitor(t)
	w.cfg.Actions = []string{"sqs:SendMessage"}
	if d = ask(); !slices.Contains(d.Features, "alarms") || !slices.Equal(d.Allowed, w.cfg.Actions) {
		t.Errorf("with a monitor there are %v, and allowed is %v", d.Features, d.Allowed)
	}
}
