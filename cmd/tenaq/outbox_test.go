package main

import (
	"bytes"
	"context"
	"crypto/md5"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tenaq/internal/cli"
	"tenaq/internal/testing/pgtest"
)

// TestOutboxScripts runs the scripts of tenaq outbox against the real server, with each database.
func TestOutboxScripts(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		runOutboxScripts(t, func(env *testscript.Env) string { return "sqlite:" + filepath.Join(env.WorkDir, "app.db") })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		address := pgtest.URL(t)
		runOutboxScripts(t, func(env *testscript.Env) string {
			return withTable(t, address, strings.ReplaceAll(filepath.Base(env.WorkDir), "-", "_"))
		})
	})
}

func runOutboxScripts(t *testing.T, address func(*testscript.Env) string) {
	runScripts(t, "testdata/outbox", func(env *testscript.Env) error {
		env.Vars = append(env.Vars, "TENAQ_OUTBOX="+address(env))
		return nil
	})
}

// A relay that is stopped lets the request in progress finish, and records its outcome.
func TestOutboxDrains(t *testing.T) {
	arrived, goOn := make(chan bool), make(chan bool)
	queue := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		if r.Header.Get("X-Amz-Target") == "AmazonSQS.GetQueueUrl" {
			fmt.Fprintf(w, `{"QueueUrl": "http://%s/000000000000/orders"}`, r.Host)
			return
		}
		if r.Header.Get("X-Amz-Target") != "AmazonSQS.SendMessageBatch" {
			http.NotFound(w, r) // it is told metrics as well
			return
		}
		arrived <- true
		<-goOn
		fmt.Fprintf(w, `{"Successful": [{"Id": "0", "MessageId": "m1", "MD5OfMessageBody": "%x"}]}`, md5.Sum([]byte("hello")))
	}))
	defer queue.Close()
	t.Setenv("TENAQ_ENDPOINT_URL", queue.URL)
	t.Setenv("TENAQ_OUTBOX", "sqlite:"+filepath.Join(t.TempDir(), "app.db"))
	wantExecute(t, cli.ExitOK, "created the outbox", "outbox", "init", "--create")
	wantExecute(t, cli.ExitOK, "", "outbox", "enqueue", "hello", "--to", "orders")

	ctx, stop := context.WithCancel(t.Context())
	code := make(chan int)
	var log bytes.Buffer
	go func() {
		a := &cli.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &log}
		code <- run(a, ctx, []string{"outbox", "relay"})
	}()
	<-arrived
	stop()
	goOn <- true
	if got := <-code; got != cli.ExitOK || !strings.Contains(log.String(), "msg=stopped sent=1 ") {
		t.Errorf("exit code %d, want %d and one row sent in:\n%s", got, cli.ExitOK, &log)
	}
	wantExecute(t, cli.ExitOK, `"pending": 0`, "outbox", "status", "--json")
}
