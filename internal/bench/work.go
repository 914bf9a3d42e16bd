package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tenaq/internal/work/sqslimits"
)

// A Kind is the kind of a step.
type Kind string

const (
	Send    Kind = "send"    // one request that sends Batch messages
	Receive Kind = "receive" // receive up to Batch messages that were there before, and delete them
	Life    Kind = "life"    // send Batch messages, receive as many and delete them: three requests
)

// A Work is a workload on a queue of its own, which Prepare creates and Close deletes. With On it
// uses a queue that exists.
type Work struct {
	Endpoint Endpoint
	Queue    string // its name, which must be free
	// URL of a queue to use in place of one of its own; it is neither created nor deleted
	On     string
	Kind   Kind
	Batch  int   // messages in a request, 1 to 10; 1 when zero
	Size   int   // bytes of a body; 200 when zero
	Random bool  // bodies are random text, no two alike; without it, all of them are letters x
	Groups int   // of a FIFO queue; a standard queue when zero
	Depth  int64 // messages that wait in the queue before the first round
	Polls  int   // long polls that wait meanwhile, on another queue that stays empty

	Tags map[string]string // of the queue
}

// New returns the contender for a workload.
func New(w Work) (Contender, error) {
	w.Batch, w.Size = max(w.Batch, 1), cmp.Or(w.Size, 200)
	switch {
	case w.Kind != Send && w.Kind != Receive && w.Kind != Life:
		return nil, fmt.Errorf("%q is not a workload: choose %s, %s or %s", w.Kind, Send, Receive,
			Life)
	case w.Batch > sqslimits.BatchMax:
		return nil, fmt.Errorf("%d messages in a request: the API takes 1 to %d", w.Batch,
			sqslimits.BatchMax)
	case w.Size < 1 || w.Size > sqslimits.MessageBytesMax:
		return nil, fmt.Errorf("bodies of %d bytes: the API takes 1 to 1048576", w.Size)
	case w.Batch*w.Size > sqslimits.MessageBytesMax:
		return nil, fmt.Errorf("%d bodies of %d bytes are more than the 1048576 bytes of a request: make one of them smaller", w.Batch, w.Size)
	case w.Kind == Receive && w.Depth == 0:
		return nil, errors.New("nothing to receive: set how many messages wait in the queue")
	}
	if w.Groups > 0 {
		w.Queue += ".fifo"
	}
	on := &working{Work: w, text: strings.Repeat("x", w.Size),
		unique: fmt.Sprintf("%x", time.Now().UnixNano())}
	if w.Random {
		on.bodies = NewBodies(w.Size)
	}
	return on, nil
}

// A working is a workload in a comparison.
type working struct {
	Work
	text   string  // of every body
	bodies *Bodies // in place of it
	unique string  // begins the deduplication ids of this run

	url     string // of the queue
	sent    atomic.Int64
	taken   int64 // messages that the last round has taken from what waited
	clients []*client
	took    [64]latencies
	polls   *Polls
	cleanup []string // URLs of queues to delete
}

// Prepare creates the queue, fills it and starts the polls.
func (w *working) Prepare(ctx context.Context, done func(float64)) (err error) {
	done(0)
	if w.url = w.On; w.url == "" {
		if w.url, err = w.create(ctx, w.Queue, w.Groups > 0); err != nil {
			return err
		}
	}
	if w.Polls > 0 {
		url, err := w.create(ctx, strings.TrimSuffix(w.Queue, ".fifo")+"-polled", false)
		if err != nil {
			return err
		}
		if w.polls, err = Poll(ctx, w.Endpoint, url, w.Polls); err != nil {
			return err
		}
	}
	return w.fill(ctx, w.Depth, done)
}

// Fill creates the queue of a workload and sends Depth messages to it. It returns the URL of the
// queue, for Work.On. The queue is not deleted.
func Fill(ctx context.Context, w Work, done func(share float64)) (url string, err error) {
	c, err := New(w)
	if err != nil {
		return "", err
	}
	filled := c.(*working)
	err = filled.Prepare(ctx, done)
	filled.polls.Stop()
	return filled.url, err
}

func (w *working) create(ctx context.Context, name string, fifo bool) (url string, err error) {
	attributes := `{"VisibilityTimeout":"600"}`
	if fifo {
		attributes = `{"VisibilityTimeout":"600","FifoQueue":"true"}`
	}
	if len(w.Tags) > 0 {
		tags, err := json.Marshal(w.Tags)
		if err != nil {
			return "", err
		}
		attributes += `,"tags":` + string(tags)
	}
	answer, err := Call(ctx, w.Endpoint, "CreateQueue", fmt.Sprintf(`{"QueueName":%q,"Attributes":%s}`, name, attributes))
	if err != nil {
		return "", err
	}
	if url = member(answer, "QueueUrl"); url == "" {
		return "", fmt.Errorf("CreateQueue answered without a QueueUrl: %.200s", answer)
	}
	w.cleanup = append(w.cleanup, url)
	return url, nil
}

// fillers is how many connections fill a queue. A request that fails is sent again fillTries times,
// which may leave more messages in the queue than were asked for.
const fillers, fillTries = 16, 5

// fill sends the messages that wait in the queue, as many per request as fit.
func (w *working) fill(ctx context.Context, depth int64, done func(float64)) error {
	batch := int64(min(sqslimits.BatchMax, max(1, sqslimits.MessageBytesMax/w.Size)))
	done = oneByOne(done)
	var filled atomic.Int64
	return parallel(ctx, fillers, func(ctx context.Context) error {
		c, err := w.client(ctx)
		if err != nil {
			return err
		}
		defer c.close()
		for ctx.Err() == nil {
			n := filled.Add(batch)
			from := n - batch
			if from >= depth {
				return nil
			}
			sent := false
			for tries := 0; !sent && err == nil; {
				sent, err = c.send(ctx, int(min(depth-from, batch)))
				switch {
				case err != nil && tries < fillTries: // another node takes the lead
					tries++
					time.Sleep(time.Second)
					err = c.open(ctx)
				case !sent && err == nil:
					time.Sleep(throttledPause)
					err = ctx.Err()
				}
			}
			if err != nil {
				return fmt.Errorf("fill the queue: %w", err)
			}
			if n%10_000 < batch {
				done(float64(from) / float64(depth))
			}
		}
		return nil
	})
}

// Round makes the clients work. Before, it refills what the last round of receives has taken from
// the queue.
func (w *working) Round(ctx context.Context, load Load) (total Tally, err error) {
	load = load.withDefaults()
	if w.Kind == Receive {
		if err := w.fill(ctx, w.taken, func(float64) {}); err != nil {
			return total, err
		}
	}
	for len(w.clients) < load.Clients {
		c, err := w.client(ctx)
		if err != nil {
			return total, err
		}
		c.latency = &w.took[len(w.clients)%len(w.took)]
		w.clients = append(w.clients, c)
	}
	for i := range w.took {
		w.took[i].all.reset()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := newPace(load)
	var wg sync.WaitGroup
	if p.due != nil {
		wg.Go(func() { p.keep(ctx, load.Rate) })
	}
	for _, c := range w.clients[:load.Clients] {
		c.tally = Tally{}
		stop := context.AfterFunc(ctx, c.close)
		wg.Go(func() {
			defer stop()
			if err := c.work(ctx, p); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	took := time.Since(p.began)
	if err := context.Cause(ctx); err != nil {
		return total, err
	}
	for _, c := range w.clients[:load.Clients] {
		total.Add(&c.tally)
	}
	for i := range w.took {
		total.Latency.Merge(&w.took[i].all)
	}
	total.Took = took
	if w.taken = total.Messages; w.Kind == Receive && total.Empty > 0 {
		return total, errors.New("the queue ran empty during a round: put more messages into it first, or make the rounds shorter")
	}
	return total, w.polls.Err()
}

// Close ends the connections and deletes the queues.
func (w *working) Close() error {
	w.polls.Stop()
	for _, c := range w.clients {
		c.close()
	}
	var errs []error
	for _, url := range w.cleanup {
		_, err := Call(context.Background(), w.Endpoint, "DeleteQueue", fmt.Sprintf(`{"QueueUrl":%q}`, url))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
