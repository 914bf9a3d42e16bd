package order

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/sqliterecords"
	"tenaq/worker"
)

// A Task is what a worker process is told in the first line of its standard input. When the rest of it ends,
// so does the process.
type Task struct {
	Name     string   `json:"name"`
	QueueURL string   `json:"queue_url"`
	Dir      string   `json:"dir"`
	URL      string   `json:"url"` // of the bank and the stage
	Break    Breakage `json:"break"`
}

// Work is a worker process. It returns when ctx or in ends.
func Work(ctx context.Context, in io.Reader, api *sqs.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	var t Task
	if err := json.Unmarshal(line, &t); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		cancel()
	}()

	var store records.Store
	store, err = sqliterecords.New(sqliterecords.Config{Path: filepath.Join(t.Dir, recordsFile)})
	if err != nil {
		return err
	}
	defer store.Close()
	orders, err := openTable(filepath.Join(t.Dir, tableFile), 10*time.Second)
	if err != nil {
		return err
	}
	defer orders.close()

	var queue worker.SQS = api
	if t.Break == Heartbeats {
		store, queue = deafStore{store}, deafQueue{queue}
	}
	var ledger *claims.Ledger
	if t.Break != Claims {
		if ledger, err = claims.New(store, claims.Config{Owner: t.Name, Lease: claimLease}); err != nil {
			return err
		}
	}
	h := &handler{Task: t, bank: newBankClient(t.URL), orders: orders}
	w, err := worker.New(worker.Config{
		Client:      queue,
		QueueURL:    t.QueueURL,
		Claims:      ledger,
		NoClaims:    ledger == nil,
		Handler:     worker.JSON(h.handle),
		Key:         keyOf,
		Concurrency: atOnce,
		Lease:       lease,
		Attempts:    attempts,
		RetryBase:   lease / 6,
		RetryMax:    lease / 3,
		Drain:       5 * time.Second,
		Logger:      slog.Default().With("worker", t.Name),
		Events: worker.Events{
			Received:     func(m *worker.Message) { h.tell(report{Point: pointReceived, Order: m.Key}) },
			Busy:         func(m *worker.Message, _ *claims.Busy) { h.tell(report{Point: pointAway, Order: m.Key}) },
			Duplicate:    func(m *worker.Message, _ *claims.Done) { h.tell(report{Point: pointAway, Order: m.Key}) },
			DeadLettered: func(m *worker.Message, _, _ string) { h.tell(report{Point: pointDead, Order: m.Key}) },
		},
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// keyOf is the name of the work: the id of the order, which no queue can change.
func keyOf(m *worker.Message) (string, error) {
	var o order
	err := json.Unmarshal([]byte(m.Body), &o)
	return o.Order, err
}

// A handler does what is to be done for an order.
type handler struct {
	Task
	bank   *bankClient
	orders *table
}

// handle charges the card and writes the order. Whatever it finds done it does not do again, however often it
// was here before.
func (h *handler) handle(ctx context.Context, o order, m *worker.Message) (err error) {
	here := report{Run: rand.Text(), Order: o.Order, Attempt: m.Attempt(), Fence: m.Fence()}
	at := func(point string) {
		here.Point = point
		h.tell(here)
	}
	at(pointBegin)
	defer func() {
		here.Lost = context.Cause(ctx) == worker.ErrLost
		here.Stale = errors.Is(err, errStale)
		if err != nil {
			here.Error = err.Error()
		}
		at(pointEnd)
	}()

	charge, err := h.charge(ctx, o, m.EffectKey())
	if err != nil {
		return err
	}
	at(pointCharged)

	// On purpose without the context, as it happens: a handler that has lost its claim and does not look at
	// its context is refused here, by its fence.
	err = h.orders.record(context.WithoutCancel(ctx), row{m.EffectKey(), charge, h.Name, m.Fence()}, h.Break != Fences)
	if err != nil {
		return err
	}
	at(pointRecorded)
	return m.SetResult([]byte(charge))
}

// charge charges the card. The provider forgets idempotency keys after a day, and a dead letter may be brought
// back later than that. So it is asked for the charge first. That only one handler is at it between the question
// and the charge, the claim sees to.
func (h *handler) charge(ctx context.Context, o order, key string) (id string, err error) {
	if h.Break == Keys {
		return h.bank.charge(ctx, "", key, o.Cents)
	}
	switch id, err = h.bank.find(ctx, key); err {
	case errPending:
		return "", worker.Later(time.Second, err.Error())
	case errNoCharge:
		return h.bank.charge(ctx, key, key, o.Cents)
	}
	return id, err
}

// tell tells the stage how far things are, and waits until it may go on.
func (h *handler) tell(r report) {
	r.Worker = h.Name
	body, _ := json.Marshal(r) // nothing in it can fail to be encoded
	if resp, err := http.Post(h.URL+"/stage", "application/json", bytes.NewReader(body)); err == nil {
		resp.Body.Close()
	}
}
