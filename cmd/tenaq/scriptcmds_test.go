package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/rogpeppe/go-internal/testscript"

	"tenaq/internal/cli"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/records/sqliterecords"
)

// record writes a record into the file records.db of a script, whatever is there: record KEY VALUE.
// The form of an entry is JSON and public, so scripts need no worker to have one in every state.
func record(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: record KEY VALUE")
	}
	store := openRecords(ts)
	defer store.Close()
	w := records.Write{Key: args[0], Value: []byte(args[1])}
	if r, err := store.Get(context.Background(), w.Key); err == nil {
		w.If = r.Version
	}
	_, err := store.Put(context.Background(), w)
	ts.Check(err)
}

// register sends a message with package producer, with its registration in records.db: register
// QUEUE KEY BODY. With !, no server listens at the queue's address, so the message remains
// registered.
func register(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: [!] register QUEUE KEY BODY")
	}
	store := openRecords(ts)
	defer store.Close()
	url := ts.Getenv("TENAQ_ENDPOINT_URL")
	if neg {
		url = "http://127.0.0.1:1"
	}
	client := sqs.New(sqs.Options{
		BaseEndpoint: &url, Region: cli.DefaultRegion, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider(cli.OpenID, cli.OpenSecret, ""),
	})
	p, err := producer.New(producer.Config{
		Client: client, Store: store,
		QueueURL: url + "/000000000000/" + args[0], Owner: "batch/1", Retention: 15 * 24 * time.Hour,
	})
	ts.Check(err)
	_, err = p.SendOnce(context.Background(), producer.Message{Key: args[1], Body: args[2]})
	if neg == (err == nil) {
		ts.Fatalf("register %s: error %v, want one: %t", args[1], err, neg)
	}
}

func openRecords(ts *testscript.TestScript) records.Store {
	store, err := sqliterecords.New(sqliterecords.Config{Path: ts.MkAbs("records.db")})
	ts.Check(err)
	return store
}

// scrapeMax is how long that is awaited which has to come. A redriver with nothing to do takes a
// step a minute.
const scrapeMax = 4 * time.Minute

// scrape asks for the metrics of a program until they match all of some patterns, and prints them:
// scrape LOG PATTERN..., with the file that has the log of the program, or its URL.
func scrape(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: scrape LOG|URL PATTERN...")
	}
	var missing, body string
	for end := time.Now().Add(scrapeMax); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var err error
		if body, err = metricsOf(ts, args[0]); err != nil {
			missing = err.Error()
			continue
		}
		missing = ""
		for _, pattern := range args[1:] {
			if !regexp.MustCompile(`(?m)` + pattern).MatchString(body) {
				missing = pattern
			}
		}
		if missing == "" {
			fmt.Fprint(ts.Stdout(), body)
			return
		}
	}
	ts.Fatalf("not within %v: %s\n%s", scrapeMax, missing, body)
}

// metricsOf asks once.
func metricsOf(ts *testscript.TestScript, where string) (string, error) {
	url := where + "/metrics"
	if !strings.HasPrefix(where, "http://") {
		log, err := os.ReadFile(ts.MkAbs(where))
		if err != nil {
			return "", err
		}
		found := regexp.MustCompile(`msg="serving metrics" .*url=(http://\S+)`).FindSubmatch(log)
		if found == nil {
			return "", fmt.Errorf("no address in %s", log)
		}
		url = string(found[1])
	}
	res, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return string(body), err
}

// TestPipeScripts runs the scripts of tenaq pipe against the real server.
func TestPipeScripts(t *testing.T) {
	runScripts(t, "testdata/pipe", func(env *testscript.Env) error {
		env.Vars = append(env.Vars, "TENAQ_RECORDS=sqlite:"+env.WorkDir+"/records.db")
		return nil
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
