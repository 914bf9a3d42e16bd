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

// usual is the program as it is usually written: look whether the order is done, charge the card,
// write the order, delete the message. No crash is needed: a bank that is slower than the
// visibility timeout is enough.
type usual struct {
	mu      sync.Mutex
	charges map[string]int
	done    map[string]bool
}

// usual sends the orders to three such workers and counts the charges.
func (p *play) usual(ctx context.Context) error {
	if p.env.Broken != "" { // shown without what is usual
		return nil
	}
	for _, o := range p.orders {
		if err := p.send(ctx, p.usualURL, o); err != nil {
			return err
		}
	}
	u := &usual{charges: make(map[string]int), done: make(map[string]bool)}
	polling, stop := context.WithTimeout(ctx, 10*usualTakes)
	defer stop()
	errs := make(chan error, 3)
	for range cap(errs) {
		go func() { errs <- u.poll(polling, p.sqs.API, p.usualURL) }()
	}
	err := p.crew.Until("the usual workers", func() (bool, error) {
		left, err := p.sqs.Left(ctx, p.usualURL)
		u.mu.Lock()
		defer u.mu.Unlock()
		return left == 0 && len(u.done) == len(p.orders), err
	})
	stop()
	for range cap(errs) {
		<-errs // the end of polling is an error of the request under way
	}
	for _, n := range u.charges {
		p.out.Usual.Charges += n
		if n > 1 {
			p.out.Usual.Doubled++
		}
	}
	p.env.Say("as usual: %d of %d cards were charged twice", p.out.Usual.Doubled, len(p.orders))
	return err
}

// poll receives messages and handles each on a goroutine of its own.
func (u *usual) poll(ctx context.Context, api *sqs.Client, url string) error {
	var busy sync.WaitGroup
	defer busy.Wait()
	for {
		got, err := api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1,
			VisibilityTimeout: int32(usualTimeout / time.Second),
		})
		if err != nil {
			return err
		}
		for _, m := range got.Messages {
			busy.Go(func() { u.handle(ctx, api, url, m) })
		}
	}
}

func (u *usual) handle(ctx context.Context, api *sqs.Client, url string, m types.Message) {
	var o shop.Order
	if json.Unmarshal([]byte(*m.Body), &o) != nil {
		return
	}
	u.mu.Lock()
	done := u.done[o.ID]
	if !done {
		u.charges[o.ID]++ // the request is on its way to the bank
	}
	u.mu.Unlock()
	if !done {
		stage.Pause(ctx, usualTakes)
		u.mu.Lock()
		u.done[o.ID] = true
		u.mu.Unlock()
	}
	_, _ = api.DeleteMessage(ctx,
		&sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle})
}
