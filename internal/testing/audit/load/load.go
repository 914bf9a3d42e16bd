// Package load makes producers and workers use a queue as applications do, with the AWS SDK, and
// writes down everything they do and see in the form that package audit judges.
//
// Producers send until every body is acknowledged, one by one and in batches. Workers take messages
// with long polls, hide them for seconds only, and then delete them, extend or give back their
// timeout, or overrun it. Some messages, the canaries, they never delete, so that no delete can
// hide their loss. When the disturbance is over and everything is sent, the queue is drained.
//
// Producers send groups of messages to a FIFO queue, each message under a deduplication ID. They
// repeat unanswered sends under the same ID, and now and then answered ones too. Canaries end in
// the dead-letter queue, if there is one; some workers read it, and a mover starts tasks that move
// them back.
//
// On a tenaq server, workers may give messages back with verdicts and reasons. Operators may take
// messages from one queue to another with tasks, which they pause, resume and cancel. They delete
// some messages and replace others. In the end the histories of the queues are read.
//
// Messages may be sent with delays, and to a queue that keeps them for a short time only.
//
// The SDK retries as in an application, but for longer. A refusal by the queue ends the run,
// because no client here does anything that deserves one.
package load

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"tenaq/internal/testing/audit"
	"tenaq/internal/work/backoff"
)

// A Config says what to do to which queue.
type Config struct {
	AWS      aws.Config // credentials, region, logger
	Endpoint string     // of the SQS API; Amazon's when empty
	QueueURL string
	Seed     uint64

	// Nodes are the endpoints of a cluster. Each attempt of a request goes to another one, as with
	// a load balancer that does not know which nodes are alive. Endpoint is one of them then.
	Nodes []string

	// Bodies is how many bodies are sent; when zero, producers send until the disturbance is over.
	// Body writes the nth; all must differ.
	Bodies int
	Body   func(n int) string

	// Producers and Workers is how many of each there are: 4 and 16 when zero. Pause is the average
	// pause of a producer after a request. Work is the average time that a worker spends on a
	// message.
	Producers, Workers int
	Pause, Work        time.Duration

	// Visibility is the timeout of receives, in whole seconds: 2 s when zero.
	Visibility time.Duration

	// Grace is for how long more the server may hide, after a crash, what was in flight: 10 s when
	// zero. A tenaq server does so for as long as it was away, counted from when it last wrote down
	// the time.
	Grace time.Duration

	// Overruns, Changes and Canaries say of how many messages in a thousand the worker overruns the
	// timeout, changes it, and never deletes.
	Overruns, Changes, Canaries int

	// Delays says how many messages in a thousand are sent with a delay of their own, of whole
	// seconds up to DelayMax, which is 2 s when zero; FIFO queues take none. QueueDelay is the
	// DelaySeconds of the queue, for all others.
	Delays               int
	DelayMax, QueueDelay time.Duration

	// Retention is the MessageRetentionPeriod of the queue, when it is so short that messages may
	// reach it.
	Retention time.Duration

	// Groups is how many message groups there are, when the queue is a FIFO queue.
	Groups int

	// DeadLetter is the dead-letter queue of the queue, if it has one.
	DeadLetter DeadLetter

	// Nacks says of how many messages in a thousand the worker gives back with a verdict and a
	// reason. Operators is what people do meanwhile. Both need a tenaq server, which is not a
	// cluster.
	Nacks     int
	Operators Operators

	// History says that all queues have the tag tenaq:history.
	History bool

	// RefusesOldHandles says that the server may refuse to delete with a handle that is no longer
	// the newest, which Amazon accepts on standard queues. Such refusals are counted; otherwise
	// they end the run.
	RefusesOldHandles bool
}

// A DeadLetter describes a dead-letter queue.
type DeadLetter struct {
	URL, ARN    string
	MaxReceives int

	// MoveEvery is the average time between two tasks that move its messages back; none when zero.
	MoveEvery time.Duration
}

// A Load is one run. Its counters may be read while it runs.
type Load struct {
	cfg        Config
	record     *recorder
	main, dead *queue // dead is nil when there is none
	desks      []*queue
	done       Operated

	acknowledged, received, deleted atomic.Int64

	mu      sync.Mutex
	next    int       // body to send
	lastGot time.Time // a message
}

// New prepares a run.
func New(cfg Config) *Load {
	cfg.Producers = cmp.Or(cfg.Producers, 4)
	cfg.Workers = cmp.Or(cfg.Workers, 16)
	cfg.Visibility = cmp.Or(cfg.Visibility, 2*time.Second)
	cfg.Grace = cmp.Or(cfg.Grace, 10*time.Second)
	cfg.DelayMax = cmp.Or(cfg.DelayMax, 2*time.Second)
	l := &Load{cfg: cfg, record: newRecorder(cfg)}
	l.main = newQueue(cfg.QueueURL, cfg.Groups > 0)
	description := audit.Queue{FIFO: l.main.fifo, History: cfg.History}
	l.record.history.Queues = map[string]audit.Queue{}
	if cfg.DeadLetter.URL != "" {
		l.dead = newQueue(cfg.DeadLetter.URL, l.main.fifo)
		l.record.history.Queues[l.dead.name] = description
		description.DeadLetter, description.MaxReceives = l.dead.name, cfg.DeadLetter.MaxReceives
	}
	for _, url := range cfg.Operators.Queues {
		l.desks = append(l.desks, newQueue(url, false))
		l.record.history.Queues[path.Base(url)] = audit.Queue{History: cfg.History}
	}
	l.main.delay, description.Retention = cfg.QueueDelay, cfg.Retention
	l.record.history.Queues[l.main.name] = description
	return l
}

// Progress is how far a run has come.
type Progress struct{ Acknowledged, Received, Deleted int }

// Progress returns how far the run has come. What was received or deleted more than once counts
// each time.
func (l *Load) Progress() Progress {
	return Progress{int(l.acknowledged.Load()), int(l.received.Load()), int(l.deleted.Load())}
}

// OldHandlesRefused returns how many handles the server refused in a run that is over.
func (l *Load) OldHandlesRefused() int { return l.record.oldHandles }

// History returns what happened in a run that is over.
func (l *Load) History() *audit.History { return &l.record.history }

// Run makes producers and workers go on while disturb does to the server whatever it does, and
// until everything is sent; then it drains the queue. It returns when the history is complete.
func (l *Load) Run(ctx context.Context, disturb func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var producers, workers sync.WaitGroup
	disturbed := make(chan struct{})
	sent := make(chan struct{})
	try := func(wg *sync.WaitGroup, f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				cancel(err)
			}
		})
	}
	for i := range l.cfg.Producers {
		try(&producers, func() error { return l.produce(ctx, l.rng(1, i), disturbed) })
	}
	for i := range l.cfg.Workers {
		try(&workers, func() error { return l.work(ctx, l.rng(2, i), sent) })
	}
	if l.dead != nil && l.cfg.DeadLetter.MoveEvery > 0 {
		try(&producers, func() error { return l.move(ctx, l.rng(3, 0), disturbed) })
	}
	if len(l.desks) > 0 {
		for i, q := range slices.Concat(l.desks, []*queue{l.main}) {
			try(&producers, func() error { return l.operate(ctx, l.rng(4, i), q, disturbed) })
		}
	}
	if err := disturb(ctx); err != nil {
		cancel(err)
	}
	close(disturbed)
	producers.Wait()
	close(sent)
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := l.drain(ctx); err != nil {
		return err
	}
	return l.readHistories(ctx)
}

// rng returns the source of randomness of one client. Each has its own, so that what it does
// depends on the seed and on what it receives only.
func (l *Load) rng(kind uint64, i int) *rand.Rand {
	return rand.New(rand.NewPCG(l.cfg.Seed, kind<<32|uint64(i)))
}

// produce sends bodies until there are no more.
func (l *Load) produce(ctx context.Context, rng *rand.Rand, disturbed <-chan struct{}) error {
	for ctx.Err() == nil {
		n := 1
		if rng.IntN(3) == 0 {
			n = 1 + rng.IntN(10)
		}
		messages := l.take(n, disturbed)
		if len(messages) == 0 {
			return nil
		}
		// Whatever was not acknowledged is sent again. On a standard queue it may be there twice
		// then, and that offers nothing better.
		for left := messages; len(left) > 0 && ctx.Err() == nil; {
			var err error
			before := len(left)
			if left, err = l.record.send(ctx, l.main, left); err != nil {
				return err
			}
			l.acknowledged.Add(int64(before - len(left)))
			if len(left) > 0 {
				pause(ctx, about(rng, again))
			}
		}
		if l.main.fifo && rng.IntN(repeats) == 0 && ctx.Err() == nil {
			if _, err := l.record.send(ctx, l.main, messages); err != nil {
				return err
			}
		}
		pause(ctx, about(rng, l.cfg.Pause))
	}
	return nil
}

// One in repeats answered sends is repeated under its deduplication ID; an unanswered one is
// repeated after this time on average.
const (
	repeats = 20
	again   = 50 * time.Millisecond
)

// take returns the next n messages, or fewer at the end.
func (l *Load) take(n int, disturbed <-chan struct{}) (messages []message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		select {
		case <-disturbed:
			if l.cfg.Bodies == 0 {
				return messages
			}
		default:
		}
		if l.cfg.Bodies > 0 && l.next == l.cfg.Bodies {
			return messages
		}
		m := message{body: l.cfg.Body(l.next)}
		m.delay = l.delayOf(m.body)
		if l.main.fifo {
			m.group, m.dedup = fmt.Sprintf("group-%d", l.next%l.cfg.Groups), fmt.Sprintf("order-%d",
				l.next)
		}
		messages = append(messages, m)
		l.next++
	}
	return messages
}

// work is a worker: it receives and handles messages until everything is sent.
func (l *Load) work(ctx context.Context, rng *rand.Rand, sent <-chan struct{}) error {
	for {
		select {
		case <-sent:
			return nil
		case <-ctx.Done():
			return nil
		default:
		}
		q, wait := l.main, rng.IntN(3)
		if l.dead != nil && rng.IntN(30) == 0 { // seldom, because no task moves what is in flight
			q, wait = l.dead, 0
		}
		got, err := l.receive(ctx, q, 1+rng.IntN(10), wait)
		if err != nil {
			return err
		}
		if err := l.handle(ctx, rng, q, got); err != nil {
			return err
		}
	}
}

func (l *Load) receive(
	ctx context.Context, q *queue, most, waitSeconds int,
) ([]audit.Delivery, error) {
	got, err := l.record.receive(ctx, q, most, waitSeconds, l.cfg.Visibility)
	if len(got) > 0 {
		l.received.Add(int64(len(got)))
		l.mu.Lock()
		l.lastGot = time.Now()
		l.mu.Unlock()
	}
	return got, err
}

// handle does with messages what a worker does. Half of the workers delete in batches, at the end.
func (l *Load) handle(ctx context.Context, rng *rand.Rand, q *queue, got []audit.Delivery) error {
	together := rng.IntN(2) == 0
	var done []string
	for _, d := range got {
		pause(ctx, about(rng, l.cfg.Work))
		roll := rng.IntN(1000)
		if roll < l.cfg.Overruns {
			pause(ctx, l.cfg.Visibility+about(rng, l.cfg.Visibility/4))
		} else if roll -= l.cfg.Overruns; roll < l.cfg.Changes {
			// In one half of the cases to 0, which gives the message back.
			to := l.cfg.Visibility * time.Duration(rng.IntN(2))
			if err := l.record.change(ctx, q, d.Handle, to); err != nil {
				return err
			}
			if to == 0 {
				continue
			}
			pause(ctx, to/2)
		} else if roll -= l.cfg.Changes; roll < l.cfg.Nacks {
			if err := l.nack(ctx, rng, q, d.Handle); err != nil {
				return err
			}
			continue
		}
		if l.isCanary(d.Body) {
			if l.dead != nil && rng.IntN(2) == 0 { // so that it is there soon
				if err := l.record.change(ctx, q, d.Handle, 0); err != nil {
					return err
				}
			}
			continue
		}
		if together {
			done = append(done, d.Handle)
		} else if err := l.delete(ctx, q, d.Handle); err != nil {
			return err
		}
	}
	return l.delete(ctx, q, done...)
}

func (l *Load) delete(ctx context.Context, q *queue, handles ...string) error {
	if len(handles) == 0 {
		return nil
	}
	n, err := l.record.delete(ctx, q, handles)
	l.deleted.Add(int64(n))
	return err
}

// isCanary tells canaries by their bodies, so that all workers agree.
func (l *Load) isCanary(body string) bool { return hash(body)%1000 < uint64(l.cfg.Canaries) }

// delayOf is the delay that a body is sent with, each time it is.
func (l *Load) delayOf(body string) time.Duration {
	h := hash("delay of " + body)
	if h%1000 >= uint64(l.cfg.Delays) {
		return 0
	}
	return time.Duration(1+h/1000%uint64(l.cfg.DelayMax/time.Second)) * time.Second
}

func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// move starts tasks that move what is dead back to where it came from, and sometimes cancels one.
func (l *Load) move(ctx context.Context, rng *rand.Rand, disturbed <-chan struct{}) error {
	dead := l.cfg.DeadLetter
	for {
		pause(ctx, about(rng, dead.MoveEvery))
		select {
		case <-disturbed:
			return nil
		case <-ctx.Done():
			return nil
		default:
		}
		rate := 0
		if rng.IntN(2) == 0 {
			rate = 20 + rng.IntN(80)
		}
		handle, err := l.record.startMove(ctx, l.dead, dead.ARN, rate)
		if err != nil {
			return err
		}
		if handle != "" && rng.IntN(4) == 0 {
			pause(ctx, about(rng, 100*time.Millisecond))
			l.record.cancelMove(ctx, handle)
		}
	}
}

// drainMax bounds the draining of a queue.
const drainMax = 90 * time.Second

// drain deletes what it receives until the queue is empty.
func (l *Load) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainMax,
		fmt.Errorf("the queue was not empty after %v of draining", drainMax))
	defer cancel()
	if err := l.awaitMove(ctx); err != nil {
		return err
	}
	l.lastGot = time.Now()
	empty := make(chan struct{})
	var failed atomic.Pointer[error]
	var workers sync.WaitGroup
	for range l.cfg.Workers {
		workers.Go(func() {
			if err := l.drainUntil(ctx, empty); err != nil {
				failed.CompareAndSwap(nil, &err)
				cancel()
			}
		})
	}
	for ctx.Err() == nil && !l.isDrained(ctx) {
		pause(ctx, 500*time.Millisecond)
	}
	close(empty)
	workers.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.record.history.Drained, l.record.history.End = true, l.record.now()
	return nil
}

// awaitMove waits until no task moves anything any more.
func (l *Load) awaitMove(ctx context.Context) error {
	for l.dead != nil && l.cfg.DeadLetter.MoveEvery > 0 && ctx.Err() == nil {
		active, err := l.record.isMoving(ctx, l.cfg.DeadLetter.ARN)
		if err != nil || !active {
			return err
		}
		pause(ctx, 100*time.Millisecond)
	}
	return nil
}

func (l *Load) drainUntil(ctx context.Context, empty <-chan struct{}) error {
	for {
		select {
		case <-empty:
			return nil
		case <-ctx.Done():
			return nil
		default:
		}
		wait := 1
		if len(l.desks) > 0 { // one of several queues, and no longer the one that has most
			wait = 0
			pause(ctx, 20*time.Millisecond)
		}
		if err := l.drainOnce(ctx, l.main, wait); err != nil {
			return err
		}
		for _, q := range l.others() {
			if err := l.drainOnce(ctx, q, 0); err != nil {
				return err
			}
		}
	}
}

// others are all queues but the main one.
func (l *Load) others() []*queue {
	if l.dead == nil {
		return l.desks
	}
	return append([]*queue{l.dead}, l.desks...)
}

func (l *Load) drainOnce(ctx context.Context, q *queue, waitSeconds int) error {
	got, err := l.receive(ctx, q, 10, waitSeconds)
	if err != nil {
		return err
	}
	var handles []string
	for _, d := range got {
		handles = append(handles, d.Handle)
	}
	return l.delete(ctx, q, handles...)
}

// isDrained decides when to stop. When nothing is missing and the queue itself says that it is
// empty, it is enough to wait for deleted messages that come back after their timeout. Otherwise,
// it does not trust the counts.
func (l *Load) isDrained(ctx context.Context) bool {
	l.mu.Lock()
	quiet := time.Since(l.lastGot)
	l.mu.Unlock()
	hidden := l.cfg.Visibility*3/2 + time.Second
	if l.cfg.Delays > 0 {
		hidden += l.cfg.DelayMax
	}
	hidden += l.cfg.QueueDelay
	switch {
	case quiet < hidden:
		return false
	case quiet > hidden+l.cfg.Grace:
		return true
	}
	left, err := l.Left(ctx)
	return err == nil && left == 0 && !l.record.isMissingAny()
}

// Left returns how many messages the queues say they have, whatever their state.
func (l *Load) Left(ctx context.Context) (int, error) {
	sum := 0
	for _, q := range append([]*queue{l.main}, l.others()...) {
		left, err := l.record.left(ctx, q)
		if err != nil {
			return sum, err
		}
		sum += left
	}
	return sum, nil
}

// about returns a random duration of the given average.
func about(rng *rand.Rand, average time.Duration) time.Duration {
	if average <= 0 {
		return 0
	}
	return time.Duration(rng.Int64N(int64(2 * average)))
}

func pause(ctx context.Context, d time.Duration) { _ = backoff.Sleep(ctx, d) }
