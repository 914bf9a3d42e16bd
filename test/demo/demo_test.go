// Package demo runs "tenaq demo" in the ways in which "make demo" does not: with parts left out, on
// other servers, and with a bug in the program.
//
// The program is the one at TENAQ_BINARY, or is built as it is shipped.
package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tenaq/internal/testing/built"
	"tenaq/internal/testing/pgtest"
	"tenaq/internal/testing/proof"
)

// program is what plays the scenarios.
func program(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: it takes half a minute")
	}
	return built.Program(t)
}

func TestMain(m *testing.M) { os.Exit(built.Tests(m)) }

// demo plays one scenario, with a seed that is always the same.
func demo(t *testing.T, p string, args ...string) (output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p, append([]string{"demo", "--seed", "7"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The scenarios, for programs with a bug; without one make demo plays them.
func TestScenario(t *testing.T) {
	if os.Getenv("TENAQ_BINARY") == "" {
		t.Skip("SKIPPED: make demo plays the scenarios; to play them here, name a program in TENAQ_BINARY")
	}
	for _, name := range []string{"crash", "cluster", "pipeline", "order", "redrive", "outbox"} {
		t.Run(name, func(t *testing.T) {
			if out, err := demo(t, program(t), name); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// With --serve there is a server to look at: its console answers, and queues, dead letters of two
// kinds, a locked group, a task and the life of an order are there. Ctrl-C ends it and leaves
// nothing behind.
func TestServe(t *testing.T) {
	tmp := t.TempDir()
	cmd := exec.Command(program(t), "demo", "--serve", "--json")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp,
		"TENAQ_ENDPOINT_URL=http://127.0.0.1:1") // of another server, which gets nothing of the demo
	var log strings.Builder
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	var told struct{ Console, Endpoint string }
	if err := json.NewDecoder(stdout).Decode(&told); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	for address, want := range map[string]string{
		told.Console:                 "<title>",
		told.Endpoint + "/v1/queues": `"invoices.fifo"`,
		told.Endpoint + "/v1/queues/orders-dlq/reasons":          "warehouse: no answer after",
		told.Endpoint + "/v1/queues/orders-dlq/reasons?limit=10": "no such article",
		told.Endpoint + "/v1/queues/invoices.fifo/groups":        `"in_flight"`,
		told.Endpoint + "/v1/queues/orders/history":              `"deleted"`,
		told.Endpoint + "/v1/tasks":                              `"COMPLETED"`,
		told.Endpoint + "/v1/trace?key=order-17":                 `"dead`,
	} {
		resp, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v, want %s in\n%s", address, resp.Status, err, want, body)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, log.String())
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v, want nothing", left, err)
	}
}

// If a part is left out, exactly the checks about it fail, whatever the random choices.
func TestBreaks(t *testing.T) {
	if os.Getenv("TENAQ_EFFORT") != "long" {
		t.Skip("SKIPPED: make mutants runs it, with TENAQ_EFFORT=long")
	}
	p := program(t)
	for _, tt := range []struct {
		scenario, part string
		red            []string
		green          []string // must not fail
	}{
		{"crash", "disk", []string{"delivered after an acknowledged delete|lost|receive counts going backwards"}, nil},
		{"cluster", "disks", []string{"delivered after an acknowledged delete|lost|receive counts going backwards"},
			[]string{"leaders killed"}},
		{"pipeline", "claim",
			[]string{"worker dies between completion and delete", "its redelivery was deleted", "tasks begun for it"},
			[]string{"files written, identical", "left in the queue"}},
		{"order", "claim",
			[]string{"handlers that went on beside another one", "writes of those that the fence refused"}, []string{"order rows"}},
		{"order", "key",
			[]string{"cards charged twice", "killed until dead-lettered, then redriven: charges: [2-9]"},
			[]string{"handlers that went on beside", "orders with two mails"}},
		{"redrive", "breaker",
			[]string{"redriven in the first step", "calls of the sick warehouse", "times it opened"}, []string{"orders booked twice"}},
		{"redrive", "identity", []string{"orders booked twice", "parked: there is no such article"}, nil},
		{"redrive", "delay", []string{"messages redriven sooner than policy allows"}, []string{"orders booked"}},
		{"outbox", "generation",
			[]string{"rows that they wrote with a new generation", "files of those days that are wrong now"},
			[]string{"messages sent again", "and done"}},
		{"outbox", "rate", []string{"pauses between steps"}, []string{"jobs transcoded once more"}},
	} {
		t.Run(tt.scenario+"/"+tt.part, func(t *testing.T) {
			t.Parallel()
			out, err := demo(t, p, tt.scenario, "--break", tt.part)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("got error %v, want exit code 1", err)
			}
			for _, check := range tt.red {
				if !regexp.MustCompile(`(?m)^  ✗ +(` + check + `)`).MatchString(out) {
					t.Errorf("%q has not failed", check)
				}
			}
			for _, check := range tt.green {
				if strings.Contains(out, "✗ "+check) {
					t.Errorf("%q has failed", check)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// The libraries need nothing of the server that another SQS does not have, and PostgreSQL does as
// well as SQLite. moto stands for the others.
func TestElsewhere(t *testing.T) {
	p := program(t)
	for _, scenario := range []string{"pipeline", "order", "redrive", "outbox"} {
		t.Run("moto/"+scenario, func(t *testing.T) {
			t.Parallel()
			if out, err := demo(t, p, scenario, "--endpoint-url", startMoto(t)); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		if out, err := demo(t, p, "outbox", "--db", pgtest.URL(t)); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// startMoto starts a moto of the test's own, as it comes: the one of package mototest carries out
// one request at a time, so that a long poll of one worker would keep the others from renewing
// their leases.
func startMoto(t *testing.T) (endpoint string) {
	t.Helper()
	server := filepath.Join(proof.Installed("moto"), "bin", "moto_server")
	if _, err := os.Stat(server); err != nil {
		proof.Missing(t, "no moto here: apt-get install python3-venv, and make emulators")
	}
	// Nothing else listens on a host that is drawn from all of 127.0.0.0/8.
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	l.Close()
	cmd := exec.Command(server, "-H", host, "-p", port)
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
	for {
		if resp, err := http.Get("http://" + address); err == nil {
			resp.Body.Close()
			return "http://" + address
		}
		select {
		case <-ended:
			t.Fatal("moto has ended")
		case <-time.After(100 * time.Millisecond):
		}
	}
}
