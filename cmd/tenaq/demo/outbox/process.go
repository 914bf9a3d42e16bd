package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

// A process is an upload service, a relay, a worker or a replay.
type process struct {
	*stage.Child
	task
	api    *sqs.Client
	studio *studio.Studio
	ledger *claims.Ledger
}

func child(ctx context.Context, c *stage.Child) error {
	p := &process{Child: c}
	err := json.Unmarshal(c.Task, &p.task)
	if err != nil {
		return err
	}
	if p.api, err = c.Client(ctx); err != nil {
		return err
	}
	if p.studio, err = studio.Open(ctx, p.Database); err != nil {
		return err
	}
	defer p.studio.Close()
	if p.ledger, err = newLedger(p.studio); err != nil {
		return err
	}
	switch c.Role {
	case "usual":
		return p.uploadAsUsual(ctx)
	case "upload":
		return p.upload(ctx)
	case "relay":
		return p.relay(ctx)
	case "worker":
		return p.work(ctx)
	case "replay":
		return p.replay(ctx)
	}
	return fmt.Errorf("there is no role %q", c.Role)
}

// newLedger returns the ledger of the workers. A claim ends before its message comes back.
func newLedger(s *studio.Studio) (*claims.Ledger, error) {
	return claims.New(s.Records, claims.Config{Lease: lease * 2 / 3})
}

// errEnough ends a transaction that is to be rolled back.
var errEnough = errors.New("the upload is rolled back")

// upload is the upload service. What it is asked for a second time, it does not do again. An upload
// that commits late is under way beside the others, which stay in their order.
func (p *process) upload(ctx context.Context) error {
	var lates sync.WaitGroup
	errs := make([]error, len(p.Uploads))
	for i, u := range p.Uploads {
		if u.Fate == late {
			lates.Go(func() { errs[i] = p.uploadOne(ctx, u) })
		} else if errs[i] = p.uploadOne(ctx, u); errs[i] != nil {
			break
		}
	}
	lates.Wait()
	return errors.Join(errs...)
}

// uploadOne writes a job and its message with the program of the example, and reports each
// statement.
func (p *process) uploadOne(ctx context.Context, u upload) error {
	m := u.message()
	m.ID = outbox.NewID()
	tell := func(point string) {
		if u.Fate == fate(point) || point == pointLate && u.Fate == late {
			p.Tell(ctx, stage.Report{Point: point, Key: u.Job, Text: m.ID})
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
	if _, err := s.Upload(ctx, u.job(), m); err != nil && !errors.Is(err, errEnough) {
		return err
	}
	tell(pointCommit)
	return nil
}

// relay is a relay with few rows in hand, so that it comes by every step often.
func (p *process) relay(ctx context.Context) error {
	watched := &watchedBox{Box: p.studio.Box, p: p, jobs: make(map[string]string)}
	r, err := outbox.NewRelay(outbox.Config{
		Box: watched, Client: &watchedQueue{p.api, p}, Queues: p.Queues,
		Rows: 4, Parallel: 2, Lease: lease, RetryBase: 50 * time.Millisecond,
		Events: outbox.Events{Lost: func(r outbox.Row) { p.tell(ctx, pointLost, r.Dedup) }},
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

func (p *process) tell(ctx context.Context, point string, jobs ...string) {
	p.Tell(ctx, stage.Report{Point: point, Keys: jobs})
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
	b.p.tell(ctx, pointClaiming)
	rows, next, err := b.Box.Claim(ctx, c)
	var jobs []string
	b.mu.Lock()
	for _, r := range rows {
		b.jobs[r.ID] = r.Dedup
		jobs = append(jobs, r.Dedup)
	}
	b.mu.Unlock()
	if len(jobs) > 0 {
		b.p.tell(ctx, pointClaimed, jobs...)
	}
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
	if len(jobs) > 0 {
		b.p.tell(ctx, pointSettled, jobs...)
	}
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
	q.p.tell(ctx, pointSending, jobs...)
	out, err := q.SQS.SendMessageBatch(ctx, in, options...)
	if err != nil {
		q.p.tell(ctx, pointDoubt, jobs...)
	} else {
		q.p.tell(ctx, pointSent, jobs...)
	}
	return out, err
}

// work is a process with a worker for each of the two queues.
func (p *process) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var both sync.WaitGroup
	var errs [2]error
	for i, queue := range []string{p.Queues[plainQueue], p.Queues[orderedQueue]} {
		w, err := worker.New(worker.Config{
			Client: stage.ShortPolls{Client: p.api}, QueueURL: queue, Claims: p.ledger,
			Handler:     worker.JSON(p.handle),
			Concurrency: 4, Lease: lease, Attempts: 20, RetryBase: 200 * time.Millisecond,
			Drain:  5 * time.Second,
			Logger: slog.Default(),
			Events: worker.Events{Received: func(m *worker.Message) {
				p.Tell(ctx, stage.Report{Point: pointReceived, Key: m.Key, Message: m.ID,
					Number: m.Generation})
			}},
		})
		if err != nil {
			return err
		}
		both.Go(func() {
			defer cancel()
			errs[i] = w.Run(ctx)
		})
	}
	both.Wait()
	return errors.Join(errs[:]...)
}

// handle transcodes and marks the job as done, with the program of the example, and reports each
// step.
func (p *process) handle(ctx context.Context, j studio.Job, m *worker.Message) error {
	tell := func(point string) {
		p.Tell(ctx, stage.Report{Point: point, Key: j.ID, Number: m.Generation, Text: j.Video})
	}
	tell(pointBegun)
	if err := studio.Write(resultFile(resultsDir(p.Dir), j.ID),
		studio.Transcode(j.Video, p.Quality)); err != nil {
		return err
	}
	tell(pointWritten)
	if err := p.studio.Done(ctx, j, m); err != nil {
		return err
	}
	tell(pointRecorded)
	return nil
}

// A replay is what a process is told that replays.
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

// replay begins a replay, or goes on with the one that a process before it has begun.
func (p *process) replay(ctx context.Context) error {
	cfg := p.Replay.config(p.studio, p.ledger, p.Broken)
	cfg.Box = &watchedHistory{cfg.Box, p}
	r, err := outbox.NewReplayer(cfg)
	if err != nil {
		return err
	}
	newest, err := cfg.Box.Replays(ctx, 1)
	if err != nil {
		return err
	}
	if len(newest) > 0 && !newest[0].AtEnd() {
		_, err = r.Continue(ctx, newest[0].Number)
	} else {
		_, err = r.Run(ctx)
	}
	return err
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
	h.p.tell(ctx, pointStepping, jobs...)
	next, err := h.History.StepReplay(ctx, r, rows)
	if err == nil {
		h.p.tell(ctx, pointStepped, jobs...)
	}
	return next, err
}
