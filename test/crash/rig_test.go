package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
)

// A rig is a server with queues, and an account of what its clients saw.
type rig struct {
	*child.Server
	t    *testing.T
	dir  string
	api  *sqs.Client
	load *load.Load
	sent bool // the load sends nothing any more
}

// awsConfig is that of all clients.
var awsConfig = aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}

// newRig starts a server that hides what was in flight for at most grace after a crash.
func newRig(t *testing.T, grace time.Duration) *rig {
	name := built.Program(t)
	r := &rig{t: t, dir: t.ArtifactDir()}
	var err error
	if r.Server, err = child.New(child.Config{
		Program: name, Dir: r.dir, Args: []string{"--log-level", "warn", "--visibility-grace", grace.String()},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	r.must(r.start(t.Context()))
	r.api = sqs.NewFromConfig(awsConfig, func(o *sqs.Options) { o.BaseEndpoint = aws.String(r.URL()) })
	return r
}

// queue creates a queue and returns its URL and ARN.
func (r *rig) queue(name string, attributes map[string]string) (url, arn string) {
	r.t.Helper()
	out, err := r.api.CreateQueue(r.t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	r.must(err)
	return *out.QueueUrl, r.attribute(*out.QueueUrl, types.QueueAttributeNameQueueArn)
}

func (r *rig) tag(url string, tags map[string]string) {
	r.t.Helper()
	_, err := r.api.TagQueue(r.t.Context(), &sqs.TagQueueInput{QueueUrl: &url, Tags: tags})
	r.must(err)
}

// pair creates a queue with a dead-letter queue.
func (r *rig) pair(name, suffix string, maxReceives int) (url string, dead load.DeadLetter) {
	r.t.Helper()
	attributes := map[string]string{}
	if suffix == ".fifo" {
		attributes["FifoQueue"] = "true"
	}
	dead = load.DeadLetter{MaxReceives: maxReceives, MoveEvery: 400 * time.Millisecond}
	dead.URL, dead.ARN = r.queue(name+"-dead"+suffix, attributes)
	attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, dead.ARN, maxReceives)
	url, _ = r.queue(name+suffix, attributes)
	return url, dead
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
	cfg := loadConfig(r.URL(), url, seed, grace)
	if change != nil {
		change(&cfg)
	}
	r.load = load.New(cfg)
}

// loadConfig is a load that does a little of everything.
func loadConfig(endpoint, url string, seed uint64, grace time.Duration) load.Config {
	return load.Config{
		AWS: awsConfig, Endpoint: endpoint, QueueURL: url, Seed: seed,
		Body:      func(n int) string { return fmt.Sprintf(`{"order": %d, "of": %d}`, n, seed) },
		Producers: 6, Workers: 24,
		Pause: 20 * time.Millisecond, Work: 5 * time.Millisecond,
		Visibility: time.Second, Grace: grace,
		Overruns: 20, Changes: 40, Canaries: 60,
	}
}

// Kill, StartAndKill, Stop and StopAndKill are those of the server, and are counted.

func (r *rig) Kill() error {
	all.kills.Add(1)
	return r.Server.Kill()
}

func (r *rig) StartAndKill(after time.Duration) error {
	all.kills.Add(1)
	return r.Server.StartAndKill(after)
}

func (r *rig) Stop() error {
	all.stops.Add(1)
	return r.Server.Stop()
}

func (r *rig) StopAndKill(after time.Duration) (killed bool, err error) {
	killed, err = r.Server.StopAndKill(after)
	if killed {
		all.kills.Add(1)
		all.stopping.Add(1)
	} else {
		all.stops.Add(1)
	}
	return killed, err
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

// audit judges the run, prints what it amounted to, and leaves the history behind when it was a bad
// one.
func (r *rig) audit() *audit.Report {
	r.t.Helper()
	report := audit.Check(r.load.History(), audit.Options{})
	r.t.Logf("%d orders acknowledged, %d sends unanswered, %d second copies, %d deliveries, %d of them repeated",
		report.Acknowledged, report.Unanswered, report.Copies, report.Deliveries, report.Repeated)
	r.t.Logf("%d duplicates recognised, %d deliveries behind others of their group, %d dead letters, %d moved back, %d delayed",
		report.Duplicates, report.Ordered, report.DeadLettered, report.Moved, report.Delayed)
	if len(report.Violations) == 0 {
		return report
	}
	name := filepath.Join(r.dir, "history.json")
	r.t.Log(writeHistory(name, r.load.History()))
	return report
}

// writeHistory keeps the history of a bad run, and says where it is.
func writeHistory(name string, h *audit.History) string {
	text, err := json.Marshal(h)
	if err == nil {
		err = os.WriteFile(name, text, 0o600)
	}
	if err != nil {
		return fmt.Sprintf("the history is lost: %v", err)
	}
	return fmt.Sprintf("history in %s; go test -artifacts keeps it, with the data and the log of the server", name)
}
