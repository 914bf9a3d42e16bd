package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/child"
	"tenaq/internal/cli"
)

// A demoEnv is what a scenario is given.
type demoEnv struct {
	seed     uint64
	dir      string        // of this scenario alone; it exists
	other    *cli.Endpoint // an SQS that is not ours to kill; nil for a server of its own
	keep     bool
	broken   string // the name of what is left out; empty for nothing
	database string // URL of a PostgreSQL; empty for SQLite
	progress *cli.Progress
}

// rng returns a source of randomness that depends on the seed and on what it is for, so that a change in
// one place leaves what happens elsewhere as it is.
func (env *demoEnv) rng(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(env.seed, purpose)) }

// A demoSQS is where the queues of a scenario are.
type demoSQS struct {
	env      *demoEnv
	aws      aws.Config
	endpoint string // empty for Amazon's
	api      *sqs.Client
	server   *child.Server // nil when it is not ours
	queues   []string      // URLs of those that were made
}

// openSQS starts a server, or finds the other one.
func (env *demoEnv) openSQS(ctx context.Context) (*demoSQS, error) {
	s := &demoSQS{env: env}
	if err := s.Open(ctx); err != nil {
		return nil, err
	}
	s.api = newDemoClient(s.aws, s.endpoint)
	return s, nil
}

func (s *demoSQS) Open(ctx context.Context) (err error) {
	if other := s.env.other; other != nil {
		s.endpoint = other.URL
		s.aws, err = cli.AWSConfig(ctx, *other, cli.ResolveRegion("", os.Getenv))
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if s.server, err = child.New(child.Config{Program: program, Dir: s.env.dir, Args: []string{"--log-level", "warn", "--alarm-minute", demoMinute.String()}}); err != nil {
		return err
	}
	if _, err := s.server.Start(ctx); err != nil {
		return err
	}
	s.endpoint, s.aws = s.server.URL(), openConfig()
	s.env.progress.Say("seed %d, server on %s, data in %s", s.env.seed, s.endpoint, s.server.DataDir())
	return nil
}

// openConfig is for a server that checks no credentials.
func openConfig() aws.Config {
	return aws.Config{Region: cli.DefaultRegion, Credentials: credentials.NewStaticCredentialsProvider(cli.OpenID, cli.OpenSecret, "")}
}

// newDemoClient returns a client of an endpoint, that of Amazon when it is empty. The SDK would read the
// endpoint from the environment itself; it has been decided.
func newDemoClient(cfg aws.Config, endpoint string) *sqs.Client {
	return sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		o.BaseEndpoint = nil
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
	})
}

// createQueue creates a queue and returns its URL. The suffix .fifo stays at the end of its name.
func (s *demoSQS) createQueue(ctx context.Context, name string, attributes map[string]string) (url string, err error) {
	if s.env.other != nil {
		// Somebody else's queues may be there, and SQS keeps a name for a while after its queue is deleted.
		base, isFIFO := strings.CutSuffix(name, ".fifo")
		name = fmt.Sprintf("tenaq-demo-%s-%08x", base, rand.Uint32())
		if isFIFO {
			name += ".fifo"
		}
	}
	out, err := s.api.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	switch {
	case err != nil && s.env.other != nil:
		return "", (&cli.Client{Endpoint: *s.env.other}).Explain("create queue", name, err)
	case err != nil:
		return "", fmt.Errorf("create queue %s: %w", name, err)
	}
	url = aws.ToString(out.QueueUrl)
	s.queues = append(s.queues, url)
	return url, nil
}

// queueARN asks for the ARN of a queue.
func (s *demoSQS) queueARN(ctx context.Context, url string) (string, error) {
	out, err := s.api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	})
	if err != nil {
		return "", fmt.Errorf("look at queue %s: %w", url, err)
	}
	return out.Attributes[string(types.QueueAttributeNameQueueArn)], nil
}

// Close deletes the queues where they are on a server of somebody else, and ends the server where it is ours.
func (s *demoSQS) Close() {
	if s.server != nil {
		s.server.Close()
		return
	}
	// Also after an interrupt.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, url := range s.queues {
		if s.env.keep {
			s.env.progress.Note("the queue is %s", url)
		} else if _, err := s.api.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
			s.env.progress.Note("the queue %s is left behind: %v", url, err)
		}
	}
}

// rollback puts the data of a server that is not running back to what it was when it was saved. It is
// what a disk does that only pretends to have written.
type rollback struct{ saved string }

func (r *rollback) save(dataDir string) error {
	r.saved = strings.TrimSuffix(dataDir, "/") + ".earlier"
	return os.CopyFS(r.saved, os.DirFS(dataDir))
}

func (r *rollback) restore(dataDir string) error {
	if err := os.RemoveAll(dataDir); err != nil {
		return err
	}
	return os.Rename(r.saved, dataDir)
}
