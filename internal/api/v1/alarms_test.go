package v1

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"tenaq/internal/api/intake"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/series"
)

// Alarms are shown, silenced, acknowledged and tried out under /v1/alarms. [ALARM-50]
func TestAlarms(t *testing.T) {
	w := newWorld(t)
	m, err := monitor.New(monitor.Config{Queues: w.broker, Account: account, Keeper: monitor.File(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	w.cfg.Monitor = m
	if err := m.Put(monitor.Definition{Name: "waiting", ActionsEnabled: true, OnAlarm: []string{"log"}, Rule: alarm.Rule{
		Queries: []alarm.Query{{ID: "m", Metric: series.Metric{Namespace: "AWS/SQS", Name: "NumberOfMessagesSent"}, Stat: series.Sum, Period: 60, Return: true}},
		Periods: 1, Operator: alarm.Above,
	}}); err != nil {
		t.Fatal(err)
	}
	const asJSON = "application/json"
	for _, tt := range []struct {
		method, path, kind, body string
		status                   int
		part                     string
	}{
		{"GET", "/v1/alarms", "", "", 200, `{"alarms":[{"name":"waiting","shipped":false,"state":"INSUFFICIENT_DATA"`},
		{"GET", "/v1/alarms?state=ALARM", "", "", 200, `"alarms":[]`},
		{"GET", "/v1/alarms?state=BAD", "", "", 400, "INSUFFICIENT_DATA"},
		{"GET", "/v1/alarms?what=x", "", "", 400, "unknown"},
		{"GET", "/v1/alarms/history", "", "", 200, `{"changes":[]}`},
		{"POST", "/v1/alarms", asJSON, "{}", 405, "use GET"},
		{"GET", "/v1/alarms/silence", "", "", 405, "use POST"},
		{"POST", "/v1/alarms/silence", asJSON, `{"match":"wait*","for":"2h","reason":"moving"}`, 200, `"match":"wait*"`},
		{"GET", "/v1/alarms", "", "", 200, `"silencedUntil":`},
		{"POST", "/v1/alarms/silence", asJSON, `{"match":"wait*","for":"0s"}`, 200, `"silences":[]}`},
		{"POST", "/v1/alarms/silence", asJSON, `{"match":"a\u001bb","for":"1h"}`, 400, "no control characters"},
		{"POST", "/v1/alarms/silence", asJSON, `{"match":"x","for":"-1h"}`, 400, "duration"},
		{"POST", "/v1/alarms/silence", asJSON, `{"match":"x","for":"9000h"}`, 400, `"message":"a silence lasts at most 30 days"`},
		{"POST", "/v1/alarms/silence", "text/plain", `{"match":"x","for":"1h"}`, 400, "Content-Type"}, // as a web page could send it
		{"POST", "/v1/alarms/silence", asJSON, `{`, 400, "not have the expected JSON"},
		{"POST", "/v1/alarms/silence", asJSON, `{"match":5}`, 400, "expected JSON: match must be a string, not number."},
		{"POST", "/v1/queues/waiting/nack", asJSON, `{"entries":5}`, 400, "expected JSON: entries must be a list, not number."},
		{"POST", "/v1/alarms/acknowledge", asJSON, `[]`, 400, "expected JSON: it must be an object, not array."},
		{"POST", "/v1/alarms/silence", asJSON, strings.Repeat(" ", intake.Small+1), 413, "64 KiB"},
		{"POST", "/v1/alarms/acknowledge", asJSON, `{"alarm":"waiting"}`, 400, `"message":"waiting is`},
		{"POST", "/v1/alarms/acknowledge", asJSON, `{"alarm":"other"}`, 404, "no such alarm"},
		{"POST", "/v1/alarms/acknowledge", asJSON, `{"alarm":"other","end":true}`, 404, "no such alarm"},
		{"POST", "/v1/alarms/test", asJSON, `{"action":"log"}`, 200, "{}"},
		{"POST", "/v1/alarms/test", asJSON, `{"action":"http://127.0.0.1/"}`, 404, `"message":"action \"http://127.0.0.1/\" is not declared: add it under actions in the configuration of the server, which declares none"`},
	} {
		status, body := w.ask(tt.method, tt.path, tt.kind, tt.body)
		if status != tt.status || !strings.Contains(body, tt.part) || !json.Valid([]byte(body)) {
			t.Errorf("%s %s %.60s: got %d %s, want %d and %s", tt.method, tt.path, tt.body, status, body, tt.status, tt.part)
		}
	}
	if err := m.SetState("waiting", alarm.Alarm, "because", ""); err != nil {
		t.Fatal(err)
	}
	if status, body := w.ask("POST", "/v1/alarms/acknowledge", asJSON, `{"alarm":"waiting"}`); status != http.StatusOK {
		t.Errorf("acknowledge an alarm: got %d %s", status, body)
	}
	if _, body := w.ask("GET", "/v1/alarms", "", ""); !strings.Contains(body, `"acknowledged":true`) || !strings.Contains(body, `"tenaq alarms ack waiting"`) {
		t.Errorf("got %s, want the alarm acknowledged", body)
	}
	for body, want := range map[string]string{
		`{"alarm":"waiting","note":"two\nlines"}`:                       "one line of text",
		`{"alarm":"waiting","note":"` + strings.Repeat("x", 501) + `"}`: "501 bytes, and at most 500",
		`{"alarm":"waiting","note":"Ann asks the bank","end":true}`:     "leave out end or note",
	} {
		if status, answer := w.ask("POST", "/v1/alarms/acknowledge", asJSON, body); status != 400 || !strings.Contains(answer, want) {
			t.Errorf("%.60s: got %d %s, want 400 and %s", body, status, answer, want)
		}
	}
	if status, body := w.ask("POST", "/v1/alarms/acknowledge", asJSON, `{"alarm":"waiting","note":"Ann asks the bank"}`); status != http.StatusOK {
		t.Errorf("acknowledge an alarm with a note: got %d %s", status, body)
	}
	if _, body := w.ask("GET", "/v1/alarms", "", ""); !strings.Contains(body, `"acknowledgement":{"note":"Ann asks the bank","by":"unsigned","at":"20`) {
		t.Errorf("got %s, want the note", body)
	}
	if _, body := w.ask("GET", "/v1/actions", "", ""); !strings.Contains(body, `"text":"Ann asks the bank"`) || strings.Contains(body, "lines") {
		t.Errorf("got %s, want an entry with the note", body)
	}
	if status, body := w.ask("POST", "/v1/alarms/acknowledge", asJSON, `{"alarm":"waiting","end":true}`); status != http.StatusOK {
		t.Errorf("end the acknowledgement: got %d %s", status, body)
	}
	if _, body := w.ask("GET", "/v1/alarms", "", ""); strings.Contains(body, "acknowledged") {
		t.Errorf("got %s, want the alarm not acknowledged", body)
	}
	if _, body := w.ask("GET", "/v1/actions", "", ""); !strings.Contains(body, `"text":"ended"`) {
		t.Errorf("got %s, want an entry that says that the acknowledgement ended", body)
	}
	if status, body := w.ask("GET", "/v1/alarms/history", "", ""); status != 200 || !strings.Contains(body, `"state":"ALARM","reason":"because"`) {
		t.Errorf("got %s, want the change", body)
	}
	w.cfg.Monitor = nil
	if status, _ := w.ask("GET", "/v1/alarms", "", ""); status != http.StatusNotFound {
		t.Errorf("without a monitor: got %d, want 404", status)
	}
}
