package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestPipeScripts runs the scripts of tenaq pipe against the real server.
func TestPipeScripts(t *testing.T) {
	cmds := map[string]scriptCmd{"serve": startServer, "halt": halt, "crash": crash, "capture": capture, "endpoint": serveEndpoint}
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

// serveEndpoint starts an HTTP server that does what the bodies of messages say, writes what it is
// asked to the file requests, and sets ENDPOINT to its URL. Its path /lambda is a function that
// fails the message bad once.
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
