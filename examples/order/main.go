// Command order charges a card for each order, writes the order down and sends a mail, each of them once, however
// long that takes and whatever is delivered twice or dies half-way.
//
//	order [-records ADDRESS] send ORDER...              sends orders
//	order [-records ADDRESS] [-bank DURATION] work      handles orders until it is interrupted
//
// It finds the queue named order as every AWS SDK program does. What producers and workers have to know of each other
// is at the address: sqlite:PATH, with the orders in orders.db beside it, or postgres://..., with the orders in the
// same database. The second is better: an order and the word that it is done are then one commit.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal("order: ", err)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("order", flag.ContinueOnError)
	address := flags.String("records", "sqlite:records.db", "where records are kept: sqlite:PATH or postgres://...")
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
	store, books, err := open(ctx, *address)
	if err != nil {
		return err
	}
	defer books.close()
	defer store.Close()
	switch args := flags.Args(); {
	case len(args) > 1 && args[0] == "send":
		return send(ctx, client, *queue.QueueUrl, store, args[1:])
	case len(args) == 1 && args[0] == "work":
		return work(ctx, client, *queue.QueueUrl, store, &shop{bank{"charges.log", *takes}, books})
	}
	return errors.New("usage: order [-records ADDRESS] [-bank DURATION] send ORDER... | work")
}

// An order is the body of a message.
type order struct {
	ID    string
	Cents int
}

// send sends each order once: who sends it again, the next day too, sends nothing.
func send(ctx context.Context, client producer.SQS, queueURL string, store records.Store, ids []string) error {
	p, err := producer.New(producer.Config{Client: client, Store: store, QueueURL: queueURL})
	if err != nil {
		return err
	}
	for _, id := range ids {
		body, err := json.Marshal(order{id, 1999})
		if err != nil {
			return err
		}
		receipt, err := p.SendOnce(ctx, producer.Message{Key: id, Body: string(body)})
		switch {
		case err != nil:
			return err // send them all again then: what was sent is not sent again
		case receipt.New:
			log.Printf("%s: sent", id)
		default:
			log.Printf("%s: sent before, %v ago, as message %s", id, receipt.Age.Round(time.Second), receipt.MessageID)
		}
	}
	return nil
}

// lease is how long after the death of a worker its orders come back: longer than the store and the queue may be out
// of reach, not as long as the work takes. The claim ends a little before the message comes back, so that the message
// does not find its order busy.
const lease = 30 * time.Second

// work handles orders until ctx ends.
func work(ctx context.Context, client worker.SQS, queueURL string, store records.Store, s *shop) error {
	ledger, err := claims.New(store, claims.Config{Lease: lease * 2 / 3})
	if err != nil {
		return err
	}
	mails, err := claims.New(store, claims.Config{Prefix: "mail/"})
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{
		Client: client, QueueURL: queueURL, Claims: ledger, Handler: worker.JSON(s.handle), Lease: lease,
		// The key of an order is in its body, where no queue and nobody who moves messages can change it.
		Key: func(m *worker.Message) (string, error) {
			var o order
			err := json.Unmarshal([]byte(m.Body), &o)
			return o.ID, err
		},
		Timeout: 10 * time.Minute, // a handler that hangs is alive, and renews its lease
		Events: worker.Events{
			Done: func(m *worker.Message, took time.Duration) { log.Printf("%s: done in %v", m.Key, took) },
			Failed: func(m *worker.Message, err error, _ time.Duration) {
				log.Printf("%s: attempt %d: %v", m.Key, m.Attempt(), err)
			},
			Busy:         func(m *worker.Message, _ *claims.Busy) { log.Printf("%s: somebody else is at it", m.Key) },
			Duplicate:    func(m *worker.Message, _ *claims.Done) { log.Printf("%s: was done before", m.Key) },
			Lost:         func(m *worker.Message, err error) { log.Printf("%s: lost: %v", m.Key, err) },
			DeadLettered: func(m *worker.Message, reason, _ string) { log.Printf("%s: dead-lettered: %s", m.Key, reason) },
		},
	})
	if err != nil {
		return err
	}
	go sendMails(ctx, s.books, mails)
	return w.Run(ctx)
}

// A shop is what handles orders.
type shop struct {
	bank  bank
	books *books
}

// handle may run several times for one order, one after the other, and stop anywhere. So each step finds out what the
// one before it has done: the charge is looked up, for the bank forgets idempotency keys after a day or so and a dead
// letter may come back later; and the order is written under the fence.
func (s *shop) handle(ctx context.Context, o order, m *worker.Message) error {
	charge, err := s.bank.find(m.EffectKey())
	if err == nil && charge == "" {
		charge, err = s.bank.charge(ctx, m.EffectKey(), o.Cents)
	}
	if err != nil {
		return err
	}
	return s.books.write(ctx, m, charge)
}
