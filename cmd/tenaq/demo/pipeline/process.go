package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/pipeline/download"
	"tenaq/internal/cli"
	"tenaq/producer"
	"tenaq/records/sqliterecords"
	"tenaq/worker"
	"tenaq/worker/pipe"
)

// Points that processes report.
const (
	pointSending   = "about to send" // a producer
	pointProduced  = "produced"
	pointReceived  = "received" // a worker
	pointStarted   = "started"
	pointTakenOver = "taken over"
	pointCompleted = "completed"
	pointLater     = "given back"
	pointDuplicate = "duplicate"
	pointDead      = "dead-lettered"
	pointLost      = "lost"
	pointDownload  = "about to download" // a task
	pointWrote     = "wrote"
	pointFound     = "found"
)

// produce registers and sends one file. It reports in between, where it is killed.
func produce(ctx context.Context, c *stage.Child, t task) error {
	client, err := c.Client(ctx)
	if err != nil {
		return err
	}
	store, err := sqliterecords.New(sqliterecords.Config{Path: recordsFile(c.Dir)})
	if err != nil {
		return err
	}
	defer store.Close()
	p, err := producer.New(producer.Config{Client: &sending{client, c, t.Message.Key}, Store: store,
		QueueURL: t.QueueURL, Lease: leaseDoomed})
	if err != nil {
		return err
	}
	r, err := p.SendOnce(ctx, t.Message)
	if err == nil {
		c.Tell(ctx, stage.Report{Point: pointProduced, Key: r.Key, Message: r.MessageID,
			Number: count(r.New)})
	}
	return err
}

// A sending client reports before it sends.
type sending struct {
	*sqs.Client
	c   *stage.Child
	key string
}

// SendMessage reports and sends.
func (s *sending) SendMessage(
	ctx context.Context, in *sqs.SendMessageInput, options ...func(*sqs.Options),
) (*sqs.SendMessageOutput, error) {
	s.c.Tell(ctx, stage.Report{Point: pointSending, Key: s.key})
	return s.Client.SendMessage(ctx, in, options...)
}

// work is a worker, which starts a task for each message.
func work(ctx context.Context, c *stage.Child, t task) error {
	client, err := c.Client(ctx)
	if err != nil {
		return err
	}
	store, err := sqliterecords.New(sqliterecords.Config{Path: recordsFile(c.Dir)})
	if err != nil {
		return err
	}
	defer store.Close()
	ledger, err := claims.New(store, claims.Config{Lease: lease})
	if err != nil {
		return err
	}
	if c.Broken == "claim" {
		ledger = nil
	}
	one := *c
	one.Role, one.Name = "task", "a task of "+c.Name
	command, err := one.Command()
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{
		Client: client, QueueURL: t.QueueURL, Claims: ledger, NoClaims: ledger == nil,
		Handler: &pipe.Command{Args: command, Grace: time.Second, Pause: time.Second},
		// what the message itself says, because SQS forgets
		Key: func(m *worker.Message) (string, error) {
			var f download.File
			err := json.Unmarshal([]byte(m.Body), &f)
			return f.FileID, err
		},
		Concurrency: 1, // so that a death is that of one task
		Lease:       t.Lease, Drain: 5 * time.Second, Attempts: attempts,
		RetryBase: 200 * time.Millisecond, RetryMax: time.Second,
		Middleware: []worker.Middleware{begun(c)}, Events: events(ctx, c), Logger: slog.Default(),
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// about is a report about a message.
func about(point string, m *worker.Message, why string) stage.Report {
	return stage.Report{Point: point, Key: m.Key, Message: m.ID, Number: m.Attempt(),
		Fence: m.Fence(), Text: why}
}

// begun reports that a handler begins.
func begun(c *stage.Child) worker.Middleware {
	return func(
		ctx context.Context, messages []*worker.Message, next func(context.Context) error,
	) error {
		if messages[0].TakenOver() != nil {
			c.Tell(ctx, about(pointTakenOver, messages[0], ""))
		}
		c.Tell(ctx, about(pointStarted, messages[0], ""))
		return next(ctx)
	}
}

// events reports what the worker does.
func events(ctx context.Context, c *stage.Child) worker.Events {
	return worker.Events{
		Received: func(m *worker.Message) { c.Tell(ctx, about(pointReceived, m, "")) },
		Outcome: func(m *worker.Message, o worker.Outcome) {
			switch o.Kind {
			case worker.Done:
				c.Tell(ctx, about(pointCompleted, m, ""))
			case worker.Deferred:
				c.Tell(ctx, about(pointLater, m, o.Reason))
			case worker.Duplicate:
				c.Tell(ctx, about(pointDuplicate, m, ""))
			case worker.DeadLettered:
				c.Tell(ctx, about(pointDead, m, o.Reason))
			case worker.Lost:
				c.Tell(ctx, about(pointLost, m, o.Err.Error()))
			}
		},
	}
}

// Exit codes that package pipe understands.
const (
	exitPoison = 65
	exitLater  = 75
)

// runTask is the process of one message: it downloads the file.
func runTask(ctx context.Context, c *stage.Child, t task) error {
	var f download.File
	if err := json.NewDecoder(c.In).Decode(&f); err != nil {
		return &cli.CodedError{Code: exitPoison, Err: err}
	}
	d, err := download.NewDownloader(t.Source, outDir(c.Dir))
	if err != nil {
		return err
	}
	defer d.Close()
	c.Tell(ctx, stage.Report{Point: pointDownload, Key: f.FileID})
	written, err := d.Download(ctx, f, os.Getenv("TENAQ_EFFECT_KEY"))
	switch {
	case errors.Is(err, download.ErrNotYet):
		return &cli.CodedError{Code: exitLater, Err: err}
	case errors.Is(err, download.ErrWithdrawn):
		return &cli.CodedError{Code: exitPoison, Err: err}
	case err != nil:
		return err
	}
	point := pointFound
	if written {
		point = pointWrote
	}
	c.Tell(ctx, stage.Report{Point: point, Key: f.FileID})
	return nil
}
