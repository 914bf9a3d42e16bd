package main

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

	"tenaq/internal/child"
)

// A demoEnv is what a scenario is given.
type demoEnv struct {
	seed     uint64
	dir      string    // of this scenario alone; it exists
	other    *endpoint // an SQS that is not ours to kill; nil for a server of its own
	keep     bool
	sabotage bool
	progress *progress
}

// rng returns a source of randomness that depends on the seed and on what it is for, so that a change in
// one place leaves what happens elsewhere as it is.
func (env *demoEnv) rng(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(env.seed, purpose)) }

// A demoQueue is a queue for a scenario, and the server it is on.
type demoQueue struct {
	aws      aws.Config
	endpoint string // empty for Amazon's
	api      *sqs.Client
	url      string
	server   *child.Server // nil when it is not ours
}

// openQueue starts a server, or finds the other one, and creates a queue there.
func (env *demoEnv) openQueue(ctx context.Context, name string) (*demoQueue, error) {
	q := &demoQueue{}
	if err := env.openEndpoint(ctx, q); err != nil {
		return nil, err
	}
	q.api = sqs.NewFromConfig(q.aws, func(o *sqs.Options) {
		o.BaseEndpoint = nil
		if q.endpoint != "" {
			o.BaseEndpoint = &q.endpoint
		}
	})
	if env.other != nil {
		// Somebody else's queues may be there, and SQS keeps a name for a while after its queue is deleted.
		name = fmt.Sprintf("tenaq-demo-%s-%08x", name, rand.Uint32())
	}
	out, err := q.api.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		q.closeServer()
		if env.other != nil {
			return nil, (&client{endpoint: *env.other}).explain("create queue", name, err)
		}
		return nil, fmt.Errorf("create queue %s: %w", name, err)
	}
	q.url = aws.ToString(out.QueueUrl)
	return q, nil
}

func (env *demoEnv) openEndpoint(ctx context.Context, q *demoQueue) (err error) {
	if env.other != nil {
		q.endpoint = env.other.url
		q.aws, err = awsConfig(ctx, *env.other, resolveRegion("", os.Getenv))
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if q.server, err = child.New(child.Config{Program: program, Dir: env.dir, Args: []string{"--log-level", "warn"}}); err != nil {
		return err
	}
	if _, err := q.server.Start(ctx); err != nil {
		return err
	}
	q.endpoint = q.server.URL()
	q.aws = aws.Config{Region: defaultRegion, Credentials: credentials.NewStaticCredentialsProvider(openID, openSecret, "")}
	env.progress.say("seed %d, server on %s, data in %s", env.seed, q.endpoint, q.server.DataDir())
	return nil
}

// close deletes the queue where it is on a server of somebody else, and ends the server where it is ours.
func (q *demoQueue) close(env *demoEnv) {
	q.closeServer()
	switch {
	case env.other == nil:
	case env.keep:
		env.progress.note("the queue is %s", q.url)
	default:
		// Also after an interrupt.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := q.api.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &q.url}); err != nil {
			env.progress.note("the queue %s is left behind: %v", q.url, err)
		}
	}
}

func (q *demoQueue) closeServer() {
	if q.server != nil {
		q.server.Close()
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
