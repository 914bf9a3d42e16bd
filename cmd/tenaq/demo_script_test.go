package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/demo/order"
	"tenaq/internal/demo/outbox"
	"tenaq/internal/testing/dynamotest"
	"tenaq/internal/testing/pgtest"
)

// Whatever is left out, the checks that are about it fail with certainty, and the others hold. The runs are at the same
// time, because they mostly wait; how fast they are makes no difference.
func TestOrderBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	t.Parallel()
	program, err := exec.LookPath("tenaq") // which TestMain has made
	if err != nil {
		t.Fatal(err)
	}
	var runs sync.WaitGroup
	for name, rows := range map[order.Breakage][]string{
		order.Fences: { // the table takes the row of a worker that was stopped and has lost its claim
			`writes of those, refused by the fence +>= 1 +0 +NO`,
			`cards charged twice +0 +0 +yes`,
		},
		order.Heartbeats: { // a second worker begins while the first is at work, and neither knows
			`handlers that went on beside another one +0 +[1-9][0-9]* +NO`,
			`order rows +30 +30 +yes`,
		},
		order.Claims: { // nothing turns a second delivery away, and there is no fence to refuse anything
			`handlers that went on beside another one +0 +[1-9][0-9]* +NO`,
			`writes of those, refused by the fence +>= 1 +0 +NO`,
			`orders that the ledger knows to be done +30 +0 +NO`,
		},
		order.Keys: { // whoever takes over from a worker that was killed charges again, claim or not
			`  cards charged twice +0 +[1-9][0-9]* +NO`,
			`killed until dead-lettered, then redriven: charges +1 +[2-9] +NO`,
			`handlers that went on beside another one +0 +0 +yes`,
		},
	} {
		runs.Go(func() {
			out, err := exec.CommandContext(t.Context(), program, "demo", "order", "--seed", "7", "--break", string(name)).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != cli.ExitFailed {
				t.Errorf("--break %s: got error %v, want exit code %d", name, err, cli.ExitFailed)
			}
			for _, row := range rows {
				if !regexp.MustCompile("(?m)" + row + "$").Match(out) {
					t.Errorf("--break %s: no row %q in\n%s", name, row, out)
				}
			}
		})
	}
	runs.Wait()
}

// The orders need nothing of the server that another SQS has not. moto stands for the others.
func TestOrderOnAnotherSQS(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	t.Parallel()
	endpoint := startMoto(t)
	program, err := exec.LookPath("tenaq") // which TestMain has made
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "demo", "order", "--seed", "7", "--endpoint-url", endpoint).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// startMoto starts a moto of the test's own, as it comes: the one of dynamotest carries out one request at a time, so
// that a long poll of one worker would keep the others from renewing their leases.
func startMoto(t *testing.T) (endpoint string) {
	t.Helper()
	dir := os.Getenv("TENAQ_EMULATOR_DIR")
	if cache, err := os.UserCacheDir(); dir == "" && err == nil {
		dir = filepath.Join(cache, "tenaq", "emulators")
	}
	program := filepath.Join(dir, "moto", "bin", "moto_server")
	if _, err := os.Stat(program); err != nil {
		const missing = "no moto here: apt-get install python3-venv, and make emulators"
		if os.Getenv("TENAQ_REQUIRE_ALL") == "1" {
			t.Fatal(missing)
		}
		t.Skip("SKIPPED: " + missing)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	var log bytes.Buffer
	cmd := exec.Command(program, "-H", "127.0.0.1", "-p", port)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	endpoint = "http://127.0.0.1:" + port
	for {
		if resp, err := http.Get(endpoint); err == nil {
			resp.Body.Close()
			return endpoint
		}
		select {
		case <-ended:
			t.Fatalf("moto has ended:\n%s", &log)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Whatever is left out, the checks that are about it fail with certainty, and the others hold.
func TestOutboxBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	t.Parallel()
	program, err := exec.LookPath("tenaq") // which TestMain has made
	if err != nil {
		t.Fatal(err)
	}
	var runs sync.WaitGroup
	for name, rows := range map[outbox.Breakage][]string{
		outbox.Leases: { // both relays send, and the workers' ledger is what keeps jobs from being done twice
			`messages sent again for no such reason +0 +[1-9][0-9]* +NO`,
			`messages sent again that the FIFO queue took +0 +0 +yes`,
			`jobs that the ledger knows to be done +56 +56 +yes`,
			`jobs transcoded once more, and not twice +14 +14 +yes`,
		},
		outbox.Generations: { // it is the usual replay
			`rows that they wrote with a new generation +14 +0 +NO`,
			`jobs transcoded once more, and not twice +14 +0 +NO`,
			`files of those days that are wrong now +0 +14 +NO`,
			`messages sent again for no such reason +0 +0 +yes`,
			`jobs done whose messages had been lost +4 +4 +yes`,
		},
	} {
		runs.Go(func() {
			out, err := exec.CommandContext(t.Context(), program, "demo", "outbox", "--seed", "7", "--break", string(name)).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != cli.ExitFailed {
				t.Errorf("--break %s: got error %v, want exit code %d", name, err, cli.ExitFailed)
			}
			for _, row := range rows {
				if !regexp.MustCompile("(?m)" + row + "$").Match(out) {
					t.Errorf("--break %s: no row %q in\n%s", name, row, out)
				}
			}
		})
	}
	runs.Wait()
}

// The outbox needs nothing of the server that another SQS has not, and PostgreSQL does as well as SQLite. moto stands
// for the others.
func TestOutboxElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	for name, flags := range map[string]func(t *testing.T) []string{
		"SQS": func(t *testing.T) []string {
			return []string{"--endpoint-url", *dynamotest.Client(t).Options().BaseEndpoint}
		},
		"PostgreSQL": func(t *testing.T) []string { return []string{"--db", pgtest.URL(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath("tenaq") // which TestMain has made
			if err != nil {
				t.Fatal(err)
			}
			args := append([]string{"demo", "outbox", "--seed", "7"}, flags(t)...)
			if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// The pipeline needs nothing of the server that another SQS has not. moto stands for the others.
func TestPipelineOnAnotherSQS(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	t.Parallel()
	moto, err := url.Parse(*dynamotest.Client(t).Options().BaseEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&patient{moto})
	defer front.Close()
	program, err := exec.LookPath("tenaq") // which TestMain has made
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "demo", "pipeline", "--seed", "7", "--endpoint-url", front.URL).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A patient server stands in front of moto, which carries out one request at a time: it takes long polls apart, so that
// one which waits holds up nobody.
type patient struct{ moto *url.URL }

func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var until time.Time
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ReceiveMessage") {
		var in map[string]any
		if err := json.Unmarshal(body, &in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		seconds, _ := in["WaitTimeSeconds"].(float64)
		until = time.Now().Add(time.Duration(seconds) * time.Second)
		in["WaitTimeSeconds"] = 0
		body, _ = json.Marshal(in)
	}
	for {
		answer := p.carry(r, body)
		if time.Now().After(until) || bytes.Contains(answer.Body.Bytes(), []byte("ReceiptHandle")) || r.Context().Err() != nil {
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
			return
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// carry has moto answer a request.
func (p *patient) carry(r *http.Request, body []byte) *httptest.ResponseRecorder {
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer := httptest.NewRecorder()
	proxy := httputil.NewSingleHostReverseProxy(p.moto)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // clients that are killed go away in the middle
	proxy.ServeHTTP(answer, again)
	return answer
}

// The redriver needs nothing of the server that another SQS has not. moto stands for the others.
func TestRedriveOnAnotherSQS(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	t.Parallel()
	endpoint := *dynamotest.Client(t).Options().BaseEndpoint
	program, err := exec.LookPath("tenaq") // which TestMain has made
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "demo", "redrive", "--seed", "7", "--endpoint-url", endpoint).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
