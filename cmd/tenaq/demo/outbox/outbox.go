// Package outbox runs the program of examples/outbox while uploads, relays and workers are killed
// at every step, and replays the jobs of some days on which the transcoder was wrong.
//
// The days are short and their times are real: the window of the replay lasts from the deployment
// of the wrong transcoder until its removal, by the clock of the database.
package outbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

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
	Run:  run,
	Roles: map[string]stage.Role{
		"usual": role((*process).uploadAsUsual), "upload": role((*process).upload),
		"relay": role((*process).relay), "worker": role((*process).work),
		"replay": role((*process).replay),
	},
	Breaks: []stage.Break{
		{Name: "generation", Text: "replayed messages keep their generation"},
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

// Qualities of the transcoder, and what a right file says.
const (
	good = "good"
	bad  = "bad"
)

// gap is how many messages are lost.
const gap = 3

// A play is a run of the scenario.
type play struct {
	*stage.Crew
	studio *studio.Studio
	ledger *claims.Ledger
	base   task
	jobs   int // named so far
	out    *outcome

	uploads  map[string]upload // by job
	from, to time.Time         // the transcoder was wrong between these
	window   []string          // jobs of that time
	lost     map[string]bool   // jobs whose messages were lost
}

func run(c *stage.Crew) []stage.Row {
	p := &play{Crew: c, uploads: make(map[string]upload), lost: make(map[string]bool),
		out: &outcome{}}
	p.base.Queues = map[string]string{
		plainQueue:   p.CreateQueue(plainQueue, nil),
		orderedQueue: p.CreateQueue(orderedQueue, map[string]string{"FifoQueue": "true"}),
	}
	p.base.Usual = p.CreateQueue("transcode-usual", nil)
	p.Must(os.Mkdir(resultsDir(p.Dir), 0o700))
	p.Must(os.Mkdir(usualDir(p.Dir), 0o700))
	defer p.openDatabase()()
	p.On = p.on
	p.Play(func() {
		usual := p.Usual(p.usual)
		p.play()
		usual()
	})
	p.out.Outcome = p.Outcome()
	return p.out.rows()
}

func resultsDir(dir string) string       { return filepath.Join(dir, "results") }
func usualDir(dir string) string         { return filepath.Join(dir, "results-usual") }
func resultFile(dir, job string) string  { return filepath.Join(dir, job+".txt") }
func (p *play) result(job string) string { return resultFile(resultsDir(p.Dir), job) }

// play tells the story.
func (p *play) play() {
	begin := p.now()
	for range 2 {
		p.Hire("relay", p.base)
	}
	p.storm()
	p.bug()
	p.repair()
	outside := p.outside()
	p.replayAsUsual()
	p.redo()
	p.fill(begin)
	p.Dismiss()
	p.countEnd(outside)
}

// deploy replaces the workers by workers that transcode in another quality.
func (p *play) deploy(quality string) {
	p.Dismiss("worker")
	t := p.base
	t.Quality = quality
	for range 2 {
		p.Hire("worker", t)
	}
}

// upload starts a process that uploads, and waits until it has.
func (p *play) upload(uploads []upload) {
	t := p.base
	t.Uploads = uploads
	p.out.Uploaded += stage.Count(uploads, func(u upload) bool { return u.Fate != rolledBack })
	p.Progress.Line("%d uploads", p.out.Uploaded)
	p.Finish("upload", t)
}

// pending is how many rows are not sent.
func (p *play) pending() int {
	stats, err := p.studio.Box.Stats(p.Ctx)
	p.Must(err)
	return stats.Pending
}

// left is how many messages are in the two queues.
func (p *play) left() int { return p.Left(p.base.Queues[plainQueue], p.base.Queues[orderedQueue]) }

const undone = `SELECT count(*) FROM jobs WHERE status <> 'done'`

// settled waits until everything is done, except the jobs whose messages were lost.
func (p *play) settled(lost int) {
	quiet := 0
	p.Until("all jobs done", func() bool {
		rows, jobs, left := p.pending(), p.number(undone), p.left()
		p.Progress.Line("%s to send, %d jobs to do, %s in the queues",
			cli.Counted(rows, "row", "rows"), jobs, cli.Counted(left, "message", "messages"))
		if quiet++; rows+left > 0 || jobs > lost {
			quiet = 0
		}
		return quiet > 1 // queues count approximately
	})
}

// storm is the first day: everything happens, and every kind of process is killed.
func (p *play) storm() {
	uploads := p.stormy()
	p.Say("%d uploads; uploads, relays and workers are killed at every step", len(uploads))
	p.Plan(p.deaths(uploads)...)
	p.deploy(good)
	p.upload(uploads)
	p.settled(0)
	p.countStorm()
}

// bug is day 3 to day 10: the transcoder is wrong, and every job is done.
func (p *play) bug() {
	p.from = p.now()
	p.deploy(bad)
	uploads := append(p.plain(p.Scale(8, 24)), p.film("film-of-the-week", p.Scale(2, 5))...)
	p.upload(uploads)
	p.settled(0)
	for _, u := range uploads {
		p.window = append(p.window, u.Job)
	}
	p.out.Window, p.out.WindowWrong = len(p.window), p.wrong(p.window...)
	p.Say("days 3 to 10: %d files are wrong, though the jobs are done", p.out.WindowWrong)
	p.to = p.now()
}

// repair is day 10: the transcoder is repaired. Before its workers run, a stray program receives
// some messages, does nothing and deletes them.
func (p *play) repair() {
	p.Dismiss("worker")
	p.upload(p.plain(p.Scale(5, 12)))
	p.Until("send what was uploaded", func() bool { return p.pending() == 0 })
	p.Until("lose messages", func() bool {
		p.Handle(p.base.Queues[plainQueue], 1, func(m types.Message) {
			var j studio.Job
			p.Must(json.Unmarshal([]byte(aws.ToString(m.Body)), &j))
			p.lost[j.ID] = true
		})
		return len(p.lost) == gap
	})
	p.deploy(good)
	p.settled(gap)
}

// outside returns the files of jobs that are not to be replayed.
func (p *play) outside() map[string]os.FileInfo {
	files := make(map[string]os.FileInfo)
	for _, job := range p.allJobs() {
		if !slices.Contains(p.window, job) && !p.lost[job] {
			info, err := os.Stat(p.result(job))
			p.Must(err)
			files[job] = info
		}
	}
	return files
}

// replayAsUsual writes the same jobs into the outbox again.
func (p *play) replayAsUsual() {
	before := len(received(p.Reports(), 0))
	for _, job := range p.window {
		tx, err := p.studio.DB.BeginTx(p.Ctx, nil)
		p.Must(err)
		p.Must(p.studio.Enqueue(p.Ctx, tx, p.uploads[job].message()))
		p.Must(tx.Commit())
	}
	p.settled(gap)
	p.out.UsualSent = len(received(p.Reports(), 0)) - before
	p.out.UsualRight = p.out.Window - p.wrong(p.window...)
	p.Say("the same jobs again, as usual: %s, and %d files are right",
		cli.Counted(p.out.UsualSent, "message", "messages"), p.out.UsualRight)
}

// redo replays the jobs of the window. Processes that replay are killed on the way.
func (p *play) redo() {
	r := replay{From: p.from, To: p.to}
	replayer, err := outbox.NewReplayer(r.config(p.studio, p.ledger, p.Broken))
	p.Must(err)
	plan, err := replayer.Plan(p.Ctx, 1)
	p.Must(err)
	p.out.Planned = plan.Written
	p.Plan(stage.Death{Point: pointStepped}, stage.Death{Point: pointStepping})
	p.replay(r)
	p.settled(gap)
	p.out.StillWrong = p.wrong(p.window...)
	p.out.Replayed = p.number(`SELECT count(*) FROM outbox WHERE generation > 0`)
	p.Say("replayed %d jobs; %d files are wrong", p.out.Replayed, p.out.StillWrong)
}

// replay lets a process, or its successors, replay.
func (p *play) replay(r replay) {
	t := p.base
	t.Replay = &r
	p.Progress.Line("replaying")
	p.Finish("replay", t)
}

// fill replays the missing part of everything that was ever sent.
func (p *play) fill(begin time.Time) {
	const count = `SELECT count(*) FROM outbox`
	rows := p.number(count)
	p.replay(replay{From: begin, To: p.now(), MissingOnly: true})
	p.settled(0)
	p.out.GapRows = p.number(count) - rows
	for job := range p.lost {
		p.out.GapDone += 1 - p.wrong(job)
	}
}
