// Package pipeline is the demo of a download pipeline: a batch of files is registered once, and each is
// downloaded, decrypted and written once, while everything that has a hand in it dies at the worst moment.
//
// It uses what a user would: package producer to register and send, package worker with a pipe that starts one
// process per message, and a ledger of package claims in an SQLite file. The files are real, encrypted, and
// served slowly by this process. Producers, workers and tasks are processes of their own, and each of their
// deaths is a SIGKILL at a moment that is fixed beforehand: after the receive and before the claim, in the
// middle of a download, between two writes. So what a row claims is made to happen and not waited for.
//
// What it knows afterwards it has from outside: the receipts of the producer, a log to which workers and tasks
// append what they do, the files that were written, and the queues. It leaves to its caller how the server and
// the processes are started, and how rows are shown.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/records/sqliterecords"
)

// A Config says where the demo happens.
type Config struct {
	Seed uint64 // decides which files meet with an accident, and which
	Dir  string // an existing directory for everything that is written

	Client      *sqs.Client
	CreateQueue func(ctx context.Context, name string, attributes map[string]string) (url string, err error)

	// Part makes the command of a process of the demo, which has to do what these arguments say.
	Part func(args ...string) (*exec.Cmd, error)

	// Restart stops the server and starts it again with time in its queues running this many times as
	// fast. Nil when the server is somebody else's.
	Restart func(ctx context.Context, scale string) (*sqs.Client, error)

	// Unclaimed lets workers go without a ledger, to see the checks fail.
	Unclaimed bool

	Say  func(format string, args ...any)                  // tells of a step
	Line func(part, whole int, format string, args ...any) // tells how far it is
}

// Times of the demo. The lease is as short as a busy machine allows, because every death of a worker takes one.
const (
	lease       = 4 * time.Second // of messages and of claims
	leaseDoomed = 3 * time.Second // of the registrations of producers that die; others have the usual one
	settledMax  = 2 * time.Minute
)

// attempts is how often a task may begin the work of a file. Workers are few because other servers may be emulators that
// carry out one request at a time, long polls included.
const (
	attempts = 3
	workers  = 2
)

// A demo is one run.
type demo struct {
	Config
	plan     plan
	source   *source
	history  *history
	settings Settings
	store    records.Store
	ledger   *claims.Ledger // nil when there is none
	queues   queues
	producer *producer.Producer

	// What came of it.
	batch batch
	rest  rest
	late  late
}

// Run carries out the demo and returns its findings, and an error when it did not come to its end.
func Run(ctx context.Context, cfg Config) (rows []Row, err error) {
	d := &demo{Config: cfg, plan: newPlan(cfg.Seed)}
	defer func() { err = errors.Join(err, d.close()) }()
	for _, step := range []func(context.Context) error{d.prepare, d.register, d.replay, d.work, d.count, d.replayLate} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return d.rows()
}

// prepare makes what the processes share: queues, ledger, files, and the settings that tell them where it is.
func (d *demo) prepare(ctx context.Context) (err error) {
	for _, dir := range []string{"out", "parts", "died", "tmp"} {
		if err := os.Mkdir(filepath.Join(d.Dir, dir), 0o700); err != nil {
			return err
		}
	}
	d.settings = Settings{
		Dir: d.Dir, Plan: d.plan, Lease: lease, Unclaimed: d.Unclaimed,
	}
	if d.history, err = openHistory(d.settings.historyFile()); err != nil {
		return err
	}
	if d.source, err = newSource(d.plan); err != nil {
		return err
	}
	d.settings.Source, d.settings.Secret = d.source.url, d.source.secret
	if err := d.queues.create(ctx, d.Client, d.CreateQueue); err != nil {
		return err
	}
	d.settings.QueueURL = d.queues.url
	if d.store, err = sqliterecords.New(sqliterecords.Config{Path: d.settings.recordsFile()}); err != nil {
		return err
	}
	if d.ledger, err = d.settings.openLedger(d.store); err != nil {
		return err
	}
	d.producer, err = d.settings.newProducer(d.Client, d.store, d.ledger)
	return err
}

// close ends what prepare has begun, also when it did not come far.
func (d *demo) close() (err error) {
	if d.history != nil {
		err = d.history.close()
	}
	if d.source != nil {
		d.source.close()
	}
	if d.store != nil {
		err = errors.Join(err, d.store.Close())
	}
	return err
}

// work lets workers handle the batch until every file has come to its end.
func (d *demo) work(ctx context.Context) error {
	crew, err := d.startCrew(ctx, d.settings, workers)
	if err != nil {
		return err
	}
	defer crew.stop()
	if err := d.revive(ctx); err != nil {
		return err
	}
	if err := d.untilSettled(ctx, crew); err != nil {
		return err
	}
	return crew.stop()
}

// untilSettled waits until every file is done or dead, and nothing is left in the queue.
func (d *demo) untilSettled(ctx context.Context, crew *crew) error {
	ctx, cancel := context.WithTimeout(ctx, settledMax)
	defer cancel()
	for deaths := 0; ; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("not done after %v: %s: %w", settledMax, d.open(), context.Cause(ctx))
		case err := <-crew.failed:
			return err
		case <-time.After(100 * time.Millisecond):
		}
		if err := d.history.read(); err != nil {
			return err
		}
		if n := d.history.count(died); n > deaths {
			deaths = n
			d.Say("%d of %d deaths, %d of %d files", deaths, len(d.plan.Deaths), d.settled(), len(d.plan.Files))
		}
		d.Line(d.settled(), len(d.plan.Files), "%d deaths", deaths)
		if d.settled() < len(d.plan.Files) {
			continue
		}
		left, err := d.queues.left(ctx, d.Client)
		if err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
	}
}

// settled is how many files are done or dead.
func (d *demo) settled() (n int) {
	for _, f := range d.plan.Files {
		if d.isSettled(f) {
			n++
		}
	}
	return n
}

func (d *demo) isSettled(f file) bool { return d.history.of(f.ID).has(completed, deadLettered) }

// open says what keeps the batch from being done.
func (d *demo) open() string {
	for _, f := range d.plan.Files {
		if !d.isSettled(f) {
			return fmt.Sprintf("%d of %d files are, and not %s", d.settled(), len(d.plan.Files), f.ID)
		}
	}
	return "all files are, but not all messages are gone"
}
