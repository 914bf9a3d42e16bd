package main

import (
	"bytes"
	"context"
	"crypto/md5"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tenaq/internal/pgtest"
	"tenaq/outbox"
	"tenaq/outbox/outboxtest"
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
	cmds := map[string]scriptCmd{"serve": serve, "halt": halt, "crash": crash, "capture": capture}
	for name, cmd := range scriptCmds {
		cmds[name] = cmd
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/outbox",
		Cmds:                cmds,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[running{}] = &running{}
			env.Vars = append(env.Vars, "TENAQ_OUTBOX="+address(env))
			return setup(env)
		},
	})
}

// Once a minute there is a line, if there is anything to say.
func TestOutboxSummaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := newOutboxLog(slog.New(slog.NewTextHandler(&text, nil)))
		ticks := make(chan time.Time)
		go l.summaries(t.Context(), ticks)
		want := func(count int, last string) {
			t.Helper()
			ticks <- time.Time{}
			synctest.Wait()
			if got := text.String(); strings.Count(got, "msg=relayed") != count || !strings.HasSuffix(got, last) {
				t.Errorf("got %q, want %d summaries and %q at the end", got, count, last)
			}
		}
		e := l.events()
		want(0, "")
		e.Sent(outbox.Row{}, "m1")
		e.Sent(outbox.Row{}, "m2")
		e.Failed(outbox.Row{}, "no", time.Second)
		e.Parked(outbox.Row{}, "no")
		want(1, "sent=2 refused=1 parked=1 lost=0\n")
		want(1, "sent=2 refused=1 parked=1 lost=0\n")
		e.Lost(outbox.Row{})
		want(2, "sent=0 refused=0 parked=0 lost=1\n")
		l.stopped()
		if want := "msg=stopped sent=2 refused=1 parked=1 lost=1\n"; !strings.HasSuffix(text.String(), want) {
			t.Errorf("got %q, want %q at the end", text.String(), want)
		}
	})
}

// A relay that is told to stop lets the request end that is under way, and writes down what came of it.
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
	wantExecute(t, exitOK, "made an outbox", "outbox", "init", "--create")
	wantExecute(t, exitOK, "", "outbox", "enqueue", "hello", "--to", "orders")

	ctx, stop := context.WithCancel(t.Context())
	code := make(chan int)
	var log bytes.Buffer
	go func() {
		a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &log}
		code <- a.run(ctx, []string{"outbox", "relay"})
	}()
	<-arrived
	stop()
	goOn <- true
	if got := <-code; got != exitOK || !strings.Contains(log.String(), "msg=stopped sent=1 ") {
		t.Errorf("exit code %d, want %d and one row sent in:\n%s", got, exitOK, &log)
	}
	wantExecute(t, exitOK, `"pending": 0`, "outbox", "status", "--json")
}

// Who runs a relay from cron hears of a database that does not answer, and does not wait for it.
func TestOutboxEndWithoutDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := outboxtest.NewMemory()
		box.SetFault(func(call string) error {
			if call == "Claim" {
				return outboxtest.ErrInjected
			}
			return nil
		})
		running, stop := context.WithCancel(t.Context())
		defer stop()
		end := newOutboxEnd(box, false, stop)
		relay, err := outbox.NewRelay(outbox.Config{
			Box: end, Client: relayClient{}, Logger: slog.New(slog.DiscardHandler), Events: end.events(newOutboxLog(slog.New(slog.DiscardHandler)).events()),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := relay.Run(running); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		place, err := newSQLiteOutbox("app.db")
		if err != nil {
			t.Fatal(err)
		}
		err = end.verdict(t.Context(), &app{stdout: &out, json: true}, place)
		if exitCode(err) != exitFailed || !strings.Contains(err.Error(), "the outbox cannot be asked what is left") || !strings.Contains(out.String(), `"left": null`) {
			t.Errorf("got %v with exit code %d, and %s; want %d, with nobody knowing what is left", err, exitCode(err), &out, exitFailed)
		}
	})
}
