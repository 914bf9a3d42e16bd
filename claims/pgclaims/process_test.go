//go:build unix

package pgclaims_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/claims"
	"tenaq/claims/pgclaims"
	"tenaq/internal/testing/proof"
	"tenaq/records/pgrecords"
)

// These variables make the test binary a worker: its task, and its database.
const (
	processRole = "PGCLAIMS_TEST_ROLE"
	processURL  = "PGCLAIMS_TEST_URL"
)

const processLease = time.Second

func TestMain(m *testing.M) {
	if role := os.Getenv(processRole); role != "" {
		if err := work(role, os.Getenv(processURL)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func work(role, url string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url+"&application_name=worker")
	if err != nil {
		return err
	}
	store, err := pgrecords.New(pgrecords.Config{Pool: pool})
	if err != nil {
		return err
	}
	l, err := claims.New(claims.Config{Store: store, Lease: processLease})
	if err != nil {
		return err
	}
	if keys, ok := strings.CutPrefix(role, "diligent "); ok {
		return diligent(ctx, pool, l, keys)
	}
	return zombie(ctx, pool, l, role)
}

// diligent works on one key after the other, until it is killed.
func diligent(ctx context.Context, pool *pgxpool.Pool, l *claims.Ledger, keys string) error {
	fmt.Println("{}")
	for i := 0; ; i++ {
		c, err := l.Acquire(ctx, fmt.Sprint(keys, i))
		if err != nil {
			return err
		}
		if err := inTx(ctx, pool, c); err != nil {
			return err
		}
	}
}

// The steps at which a zombie is stopped.
var steps = []string{"before the transaction", "before the completion", "before the commit"}

// A report is what a zombie says about what it did.
type report struct {
	Fence uint64
	Tried map[string]string // errors
}

// zombie claims a key, continues to a step, says so, and waits for a line before it continues with
// everything that a worker may try.
func zombie(ctx context.Context, pool *pgxpool.Pool, l *claims.Ledger, step string) error {
	c, err := l.Acquire(ctx, "k")
	if err != nil {
		return err
	}
	_, stop := c.Hold(ctx)
	defer stop()
	out := json.NewEncoder(os.Stdout)
	reach := func(at string) {
		if at == step {
			_ = out.Encode(report{Fence: c.Fence()})
			bufio.NewScanner(os.Stdin).Scan()
		}
	}
	tried := make(map[string]string)
	try := func(what string, err error) { tried[what] = fmt.Sprint(err) }
	reach(steps[0])
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	result, err := order(ctx, tx, c)
	if err != nil {
		return err
	}
	reach(steps[1])
	completed := pgclaims.Complete(ctx, tx, c, result)
	reach(steps[2])
	if step != steps[2] {
		try("complete in its transaction", completed)
	}
	try("commit", tx.Commit(ctx))
	try("another transaction", inTx(ctx, pool, c))
	try("renew", c.Renew(ctx))
	try("complete", c.Complete(ctx, nil))
	try("fail", c.Fail(ctx, ""))
	return out.Encode(report{Fence: c.Fence(), Tried: tried})
}

// A process is a worker in another process.
type process struct {
	*exec.Cmd
	out  *json.Decoder
	line func()
}

func start(t *testing.T, role, url string) (*process, report) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), processRole+"="+role, processURL+"="+url)
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

// A worker that is stopped for longer than its lease, and then continues as if nothing had
// happened, commits nothing, whichever step it was at.
func TestZombieProcess(t *testing.T) {
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			r := newRig(t)
			l := r.ledger(claims.Config{})
			p, first := start(t, step, r.url)
			must(t, p.Process.Signal(syscall.SIGSTOP))
			stopped := time.Now()
			second := await(t, l, "k")
			t.Logf("took over %v after the worker was stopped, lease %v", time.Since(stopped).Round(time.Millisecond), processLease)
			if second.Fence() <= first.Fence {
				t.Errorf("fence %d after %d", second.Fence(), first.Fence)
			}
			must(t, inTx(t.Context(), r.pool, second))
			r.wantDone("k", second.Fence())

			must(t, p.Process.Signal(syscall.SIGCONT))
			p.line()
			last := p.report(t)
			for what, got := range last.Tried {
				lost := strings.Contains(got, claims.ErrLost.Error())
				if got == "<nil>" || !lost && what != "commit" {
					t.Errorf("%s by the zombie: %s, want ErrLost", what, got)
				}
			}
			if len(last.Tried) < 5 {
				t.Errorf("the zombie tried %v only", last.Tried)
			}
			r.wantDone("k", second.Fence())
		})
	}
}

// Workers that are killed at any moment leave orders behind that are there once and completed, or
// not at all and to be done by others.
func TestKilledProcesses(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	rng := rand.New(rand.NewPCG(proof.Seed(t), 0))
	r := newRig(t)
	for round := range rounds {
		p, _ := start(t, fmt.Sprint("diligent ", round, "/"), r.url)
		time.Sleep(time.Duration(50+rng.IntN(250)) * time.Millisecond)
		must(t, p.Process.Kill())
		_ = p.Wait()
	}
	for n := -1; n != 0; time.Sleep(time.Millisecond) { // until PostgreSQL has heard of it
		must(t, r.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'worker'`).Scan(&n))
	}
	l := r.ledger(claims.Config{})
	total, left := 0, 0
	for round := range rounds {
		for i := 0; ; i++ {
			key := fmt.Sprint(round, "/", i)
			e, err := l.Entry(t.Context(), key)
			if errors.Is(err, claims.ErrNoEntry) {
				break
			}
			must(t, err)
			total++
			if e.State != claims.Completed {
				left++
				c := await(t, l, key)
				if got := r.fences(key); len(got) != 0 {
					t.Errorf("orders of %s under fences %d, and it was not completed", key, got)
				}
				must(t, inTx(t.Context(), r.pool, c))
				e.Fence = c.Fence()
			}
			r.wantDone(key, e.Fence)
		}
	}
	t.Logf("%d workers were killed in the midst of %d orders, %d of which were left to others", rounds, total, left)
	if total < rounds {
		t.Errorf("%d orders by %d workers: they were killed before they began", total, rounds)
	}
}
