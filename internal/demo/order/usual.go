package order

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// usualWorkers is how many workers there are that are written as usual.
const usualWorkers = 3

// A usual worker looks whether the order is done, charges the card, writes the order, and deletes the message.
// Its visibility timeout was long enough when it was chosen. It sees no crash here and no copy: that the bank
// is slower than the timeout is all it takes.
type usual struct {
	d    *demo
	bank *bankClient
	busy sync.WaitGroup // handlers

	mu      sync.Mutex
	charges map[string]int // requests for charges, by order
	done    int
	changed chan struct{}
	err     error
}

// runUsual runs the first part.
func (d *demo) runUsual(ctx context.Context, out *Outcome) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := &usual{d: d, charges: make(map[string]int), changed: make(chan struct{})}
	bank := newBank(ctx, func(key string) plan { return u.plan(ctx, key) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	bank.serve(mux)
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	u.bank = newBankClient("http://" + l.Addr().String())

	for _, m := range d.messages() {
		if _, err := d.API.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &d.UsualURL, MessageBody: &m.Body}); err != nil {
			return err
		}
	}
	polling, stop := context.WithCancel(ctx)
	defer stop()
	var polls sync.WaitGroup
	for range usualWorkers {
		polls.Go(func() { u.poll(polling) })
	}
	err = u.watch(ctx)
	stop()
	polls.Wait()
	u.busy.Wait()
	for _, o := range d.work {
		n := bank.count(o.Order)
		out.Usual.Charges += n
		if n > 1 {
			out.Usual.Doubled++
		}
	}
	return err
}

// plan: the bank takes one and a half times the visibility timeout, for the first charge of an order. Where the
// machine is so slow that nobody has received the message again by then, it takes longer.
func (u *usual) plan(ctx context.Context, key string) plan {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.charges[key]++
	u.change()
	if u.charges[key] > 1 {
		return plan{takes: lease / 6}
	}
	return plan{takes: lease * 3 / 2, until: func() {
		limit := time.After(30 * time.Second)
		for {
			u.mu.Lock()
			twice, changed := u.charges[key] > 1, u.changed
			u.mu.Unlock()
			if twice {
				return
			}
			select {
			case <-changed:
			case <-limit:
				return
			case <-ctx.Done():
				return
			}
		}
	}}
}

func (u *usual) change() {
	close(u.changed)
	u.changed = make(chan struct{})
}

// watch returns when every order is done.
func (u *usual) watch(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		u.mu.Lock()
		done, err, begun := u.done, u.err, 0
		for _, n := range u.charges {
			begun += n
		}
		u.mu.Unlock()
		u.d.Line("the usual workers: %d of %d orders done, %d requests for charges", done, orders, begun)
		if err != nil || done == orders {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// poll receives messages and handles each on a goroutine of its own.
func (u *usual) poll(ctx context.Context) {
	for ctx.Err() == nil {
		got, err := u.d.API.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &u.d.UsualURL, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, VisibilityTimeout: int32(lease / time.Second),
		})
		if err != nil {
			if ctx.Err() == nil {
				u.end(fmt.Errorf("receive: %w", err))
			}
			return
		}
		for _, m := range got.Messages {
			u.busy.Go(func() { u.end(u.handle(context.WithoutCancel(ctx), m)) })
		}
	}
}

// end takes note of an error.
func (u *usual) end(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.err = errors.Join(u.err, err)
}

// handle is the code as it is usually written.
func (u *usual) handle(ctx context.Context, m types.Message) error {
	var o order
	if err := json.Unmarshal([]byte(*m.Body), &o); err != nil {
		return err
	}
	db := u.d.table.db
	var done int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM usual_orders WHERE key = ?`, o.Order).Scan(&done); err != nil {
		return err
	}
	if done == 0 {
		charge, err := u.bank.charge(ctx, "", o.Order, o.Cents)
		if err != nil {
			return err
		}
		inserted, err := db.ExecContext(ctx, `INSERT INTO usual_orders (key, charge) VALUES (?, ?) ON CONFLICT DO NOTHING`, o.Order, charge)
		if err != nil {
			return err
		}
		if n, _ := inserted.RowsAffected(); n == 1 {
			u.mu.Lock()
			u.done++
			u.mu.Unlock()
		}
	}
	_, err := u.d.API.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &u.d.UsualURL, ReceiptHandle: m.ReceiptHandle})
	return err
}
