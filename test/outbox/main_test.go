// Package outbox_test attacks the whole path of a row: programs that commit and roll back, relays
// in processes of their own that are killed and stopped, a database that is killed, a network
// between relays and queue that loses, repeats and refuses. Then it compares the database with what
// the queue got.
package outbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/outbox"
	"tenaq/outbox/pgoutbox"
	"tenaq/outbox/sqliteoutbox"
)

// childSettings is the variable that makes this binary a relay.
const childSettings = "TENAQ_OUTBOX_RELAY"

// A setting is the configuration of a relay in a separate process.
type setting struct {
	Postgres, SQLite string // one of them: where the outbox is
	Queue            string // URL of the SQS API
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childSettings); text != "" {
		if err := relay(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// lease is that of relays: short, so that much happens in little time.
const lease = 3 * time.Second

// relay runs a relay until it is stopped or the test is gone.
func relay(text string) error {
	var s setting
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // the test holds the other end
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	box, err := s.open(ctx)
	if err != nil {
		return err
	}
	r, err := outbox.New(outbox.Config{
		Box: box, Client: connect(s.Queue), Lease: lease, Rows: 40, Parallel: 4, RetryBase: 10 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

func (s *setting) open(ctx context.Context) (outbox.Box, error) {
	if s.SQLite != "" {
		return sqliteoutbox.New(sqliteoutbox.Config{Path: s.SQLite})
	}
	box, err := pgoutbox.New(pgoutbox.Config{URL: s.Postgres})
	if err != nil {
		return nil, err
	}
	return box, box.Migrate(ctx)
}

// connect returns a client of a queue, which does not take long to try again.
func connect(endpoint string) *sqs.Client {
	return sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxBackoff, o.RateLimiter = 100*time.Millisecond, ratelimit.None
		}),
	})
}
