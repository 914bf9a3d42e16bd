package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/pipeline/download"
	"tenaq/internal/cli"
	"tenaq/producer"
	"tenaq/worker"
	"tenaq/worker/pipe"
)

// A task configures workers, their tasks and producers.
type task struct {
	QueueURL string
	Lease    time.Duration
	Message  producer.Message // of a producer
}

// Points that processes report, beside those of a watched worker.
const (
	pointSending  = "about to send" // a producer
	pointProduced = "produced"
	pointDownload = "about to download" // a task
	pointWrote    = "wrote"
	pointFound    = "found"

	pointCompleted = string(worker.Done)
	pointLater     = string(worker.Deferred)
	pointDuplicate = string(worker.Duplicate)
	pointDead      = string(worker.DeadLettered)
)

// produce registers and sends one file. It is killed in between.
func produce(c *stage.Child, t task) {
	store, _ := c.OpenRecords(c.Dir, lease)
	defer store.Close()
	p, err := producer.New(producer.Config{Client: &sending{c.API, c, t.Message.Key}, Store: store,
		QueueURL: t.QueueURL, Lease: leaseDoomed})
	c.Must(err)
	r, err := p.SendOnce(c.Ctx, t.Message)
	c.Must(err)
	c.Tell(stage.Report{Point: pointProduced, Key: r.Key, Message: r.MessageID,
		Number: stage.One(r.New)})
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
	s.c.Tell(stage.Report{Point: pointSending, Key: s.key})
	return s.Client.SendMessage(ctx, in, options...)
}

// work is a worker, which starts a task for each message.
func work(c *stage.Child, t task) {
	store, ledger := c.OpenRecords(c.Dir, lease)
	defer store.Close()
	if c.Broken == "claim" {
		ledger = nil
	}
	c.Work(worker.Config{
		Client: c.API, QueueURL: t.QueueURL, Claims: ledger, NoClaims: ledger == nil,
		Handler: &pipe.Command{Args: c.Command("task"), Grace: time.Second, Pause: time.Second},
		// what the message itself says, because SQS forgets
		Key: func(m *worker.Message) (string, error) {
			var f download.File
			err := json.Unmarshal([]byte(m.Body), &f)
			return f.FileID, err
		},
		Concurrency: 1, // so that a death is that of one task
		Lease:       t.Lease, Drain: 5 * time.Second, Attempts: attempts,
		RetryBase: 200 * time.Millisecond, RetryMax: time.Second,
	})
}

// Exit codes that package pipe understands.
const (
	exitPoison = 65
	exitLater  = 75
)

// runTask is the process of one message: it downloads the file.
func runTask(c *stage.Child) {
	var f download.File
	if err := json.NewDecoder(c.In).Decode(&f); err != nil {
		c.Must(&cli.CodedError{Code: exitPoison, Err: err})
	}
	d, err := download.NewDownloader(c.Stage, outDir(c.Dir))
	c.Must(err)
	defer d.Close()
	c.Tell(stage.Report{Point: pointDownload, Key: f.FileID})
	written, err := d.Download(c.Ctx, f, os.Getenv("TENAQ_EFFECT_KEY"))
	switch {
	case errors.Is(err, download.ErrNotYet):
		err = &cli.CodedError{Code: exitLater, Err: err}
	case errors.Is(err, download.ErrWithdrawn):
		err = &cli.CodedError{Code: exitPoison, Err: err}
	}
	c.Must(err)
	point := pointFound
	if written {
		point = pointWrote
	}
	c.Tell(stage.Report{Point: point, Key: f.FileID})
}
