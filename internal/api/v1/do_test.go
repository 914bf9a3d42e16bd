package v1

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tenaq/internal/door/auth"
)

// What was carried out is answered so, even if its entry in the action log can no longer be
// written: another node would carry it out again, and so would its sender. The log of the server
// has the entry. [TASK-16]
func TestUnloggedAction(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	w.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w.useMonitor(t)
	lose := func() { w.broker.Abandon() } // another node becomes the writer
	w.cfg.SQS = func(context.Context, http.ResponseWriter, *http.Request, auth.Principal, string, []byte) ([]byte, error) {
		lose()
		return []byte(`{"MessageId":"m-1"}`), nil
	}
	for range 2 { // the second time, the broker has stopped
		r := httptest.NewRequest("POST", "http://localhost/v1/do/SendMessage", strings.NewReader(`{"QueueUrl":"orders"}`))
		r.Header.Set("Content-Type", "application/json")
		got := httptest.NewRecorder()
		w.ServeHTTP(got, r)
		if got.Code != 200 || got.Header().Get("Tenaq-Not-Taken") != "" || !strings.Contains(got.Body.String(), "m-1") {
			t.Errorf("the answer is %d %s, with the headers %v", got.Code, got.Body, got.Header())
		}
		if text := log.String(); !strings.Contains(text, "no entry in the action log") || !strings.Contains(text, "action=SendMessage about=orders text=\"message m-1\"") {
			t.Errorf("the log of the server has %s", text)
		}
		log.Reset()
	}
	if status, text := w.ask("POST", "/v1/alarms/silence", "application/json", `{"match":"orders/*","for":"1h"}`); status != 200 {
		t.Errorf("a silence is answered with %d %s", status, text)
	}
	if text := log.String(); !strings.Contains(text, "action=SilenceAlarms about=orders/*") {
		t.Errorf("after a silence the log of the server has %q", text)
	}
}

// The action log names the queue that an action was about, whatever else its sender has written.
// [TASK-16]
func TestAboutDo(t *testing.T) {
	for _, test := range []struct{ action, body, answer, about, text string }{
		{"SendMessage", `{"QueueUrl":"http://x/000000000000/orders","MessageBody":"b"}`, `{"MessageId":"m-1"}`, "orders", "message m-1"},
		{"DeleteQueue", `{"QueueUrl":"victim","QueueName":"innocent"}`, `{}`, "victim", ""},
		{"TagQueue", `{"QueueUrl":"victim","queueurl":"innocent","QUEUEURL":"innocent"}`, `{}`, "victim", ""},
		{"SendMessage", `{"QueueUrl":"victim","queueName":"orders (approved by ann)"}`, `{"messageId":"forged"}`, "victim", ""},
		{"CreateQueue", `{"QueueName":"orders","QueueUrl":"http://x/1/innocent"}`, `{"QueueUrl":"http://x/1/orders"}`, "orders", ""},
	} {
		about, text := aboutDo(test.action, []byte(test.body), []byte(test.answer))
		if about != test.about || text != test.text {
			t.Errorf("%s %s: %q and %q, want %q and %q", test.action, test.body, about, text, test.about, test.text)
		}
	}
}
