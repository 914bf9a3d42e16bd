package cluster

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/child"
	"tenaq/internal/testing/audit"
	"tenaq/internal/testing/audit/load"
	"tenaq/internal/testing/built"
	"tenaq/internal/testing/proof"
)

func TestMain(m *testing.M) {
	flag.Parse()
	parallel := false
	flag.Visit(func(f *flag.Flag) { parallel = parallel || f.Name == "test.parallel" })
	if !parallel {
		_ = flag.Set("test.parallel", "6") // most of the time is spent waiting for elections
	}
	code := built.Tests(m)
	all.print()
	os.Exit(code)
}

// grace is for how long at most a new leader hides what was in flight under the one before.
const grace = 10 * time.Second

// tolerance is how much earlier than after a second a message may become visible again. Where
// broker time is behind the wall clock, as after a failover, it is a twentieth faster. [CLOCK-4]
const tolerance = time.Second/20 + 20*time.Millisecond

// A rig is a cluster under load, and an account of what its clients saw.
type rig struct {
	*child.Cluster
	t    *testing.T
	dir  string
	net  *network // nil without proxies
	api  *sqs.Client
	load *load.Load

	probe  string    // URL of the queue for FirstAnswer
	loaded time.Time // when the load was prepared, from which its times count
	kills  atomic.Int64
}

// newRig starts three nodes. With proxies they reach each other through a network of the test.
func newRig(t *testing.T, proxies bool, args ...string) *rig {
	t.Helper()
	if proof.Short() {
		t.Skip("SKIPPED: elections take seconds of real time; make cluster-short runs it")
	}
	t.Parallel()
	var wires *network
	var reached func(string) (string, error)
	if proxies {
		wires = newNetwork(t)
		reached = wires.reach
	}
	r := startRig(t, built.Program(t), reached, args...)
	if r.net = wires; proxies {
		r.net.pids = func() map[string]int {
			pids := make(map[string]int)
			for _, n := range r.Nodes {
				pids[n.Address] = n.PID()
			}
			return pids
		}
	}
	r.begin()
	return r
}

// startRig chooses the addresses of three nodes, which begin starts.
func startRig(
	t *testing.T, program string, reached func(string) (string, error), args ...string,
) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.ArtifactDir()}
	var err error
	r.Cluster, err = child.NewCluster(child.Config{Program: program, Dir: r.dir, Args: append([]string{
		"--log-level", "info", "--visibility-grace", grace.String()}, args...)}, 3, reached)
	r.must(err)
	t.Cleanup(r.Close)
	return r
}

func (r *rig) begin() {
	r.t.Helper()
	r.must(r.Start(r.t.Context()))
	r.api = sqs.NewFromConfig(awsConfig, func(o *sqs.Options) { o.BaseEndpoint = aws.String(r.Nodes[0].URL()) })
	r.probe, _ = r.queue("probe", nil)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

var awsConfig = aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}

// queue creates a queue and returns its URL and ARN.
func (r *rig) queue(name string, attributes map[string]string) (url, arn string) {
	r.t.Helper()
	out, err := r.api.CreateQueue(r.t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	r.must(err)
	about, err := r.api.GetQueueAttributes(r.t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: out.QueueUrl, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	})
	r.must(err)
	return *out.QueueUrl, about.Attributes["QueueArn"]
}

// fifo prepares a load on a FIFO queue with a dead-letter queue, whose messages tasks move back.
func (r *rig) fifo(seed uint64) {
	attributes := map[string]string{"FifoQueue": "true"}
	dead := load.DeadLetter{MaxReceives: 2, MoveEvery: 400 * time.Millisecond}
	dead.URL, dead.ARN = r.queue("orders-dead.fifo", attributes)
	url, _ := r.queue("orders.fifo", map[string]string{"FifoQueue": "true",
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":2}`, dead.ARN)})
	r.with(seed, url, func(cfg *load.Config) { cfg.Groups, cfg.DeadLetter, cfg.Canaries = 40, dead, 250 })
}

// standard prepares a load on a standard queue, some of it with delays.
func (r *rig) standard(seed uint64) {
	url, _ := r.queue("orders", nil)
	r.with(seed, url, func(cfg *load.Config) { cfg.Delays = 100 })
}

func (r *rig) with(seed uint64, url string, change func(*load.Config)) {
	cfg := load.Config{
		AWS: awsConfig, Endpoint: r.Nodes[0].URL(), Nodes: r.URLs(), QueueURL: url, Seed: seed,
		Body:      func(n int) string { return fmt.Sprintf(`{"order": %d, "of": %d}`, n, seed) },
		Producers: 3, Workers: 8, Pause: 30 * time.Millisecond, Work: 5 * time.Millisecond,
		Visibility: time.Second, Grace: grace, Overruns: 20, Changes: 40, Canaries: 60,
	}
	change(&cfg)
	r.load, r.loaded = load.New(cfg), time.Now()
}

// judge runs the load while disturb does to the nodes whatever it does. Afterwards nothing that was
// acknowledged is lost, and all nodes have the same rows.
func (r *rig) judge(disturb func(ctx context.Context) error) *audit.Report {
	t := r.t
	t.Helper()
	if err := r.load.Run(t.Context(), disturb); err != nil {
		t.Fatal(err)
	}
	report := audit.Check(r.load.History(), audit.Options{Tolerance: tolerance})
	t.Logf("%d orders acknowledged, %d sends unanswered, %d second copies, %d deliveries, %d of them repeated, %d duplicates recognised, "+
		"%d behind others of their group, %d dead letters, %d moved back, %d delayed",
		report.Acknowledged, report.Unanswered, report.Copies, report.Deliveries, report.Repeated,
		report.Duplicates, report.Ordered, report.DeadLettered, report.Moved, report.Delayed)
	for i, v := range report.Violations {
		if i == 20 {
			t.Errorf("and %d more", len(report.Violations)-i)
			break
		}
		t.Error(v)
	}
	if len(report.Violations) > 0 {
		r.keep()
	}
	left, err := r.load.Left(t.Context())
	r.must(err)
	if left != 0 {
		t.Errorf("got %d messages left in queues that are drained, want 0", left)
	}
	return report
}

// keep writes the history of a bad run.
func (r *rig) keep() {
	name := filepath.Join(r.dir, "history.json")
	text, err := json.Marshal(r.load.History())
	r.must(err)
	r.must(os.WriteFile(name, text, 0o600))
	r.t.Logf("history in %s; go test -artifacts keeps it, with the data and the logs of the nodes", name)
}

// equal waits until all members have the same rows, and ends the nodes.
func (r *rig) equal(members int) {
	r.t.Helper()
	_, err := r.Settled(r.t.Context(), members)
	r.must(err)
	r.must(r.Cluster.Stop())
}

// answered waits for the next acknowledgement, and takes down how long that takes.
func (r *rig) answered(ctx context.Context, what string) error {
	took, err := r.FirstAnswer(ctx, r.probe)
	if err != nil {
		return fmt.Errorf("after %s: %w", what, err)
	}
	r.t.Logf("%.3f s: a message is acknowledged, %.3f s after %s", time.Since(r.loaded).Seconds(), took.Seconds(), what)
	all.add(what, took)
	return nil
}

// all has the times until the first new acknowledgement, for all clusters.
var all times

// times are durations by what they followed.
type times struct {
	mu   sync.Mutex
	took map[string][]time.Duration
}

func (a *times) add(what string, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.took == nil {
		a.took = make(map[string][]time.Duration)
	}
	a.took[what] = append(a.took[what], took)
}

func (a *times) print() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for what, took := range a.took {
		slices.Sort(took)
		fmt.Printf("first new acknowledgement after %d times %s: median %d ms, at most %d ms\n", len(took), what,
			took[len(took)/2].Milliseconds(), took[len(took)-1].Milliseconds())
	}
}

// wait waits for a random time of at most most.
func wait(ctx context.Context, rng *rand.Rand, most time.Duration) {
	select {
	case <-time.After(time.Duration(rng.Int64N(int64(most)))):
	case <-ctx.Done():
	}
}
