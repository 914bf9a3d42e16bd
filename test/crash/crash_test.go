// Package crash kills a tenaq server again and again while clients use it, and judges what they
// saw.
//
// It runs the real program on the real file system; kill -9 takes away what the process had in
// memory and nothing else. The tests of the store and the broker show, on a file system that
// forgets, that a power cut takes no more.
package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/internal/testing/audit"
	"tenaq/internal/testing/audit/load"
	"tenaq/internal/testing/built"
	"tenaq/internal/testing/proof"
)

func TestMain(m *testing.M) {
	becomeClient()
	flag.Parse()
	parallel := false
	flag.Visit(func(f *flag.Flag) { parallel = parallel || f.Name == "test.parallel" })
	if !parallel {
		// Most of the time is spent waiting, for servers that start and for messages that are
		// hidden.
		_ = flag.Set("test.parallel", "4")
	}
	code := built.Tests(m)
	fmt.Printf("%d kills in all, %d of them during a stop, and %d clean stops\n", all.kills.Load(), all.stopping.Load(), all.stops.Load())
	os.Exit(code)
}

// all counts what was done to all servers.
var all struct{ kills, stopping, stops atomic.Int64 }

// telling is how many kills bring about everything that a load can see, whatever chance does. The
// short form has fewer.
const telling = 5

// kills is how many times TestKill kills the server with a standard queue, and the others half or a
// quarter as often.
func kills() int { return proof.Count(3, 20, 60, 1_000) }

// Every answer stays true, no matter when the server is killed.
// [DUR-1, DUR-2, DUR-8, DUR-9, DUR-10]
func TestKill(t *testing.T) {
	const grace = 10 * time.Second
	t.Run("standard", func(t *testing.T) {
		t.Parallel()
		seed := proof.Seed(t)
		r := newRig(t, grace)
		url, _ := r.queue("orders", nil)
		r.with(seed, url, grace, nil)
		r.killAndAudit(seed, kills())
	})
	// So do delays, and the time for which messages are kept. [DELAY-1, RET-1]
	t.Run("delays", func(t *testing.T) {
		t.Parallel()
		seed := proof.Seed(t)
		r := newRig(t, grace)
		url, _ := r.queue("orders", map[string]string{"MessageRetentionPeriod": "60"})
		r.with(seed, url, grace, func(cfg *load.Config) {
			cfg.Producers, cfg.Workers, cfg.Delays, cfg.Retention = 4, 16, 400, time.Minute
		})
		n := (kills() + 3) / 4
		if report := r.killAndAudit(seed, n); report.Delayed < 3*n {
			t.Errorf("got %d delayed messages in %d kills, too few to mean anything", report.Delayed, n)
		}
	})
	// So do moves to a dead-letter queue and back. [DLQ-34, MOVE-14]
	t.Run("dead letters", func(t *testing.T) {
		t.Parallel()
		seed := proof.Seed(t)
		r := newRig(t, grace)
		url, dead := r.pair("orders", "", 2)
		r.with(seed, url, grace, func(cfg *load.Config) {
			cfg.Producers, cfg.Workers, cfg.Canaries, cfg.DeadLetter = 4, 16, 250, dead
		})
		n := (kills() + 1) / 2
		report := r.killAndAudit(seed, n)
		if n >= telling && min(report.DeadLettered, report.Moved) < n/2 {
			t.Errorf("got too little in %d kills to mean anything", n)
		}
	})
	// So do the order of message groups and what is known of deduplication IDs.
	// [FIFO-16, FIFO-17, DEDUP-12]
	t.Run("FIFO", func(t *testing.T) {
		t.Parallel()
		seed := proof.Seed(t)
		r := newRig(t, grace)
		url, dead := r.pair("orders", ".fifo", 2)
		r.with(seed, url, grace, func(cfg *load.Config) {
			cfg.Producers, cfg.Workers, cfg.Canaries, cfg.DeadLetter = 4, 16, 250, dead
			cfg.Groups = 60
		})
		n := (kills() + 1) / 2
		report := r.killAndAudit(seed, n)
		if n >= telling && min(report.Duplicates, report.Ordered, report.DeadLettered, report.Moved) < n/2 {
			t.Errorf("got too little in %d kills to mean anything", n)
		}
	})
	// It is the same when the clients are several processes, some of which die as well.
	t.Run("several processes", func(t *testing.T) {
		t.Parallel()
		testProcesses(t, grace)
	})
}

// killAndAudit kills the server n times while the load continues, stops it in order now and then,
// and judges what the clients saw: what a crash must not lose, a stop must not lose either.
// [DUR-24]
func (r *rig) killAndAudit(seed uint64, n int) *audit.Report {
	r.t.Helper()
	report := r.judge(func(ctx context.Context) error { return r.disturb(ctx, seed, n, nil) })
	if report.Acknowledged < 10*n || report.Repeated < n {
		r.t.Errorf("got %d orders and %d repeated deliveries in %d kills, too few to mean anything", report.Acknowledged, report.Repeated, n)
	}
	return report
}

// judge runs the load while the server is disturbed, judges what the clients saw, and stops the
// server.
func (r *rig) judge(disturb func(context.Context) error) *audit.Report {
	t := r.t
	t.Helper()
	if err := r.load.Run(t.Context(), disturb); err != nil {
		t.Fatal(err)
	}
	report := r.audit()
	for i, v := range report.Violations {
		if i == 20 {
			t.Errorf("and %d more", len(report.Violations)-i)
			break
		}
		t.Error(v)
	}
	got, err := r.load.Left(t.Context())
	r.must(err)
	if got != 0 {
		t.Errorf("got %d messages left in queues that are drained, want 0", got)
	}
	r.must(r.Stop())
	return report
}

// disturb kills the server n times and calls also, if there is one, whenever it is ready again,
// with the kills so far.
func (r *rig) disturb(ctx context.Context, seed uint64, n int, also func(rng *rand.Rand, kills int)) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	var done struct{ kills, early, stops, paused int }
	for done.kills < n {
		r.work(ctx, runTime(rng))
		end := r.end
		if rng.IntN(4) == 0 {
			done.paused++
			if err := r.Pause(); err != nil {
				return err
			}
			wait(ctx, time.Duration(50+rng.IntN(700))*time.Millisecond)
			if rng.IntN(2) == 0 {
				if err := r.Resume(); err != nil {
					return err
				}
				wait(ctx, runTime(rng))
			} else { // it is killed as it stands
				end = func(*rand.Rand) (bool, error) { return false, r.Kill() }
			}
		}
		stopped, err := end(rng)
		switch {
		case err != nil:
			return err
		case stopped:
			done.stops++
		default:
			done.kills++
		}
		if rng.IntN(4) == 0 {
			done.early++
			done.kills++
			if err := r.StartAndKill(time.Duration(rng.IntN(150)) * time.Millisecond); err != nil {
				return err
			}
		}
		if err := r.start(ctx); err != nil {
			return err
		}
		if also != nil {
			also(rng, done.kills)
		}
	}
	r.t.Logf("%d kills, %d of them during a start, %d clean stops, %d pauses", done.kills, done.early, done.stops, done.paused)
	return nil
}

// work lets the load continue for some time, and until it has got something done: a kill of a
// server that did nothing yet proves nothing, and a busy machine takes its time.
func (r *rig) work(ctx context.Context, d time.Duration) {
	if r.load == nil { // the clients are other processes
		wait(ctx, d)
		return
	}
	before, limit := r.load.Progress(), time.Now().Add(time.Minute)
	wait(ctx, d)
	for ctx.Err() == nil && time.Now().Before(limit) {
		now := r.load.Progress()
		if (r.sent || now.Acknowledged-before.Acknowledged >= 12) && now.Received-before.Received >= 12 {
			return
		}
		wait(ctx, 5*time.Millisecond)
	}
}

// end ends a server that works: mostly with a kill, else in order, and sometimes with a kill while
// it is about to stop.
func (r *rig) end(rng *rand.Rand) (stopped bool, err error) {
	switch rng.IntN(10) {
	case 0:
		return true, r.Stop()
	case 1:
		killed, err := r.StopAndKill(time.Duration(rng.IntN(30)) * time.Millisecond)
		return !killed, err
	}
	return false, r.Kill()
}

// The test above can fail: a server whose disk goes back to an earlier state is found out.
func TestRollbackIsNoticed(t *testing.T) {
	t.Parallel()
	seed := proof.Seed(t)
	r := newRig(t, time.Second)
	url, _ := r.queue("orders", nil)
	r.with(seed, url, time.Second, nil)
	if err := r.load.Run(t.Context(), r.rollBack); err != nil {
		t.Fatal(err)
	}
	report := r.audit()
	lost, back := report.Count(audit.Lost), report.Count(audit.Deleted, audit.Counts, audit.InFlight)
	t.Logf("%d lost, %d delivered as they should not be", lost, back)
	if lost == 0 || back == 0 {
		t.Errorf("got %d lost and %d delivered as they should not be, want some of both", lost, back)
	}
}

// rollBack kills the server, and takes its disk back to an earlier state. In between the server
// lives for longer than what was in flight stays hidden, and then hands out more: what the earlier
// state holds too.
func (r *rig) rollBack(ctx context.Context) error {
	earlier := r.t.TempDir()
	r.work(ctx, time.Second)
	if err := r.Kill(); err != nil {
		return err
	}
	if err := os.CopyFS(earlier, os.DirFS(r.DataDir())); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	r.work(ctx, 2500*time.Millisecond)
	r.work(ctx, 500*time.Millisecond)
	if err := r.Kill(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.DataDir()); err != nil {
		return err
	}
	if err := os.CopyFS(r.DataDir(), os.DirFS(earlier)); err != nil {
		return err
	}
	return r.start(ctx)
}

// runTime is how long a server lives: mostly so short that work has barely begun, sometimes longer
// than a visibility timeout.
func runTime(rng *rand.Rand) time.Duration {
	most := 500
	if rng.IntN(4) == 0 {
		most = 1500
	}
	return time.Duration(5+rng.IntN(most)) * time.Millisecond
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
