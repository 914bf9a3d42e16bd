package worker

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/backoff"
	"tenaq/internal/work/sqslimits"
)

// A reception decides when to receive how many messages. It owns its fields; polls and lanes report
// to it.
//
// The number of concurrent polls follows their results: a full one doubles it, an empty one resets
// it to one. So an idle worker holds one long poll, and a busy one as many as it can use.
type reception struct {
	worker *Worker
	work   context.Context // with the values for handlers
	limit  int             // maximum of messages before or in a handler, and of those behind one

	inHand    int       // messages, and places in polls in progress
	handled   int       // of those, messages whose handlers have returned
	abandoned int       // of those, messages of handlers that do not return
	want      int       // wanted number of concurrent polls
	running   int       // polls
	failures  int       // failed polls in a row
	pause     time.Time // no poll before
	// when to ask for fewer messages than a poll can bring; zero if none is wanted
	gathered time.Time

	polled  chan polled
	attempt string // of the last poll of a FIFO queue, if its answer was lost

	mu       sync.Mutex
	reported settled       // since run has last looked
	news     chan struct{} // holds a token when there is something reported
}

// A polled is the result of a poll.
type polled struct {
	asked    int
	began    time.Time
	messages []types.Message
	attempt  string
	err      error
}

// A settled says how many messages are no longer in hand, how many have handlers that returned, and
// how many were abandoned with their handlers. The second is negative when such messages are no
// longer in hand, and the third when such a handler has returned.
type settled struct {
	messages  int
	handled   int
	abandoned int
}

func newReception(w *Worker, work context.Context) *reception {
	return &reception{
		worker: w,
		work:   work,
		limit:  w.cfg.Concurrency*w.cfg.BatchSize + w.cfg.Prefetch,
		want:   1,
		polled: make(chan polled),
		news:   make(chan struct{}, 1),
	}
}

// run receives messages and handles them until ctx ends and nothing is in hand.
func (r *reception) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	ending, drained := ctx.Done(), (<-chan time.Time)(nil)
	for {
		if ctx.Err() != nil && r.running == 0 && r.inHand == r.abandoned {
			return r.leftRunning()
		}
		var wake <-chan time.Time
		if wait := r.start(ctx); wait > 0 {
			timer.Reset(wait)
			wake = timer.C
		}
		select {
		case p := <-r.polled:
			r.take(ctx, p)
		case <-r.news:
			r.mu.Lock()
			s := r.reported
			r.reported = settled{}
			r.mu.Unlock()
			r.inHand -= s.messages
			r.handled += s.handled
			r.abandoned += s.abandoned
		case <-wake:
		case <-ending:
			ending, drained = nil, time.After(r.worker.cfg.Drain)
		case <-drained:
			r.worker.custody.stopAll(ErrDraining)
		}
	}
}

func (r *reception) leftRunning() error {
	if r.abandoned == 0 {
		return nil
	}
	return fmt.Errorf("the handlers of %d messages have not returned %v after their contexts ended: "+
		"the messages come back after their leases", r.abandoned, r.worker.cfg.Drain)
}

// gatherMax is how long a poll is delayed while handlers run, so that it can ask for as many
// messages as a poll can bring.
const gatherMax = 50 * time.Millisecond

// start begins the polls that are due. It returns when another may be due, or zero if that takes an
// event.
func (r *reception) start(ctx context.Context) (wait time.Duration) {
	full := min(sqslimits.ReceiveMax, r.limit)
	for ctx.Err() == nil && r.running < r.want && r.room() > 0 {
		now := time.Now()
		if pause := later(r.pause,
			later(r.worker.ledger.pause(), r.worker.bodies.pause())); now.Before(pause) {
			return pause.Sub(now)
		}
		n := min(full, r.room())
		if n < full {
			if r.gathered.IsZero() {
				r.gathered = now.Add(gatherMax)
			}
			if now.Before(r.gathered) {
				return r.gathered.Sub(now)
			}
		}
		r.gathered = time.Time{}
		r.running++
		r.inHand += n
		attempt := r.attempt
		r.attempt = ""
		r.worker.crew.run(func() { r.poll(ctx, n, attempt) })
	}
	return 0
}

// room returns for how many more messages there is room. While messages are recorded and deleted
// whose handlers have returned, the handlers can have others.
func (r *reception) room() int {
	return r.limit - max(r.inHand-r.handled, r.inHand-r.limit)
}

// poll asks the queue for messages. If a FIFO queue gets the same attempt id again, it repeats its
// answer, so a lost answer does not delay messages.
func (r *reception) poll(ctx context.Context, n int, attempt string) {
	w := r.worker
	in := &sqs.ReceiveMessageInput{
		QueueUrl:                    &w.cfg.QueueURL,
		MaxNumberOfMessages:         int32(n),
		VisibilityTimeout:           int32(w.cfg.Lease / time.Second),
		WaitTimeSeconds:             int32(min(sqslimits.WaitMax, w.cfg.Lease/3) / time.Second),
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	}
	if w.fifo() {
		if attempt == "" {
			attempt = rand.Text()
		}
		in.ReceiveRequestAttemptId = &attempt
	}
	p := polled{asked: n, began: time.Now(), attempt: attempt}
	// A lost peer may never answer.
	ctx, cancel := context.WithTimeout(ctx, sqslimits.WaitMax+requestMax)
	defer cancel()
	out, err := w.cfg.Client.ReceiveMessage(ctx, in)
	if p.err = err; err == nil {
		p.messages = out.Messages
	}
	r.polled <- p
}

// pollPauseMin and pollPauseMax bound the pause after polls that failed.
const (
	pollPauseMin = 200 * time.Millisecond
	pollPauseMax = 20 * time.Second
)

// take sends the messages of a poll to lanes.
func (r *reception) take(ctx context.Context, p polled) {
	r.running--
	r.inHand -= p.asked - len(p.messages)
	switch {
	case p.err != nil && ctx.Err() != nil: // it was cancelled
	case p.err != nil:
		r.failures++
		r.want = 1
		r.attempt = p.attempt
		ceiling := backoff.Ceiling(r.failures, pollPauseMin, pollPauseMax)
		r.pause = time.Now().Add(backoff.Jitter(ceiling))
		r.worker.queueError("receive", r.failures, p.err)
	default:
		r.failures, r.pause = 0, time.Time{}
		if len(p.messages) == 0 {
			r.want = 1
		} else if len(p.messages) == p.asked {
			r.want = min(2*r.want, max(1, r.limit/sqslimits.ReceiveMax))
		}
	}
	if len(p.messages) == 0 {
		return
	}
	// First take all of them into custody, because the later ones may wait for long.
	deliveries := make([]*delivery, len(p.messages))
	for i, raw := range p.messages {
		deliveries[i] = r.worker.deliver(r.work, raw, p.began)
	}
	for _, rest := range r.worker.lanes(deliveries) {
		r.worker.crew.run((&lane{worker: r.worker, ending: ctx, report: r.report, rest: rest}).run)
	}
}

// report is called by lanes. It does not wait for run, which takes in several reports at once.
func (r *reception) report(s settled) {
	r.mu.Lock()
	r.reported.messages += s.messages
	r.reported.handled += s.handled
	r.reported.abandoned += s.abandoned
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
