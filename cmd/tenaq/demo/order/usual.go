package order

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/order/shop"
)

// usualTimeout is the visibility timeout of the usual workers, and usualTakes is how long the bank
// takes there. The timeout was long enough when it was chosen.
const (
	usualTimeout = "2" // seconds
	usualTakes   = 3 * time.Second
)

// A usualWorker is the program as it is usually written: look whether the order is done, charge the
// card, write the order, delete the message. No crash is needed: a bank that is slower than the
// visibility timeout is enough.
type usualWorker struct {
	api *sqs.Client
	url string

	mu      sync.Mutex
	charges map[string]int
	done    map[string]bool
}

// usual sends the orders to three such workers and counts the charges.
func (p *play) usual() {
	url := p.CreateQueue("order-usual", map[string]string{"VisibilityTimeout": usualTimeout})
	for _, o := range p.orders {
		p.send(url, o)
	}
	u := &usualWorker{api: p.API, url: url, charges: make(map[string]int),
		done: make(map[string]bool)}
	polling, stop := context.WithTimeout(p.Ctx, 10*usualTakes)
	defer stop()
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() { u.poll(polling) })
	}
	p.Until("the usual workers", func() bool {
		left := p.Left(url)
		u.mu.Lock()
		defer u.mu.Unlock()
		return left == 0 && len(u.done) == len(p.orders)
	})
	stop()
	workers.Wait()
	p.out.Usual.Charges, p.out.Usual.Doubled = sum(u.charges), doubled(u.charges)
	p.Say("as usual: %d of %d cards were charged twice", p.out.Usual.Doubled, len(p.orders))
}

// poll receives messages and handles each on a goroutine of its own.
func (u *usualWorker) poll(ctx context.Context) {
	var busy sync.WaitGroup
	defer busy.Wait()
	for {
		got, err := u.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &u.url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1})
		if err != nil {
			return // the end of polling is an error of the request under way
		}
		for _, m := range got.Messages {
			busy.Go(func() { u.handle(ctx, m) })
		}
	}
}

func (u *usualWorker) handle(ctx context.Context, m types.Message) {
	var o shop.Order
	if json.Unmarshal([]byte(*m.Body), &o) != nil {
		return
	}
	u.mu.Lock()
	done := u.done[o.ID]
	u.charges[o.ID] += stage.One(!done) // the request is on its way to the bank
	u.mu.Unlock()
	if !done {
		stage.Pause(ctx, usualTakes)
		u.mu.Lock()
		u.done[o.ID] = true
		u.mu.Unlock()
	}
	_, _ = u.api.DeleteMessage(ctx,
		&sqs.DeleteMessageInput{QueueUrl: &u.url, ReceiptHandle: m.ReceiptHandle})
}
