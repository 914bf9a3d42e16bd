//go:build unix

package claims_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/records"
)

// processStore says where the store is on which the test binary is to be a holder, instead of
// running tests.
const processStore = "CLAIMS_TEST_HOLDER"

const processLease = time.Second

func TestMain(m *testing.M) {
	if where := os.Getenv(processStore); where != "" {
		if err := holder(where); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A report is what a holder says about what it did.
type report struct {
	Fence    uint64
	Accepted int64             // effects so far
	Refused  int64             // effects that the fenced row refused
	Cause    string            // why the context of Hold ended
	Writes   map[string]string // errors of its writes to the ledger
}

func openLedger(where string) (records.Store, *claims.Ledger, error) {
	store, err := openStore(where)
	if err != nil {
		return nil, nil, err
	}
	l, err := claims.New(claims.Config{Store: store, Lease: processLease})
	return store, l, err
}

// holder claims a key, holds it, and has effects all the time, whatever becomes of its context: it
// is the kind of worker that does not look. When it reads a line it tries to end the claim, in
// every way.
func holder(where string) error {
	ctx := context.Background()
	store, l, err := openLedger(where)
	if err != nil {
		return err
	}
	c, err := l.Acquire(ctx, "k")
	if err != nil {
		return err
	}
	held, stop := c.Hold(ctx)
	defer stop()
	var accepted, refused atomic.Int64
	go func() {
		for {
			switch ok, err := effect(ctx, store, c.Fence(), "first"); {
			case err == nil && ok:
				accepted.Add(1)
			case err == nil:
				refused.Add(1)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	for accepted.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(report{Fence: c.Fence(), Accepted: accepted.Load()}); err != nil {
		return err
	}
	bufio.NewScanner(os.Stdin).Scan()
	r := report{Fence: c.Fence(), Writes: map[string]string{
		"renew":    fmt.Sprint(c.Renew(ctx)),
		"complete": fmt.Sprint(c.Complete(ctx, []byte("first"))),
		"fail":     fmt.Sprint(c.Fail(ctx, "first")),
		"exhaust":  fmt.Sprint(c.Exhaust(ctx, "first")),
		"release":  fmt.Sprint(c.Release(ctx)),
	}}
	select {
	case <-held.Done():
		r.Cause = fmt.Sprint(context.Cause(held))
	case <-time.After(time.Minute):
	}
	for limit := time.Now().Add(time.Minute); refused.Load() == 0 && time.Now().Before(limit); {
		time.Sleep(time.Millisecond)
	}
	r.Accepted, r.Refused = accepted.Load(), refused.Load()
	return out.Encode(r)
}

// effect writes to a row that remembers the largest fence it has seen, and refuses smaller ones.
func effect(ctx context.Context, store records.Store, fence uint64, who string) (accepted bool, err error) {
	r, err := store.Get(ctx, "effect")
	if err != nil && !errors.Is(err, records.ErrNotFound) {
		return false, err
	}
	for {
		var largest uint64
		_, _ = fmt.Sscan(string(r.Value), &largest)
		if fence < largest {
			return false, nil
		}
		_, err := store.Put(ctx, records.Write{Key: "effect", Value: fmt.Appendf(nil, "%d %s", fence, who), If: r.Version})
		var conflict *records.Conflict
		if !errors.As(err, &conflict) {
			return err == nil, err
		}
		r = conflict.Current
	}
}

// A process is a holder in another process.
type process struct {
	*exec.Cmd
	out  *json.Decoder
	line func()
}

func startHolder(t *testing.T, where string) (*process, report) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), processStore+"="+where)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p := &process{cmd, json.NewDecoder(out), func() { fmt.Fprintln(in) }}
	return p, p.report(t)
}

func (p *process) report(t *testing.T) (r report) {
	t.Helper()
	must(t, p.out.Decode(&r))
	return r
}

// pause stops the process, but not during a write: it would hold the lock of the SQLite file, and
// no process could write.
func (p *process) pause(t *testing.T, store records.Store) {
	t.Helper()
	for {
		must(t, p.Process.Signal(syscall.SIGSTOP))
		p.awaitStop(t)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := store.Put(ctx, records.Write{Key: "probe", TTL: time.Hour, If: probed(ctx, store)})
		cancel()
		if err == nil {
			return
		}
		must(t, p.Process.Signal(syscall.SIGCONT))
		time.Sleep(7 * time.Millisecond)
	}
}

// awaitStop waits until all threads of the process have stopped, which on a busy machine may be
// long after the signal.
func (p *process) awaitStop(t *testing.T) {
	t.Helper()
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err == nil && status.Stopped() {
			return
		}
		if !errors.Is(err, syscall.EINTR) {
			t.Fatalf("wait for the process to stop: %v, status %v", err, status)
		}
	}
}

func probed(ctx context.Context, store records.Store) records.Version {
	r, _ := store.Get(ctx, "probe")
	return r.Version
}

// await acquires a key as soon as it is given free.
func await(t *testing.T, l *claims.Ledger, key string) *claims.Claim {
	t.Helper()
	for {
		c, err := l.Acquire(t.Context(), key)
		busy, ok := errors.AsType[*claims.Refused](err)
		if !ok || busy.Why != claims.Busy {
			must(t, err)
			return c
		}
		time.Sleep(busy.RetryIn)
	}
}

// busy reports whether a key is refused because it has a holder.
func busy(t *testing.T, l *claims.Ledger, key string) bool {
	t.Helper()
	_, err := l.Acquire(t.Context(), key)
	r, ok := errors.AsType[*claims.Refused](err)
	return ok && r.Why == claims.Busy
}

// tries repeats a story that is spoiled when the machine pauses for longer than a lease. A ledger
// that does not keep its leases spoils all of them.
func tries(t *testing.T, story func() (spoiled string)) {
	t.Helper()
	for range 5 {
		spoiled := story()
		if spoiled == "" {
			return
		}
		t.Logf("begins again, because %s", spoiled)
	}
	t.Error("each of five stories was spoiled")
}

// A holder that is stopped for longer than its lease, and continues as if nothing had happened,
// changes nothing any more: neither the ledger nor what checks fences.
func TestZombieProcess(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			tries(t, func() string { return zombieProcess(t, b.make(t)) })
		})
	}
}

func zombieProcess(t *testing.T, where string) (spoiled string) {
	ctx := t.Context()
	zombie, first := startHolder(t, where)
	store, l, err := openLedger(where)
	must(t, err)
	defer store.Close()
	if !busy(t, l, "k") {
		return "the key of a new holder is free"
	}
	time.Sleep(2 * processLease)
	if !busy(t, l, "k") {
		return "the key of a holder that lives and renews is free"
	}

	zombie.pause(t, store)
	stopped := time.Now()
	c := await(t, l, "k")
	t.Logf("took over %v after the holder was stopped, lease %v", time.Since(stopped).Round(time.Millisecond), processLease)
	if c.Fence() <= first.Fence || c.TakenOver() == nil || c.TakenOver().Fence != first.Fence {
		t.Errorf("fence %d after %d, taken over from %+v", c.Fence(), first.Fence, c.TakenOver())
	}
	if ok, err := effect(ctx, store, c.Fence(), "second"); !ok || err != nil {
		t.Fatalf("the effect of the second: accepted %t, error %v", ok, err)
	}
	must(t, c.Complete(ctx, []byte("second")))
	entry, err := l.Entry(ctx, "k")
	must(t, err)
	row, err := store.Get(ctx, "effect")
	must(t, err)

	must(t, zombie.Process.Signal(syscall.SIGCONT))
	zombie.line()
	last := zombie.report(t)
	for write, got := range last.Writes {
		if !strings.Contains(got, claims.ErrLost.Error()) {
			t.Errorf("%s by the zombie: %s, want ErrLost", write, got)
		}
	}
	if len(last.Writes) != 5 || last.Refused == 0 || last.Cause != claims.ErrLost.Error() {
		t.Errorf("the zombie reports %+v, want refused effects and a context that ended by ErrLost", last)
	}
	t.Logf("the zombie had %d effects before and %d refused after", last.Accepted, last.Refused)
	if now, err := l.Entry(ctx, "k"); err != nil || now.Version != entry.Version || string(now.Result) != "second" {
		t.Errorf("the entry is %+v (error %v), was %+v", now, err, entry)
	}
	if now, err := store.Get(ctx, "effect"); err != nil || now.Version != row.Version {
		t.Errorf("the row is %q (error %v), was %q", now.Value, err, row.Value)
	}
	return ""
}

// The key of a holder that was killed can be claimed again within its lease and a second, if the
// store has a clock.
func TestKilledProcess(t *testing.T) {
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for _, b := range backends {
		if b.name == "dynamodb" {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			for round := range rounds {
				after := time.Duration(round+1) * 370 * time.Millisecond // somewhere between two renewals
				tries(t, func() string { return killedProcess(t, b.make(t), after) })
			}
		})
	}
}

func killedProcess(t *testing.T, where string, after time.Duration) (spoiled string) {
	p, first := startHolder(t, where)
	store, l, err := openLedger(where)
	must(t, err)
	defer store.Close()
	time.Sleep(after)
	if !busy(t, l, "k") {
		return "the key of a holder that lives is free"
	}
	must(t, p.Process.Kill())
	killed := time.Now()
	c := await(t, l, "k")
	took := time.Since(killed)
	t.Logf("took over %v after the holder was killed, lease %v", took.Round(time.Millisecond), processLease)
	if c.Fence() <= first.Fence {
		t.Errorf("fence %d after %d", c.Fence(), first.Fence)
	}
	must(t, c.Complete(t.Context(), nil))
	if took > processLease+time.Second {
		return fmt.Sprintf("it took %v to take over, want at most %v", took, processLease+time.Second)
	}
	return ""
}
