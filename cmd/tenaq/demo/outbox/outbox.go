// Package outbox runs the program of examples/outbox while uploads, relays and workers are killed
// at every step, and replays the jobs of some days on which the transcoder was wrong.
//
// The days are short and their times are real: the window of the replay is from the moment at which
// the wrong transcoder was deployed until it was taken away, by the clock of the database.
package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/outbox/studio"
	"tenaq/internal/cli"
	"tenaq/outbox"
)

// Scenario is this scenario.
var Scenario = stage.Scenario{
	Name: "outbox",
	Text: "jobs and messages in one transaction, and a week replayed",
	Run:  run, Child: child,
	Breaks: []stage.Break{
		{Name: "generation", Text: "what is replayed keeps its generation"},
		{Name: "rate", Text: "the replay has no rate"},
	},
}

// Names of the queues, as rows of the outbox have them.
const (
	plainQueue   = studio.QueueName
	orderedQueue = studio.QueueName + ".fifo"
)

// lease is the shortest that there is, of messages and relays.
const lease = 3 * time.Second

// A task is what a process is told.
type task struct {
	Database string            // as the example takes it
	Queues   map[string]string // URLs by name
	Usual    string            // URL of the queue for the usual uploads
	Uploads  []upload          `json:",omitempty"`
	Quality  string            `json:",omitempty"` // of a worker
	Replay   *replay           `json:",omitempty"`
}

// A play is a run of the scenario.
type play struct {
	env    *stage.Env
	sqs    *stage.SQS
	crew   *stage.Crew
	studio *studio.Studio
	ledger *claims.Ledger
	base   task
	jobs   int // named so far
	out    *outcome

	uploads map[string]upload // by job
	relays  relays

	from, to time.Time              // the transcoder was wrong between these
	window   []string               // jobs of that time
	lost     map[string]bool        // jobs whose messages were lost
	outside  map[string]os.FileInfo // files of other jobs, before the replay
}

func run(ctx context.Context, env *stage.Env) (rows []stage.Row, err error) {
	s, err := env.OpenSQS(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	p := &play{
		env: env, sqs: s, uploads: make(map[string]upload), lost: make(map[string]bool),
		out: &outcome{Ours: s.Server != nil, Broken: env.Broken}, relays: newRelays(),
	}
	p.base.Queues = make(map[string]string)
	for name, attributes := range map[string]map[string]string{plainQueue: nil,
		orderedQueue: {"FifoQueue": "true"}} {
		if p.base.Queues[name], err = s.CreateQueue(ctx, name, attributes); err != nil {
			return nil, err
		}
	}
	if p.base.Usual, err = s.CreateQueue(ctx, "transcode-usual", nil); err != nil {
		return nil, err
	}
	for _, dir := range []string{resultsDir(env.Dir), usualDir(env.Dir)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	drop, err := p.openDatabase(ctx)
	defer func() {
		if !env.Keep {
			err = errors.Join(err, drop(context.WithoutCancel(ctx)))
		}
	}()
	if err != nil {
		return nil, err
	}
	defer p.studio.Close()
	if p.crew, err = stage.NewCrew(ctx, s); err != nil {
		return nil, err
	}
	defer p.crew.Close()
	p.crew.On = p.on
	usual := make(chan error, 1)
	go func() { usual <- p.usual(p.crew.Ctx) }()
	if err = p.play(p.crew.Ctx); err == nil {
		err = <-usual
	}
	p.out.Reports, p.out.Unclean = p.crew.Reports(), p.crew.Unclean()
	return p.out.rows(), err
}

func resultsDir(dir string) string       { return filepath.Join(dir, "results") }
func usualDir(dir string) string         { return filepath.Join(dir, "results-usual") }
func resultFile(dir, job string) string  { return filepath.Join(dir, job+".txt") }
func (p *play) result(job string) string { return resultFile(resultsDir(p.env.Dir), job) }

// play tells the story.
func (p *play) play(ctx context.Context) error {
	begin, err := p.now(ctx)
	if err != nil {
		return err
	}
	for range 2 {
		if err := p.crew.Hire("relay", p.base); err != nil {
			return err
		}
	}
	if err := p.storm(ctx); err != nil {
		return fmt.Errorf("the storm: %w", err)
	}
	if err := p.bug(ctx); err != nil {
		return fmt.Errorf("the days of the wrong transcoder: %w", err)
	}
	if err := p.repair(ctx); err != nil {
		return fmt.Errorf("the repair: %w", err)
	}
	if err := p.replayAsUsual(ctx); err != nil {
		return fmt.Errorf("the usual replay: %w", err)
	}
	if err := p.redo(ctx); err != nil {
		return fmt.Errorf("the replay: %w", err)
	}
	if err := p.fill(ctx, begin); err != nil {
		return fmt.Errorf("the replay of what is missing: %w", err)
	}
	p.crew.Dismiss()
	return p.countEnd(ctx)
}

// deploy replaces the workers by such as transcode in another quality.
func (p *play) deploy(quality string) error {
	p.crew.Dismiss("worker")
	t := p.base
	t.Quality = quality
	for range 2 {
		if err := p.crew.Hire("worker", t); err != nil {
			return err
		}
	}
	return nil
}

// Qualities of the transcoder, and what a right file says.
const (
	good = "good"
	bad  = "bad"
)

// upload starts a process that uploads, and waits until it has.
func (p *play) upload(uploads []upload) error {
	t := p.base
	t.Uploads = uploads
	for _, u := range uploads {
		if u.Fate != rolledBack {
			p.out.Uploaded++
		}
	}
	return p.crew.Finish("upload", t, func() { p.env.Progress.Line("%d uploads", p.out.Uploaded) })
}

// settled waits until nothing is left to do, but for so many jobs whose messages were lost.
func (p *play) settled(ctx context.Context, undone int) error {
	quiet := 0
	return p.crew.Until("all jobs done", func() (bool, error) {
		stats, err := p.studio.Box.Stats(ctx)
		if err != nil {
			return false, err
		}
		jobs, err := p.number(ctx, `SELECT count(*) FROM jobs WHERE status <> 'done'`)
		if err != nil {
			return false, err
		}
		left, err := p.sqs.Left(ctx, p.base.Queues[plainQueue], p.base.Queues[orderedQueue])
		p.env.Progress.Line("%s to send, %d jobs to do, %s in the queues",
			cli.Counted(stats.Pending, "row", "rows"), jobs, cli.Counted(left, "message",
				"messages"))
		if quiet++; stats.Pending+left > 0 || jobs > undone {
			quiet = 0
		}
		return quiet > 1, err // queues count approximately
	})
}

// storm is the first day: everything happens, and every kind of process is killed.
func (p *play) storm(ctx context.Context) error {
	uploads := p.stormy()
	p.env.Say("%d uploads; uploads, relays and workers are killed at every step", len(uploads))
	p.crew.Do(func() {
		for range p.env.Scale(1, 2) {
			p.relays.deaths = append(p.relays.deaths, pointClaiming, pointClaimed, pointSent,
				pointSettled)
		}
	})
	if err := p.deploy(good); err != nil {
		return err
	}
	if err := p.upload(uploads); err != nil {
		return err
	}
	if err := p.settled(ctx, 0); err != nil {
		return err
	}
	return p.countStorm(ctx)
}

// bug is day 3 to day 10: the transcoder is wrong, and every job is done.
func (p *play) bug(ctx context.Context) (err error) {
	if p.from, err = p.now(ctx); err != nil {
		return err
	}
	if err := p.deploy(bad); err != nil {
		return err
	}
	uploads := append(p.plain(p.env.Scale(8, 24)), p.film("film-of-the-week", p.env.Scale(2, 5))...)
	if err := p.upload(uploads); err != nil {
		return err
	}
	if err := p.settled(ctx, 0); err != nil {
		return err
	}
	for _, u := range uploads {
		p.window = append(p.window, u.Job)
	}
	p.out.Window, p.out.WindowWrong = len(p.window), p.wrong(p.window)
	p.env.Say("days 3 to 10: %d files are wrong, though the jobs are done", p.out.WindowWrong)
	p.to, err = p.now(ctx)
	return err
}

// gap is how many messages are lost.
const gap = 3

// repair is day 10: the transcoder is repaired. Before its workers run, a stray program receives
// some messages, does nothing and deletes them.
func (p *play) repair(ctx context.Context) error {
	p.crew.Dismiss("worker")
	if err := p.upload(p.plain(p.env.Scale(5, 12))); err != nil {
		return err
	}
	if err := p.crew.Until("send what was uploaded", func() (bool, error) {
		stats, err := p.studio.Box.Stats(ctx)
		return stats.Pending == 0, err
	}); err != nil {
		return err
	}
	url := p.base.Queues[plainQueue]
	if err := p.crew.Until("lose messages", func() (bool, error) {
		got, err := p.sqs.API.ReceiveMessage(ctx,
			&sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 1})
		if err != nil {
			return false, err
		}
		for _, m := range got.Messages {
			var j studio.Job
			if err := json.Unmarshal([]byte(aws.ToString(m.Body)), &j); err != nil {
				return false, err
			}
			p.lost[j.ID] = true
			if _, err := p.sqs.API.DeleteMessage(ctx,
				&sqs.DeleteMessageInput{QueueUrl: &url,
					ReceiptHandle: m.ReceiptHandle}); err != nil {
				return false, err
			}
		}
		return len(p.lost) == gap, nil
	}); err != nil {
		return err
	}
	if err := p.deploy(good); err != nil {
		return err
	}
	if err := p.settled(ctx, gap); err != nil {
		return err
	}
	p.outside = make(map[string]os.FileInfo)
	return p.eachJob(ctx, func(job string) error {
		if slices.Contains(p.window, job) || p.lost[job] {
			return nil
		}
		info, err := os.Stat(p.result(job))
		p.outside[job] = info
		return err
	})
}

// replayAsUsual writes the same jobs into the outbox again.
func (p *play) replayAsUsual(ctx context.Context) error {
	before := len(received(p.crew.Reports(), 0))
	for _, job := range p.window {
		u := p.uploads[job]
		tx, err := p.studio.DB.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := errors.Join(p.studio.Enqueue(ctx, tx, u.message()), tx.Commit()); err != nil {
			return err
		}
	}
	if err := p.settled(ctx, gap); err != nil {
		return err
	}
	p.out.UsualSent = len(received(p.crew.Reports(), 0)) - before
	p.out.UsualRight = p.out.Window - p.wrong(p.window)
	p.env.Say("the same jobs again, as usual: %s, and %d files are right",
		cli.Counted(p.out.UsualSent, "message", "messages"), p.out.UsualRight)
	return nil
}

// redo replays the jobs of the window. Processes that replay are killed on the way.
func (p *play) redo(ctx context.Context) error {
	r := replay{From: p.from, To: p.to}
	replayer, err := outbox.NewReplayer(r.config(p.studio, p.ledger, p.env.Broken))
	if err != nil {
		return err
	}
	plan, err := replayer.Plan(ctx, 1)
	if err != nil {
		return err
	}
	p.out.Planned = plan.Written
	p.crew.Do(func() { p.relays.replayDeaths = []string{pointStepped, pointStepping} })
	if err := p.replay(r); err != nil {
		return err
	}
	if err := p.settled(ctx, gap); err != nil {
		return err
	}
	p.out.StillWrong = p.wrong(p.window)
	p.out.Replayed, err = p.number(ctx, `SELECT count(*) FROM outbox WHERE generation > 0`)
	p.env.Say("replayed %d jobs; %d files are wrong", p.out.Replayed, p.out.StillWrong)
	return err
}

// replay has a process replay, and those that take its place.
func (p *play) replay(r replay) error {
	t := p.base
	t.Replay = &r
	return p.crew.Finish("replay", t, func() { p.env.Progress.Line("replaying") })
}

// fill replays what is missing of all that was ever sent.
func (p *play) fill(ctx context.Context, begin time.Time) error {
	now, err := p.now(ctx)
	if err != nil {
		return err
	}
	const count = `SELECT count(*) FROM outbox`
	rows, err := p.number(ctx, count)
	if err != nil {
		return err
	}
	if err := p.replay(replay{From: begin, To: now, MissingOnly: true}); err != nil {
		return err
	}
	if err := p.settled(ctx, 0); err != nil {
		return err
	}
	after, err := p.number(ctx, count)
	p.out.GapRows = after - rows
	for job := range p.lost {
		if p.wrong([]string{job}) == 0 {
			p.out.GapDone++
		}
	}
	return err
}
