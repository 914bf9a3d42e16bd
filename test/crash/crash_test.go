// Package crash kills a tenaq server again and again while clients use it, and judges what they saw.
//
// It runs the real program on the real file system; kill -9 takes away what the process had in memory and
// nothing else. That a power cut takes no more is what the tests of the store and the broker show, on a
// file system that forgets.
package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/audit"
	"tenaq/internal/audit/load"
	"tenaq/internal/child"
)

// program builds the program once. TENAQ_BINARY names one that is there already.
var program = sync.OnceValues(func() (string, error) {
	if name := os.Getenv("TENAQ_BINARY"); name != "" {
		return name, nil
	}
	name := filepath.Join(buildDir, "tenaq")
	cmd := exec.Command("go", "build", "-o", name, "tenaq/cmd/tenaq")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return name, nil
})

var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "tenaq-crash-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(buildDir)
	os.Exit(code)
}

// kills is how many times TestKill kills the server with a standard queue, and half as often the others.
// TENAQ_CRASH_KILLS makes it run for longer: 1000 take about 12 minutes, more than go test allows without
// -timeout.
func kills(t *testing.T) int {
	v := os.Getenv("TENAQ_CRASH_KILLS")
	if v == "" {
		if testing.Short() {
			return 3
		}
		return 20
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("TENAQ_CRASH_KILLS is %q, want a number above zero", v)
	}
	return n
}

// newSeed prints the seed of a run before anything else. TENAQ_CRASH_SEED repeats one, as far as processes
// can be made to repeat themselves.
func newSeed(t *testing.T) uint64 {
	seed := rand.Uint64N(1_000_000)
	if v := os.Getenv("TENAQ_CRASH_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("TENAQ_CRASH_SEED is %q, want a number", v)
		}
	}
	t.Logf("seed %d; repeat with TENAQ_CRASH_SEED=%d", seed, seed)
	return seed
}

// A rig is a server with queues, and an account of what its clients saw.
type rig struct {
	*child.Server
	t    *testing.T
	dir  string
	aws  aws.Config
	api  *sqs.Client
	load *load.Load
}

// newRig starts a server that hides what was in flight for at most grace after a crash.
func newRig(t *testing.T, grace time.Duration) *rig {
	name, err := program()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: t.ArtifactDir()}
	if r.Server, err = child.New(child.Config{
		Program: name, Dir: r.dir, Args: []string{"--log-level", "warn", "--visibility-grace", grace.String()},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	r.must(r.start(t.Context()))
	r.aws = aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	r.api = sqs.NewFromConfig(r.aws, func(o *sqs.Options) { o.BaseEndpoint = aws.String(r.URL()) })
	return r
}

// queue creates a queue and returns its URL and ARN.
func (r *rig) queue(name string, attributes map[string]string) (url, arn string) {
	r.t.Helper()
	out, err := r.api.CreateQueue(r.t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	r.must(err)
	return *out.QueueUrl, r.attribute(*out.QueueUrl, types.QueueAttributeNameQueueArn)
}

func (r *rig) attribute(url string, name types.QueueAttributeName) string {
	r.t.Helper()
	out, err := r.api.GetQueueAttributes(r.t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{name},
	})
	r.must(err)
	return out.Attributes[string(name)]
}

// with prepares a load on one queue.
func (r *rig) with(seed uint64, url string, grace time.Duration, change func(*load.Config)) {
	cfg := load.Config{
		AWS: r.aws, Endpoint: r.URL(), QueueURL: url, Seed: seed,
		Body:      func(n int) string { return fmt.Sprintf(`{"order": %d, "of": %d}`, n, seed) },
		Producers: 6, Workers: 24,
		Pause: 20 * time.Millisecond, Work: 5 * time.Millisecond,
		Visibility: time.Second, Grace: grace,
		Overruns: 20, Changes: 40, Canaries: 60,
	}
	if change != nil {
		change(&cfg)
	}
	r.load = load.New(cfg)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) start(ctx context.Context) error {
	_, err := r.Start(ctx)
	return err
}

// audit judges the run, prints what it amounted to, and leaves the history behind when it was a bad one.
func (r *rig) audit() *audit.Report {
	r.t.Helper()
	report := audit.Check(r.load.History(), audit.Options{})
	r.t.Logf("%d orders acknowledged, %d sends unanswered, %d second copies, %d deliveries, %d of them repeated",
		report.Acknowledged, report.Unanswered, report.Copies, report.Deliveries, report.Repeated)
	r.t.Logf("%d duplicates recognised, %d deliveries behind others of their group, %d dead letters, %d moved back",
		report.Duplicates, report.Ordered, report.DeadLettered, report.Moved)
	if len(report.Violations) == 0 {
		return report
	}
	name := filepath.Join(r.dir, "history.json")
	text, err := json.Marshal(r.load.History())
	r.must(err)
	r.must(os.WriteFile(name, text, 0o600))
	r.t.Logf("history in %s; go test -artifacts keeps it, with the data and the log of the server", name)
	return report
}

// What was answered stays so, whenever the server is killed. [DUR-1, DUR-2, DUR-8, DUR-9, DUR-10]
func TestKill(t *testing.T) {
	const grace = 10 * time.Second
	t.Run("standard", func(t *testing.T) {
		t.Parallel()
		seed := newSeed(t)
		r := newRig(t, grace)
		url, _ := r.queue("orders", nil)
		r.with(seed, url, grace, nil)
		r.killAndAudit(seed, kills(t))
	})
	// So do moves to a dead-letter queue and back. [DLQ-34, MOVE-14]
	t.Run("dead letters", func(t *testing.T) {
		t.Parallel()
		seed := newSeed(t)
		r := newRig(t, grace)
		url, dead := r.pair("", 2)
		r.with(seed, url, grace, func(cfg *load.Config) {
			cfg.Producers, cfg.Workers, cfg.Canaries, cfg.DeadLetter = 4, 16, 250, dead
		})
		n := (kills(t) + 1) / 2
		report := r.killAndAudit(seed, n)
		if min(report.DeadLettered, report.Moved) < n/2 {
			t.Errorf("got too little in %d kills to mean anything", n)
		}
	})
	// So do the order of message groups and what is known of deduplication IDs. [FIFO-16, FIFO-17, DEDUP-12]
	t.Run("FIFO", func(t *testing.T) {
		t.Parallel()
		seed := newSeed(t)
		r := newRig(t, grace)
		url, dead := r.pair(".fifo", 2)
		r.with(seed, url, grace, func(cfg *load.Config) {
			cfg.Producers, cfg.Workers, cfg.Canaries, cfg.DeadLetter = 4, 16, 250, dead
			cfg.Groups = 60
		})
		n := (kills(t) + 1) / 2
		report := r.killAndAudit(seed, n)
		if min(report.Duplicates, report.Ordered, report.DeadLettered, report.Moved) < n/2 {
			t.Errorf("got too little in %d kills to mean anything", n)
		}
	})
}

// pair creates a queue with a dead-letter queue.
func (r *rig) pair(suffix string, maxReceives int) (url string, dead load.DeadLetter) {
	r.t.Helper()
	attributes := map[string]string{}
	if suffix == ".fifo" {
		attributes["FifoQueue"] = "true"
	}
	dead = load.DeadLetter{MaxReceives: maxReceives, MoveEvery: 400 * time.Millisecond}
	dead.URL, dead.ARN = r.queue("dead"+suffix, attributes)
	attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, dead.ARN, maxReceives)
	url, _ = r.queue("orders"+suffix, attributes)
	return url, dead
}

// killAndAudit kills the server n times while the load goes on, and judges what the clients saw.
func (r *rig) killAndAudit(seed uint64, n int) *audit.Report {
	t := r.t
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	var done struct{ kills, early, paused int }
	err := r.load.Run(t.Context(), func(ctx context.Context) error {
		for done.kills < n {
			wait(ctx, runTime(rng))
			if rng.IntN(4) == 0 {
				done.paused++
				if err := r.Pause(); err != nil {
					return err
				}
				wait(ctx, time.Duration(50+rng.IntN(700))*time.Millisecond)
				if rng.IntN(2) == 0 { // else it is killed as it stands
					if err := r.Resume(); err != nil {
						return err
					}
					wait(ctx, runTime(rng))
				}
			}
			if err := r.Kill(); err != nil {
				return err
			}
			done.kills++
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
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kills, %d of them during a start, %d pauses", done.kills, done.early, done.paused)
	report := r.audit()
	for i, v := range report.Violations {
		if i == 20 {
			t.Errorf("and %d more", len(report.Violations)-i)
			break
		}
		t.Error(v)
	}
	if report.Acknowledged < 10*n || report.Repeated < n {
		t.Errorf("got %d orders and %d repeated deliveries in %d kills, too few to mean anything", report.Acknowledged, report.Repeated, n)
	}
	got, err := r.load.Left(t.Context())
	r.must(err)
	if got != 0 {
		t.Errorf("got %d messages left in queues that are drained, want 0", got)
	}
	r.must(r.Stop())
	return report
}

// The test above can fail: a server whose disk goes back to an earlier state is found out.
func TestRollbackIsNoticed(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	r := newRig(t, time.Second)
	url, _ := r.queue("orders", nil)
	r.with(seed, url, time.Second, nil)
	err := r.load.Run(t.Context(), func(ctx context.Context) error {
		earlier := t.TempDir()
		wait(ctx, time.Second)
		if err := r.Kill(); err != nil {
			return err
		}
		if err := os.CopyFS(earlier, os.DirFS(r.DataDir())); err != nil {
			return err
		}
		if err := r.start(ctx); err != nil {
			return err
		}
		wait(ctx, time.Second)
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
	})
	if err != nil {
		t.Fatal(err)
	}
	report := r.audit()
	lost, back := report.Count(audit.Lost), report.Count(audit.Deleted, audit.Counts, audit.InFlight)
	t.Logf("%d lost, %d delivered as they should not be", lost, back)
	if lost == 0 || back == 0 {
		t.Errorf("got %d lost and %d delivered as they should not be, want some of both", lost, back)
	}
}

// runTime is how long a server lives: mostly so short that work has barely begun, sometimes longer than
// a visibility timeout.
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
