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

// usualTimeout is the visibility timeout of the usual workers, and usualTakes is the time that the
// bank takes there. The timeout was long enough when it was chosen.
const (
	usualTimeout = "2" // seconds
	usualTakes   = 3 * time.Second
)

// usual sends the orders to three workers written in the usual way, and counts the charges. Each
// checks whether the order is done, charges the card, writes the order and deletes the message. No
// crash is needed: a bank that is slower than the visibility timeout is enough.
func (p *play) usual() {
	url := p.CreateQueue("order-usual", map[string]string{"VisibilityTimeout": usualTimeout})
	for _, o := range p.orders {
		p.send(url, o)
	}
	ctx, stop := context.WithTimeout(p.Ctx, 10*usualTakes)
	defer stop()
	var mu sync.Mutex
	charges, done := make(map[string]int), make(map[string]bool)
	handle := func(m types.Message) {
		var o shop.Order
		p.Must(json.Unmarshal([]byte(*m.Body), &o))
		mu.Lock()
		is := done[o.ID]
		charges[o.ID] += stage.One(!is) // the request is on its way to the bank
		mu.Unlock()
		if !is {
			stage.Pause(ctx, usualTakes)
			mu.Lock()
			done[o.ID] = true
			mu.Unlock()
		}
		_, _ = p.API.DeleteMessage(ctx,
			&sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle})
	}
	var busy sync.WaitGroup
	for range 3 {
		busy.Go(func() {
			for {
				got, err := p.API.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
					QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1})
				if err != nil {
					return // the end of polling is an error of the request under way
				}
				for _, m := range got.Messages {
					busy.Go(func() { handle(m) })
				}
			}
		})
	}
	p.Until("the usual workers", func() bool {
		left := p.Left(url)
		mu.Lock()
		defer mu.Unlock()
		return left == 0 && len(done) == len(p.orders)
	})
	stop()
	busy.Wait()
	p.out.Usual.Charges, p.out.Usual.Doubled = sum(charges), doubled(charges)
	p.Say("as usual: %d of %d cards were charged twice", p.out.Usual.Doubled, len(p.orders))
}
