// Package shop is a program to start from: it charges a card for each order, writes the order and
// sends a mail. "tenaq demo order" runs it too, with a bank of its own and workers that are killed.
package shop

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/worker"
)

// Run is the program.
func Run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("order", flag.ContinueOnError)
	address := flags.String("records", "sqlite:records.db",
		"where records are kept: sqlite:PATH or postgres://...")
	takes := flags.Duration("bank", 20*time.Second, "how long the bank takes to charge a card")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	client, name := sqs.NewFromConfig(cfg), "order"
	queue, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return fmt.Errorf("find the queue: %w", err)
	}
	store, books, err := Open(ctx, *address)
	if err != nil {
		return err
	}
	defer books.Close()
	defer store.Close()
	switch args := flags.Args(); {
	case len(args) > 1 && args[0] == "send":
		return send(ctx, client, *queue.QueueUrl, store, args[1:])
	case len(args) == 1 && args[0] == "work":
		s := &Shop{Bank: bank{"charges.log", *takes}, Books: books, Store: store, Lease: lease}
		return s.work(ctx, client, *queue.QueueUrl)
	}
	return errors.New("usage: order [-records ADDRESS] [-bank DURATION] send ORDER... | work")
}

// An Order is the body of a message.
type Order struct {
	ID    string
	Cents int
}

// send sends each order once. Sending it again, even the next day, sends nothing.
func send(
	ctx context.Context, client producer.SQS, queueURL string, store records.Store, ids []string,
) error {
	var orders []Order
	for _, id := range ids {
		orders = append(orders, Order{id, 1999})
	}
	receipts, err := Send(ctx, client, queueURL, store, orders)
	for _, r := range receipts {
		if r.New {
			log.Printf("%s: sent", r.Key)
		} else {
			log.Printf("%s: sent before, %v ago, as message %s", r.Key, r.Age.Round(time.Second),
				r.MessageID)
		}
	}
	return err // send them all again then: what was sent is not sent again
}

// Send sends each order once, and returns what became of each so far if one cannot be sent.
func Send(
	ctx context.Context, client producer.SQS, queueURL string, store records.Store, orders []Order,
) (
	receipts []producer.Receipt, err error,
) {
	// so that a receipt says what became of the order
	work, err := claims.New(claims.Config{Store: store})
	if err != nil {
		return nil, err
	}
	p, err := producer.New(producer.Config{Client: client, Store: store, QueueURL: queueURL,
		Work: work})
	if err != nil {
		return nil, err
	}
	for _, o := range orders {
		body, err := json.Marshal(o)
		if err != nil {
			return receipts, err
		}
		receipt, err := p.SendOnce(ctx, producer.Message{Key: o.ID, Body: string(body)})
		if err != nil {
			return receipts, err
		}
		receipts = append(receipts, receipt)
	}
	return receipts, nil
}

// lease is how long after the death of a worker its orders come back: longer than the store and the
// queue may be out of reach, and independent of how long the work takes.
const lease = 30 * time.Second

// A Bank is a payment provider.
type Bank interface {
	// Find returns the charge that was made with a key, or nothing.
	Find(ctx context.Context, key string) (charge string, err error)

	// Charge charges a card, once for all calls with a key that the provider remembers.
	Charge(ctx context.Context, key string, cents int) (charge string, err error)
}

// A Shop handles orders.
type Shop struct {
	Bank  Bank
	Books *Books
	Store records.Store // of the claims
	Lease time.Duration // of messages
}

// Worker returns the configuration of a worker.
func (s *Shop) Worker(client worker.SQS, queueURL string) (worker.Config, error) {
	// The claim ends a little before the message comes back, so that the message does not find its
	// order busy.
	ledger, err := claims.New(claims.Config{Store: s.Store, Lease: s.Lease * 2 / 3})
	return worker.Config{
		Client: client, QueueURL: queueURL, Claims: ledger, Handler: worker.JSON(s.Handle),
		Lease: s.Lease,
		// The key of an order is in its body, which stays the same when a message is moved or sent
		// again.
		Key: func(m *worker.Message) (string, error) {
			var o Order
			err := json.Unmarshal([]byte(m.Body), &o)
			return o.ID, err
		},
		Timeout: 10 * time.Minute, // a handler that hangs is alive, and renews its lease
	}, err
}

// work handles orders until ctx ends.
func (s *Shop) work(ctx context.Context, client worker.SQS, queueURL string) error {
	cfg, err := s.Worker(client, queueURL)
	if err != nil {
		return err
	}
	cfg.Events = worker.Events{Outcome: func(m *worker.Message, o worker.Outcome) {
		log.Printf("%s: attempt %d: %v", m.Key, m.Attempt(), o)
	}}
	w, err := worker.New(cfg)
	if err != nil {
		return err
	}
	go func() {
		err := s.SendMails(ctx, func(key, text string) {
			log.Printf("mail <%s@shop.example>: %s", key, text)
		})
		if err != nil {
			log.Printf("send mails: %v", err)
		}
	}()
	return w.Run(ctx)
}

// Handle may run several times for one order, one after the other, and may stop anywhere. So each
// step checks what an earlier run has done. The charge is looked up, because the bank forgets
// idempotency keys after a day or so and a dead letter may come back later. The order is written
// under the fence.
func (s *Shop) Handle(ctx context.Context, o Order, m *worker.Message) error {
	charge, err := s.Bank.Find(ctx, m.EffectKey())
	if err == nil && charge == "" {
		charge, err = s.Bank.Charge(ctx, m.EffectKey(), o.Cents)
	}
	if err != nil {
		return err
	}
	return s.Books.write(ctx, m, charge)
}
