package redrive

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/worker"
)

// Attempts is how often a worker tries an order before it is a dead letter. With one a call of the warehouse is a
// redriven message.
const Attempts = 1

// A handler books orders.
type handler struct {
	url  string // of the warehouse
	http *http.Client
}

func newHandler(url string) *handler {
	return &handler{url, &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
}

// answer is the error that an answer of the warehouse is.
func answer(status int, text string) error {
	return fmt.Errorf("the warehouse answers %d %s: %s", status, http.StatusText(status), text)
}

// handle books an order. That an answer is final it does not know: what is poison others have to find out.
func (h *handler) handle(ctx context.Context, b booking, _ *worker.Message) error {
	body, _ := json.Marshal(b) // nothing in it can fail to be encoded
	in, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	out, err := h.http.Do(in)
	if err != nil {
		return err
	}
	defer out.Body.Close()
	text, err := io.ReadAll(out.Body)
	if err == nil && out.StatusCode != http.StatusOK {
		err = answer(out.StatusCode, strings.TrimSpace(string(text)))
	}
	return err
}

// A running is a worker at work.
type running struct {
	stop  context.CancelFunc
	ended chan error

	mu         sync.Mutex
	turnedAway int // deliveries of orders that were being booked, or were
}

// startWorker starts a worker. Without a ledger it is one as it is usually written.
func (d *demo) startWorker(ctx context.Context, q Queues, w *warehouse, ledger *claims.Ledger) (*running, error) {
	r := &running{ended: make(chan error, 1)}
	away := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.turnedAway++
	}
	one, err := worker.New(worker.Config{
		Client:        shortPolls{d.API},
		QueueURL:      q.Work,
		DeadLetterURL: q.Dead,
		Claims:        ledger,
		NoClaims:      ledger == nil,
		Handler:       worker.JSON(newHandler(w.url).handle),
		Concurrency:   40,
		Attempts:      Attempts,
		Drain:         5 * time.Second,
		Logger:        d.log,
		Events: worker.Events{
			Busy:      func(*worker.Message, *claims.Busy) { away() },
			Duplicate: func(*worker.Message, *claims.Done) { away() },
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, r.stop = context.WithCancel(ctx)
	go func() { r.ended <- one.Run(ctx) }()
	return r, nil
}

// end stops it.
func (r *running) end() error {
	r.stop()
	return <-r.ended
}

// away is how many deliveries it has turned away.
func (r *running) away() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turnedAway
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
		sleep(ctx, 200*time.Millisecond)
	}
	return out, err
}
