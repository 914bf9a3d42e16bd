package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/worker"
	"tenaq/worker/pipe"
)

// run works on the messages of a queue until ctx ends, or until --once or --until-empty says so.
func (f *pipeFlags) run(ctx context.Context, a *app, queue string, cfg worker.Config, handler worker.Handler) error {
	style, err := f.log.style(a, slog.LevelInfo)
	if err != nil {
		return err
	}
	metrics, err := f.listen()
	if err != nil {
		return err
	}
	defer metrics.close()
	c, err := f.connect(ctx)
	if err != nil {
		return err
	}
	if err := f.findQueues(ctx, c, queue, &cfg, handler); err != nil {
		return err
	}
	if !f.noClaims {
		store, err := f.open(ctx)
		if err != nil {
			return err
		}
		defer store.Close()
		cfg.Claims, err = claims.New(store, claims.Config{Prefix: f.ledger, Lease: cfg.Lease})
		if err != nil {
			return usagef("%v", err)
		}
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	logger, name := style.logger(a.stderr), queueNameOf(cfg.QueueURL)
	log := &pipeLog{Logger: logger.With("queue", name), queue: name}
	hands := &inHand{messages: make(map[*worker.Message]bool)}
	counts := newWorkerMetrics(name, cfg.Concurrency)
	cfg.Client, cfg.Handler, cfg.Logger, cfg.Events = c.Client, handler, logger, counts.events(log.events(hands))
	cfg.Memo = func(*worker.Message) []byte { return newPipeMemo(name) }
	if f.once || f.untilEmpty {
		cfg.Client = &emptying{Client: c.Client, url: cfg.QueueURL, hands: hands, whole: f.untilEmpty, empty: func() {
			log.Info("nothing is left")
			stop()
		}}
	}
	w, err := worker.New(cfg)
	if err != nil {
		return usagef("%v", err)
	}
	metrics.serve(log.Logger, counts.write)
	err = w.Run(ctx)
	log.summary()
	return err
}

// findQueues finds the queues that the flags name, so that what cannot be used is said in the way of all commands.
func (f *pipeFlags) findQueues(ctx context.Context, c *client, queue string, cfg *worker.Config, handler worker.Handler) (err error) {
	if cfg.QueueURL, err = c.queueURL(ctx, queue); err != nil {
		return err
	}
	const arn = types.QueueAttributeNameQueueArn
	out, err := call(ctx, c, c.GetQueueAttributes, &sqs.GetQueueAttributesInput{
		QueueUrl: &cfg.QueueURL, AttributeNames: []types.QueueAttributeName{arn},
	})
	if err != nil {
		return c.explain("work on", cfg.QueueURL, err)
	}
	if l, ok := handler.(*pipe.Lambda); ok {
		l.QueueARN = out.Attributes[string(arn)]
	}
	if f.deadLetter != "" {
		cfg.DeadLetterURL, err = c.queueURL(ctx, f.deadLetter)
	}
	return err
}

// A pipeMemo is written into the ledger with the first claim on a key.
type pipeMemo struct {
	Queue string `json:"queue"`
}

func newPipeMemo(queue string) []byte {
	memo, err := json.Marshal(pipeMemo{queue})
	if err != nil {
		return nil // a name can be encoded
	}
	return memo
}

// An inHand knows which messages a worker has.
type inHand struct {
	mu       sync.Mutex
	polls    int // under way
	arriving int // messages that a poll brought and the worker has not taken up
	messages map[*worker.Message]bool
}

func (h *inHand) add(m *worker.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arriving--
	h.messages[m] = true
}

// remove may be told more than once of a message.
func (h *inHand) remove(m *worker.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.messages, m)
}

func (h *inHand) pollBegins() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.polls++
}

// pollEnds reports whether nothing is in hand and no other poll could bring anything.
func (h *inHand) pollEnds(brought int) (nothing bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.polls--
	h.arriving += brought
	return h.polls == 0 && h.arriving <= 0 && len(h.messages) == 0
}

// An emptying client calls empty when the queue has nothing more for this worker: when a poll has brought nothing and
// nothing is in hand. If whole is set the queue must hold nothing besides, neither delayed nor in the hands of others.
type emptying struct {
	*sqs.Client
	url   string
	hands *inHand
	whole bool
	empty func()
}

// emptyingWait is how long a poll waits, in seconds. Any wait makes SQS look everywhere, and who waits for the end should
// not wait for long.
const emptyingWait = 1

// ReceiveMessage receives, and looks whether that was all.
func (e *emptying) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, options ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	short := *in
	short.WaitTimeSeconds = min(in.WaitTimeSeconds, emptyingWait)
	e.hands.pollBegins()
	out, err := e.Client.ReceiveMessage(ctx, &short, options...)
	brought := 0
	if err == nil {
		brought = len(out.Messages)
	}
	if e.hands.pollEnds(brought) && err == nil && (!e.whole || e.holdsNothing(ctx)) {
		e.empty()
	}
	return out, err
}

// holdsNothing asks the queue how many messages it holds.
func (e *emptying) holdsNothing(ctx context.Context) bool {
	counts := []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}
	out, err := e.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &e.url, AttributeNames: counts})
	if err != nil {
		return false // the next poll tells
	}
	for _, name := range counts {
		if out.Attributes[string(name)] != "0" {
			return false
		}
	}
	return true
}
