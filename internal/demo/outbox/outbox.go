// Package outbox is the demo of an upload service that writes a job into its database and sends a message about
// it, and of the day on which all jobs of a week have to be done again.
//
// Run first lets uploads write to database and queue as it is usually done, in both orders, and counts the jobs
// without a message and the messages without a job. Then it lets uploads, relays and workers do the same with
// packages outbox, worker and claims, each in processes of its own that are killed with -9 at every step, and
// counts again. Then a version of the transcoder is wrong for a while, unnoticed; it is mended, and the jobs of
// that while are replayed: first as it is usually done, which changes nothing, then with a new generation. In the
// end it fills a gap, and holds jobs, files, ledger and queues against each other.
//
// What it needs to be sure of it does not leave to chance: every process says how far it has come, to the stage,
// which does not answer before it has done what it has in mind.
//
// Days are short here and their times real ones: the window of the replay is from the clock of the database when
// the wrong version was deployed until its clock when it was taken away. No time in the outbox is altered.
//
// A breakage leaves out what one of the checks is about, so that one sees it fail.
//
// The package leaves to its caller the server, the queues, how a process is started, and what the findings look
// like.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Queues are the URLs of the queues.
type Queues struct {
	Usual   string `json:"usual"`   // for uploads that write to both
	Plain   string `json:"plain"`   // for jobs in any order
	Ordered string `json:"ordered"` // a FIFO queue, for the versions of a film
}

// Attributes are those of a queue, and of the FIFO queue.
func Attributes(fifo bool) map[string]string {
	attributes := map[string]string{"VisibilityTimeout": "30"} // workers renew their own
	if fifo {
		attributes["FifoQueue"] = "true"
	}
	return attributes
}

// A Breakage is something that is left out.
type Breakage string

// What can be left out. Each makes checks fail with certainty.
const (
	Nothing     Breakage = ""
	Leases      Breakage = "relay-claim" // relays take rows without keeping other relays from them
	Generations Breakage = "generation"  // what is replayed keeps its generation
)

// A Scale is the size of the demo.
type Scale struct {
	Plain    int // jobs in any order while everybody is killed
	Films    int // with versions in order
	Versions int // of each of them
	Window   int // jobs in any order while the transcoder is wrong
	After    int // and when it is mended

	// RelayDeaths is how often a relay dies at each step.
	RelayDeaths int
}

// Scales. Small is for servers that may cost money or be an emulator, and for what is known to fail.
var (
	Full  = Scale{Plain: 60, Films: 4, Versions: 5, Window: 24, After: 12, RelayDeaths: 2}
	Small = Scale{Plain: 36, Films: 2, Versions: 4, Window: 10, After: 6, RelayDeaths: 1}
)

// A Config says where the demo takes place.
type Config struct {
	API    *sqs.Client
	Queues Queues
	Scale  Scale

	// Database is the URL of a PostgreSQL in which the demo may make a schema; in SQLite without one.
	Database string

	Dir   string // for files, databases and logs; it exists
	Seed  uint64
	Break Breakage
	Keep  bool // the schema in PostgreSQL, which Say names

	// Process is the command of another process, which calls Work with its standard input.
	Process func() (*exec.Cmd, error)

	// Say tells of a step, and Line how far things are. They are called from the goroutine of Run.
	Say, Line func(format string, args ...any)
}

// A demo is one run.
type demo struct {
	Config
	ctx   context.Context
	fail  context.CancelCauseFunc
	db    *database
	url   string // of the database, for other processes
	stage *stage
	crew  *crew
	out   *Outcome
	week  week
	jobs  int // named so far
}

// Run runs the demo. What it has found is returned with an error too.
func Run(ctx context.Context, cfg Config) (out *Outcome, err error) {
	d := &demo{Config: cfg, out: &Outcome{Scale: cfg.Scale}}
	d.ctx, d.fail = context.WithCancelCause(ctx)
	defer d.fail(nil)
	for _, dir := range []string{resultsDir, usualDir} {
		if err := os.Mkdir(filepath.Join(d.Dir, dir), 0o700); err != nil {
			return d.out, err
		}
	}
	var drop func(context.Context) error
	d.url, drop, err = makeDatabase(ctx, cfg.Dir, cfg.Database, cfg.Say)
	defer func() {
		if !cfg.Keep {
			err = errors.Join(err, drop(context.WithoutCancel(ctx)))
		}
	}()
	if err != nil {
		return d.out, err
	}
	if d.db, err = openDatabase(ctx, cfg.Dir, d.url); err != nil {
		return d.out, err
	}
	defer d.db.close()
	if d.stage, err = newStage(d); err != nil {
		return d.out, err
	}
	defer d.stage.close()
	d.crew = &crew{d: d, members: make(map[string]*member), hired: make(map[role]int)}
	defer d.crew.close()

	if cfg.Break == Nothing { // with a breakage that is not what one wants to see
		if err := d.usual(); err != nil {
			return d.out, fmt.Errorf("the usual uploads: %w", err)
		}
	}
	if err := d.ours(); err != nil {
		return d.out, err
	}
	return d.out, nil
}

// rng returns a source of randomness for a purpose.
func (d *demo) rng(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(d.Seed, purpose)) }

// ours runs the second part.
func (d *demo) ours() (err error) {
	if d.week.begin, err = d.db.now(d.ctx); err != nil {
		return err
	}
	relays := make([]*member, relays)
	for i := range relays {
		if relays[i], err = d.crew.hire(Task{Role: roleRelay}); err != nil {
			return err
		}
	}
	for _, step := range []func() error{d.storm, d.bug, d.repair, d.replayAsUsual, d.redo, d.fill} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := d.crew.dismiss(); err != nil {
		return err
	}
	return d.countEnd()
}

// How many processes there are of a kind.
const (
	relays  = 2
	workers = 2
)

// deploy ends the workers that run, and starts such as have another version of the transcoder.
func (d *demo) deploy(version int) error {
	if err := d.crew.dismiss(roleWorker); err != nil {
		return err
	}
	for range workers {
		if _, err := d.crew.hire(Task{Role: roleWorker, Transcoder: version}); err != nil {
			return err
		}
	}
	return nil
}

// storm is the first day: everything happens, and everybody is killed.
func (d *demo) storm() error {
	uploads := d.stormy()
	d.Say("%d uploads; uploads, relays and workers are killed at every step", len(uploads))
	d.stage.expect(uploads)
	if err := d.deploy(firstVersion); err != nil {
		return err
	}
	if err := d.upload(uploads); err != nil {
		return err
	}
	if err := d.settled("the storm", 0); err != nil {
		return err
	}
	d.Say("%d relays, %d uploads and %d workers were killed, and all jobs are done", d.stage.killed(roleRelay), d.stage.killed(roleUpload), d.stage.killed(roleWorker))
	return d.countStorm(uploads)
}

// upload starts a process that uploads, and waits until it has.
func (d *demo) upload(uploads []upload) error {
	for _, u := range uploads {
		if u.Fate != rolledBack {
			d.out.Uploaded++
		}
	}
	m, err := d.crew.hire(Task{Role: roleUpload, Uploads: uploads})
	if err != nil {
		return err
	}
	return d.until("upload", func() (bool, error) {
		d.Line("%d of %d uploads done", d.stage.uploaded(), d.out.Uploaded)
		return d.crew.over(m), nil
	})
}

// stepMax bounds what has to happen. It is for machines that are in trouble.
const stepMax = time.Minute

// settled waits until nothing is left to do anywhere, but for so many jobs that nobody will do.
func (d *demo) settled(what string, undone int) error {
	quiet := 0
	return d.until(what, func() (bool, error) {
		pending, jobs, err := d.db.unfinished(d.ctx)
		if err != nil {
			return false, err
		}
		left, err := d.messagesIn(d.ctx, d.Queues.Plain, d.Queues.Ordered)
		if err != nil {
			return false, err
		}
		d.Line("%d rows to be sent, %d jobs to be done, %d messages in the queues", pending, jobs, left)
		if quiet++; pending+left > 0 || jobs > undone {
			quiet = 0
		}
		return quiet > 1, nil // queues count approximately
	})
}

// until asks again and again whether something has happened.
func (d *demo) until(what string, happened func() (bool, error)) error {
	over := time.After(stepMax)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		switch ok, err := happened(); {
		case err != nil || ok:
			return err
		}
		select {
		case said := <-d.stage.said:
			d.Say("%s", said)
		case <-tick.C:
		case <-d.ctx.Done():
			return context.Cause(d.ctx)
		case <-over:
			return fmt.Errorf("%s: not done after %v", what, stepMax)
		}
	}
}

// sleep waits, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
