package outbox

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/worker"
)

// Directories of results in Config.Dir, one file for each job.
const (
	resultsDir = "results"
	usualDir   = "results-usual"
)

func resultFile(dir, job string) string { return filepath.Join(dir, job+".wav") }

// messageLease is the shortest that there is.
const messageLease = 3 * time.Second

// work is a process with a worker for each of the two queues.
func (t *Task) work(ctx context.Context, db *database, api *sqs.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &handler{Task: t, db: db}
	var both sync.WaitGroup
	var errs [2]error
	for i, queue := range []string{t.Queues.Plain, t.Queues.Ordered} {
		w, err := worker.New(worker.Config{
			Client: shortPolls{api}, QueueURL: queue, Claims: db.ledger, Handler: worker.JSON(h.handle),
			Concurrency: 4, Lease: messageLease, Attempts: 20, RetryBase: 200 * time.Millisecond, Drain: 5 * time.Second,
			Logger: slog.Default().With("worker", t.Name),
			Events: worker.Events{Received: h.received},
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

// A handler transcodes.
type handler struct {
	*Task
	db *database
}

// received notes what the queue gave, to be counted.
func (h *handler) received(m *worker.Message) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := h.db.ExecContext(ctx, `INSERT INTO deliveries (message_id, job_id, generation, ordered) VALUES ($1, $2, $3, $4)
		ON CONFLICT (message_id) DO NOTHING`, m.ID, m.Key, m.Generation, m.QueueURL == h.Queues.Ordered); err != nil {
		slog.Error("a delivery is not noted", "message", m.ID, "error", err)
	}
}

// handle may run several times for a job, and be killed anywhere. The file has the same content each time, and is
// there as a whole or not; the job is recorded once.
func (h *handler) handle(ctx context.Context, w work, m *worker.Message) error {
	at := func(p point) { h.tell(ctx, report{Point: p, Jobs: []string{w.Job}}) }
	file, err := transcode(h.Transcoder, tone(w.Video, w.Version))
	if err != nil {
		return worker.Poison(err)
	}
	if err := h.write(w.Job, file, at); err != nil {
		return err
	}
	at(pointWritten)
	if err := h.db.record(ctx, w, m.EffectKey(), m.Generation, h.Transcoder, m.Claim()); err != nil {
		return err
	}
	at(pointRecorded)
	return nil
}

// write writes a result beside its place, and puts it there when it is complete.
func (h *handler) write(job string, content []byte, at func(point)) (err error) {
	dir := filepath.Join(h.Dir, resultsDir)
	f, err := os.CreateTemp(dir, job+"-*.part")
	if err != nil {
		return err
	}
	half := len(content) / 2
	_, err = f.Write(content[:half])
	at(pointHalf)
	if err == nil {
		_, err = f.Write(content[half:])
	}
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), resultFile(dir, job))
	}
	return err
}

// shortPolls asks for messages without waiting for them, because other servers may be emulators that carry out
// one request at a time, long polls included.
type shortPolls struct{ worker.SQS }

// ReceiveMessage pauses when there is nothing.
func (s shortPolls) ReceiveMessage(
	ctx context.Context, in *sqs.ReceiveMessageInput, options ...func(*sqs.Options),
) (*sqs.ReceiveMessageOutput, error) {
	short := *in
	short.WaitTimeSeconds = 0
	out, err := s.SQS.ReceiveMessage(ctx, &short, options...)
	if err == nil && len(out.Messages) == 0 {
		sleep(ctx, 100*time.Millisecond)
	}
	return out, err
}
