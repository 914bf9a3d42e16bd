package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/internal/testing/audit"
	"tenaq/internal/testing/audit/load"
	"tenaq/internal/testing/proof"
)

// clientEnv names the variable that makes the test binary a client process.
const clientEnv = "TENAQ_CRASH_CLIENT"

// A clientSpec is the task of a client process: to load one queue, which is its own, until its
// standard input ends; then to drain it and to judge what it saw. The counts of its report are one
// line of JSON on standard output, and what is wrong is on standard error.
type clientSpec struct {
	Endpoint, QueueURL string
	Seed               uint64
	Grace              time.Duration
	Groups             int
	DeadLetter         load.DeadLetter
	Least              int    // orders that are acknowledged before it ends, however soon it is told to
	History            string // the file for the history of a bad run
}

// least is how many orders a client has acknowledged at the end, although it may have begun late.
const least = 50

// clientMax bounds how long a client continues after it was told to stop, so that none outlives its
// server for long.
const clientMax = 3 * time.Minute

// becomeClient does not return when the process was started to be a client.
func becomeClient() {
	text := os.Getenv(clientEnv)
	if text == "" {
		return
	}
	var spec clientSpec
	err := json.Unmarshal([]byte(text), &spec)
	if err == nil {
		err = spec.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (c clientSpec) run() error {
	cfg := loadConfig(c.Endpoint, c.QueueURL, c.Seed, c.Grace)
	cfg.Producers, cfg.Workers, cfg.Groups, cfg.DeadLetter = 3, 8, c.Groups, c.DeadLetter
	if c.DeadLetter.URL != "" {
		cfg.Canaries = 250
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	told := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // however it ends, the parent is gone
		close(told)
		time.AfterFunc(clientMax, func() { cancel(fmt.Errorf("not done %v after it was told to stop", clientMax)) })
	}()
	l := load.New(cfg)
	err := l.Run(ctx, func(ctx context.Context) error {
		select {
		case <-told:
		case <-ctx.Done():
		}
		for l.Progress().Acknowledged < c.Least && ctx.Err() == nil {
			wait(ctx, 20*time.Millisecond)
		}
		return nil
	})
	if err != nil {
		return err
	}
	report := audit.Check(l.History(), audit.Options{})
	wrong := report.Violations
	report.Violations = nil
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return err
	}
	left, err := l.Left(ctx)
	switch {
	case len(wrong) > 0:
		said := make(map[audit.Rule]int)
		for _, v := range wrong {
			if said[v.Rule]++; said[v.Rule] <= 5 { // some of each kind
				fmt.Fprintln(os.Stderr, v)
			}
		}
		return fmt.Errorf("%d violations in all; %s", len(wrong), writeHistory(c.History, l.History()))
	case err != nil:
		return err
	case left != 0:
		return fmt.Errorf("got %d messages left in queues that are drained, want 0", left)
	}
	return nil
}

// A client is a client process.
type client struct {
	name           string
	cmd            *exec.Cmd
	stop           io.Closer // its standard input
	stdout, stderr bytes.Buffer
	early          bool // it is there since the beginning
}

// startClient starts a client process, on a queue that it creates: a kind is standard, FIFO, or
// dead letters.
func (r *rig) startClient(kind, name string, seed uint64, grace time.Duration) *client {
	r.t.Helper()
	c := &client{name: name}
	spec := clientSpec{Endpoint: r.URL(), Seed: seed, Grace: grace, Least: least, History: filepath.Join(r.dir, name+".json")}
	switch kind {
	case "FIFO":
		spec.QueueURL, _ = r.queue(name+".fifo", map[string]string{"FifoQueue": "true"})
		spec.Groups = 12
	case "dead letters":
		spec.QueueURL, spec.DeadLetter = r.pair(name, "", 2)
	default:
		spec.QueueURL, _ = r.queue(name, nil)
	}
	text, err := json.Marshal(spec)
	r.must(err)
	self, err := os.Executable()
	r.must(err)
	c.cmd = exec.Command(self)
	c.cmd.Env = append(os.Environ(), clientEnv+"="+string(text))
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	c.stop, err = c.cmd.StdinPipe()
	r.must(err)
	r.must(c.cmd.Start())
	r.t.Cleanup(c.kill)
	return c
}

// kill ends the process as a crash would, if it has not ended.
func (c *client) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // its status is the signal
	}
}

// report tells the process to stop and returns what it says.
func (c *client) report() (report audit.Report, err error) {
	_ = c.stop.Close()
	if err := c.cmd.Wait(); err != nil {
		return report, fmt.Errorf("%w: %s", err, strings.TrimSpace(c.stderr.String()))
	}
	return report, json.Unmarshal(c.stdout.Bytes(), &report)
}

// reports tells all to stop before it waits for one.
func reports(clients []*client) (all []audit.Report, errs []error) {
	for _, c := range clients {
		_ = c.stop.Close()
	}
	for _, c := range clients {
		report, err := c.report()
		all, errs = append(all, report), append(errs, err)
	}
	return all, errs
}

// testProcesses loads one server from several processes. Each has queues of its own and judges them
// alone, since times are by the clock of one process. Now and then one of them is killed, and
// another takes a new queue: what the dead one had asked for must not disturb the others.
func testProcesses(t *testing.T, grace time.Duration) {
	seed := proof.Seed(t)
	r := newRig(t, grace)
	kinds := []string{"standard", "FIFO", "dead letters"}
	var clients []*client
	for i, kind := range kinds {
		c := r.startClient(kind, fmt.Sprint("orders-", i), seed+uint64(i), grace)
		c.early = true
		clients = append(clients, c)
	}
	n, dead := (kills()+3)/4, 0
	r.must(r.disturb(t.Context(), seed, n, func(rng *rand.Rand, kills int) {
		due := dead == 0 && 2*kills >= n // one at least
		if !due && rng.IntN(8) > 0 {
			return
		}
		i := rng.IntN(len(kinds))
		clients[i].kill()
		dead++
		next := len(kinds) + dead - 1
		clients[i] = r.startClient(kinds[i], fmt.Sprint("orders-", next), seed+uint64(next), grace)
	}))
	t.Logf("%d client processes killed", dead)
	all, errs := reports(clients)
	repeated := 0
	for i, c := range clients {
		if errs[i] != nil {
			t.Errorf("%s, %s: %v", c.name, kinds[i], errs[i])
			continue
		}
		got := all[i]
		t.Logf("%s, %s: %d orders acknowledged, %d deliveries, %d of them repeated, %d dead letters, %d behind others of their group",
			c.name, kinds[i], got.Acknowledged, got.Deliveries, got.Repeated, got.DeadLettered, got.Ordered)
		want := least
		if c.early {
			want = max(want, 10*n)
		}
		if got.Acknowledged < want {
			t.Errorf("%s: got %d orders in %d kills, too few to mean anything", c.name, got.Acknowledged, n)
		}
		repeated += got.Repeated
	}
	if repeated < n && !t.Failed() {
		t.Errorf("got %d repeated deliveries in %d kills, too few to mean anything", repeated, n)
	}
	r.must(r.Stop())
}

// The test of several processes can fail: each of them finds out that the disk went back to an
// earlier state.
func TestRollbackIsNoticedByProcesses(t *testing.T) {
	t.Parallel()
	seed := proof.Seed(t)
	r := newRig(t, time.Second)
	clients := []*client{
		r.startClient("standard", "left", seed, time.Second),
		r.startClient("standard", "right", seed+1, time.Second),
	}
	r.must(r.rollBack(t.Context()))
	_, errs := reports(clients)
	for i, c := range clients {
		said := strings.Split(c.stderr.String(), "\n")
		if errs[i] == nil || c.cmd.ProcessState.ExitCode() != 1 ||
			!slices.ContainsFunc(said, func(line string) bool { return strings.HasPrefix(line, string(audit.Lost)) }) {
			t.Errorf("%s ended with %v, want status 1 and lost messages", c.name, errs[i])
		}
	}
}
