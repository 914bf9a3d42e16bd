package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/rogpeppe/go-internal/testscript"

	"tenaq/worker"
)

// TestPipeScripts runs the scripts of tenaq pipe against the real server.
func TestPipeScripts(t *testing.T) {
	cmds := map[string]scriptCmd{"serve": serve, "halt": halt, "crash": crash, "capture": capture, "endpoint": serveEndpoint}
	for name, cmd := range scriptCmds {
		cmds[name] = cmd
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/pipe",
		Cmds:                cmds,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[running{}] = &running{}
			env.Vars = append(env.Vars, "TENAQ_RECORDS=sqlite:"+env.WorkDir+"/records.db")
			return setup(env)
		},
	})
}

// serveEndpoint starts an HTTP server that does what the bodies of messages say, writes what it is asked to the file
// requests, and sets ENDPOINT to its URL. Its path /lambda is a function that fails the message bad once.
func serveEndpoint(ts *testscript.TestScript, neg bool, args []string) {
	log, err := os.Create(ts.MkAbs("requests"))
	ts.Check(err)
	var mu sync.Mutex
	slow := true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		text, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/lambda" {
			callFunction(w, text, log)
			return
		}
		fmt.Fprintf(log, "%s %s key=%s attempt=%s authorization=%s\n", r.Method, text,
			r.Header.Get("Idempotency-Key"), r.Header.Get("Tenaq-Attempt"), r.Header.Get("Authorization"))
		switch {
		case string(text) == "poison":
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, "that is no order")
		case string(text) == "slow" && slow:
			slow = false
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			fmt.Fprintf(w, "charged for %s", text)
		}
	}))
	ts.Setenv("ENDPOINT", s.URL)
	ts.Defer(func() {
		s.Close()
		log.Close()
	})
}

func callFunction(w http.ResponseWriter, text []byte, log io.Writer) {
	var event struct {
		Records []struct {
			MessageID, Body, EventSourceARN string
			Tenaq                           struct{ Attempt int }
		}
	}
	if err := json.Unmarshal(text, &event); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	failures := []map[string]string{}
	for _, r := range event.Records {
		fmt.Fprintf(log, "%s attempt=%d batch=%d from %s\n", r.Body, r.Tenaq.Attempt, len(event.Records), r.EventSourceARN)
		if r.Body == "bad" && r.Tenaq.Attempt == 1 {
			failures = append(failures, map[string]string{"itemIdentifier": r.MessageID})
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"batchItemFailures": failures})
}

func TestPipeKey(t *testing.T) {
	attributes := map[string]types.MessageAttributeValue{
		"order": {DataType: aws.String("String"), StringValue: aws.String("17")},
		"blob":  {DataType: aws.String("Binary"), BinaryValue: []byte{1}},
	}
	for _, test := range []struct{ where, body, want, bad string }{
		{"body.id", `{"id": "a"}`, "a", ""},
		{"body.order.id", `{"order": {"id": 17}}`, "17", ""},
		{"body.id", `{"id": 12345678901234567890}`, "12345678901234567890", ""},
		{"body.0.id", `[{"id": "a"}]`, "a", ""},
		{"body.items.1", `{"items": ["a", "b"]}`, "b", ""},
		{"attribute:order", ``, "17", ""},
		{"body.id", `{"id": 1.0}`, "", "neither a text nor a whole number"},
		{"body.id", `{"id": 1e3}`, "", "neither a text nor a whole number"},
		{"body.id", `{"id": true}`, "", "neither"},
		{"body.id", `{"id": null}`, "", "neither"},
		{"body.id", `{"id": ["a"]}`, "", "neither"},
		{"body.id", `{"id": ""}`, "", "it is empty"},
		{"body.id", `{}`, "", `no key at body.id: there is no "id"`},
		{"body.id.x", `{"id": "a"}`, "", `there is no "x"`},
		{"body.2", `["a", "b"]`, "", `there is no "2"`},
		{"body.-1", `["a", "b"]`, "", `there is no "-1"`},
		{"body.id", `id`, "", "the body is no JSON"},
		{"body.id", `{"id": "a"} {"id": "b"}`, "", "more than one"},
		{"attribute:trace", ``, "", `no attribute "trace"`},
		{"attribute:blob", ``, "", "is no text"},
	} {
		key, err := parseKey(test.where)
		if err != nil {
			t.Errorf("%s: %v", test.where, err)
			continue
		}
		got, err := key(&worker.Message{Body: test.body, Attributes: attributes})
		if got != test.want || (err == nil) != (test.bad == "") || err != nil && !strings.Contains(err.Error(), test.bad) {
			t.Errorf("%s of %s: got %q, %v, want %q, %q", test.where, test.body, got, err, test.want, test.bad)
		}
	}
	for _, where := range []string{"body", "body.", "body..id", "id", ".id", "attribute:", "attribute", "group"} {
		if _, err := parseKey(where); exitCode(err) != exitUsage {
			t.Errorf("%s: got %v, want it refused", where, err)
		}
	}
}
