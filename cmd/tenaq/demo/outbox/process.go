package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/outbox/studio"
	"tenaq/outbox"
	"tenaq/worker"
)

// A task configures a process.
type task struct {
	Database string            // as the example takes it
	Queues   map[string]string // URLs by name
	Usual    string            // URL of the queue for the usual uploads
	Uploads  []upload          `json:",omitempty"`
	Quality  string            `json:",omitempty"` // of a worker
	Replay   *replay           `json:",omitempty"`
}

// A process is an upload service, a relay, a worker or a replay.
type process struct {
	*stage.Child
	task
	studio *studio.Studio
	ledger *claims.Ledger
}

// role returns the role of processes that do something with the studio.
func role(main func(*process)) stage.Role {
	return stage.RoleOf(func(c *stage.Child, t task) {
		s, err := studio.Open(c.Ctx, t.Database)
		c.Must(err)
		defer s.Close()
		ledger, err := newLedger(s)
		c.Must(err)
		main(&process{c, t, s, ledger})
	})
}

// newLedger returns the ledger of the workers. A claim ends before its message comes back.
func newLedger(s *studio.Studio) (*claims.Ledger, error) {
	return claims.New(claims.Config{Store: s.Records, Lease: lease * 2 / 3})
}

// errEnough ends a transaction that is to be rolled back.
var errEnough = errors.New("the upload is rolled back")

// upload is the upload service. It does not repeat an upload that it has done before. An upload
// that commits late runs beside the others, which stay in their order. All are named in that order.
func (p *process) upload() {
	for _, u := range p.Uploads {
		m := u.message()
		m.ID = outbox.NewID()
		if u.Fate == late {
			defer p.Beside(func() { p.uploadOne(u, m) })()
		} else {
			p.uploadOne(u, m)
		}
	}
}

// uploadOne writes a job and its message with the program of the example, and reports each
// statement.
func (p *process) uploadOne(u upload, m outbox.Message) {
	tell := func(point string) {
		if u.Fate == point || point == pointLate && u.Fate == late {
			p.Tell(stage.Report{Point: point, Key: u.Job, Text: m.ID})
		}
	}
	if !p.studio.Shared { // SQLite has one writer at a time: the row is named now and written later
		tell(pointLate)
	}
	s := *p.studio
	s.Enqueue = func(ctx context.Context, tx *sql.Tx, messages ...outbox.Message) error {
		tell(pointJob)
		if err := p.studio.Enqueue(ctx, tx, messages...); err != nil {
			return err
		}
		tell(pointRow)
		if u.Fate == rolledBack {
			return errEnough
		}
		if p.studio.Shared {
			tell(pointLate)
		}
		return nil
	}
	if _, err := s.Upload(p.Ctx, u.job(), m); !errors.Is(err, errEnough) {
		p.Must(err)
	}
	tell(pointCommit)
}

// relay is a relay with few rows in hand, so that it passes each step often.
func (p *process) relay() {
	watched := &watchedBox{Box: p.studio.Box, p: p, jobs: make(map[string]string)}
	r, err := outbox.New(outbox.Config{
		Box: watched, Client: &watchedQueue{p.API, p}, Queues: p.Queues,
		Rows: 4, Parallel: 2, Lease: lease, RetryBase: 50 * time.Millisecond,
		Events: outbox.Events{Lost: func(r outbox.Row) { p.tell(pointLost, r.Dedup) }},
	})
	p.Must(err)
	p.Must(r.Run(p.Ctx))
}

// tell reports a point about some jobs, if there are any.
func (p *process) tell(point string, jobs ...string) {
	if len(jobs) > 0 {
		p.Tell(stage.Report{Point: point, Keys: jobs})
	}
}

// A watchedBox reports what a relay asks of its box, before and after.
type watchedBox struct {
	outbox.Box
	p *process

	mu   sync.Mutex
	jobs map[string]string // by the id of the row
}

// Claim reports that it is about to, and what it got.
func (b *watchedBox) Claim(
	ctx context.Context, c outbox.Claim,
) ([]outbox.Row, time.Duration, error) {
	b.p.Tell(stage.Report{Point: pointClaiming})
	rows, next, err := b.Box.Claim(ctx, c)
	var jobs []string
	b.mu.Lock()
	for _, r := range rows {
		b.jobs[r.ID] = r.Dedup
		jobs = append(jobs, r.Dedup)
	}
	b.mu.Unlock()
	b.p.tell(pointClaimed, jobs...)
	return rows, next, err
}

// Settle reports what was written down as sent.
func (b *watchedBox) Settle(ctx context.Context, relay string, outcomes []outbox.Outcome) error {
	if err := b.Box.Settle(ctx, relay, outcomes); err != nil {
		return err
	}
	var jobs []string
	b.mu.Lock()
	for _, o := range outcomes {
		if o.Fate == outbox.Sent {
			jobs = append(jobs, b.jobs[o.ID])
		}
		delete(b.jobs, o.ID)
	}
	b.mu.Unlock()
	b.p.tell(pointSettled, jobs...)
	return nil
}

// A watchedQueue reports what a relay sends, before and after.
type watchedQueue struct {
	outbox.SQS
	p *process
}

// SendMessageBatch sends.
func (q *watchedQueue) SendMessageBatch(
	ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options),
) (*sqs.SendMessageBatchOutput, error) {
	var jobs []string
	for _, e := range in.Entries {
		var j studio.Job
		_ = json.Unmarshal([]byte(aws.ToString(e.MessageBody)), &j) // all bodies are jobs
		jobs = append(jobs, j.ID)
	}
	q.p.tell(pointSending, jobs...)
	out, err := q.SQS.SendMessageBatch(ctx, in, options...)
	point := pointSent
	if err != nil {
		point = pointDoubt
	}
	q.p.tell(point, jobs...)
	return out, err
}

// work is a process with a worker for each of the two queues.
func (p *process) work() {
	for _, url := range p.Queues {
		defer p.Beside(func() {
			p.Work(worker.Config{
				Client: p.API, QueueURL: url, Claims: p.ledger,
				Handler: worker.JSON(p.handle), Concurrency: 4, Lease: lease, Attempts: 20,
				RetryBase: 200 * time.Millisecond, Drain: 5 * time.Second,
			})
		})()
	}
}

// handle transcodes and marks the job as done, with the program of the example, and reports each
// step.
func (p *process) handle(ctx context.Context, j studio.Job, m *worker.Message) error {
	r := stage.Report{Key: j.ID, Generation: m.Generation, Text: j.Video}
	if err := studio.Write(resultFile(resultsDir(p.Dir), j.ID),
		studio.Transcode(j.Video, p.Quality)); err != nil {
		return err
	}
	r.Point = pointWritten
	p.Tell(r)
	if err := p.studio.Done(ctx, j, m); err != nil {
		return err
	}
	r.Point = pointRecorded
	p.Tell(r)
	return nil
}

// A replay configures a process that replays.
type replay struct {
	From, To    time.Time
	MissingOnly bool
}

// replayRate is low, so that a replay takes several steps: rows per second.
const replayRate = 6

func (r replay) config(s *studio.Studio, ledger *claims.Ledger, broken string) outbox.ReplayConfig {
	history, _ := s.Box.(outbox.History) // every box of the example has one
	cfg := outbox.ReplayConfig{
		Box: history, Source: outbox.Source{From: r.From, To: r.To}, Rate: replayRate,
		By: "the demo", Note: "the transcoder was wrong",
	}
	if broken == "rate" {
		cfg.Rate = 1000
	}
	if r.MissingOnly {
		cfg.MissingOnly, cfg.Ledger, cfg.Note = true, ledger, "messages were lost"
	}
	return cfg
}

// replay begins a replay, or continues the replay of an earlier process.
func (p *process) replay() {
	cfg := p.Replay.config(p.studio, p.ledger, p.Broken)
	cfg.Box = &watchedHistory{cfg.Box, p}
	r, err := outbox.NewReplayer(cfg)
	p.Must(err)
	newest, err := cfg.Box.Replays(p.Ctx, 1)
	p.Must(err)
	if len(newest) > 0 && !newest[0].AtEnd() {
		_, err = r.Continue(p.Ctx, newest[0].Number)
	} else {
		_, err = r.Run(p.Ctx)
	}
	p.Must(err)
}

// A watchedHistory reports what a replay writes, before and after.
type watchedHistory struct {
	outbox.History
	p *process
}

// StepReplay writes rows.
func (h *watchedHistory) StepReplay(
	ctx context.Context, r outbox.Replay, rows []outbox.Message,
) (outbox.Replay, error) {
	if len(rows) == 0 {
		return h.History.StepReplay(ctx, r, rows)
	}
	var jobs []string
	rows = slices.Clone(rows)
	for i := range rows {
		jobs = append(jobs, rows[i].Dedup)
		if h.p.Broken == "generation" {
			rows[i].Generation = 0
		}
	}
	h.p.tell(pointStepping, jobs...)
	next, err := h.History.StepReplay(ctx, r, rows)
	if err == nil {
		h.p.tell(pointStepped, jobs...)
	}
	return next, err
}
