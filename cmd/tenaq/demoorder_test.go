package main

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"tenaq/internal/demo/order"
)

// soundOrders is what a run finds in which everything holds.
func soundOrders() *order.Outcome {
	const all = order.Orders
	o := &order.Outcome{
		Sent: all, Recognised: all, Charges: all, Rows: all, Mails: all, Completed: all,
		Killed: 9, Bereaved: 6, Frozen: 2, Stale: 2, TurnedAway: 4,
		DeadLetters: 3, Redriven: 3, DoomedDead: true, DoomedCharges: 1,
		TakeOvers: []time.Duration{time.Second}, Times: []time.Duration{time.Second}, Long: 2,
	}
	o.Usual.Charges, o.Usual.Doubled = 2*all, all
	return o
}

// Every promise has a row that fails when it is broken.
func TestOrderRowsShowEveryPromise(t *testing.T) {
	failed := func(o *order.Outcome, broken order.Breakage) (n int) {
		for _, row := range orderRows(o, broken) {
			if row.OK == rowFailed {
				n++
			}
		}
		return n
	}
	for _, broken := range []order.Breakage{order.Nothing, order.Fences} {
		if n := failed(soundOrders(), broken); n != 0 {
			t.Errorf("sound run, without %q: got %d rows that fail, want none", broken, n)
		}
	}
	for what, harm := range map[string]func(o *order.Outcome){
		"usual workers did no harm": func(o *order.Outcome) { o.Usual.Doubled = 0 },
		"not sent":                  func(o *order.Outcome) { o.Sent-- },
		"sent again":                func(o *order.Outcome) { o.Recognised-- },
		"not charged":               func(o *order.Outcome) { o.Charges-- },
		"charged twice":             func(o *order.Outcome) { o.Doubled++ },
		"no row":                    func(o *order.Outcome) { o.Rows-- },
		"wrong row":                 func(o *order.Outcome) { o.WrongRows++ },
		"no mail":                   func(o *order.Outcome) { o.Mails-- },
		"two mails":                 func(o *order.Outcome) { o.MailsTwice++ },
		"not completed":             func(o *order.Outcome) { o.Completed-- },
		"left":                      func(o *order.Outcome) { o.Left++ },
		"two at it":                 func(o *order.Outcome) { o.Beside++ },
		"nobody killed":             func(o *order.Outcome) { o.Killed = 2 },
		"no card charged by then":   func(o *order.Outcome) { o.Bereaved = 2 },
		"nobody stopped":            func(o *order.Outcome) { o.Frozen = 0 },
		"nothing refused":           func(o *order.Outcome) { o.Stale = 0 },
		"nothing turned away":       func(o *order.Outcome) { o.TurnedAway = 0 },
		"no dead letters":           func(o *order.Outcome) { o.DeadLetters = 0 },
		"charged after the redrive": func(o *order.Outcome) { o.RedrivenDoubled++ },
		"doomed and charged twice":  func(o *order.Outcome) { o.DoomedCharges = 2 },
		"never doomed":              func(o *order.Outcome) { o.DoomedDead = false },
		"did not end":               func(o *order.Outcome) { o.UncleanEnds++ },
		"late":                      func(o *order.Outcome) { o.TakeOvers = append(o.TakeOvers, time.Minute) },
	} {
		o := soundOrders()
		harm(o)
		if n := failed(o, order.Nothing); n != 1 {
			t.Errorf("%s: got %d rows that fail, want 1", what, n)
		}
	}
}

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
			if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
				t.Errorf("--break %s: got error %v, want exit code %d", name, err, exitFailed)
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
