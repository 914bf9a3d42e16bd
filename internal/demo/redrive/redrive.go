// Package redrive is the demo of dead letters that are brought back: a warehouse is down, two thousand orders
// are dead letters, and among them are three that nobody can ever fulfil.
//
// Run first lets a redriver work as it is usually written, and counts how it calls the sick warehouse and how
// poison goes round. Then it lets package redrive do the same, in a process that is killed between two
// requests, and counts again: calls while the warehouse is down, orders that were booked, and what was parked.
// What it needs to be sure of it makes happen and does not wait for: the warehouse is down until the breaker
// has opened several times, the process dies after a send and before the delete, and other orders come in
// from beginning to end.
//
// Times are scaled down to what SQS allows: breakers cool down for a second and not for a minute. What is
// counted does not depend on the scale.
//
// A breakage leaves out what the checks are about, so that one sees them fail.
//
// The package leaves to its caller the server, the queues, how the process of the redriver is started, and
// what the findings look like.
package redrive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/sqliterecords"
	redriver "tenaq/redrive"
)

// Queues are the URLs of the queues of one part of the demo.
type Queues struct {
	Work, Dead string
	DeadSource string // ARN of Work
	Parking    string
}

// QueueAttributes are those of a work queue. Deadletters is the ARN of its dead-letter queue. The workers count
// attempts themselves and move what has used them up; the queue's own limit is far above.
func QueueAttributes(deadLetters string) map[string]string {
	return map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":50}`, deadLetters)}
}

// A Breakage is something that is left out.
type Breakage string

// What can be left out. Each makes checks fail with certainty.
const (
	Nothing    Breakage = ""
	Breakers   Breakage = "breaker"  // no failure opens one, and as many as may ever be are on their way at first
	Identities Breakage = "identity" // redriven messages do not say which work they are
)

// A Config says where the demo takes place.
type Config struct {
	API         *sqs.Client
	Usual, Ours Queues
	Scale       Scale

	Dir   string // for the records and the logs; it exists
	Seed  uint64
	Break Breakage

	// Redriver is the command of a redriver process, which calls Work with its standard input.
	Redriver func() (*exec.Cmd, error)

	// Say tells of a step, and Line how far things are. They are called from the goroutine of Run.
	Say, Line func(format string, args ...any)
}

// A Scale is the size of the demo.
type Scale struct {
	Usual    int // dead letters for the usual redriver
	Orders   int // dead letters for ours
	ByWorker int // of these, those that become dead letters by being tried; the others are written in their likeness

	// Look is how long a step of the redriver hides what it looks at. A step has to see all dead letters in a
	// few times half of it.
	Look time.Duration
}

// Scales. Full is for a server of one's own, and takes less than a minute. Small is for what is known to fail. Slow is
// for servers that may cost money, or be an emulator: moto takes a second to receive ten messages out of 150.
var (
	Full  = Scale{Usual: 100, Orders: 2000, ByWorker: 100, Look: time.Second}
	Small = Scale{Usual: 10, Orders: 80, ByWorker: 20, Look: time.Second}
	Slow  = Scale{Usual: 10, Orders: 40, ByWorker: 10, Look: 3 * time.Second}
)

// policy is that of the redriver: the usual one with its times scaled down.
func policy(broken Breakage) redriver.Policy {
	p := redriver.Policy{
		RateFirst: RateFirst, RateMax: 200,
		CoolDown: time.Second, CoolDownMax: 2 * time.Second,
		DelayBase: 300 * time.Millisecond, DelayMax: 2 * time.Second, // SQS delays by whole seconds
		Near: 3 * time.Second,
	}
	switch broken {
	case Breakers:
		p.Failures, p.RateFirst = 1<<30, p.RateMax
	case Identities:
		// It hears of none of the messages that it sends, so it would stop after the first five.
		p.Settle = 5 * time.Second
	}
	return p
}

// RateFirst is how many messages may be on their way before anything is known.
const RateFirst = 5

// A demo is one run.
type demo struct {
	Config
	store  records.Store
	ledger *claims.Ledger
	log    *slog.Logger
}

// recordsFile is in Config.Dir.
const recordsFile = "records.db"

// Run runs the demo. What it has found is returned with an error too.
func Run(ctx context.Context, cfg Config) (out *Outcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out = &Outcome{Scale: cfg.Scale}
	d := &demo{Config: cfg}
	log, err := openLog(cfg.Dir, "demo.log")
	if err != nil {
		return out, err
	}
	defer log.Close()
	d.log = slog.New(slog.NewTextHandler(log, nil))
	if d.store, err = sqliterecords.New(sqliterecords.Config{Path: filepath.Join(d.Dir, recordsFile)}); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, d.store.Close()) }()
	if d.ledger, err = claims.New(d.store, claims.Config{}); err != nil {
		return out, err
	}
	o, err := d.newOurs(ctx)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if cfg.Break == Nothing { // with a breakage that is not what one wants to see
		if err := d.runUsual(ctx, out); err != nil {
			return out, fmt.Errorf("the usual redriver: %w", err)
		}
	}
	err = o.run()
	return out, errors.Join(err, o.collect(context.WithoutCancel(ctx), out))
}

// rng returns a source of randomness for a purpose.
func (d *demo) rng(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(d.Seed, purpose)) }

// sleep waits, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// until asks again and again whether something has happened, for no longer than most. It reports false when
// that is over.
func until(ctx context.Context, most time.Duration, happened func() (bool, error)) (bool, error) {
	for began := time.Now(); ; sleep(ctx, 100*time.Millisecond) {
		switch ok, err := happened(); {
		case err != nil || ok:
			return ok, err
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case time.Since(began) > most:
			return false, nil
		}
	}
}
