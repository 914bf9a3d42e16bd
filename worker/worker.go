package worker

import (
	"context"
	crand "crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/internal/work/pulse"
	"tenaq/internal/work/queuename"
)

// A Worker receives messages of one queue and handles them.
type Worker struct {
	cfg   Config
	batch BatchHandler // nil if messages are handled one by one

	around func(context.Context, []*Message) error // the handler with its middleware

	custody *custody
	deletes *batcher[string]
	shows   *batcher[show]
	reasons *reasons      // nil unless the server takes them
	ends    *ends         // nil unless the server completes and deletes in one step
	slots   chan struct{} // holds one token for every handler that runs
	crew    crew          // runs polls, lanes and requests
	dead    deadLetters
	// the dead-letter queue to which the queue moves messages by itself, if it may do so early
	moved  string
	ledger trouble
	bodies trouble       // the stores of Config.Offload
	pulse  *pulse.Writer // nil without a ledger

	ran        atomic.Bool     // Run has begun to receive
	ending     <-chan struct{} // closed when the context of Run ends
	duplicates duplicates
}

// New returns a worker, or an error if the configuration contradicts itself. It does not use the
// queue.
func New(cfg Config) (*Worker, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	w := &Worker{cfg: cfg, slots: make(chan struct{}, cfg.Concurrency)}
	w.batch, _ = cfg.Handler.(BatchHandler)
	w.deletes = &batcher[string]{send: bounded(w.deleteMessages), crew: &w.crew}
	w.shows = &batcher[show]{send: bounded(w.changeVisibility), crew: &w.crew}
	if cfg.Claims != nil {
		w.pulse = pulse.NewWriter(cfg.Claims.Store(), queuename.Of(cfg.QueueURL), crand.Text())
	}
	w.custody = newCustody(cfg.Lease, w.changeVisibility, cfg.Events.Renewed)
	w.around = w.wrap()
	return w, nil
}

// bounded adds a time limit to the requests of a batcher.
func bounded[T any](send func(context.Context, []T) []error) func([]T) []error {
	return func(entries []T) []error {
		ctx, cancel := context.WithTimeout(context.Background(), requestMax)
		defer cancel()
		return send(ctx, entries)
	}
}

// Run receives messages and handles them until ctx ends. Then it receives no more, and gives back
// the messages that no handler has begun. It waits for running handlers for Config.Drain, then ends
// their contexts, and waits for Config.Drain again.
//
// Then it returns nil, or an error if handlers are left running. It returns an error at the start
// if the queue cannot be reached or does not fit the configuration, unless ctx has ended by then.
// After such an error, Run may be called again. Once it has begun to receive, it may not: a second
// Run returns an error, and receives nothing.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.check(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // it ended while the queue was asked, which says nothing of the queue
		}
		return err
	}
	if w.ran.Swap(true) {
		return errors.New("this Worker has run: make another one with New")
	}
	w.ending = ctx.Done()
	defer w.custody.stopAll(ErrDraining)
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
	defer w.crew.end()
	return newReception(w, context.WithoutCancel(ctx)).run(ctx)
}

// A trouble tracks whether something that all messages need cannot be used. While it lasts, the
// worker receives no more messages, because each receive counts at the queue.
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

// note notes the result of a use, and returns the number of failures in a row.
func (t *trouble) note(ok bool) (failures int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch now := time.Now(); {
	case ok:
		t.failures, t.until = 0, time.Time{}
	case now.After(t.until): // simultaneous failures count once
		t.failures++
		t.until = now.Add(backoff.Jitter(backoff.Ceiling(t.failures, troublePauseMin,
			troublePauseMax)))
	}
	return t.failures
}

// inARow returns the number of failures in a row.
func (t *trouble) inARow() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failures
}

// pause returns until when nothing new should begin.
func (t *trouble) pause() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until
}

// count counts a message that was not redriven, for redrivers.
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
func (w *Worker) fifo() bool { return queuename.IsFIFO(w.cfg.QueueURL) }

// queueError reports an error of the queue, and logs the 1st, 2nd, 4th, 8th in a row, and so on.
func (w *Worker) queueError(operation string, attempt int, err error) {
	w.cfg.Events.QueueError(operation, attempt, err)
	if attempt&(attempt-1) == 0 { // 1, 2, 4, 8, ...
		w.cfg.Logger.Warn("the queue cannot be used, trying again", "operation", operation,
			"attempt", attempt, "error", err)
	}
}
