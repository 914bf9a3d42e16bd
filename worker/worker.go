package worker

import (
	"context"
	crand "crypto/rand"
	"strings"
	"sync"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/internal/work/pulse"
	"tenaq/internal/work/queuename"
)

// A Worker receives messages of one queue and handles them.
type Worker struct {
	cfg   Config
	batch BatchHandler // nil when messages are handled one by one

	around func(context.Context, []*Message) error // the handler with its middleware

	// While Run runs:
	custody *custody
	deletes *batcher[string]
	shows   *batcher[show]
	slots   chan struct{} // holds one token for every handler that runs
	dead    deadLetters
	// the dead-letter queue to which the queue moves messages by itself, if it may do so early
	moved  string
	ledger trouble
	bodies trouble       // the stores of Config.Offload
	pulse  *pulse.Writer // nil without a ledger

	ending     <-chan struct{} // closed when the context of Run ends
	duplicates duplicates
}

// New returns a worker, or an error when the configuration contradicts itself. It asks nothing of
// the queue yet.
func New(cfg Config) (*Worker, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	w := &Worker{cfg: cfg, slots: make(chan struct{}, cfg.Concurrency)}
	w.batch, _ = cfg.Handler.(BatchHandler)
	w.deletes = &batcher[string]{send: bounded(w.deleteMessages)}
	w.shows = &batcher[show]{send: bounded(w.changeVisibility)}
	if cfg.Claims != nil {
		w.pulse = pulse.NewWriter(cfg.Claims.Store(), queuename.Of(cfg.QueueURL), crand.Text())
	}
	w.custody = newCustody(cfg.Lease, w.changeVisibility, cfg.Events.Renewed)
	w.around = w.wrap()
	return w, nil
}

// bounded gives the requests of a batcher a time limit.
func bounded[T any](send func(context.Context, []T) []error) func([]T) []error {
	return func(entries []T) []error {
		ctx, cancel := context.WithTimeout(context.Background(), requestMax)
		defer cancel()
		return send(ctx, entries)
	}
}

// Run receives messages and handles them until ctx ends. Then it receives no more, gives back what
// no handler has begun, and waits for the handlers that run: for Config.Drain, and when their
// contexts have then been ended, for Config.Drain again.
//
// It returns nil after that; an error when the queue cannot be used the way the configuration says,
// or when handlers are left running. A Worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.check(ctx); err != nil {
		return err
	}
	w.ending = ctx.Done()
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(ErrDraining)
	beating, endBeats := context.WithCancel(context.Background())
	var beats sync.WaitGroup
	beats.Go(func() { w.custody.run(beating) })
	if w.pulse != nil {
		beats.Go(func() { w.pulse.Run(beating) })
	}
	if w.moved != "" {
		beats.Go(func() { w.settleMoved(beating) })
	}
	defer beats.Wait()
	defer endBeats()
	return newReception(w, work).run(ctx, stop)
}

// A trouble is that something which all messages need cannot be used. While it lasts there is no
// point in receiving more of them: each receive counts at the queue.
type trouble struct {
	mu       sync.Mutex
	failures int // in a row
	until    time.Time
}

// troublePauseMin and troublePauseMax bound the pause after a failure.
const (
	troublePauseMin = time.Second
	troublePauseMax = time.Minute
)

// note tells how an attempt to use it went, and returns how many have failed in a row.
func (t *trouble) note(ok bool) (failures int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch now := time.Now(); {
	case ok:
		t.failures, t.until = 0, time.Time{}
	case now.After(t.until): // those that failed together count once
		t.failures++
		t.until = now.Add(backoff.Jitter(backoff.Ceiling(t.failures, troublePauseMin,
			troublePauseMax)))
	}
	return t.failures
}

// pause is until when nothing new should be begun.
func (t *trouble) pause() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until
}

// count tells redrivers what became of a message that is not one of theirs.
func (w *Worker) count(m *Message, done bool) {
	switch {
	case w.pulse == nil || m.Redrives > 0:
	case done:
		w.pulse.Done()
	default:
		w.pulse.Failed()
	}
}

// fifo reports whether the queue is a FIFO queue.
func (w *Worker) fifo() bool { return strings.HasSuffix(w.cfg.QueueURL, ".fifo") }

// queueError reports that the queue could not be used, to a person only now and then.
func (w *Worker) queueError(operation string, attempt int, err error) {
	w.cfg.Events.QueueError(operation, attempt, err)
	if attempt&(attempt-1) == 0 { // 1, 2, 4, 8, ...
		w.cfg.Logger.Warn("the queue cannot be used, trying again", "operation", operation,
			"attempt", attempt, "error", err)
	}
}
