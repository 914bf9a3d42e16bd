package producer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/producer"
	"tenaq/records/recordstest"
)

const queueURL = "http://127.0.0.1:9324/000000000000/data-download-queue.fifo"

// A memoryQueue stands for a queue. A program takes sqs.NewFromConfig(…), and a store of
// records/sqliterecords or records/pgrecords.
type memoryQueue struct {
	mu   sync.Mutex
	sent int
}

func (q *memoryQueue) SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent++
	return &sqs.SendMessageOutput{MessageId: aws.String("message-" + strconv.Itoa(q.sent)), SequenceNumber: aws.String(strconv.Itoa(q.sent))}, nil
}

// The same file comes twice, the second time in another batch. It is sent once. The batch is part
// of the body, so the second call learns that its message is not the registered one.
func ExampleProducer_SendOnce() {
	ctx := context.Background()
	p, err := producer.New(producer.Config{Client: &memoryQueue{}, Store: recordstest.NewMemory(), QueueURL: queueURL})
	if err != nil {
		log.Fatal(err)
	}
	for batch := range 2 {
		receipt, err := p.SendOnce(ctx, producer.Message{
			Key:   "accounts-2026-02-28",
			Body:  fmt.Sprintf(`{"FileID": 7, "Entity": "accounts", "BatchID": %d}`, batch),
			Group: "data-download-group",
		})
		if err != nil && !errors.Is(err, producer.ErrDiffers) {
			log.Fatal(err)
		}
		fmt.Printf("new %v, %s, differs %v\n", receipt.New, receipt.MessageID, errors.Is(err, producer.ErrDiffers))
	}
	// Output:
	// new true, message-1, differs false
	// new false, message-1, differs true
}

// A daily batch counts its expected work from receipts, so it expects nothing that was not sent. It
// runs again until there are no errors.
func ExampleProducer_SendAll() {
	p, err := producer.New(producer.Config{Client: &memoryQueue{}, Store: recordstest.NewMemory(), QueueURL: queueURL})
	if err != nil {
		log.Fatal(err)
	}
	var batch []producer.Message
	for _, file := range []string{"accounts", "cards", "loans", "cards"} { // one is listed twice
		batch = append(batch, producer.Message{Key: file + "-2026-02-28", Body: file, Group: file})
	}
	for day := range 2 {
		var fresh, duplicates, failed int
		for _, r := range p.SendAll(context.Background(), batch) {
			switch {
			case errors.Is(r.Err, producer.ErrUnrecorded):
				fresh++ // sent all the same
			case r.Err != nil:
				failed++
			case r.New:
				fresh++
			default:
				duplicates++
			}
		}
		fmt.Printf("run %d: %d new, %d duplicates, %d failed\n", day+1, fresh, duplicates, failed)
	}
	// Output:
	// run 1: 3 new, 1 duplicates, 0 failed
	// run 2: 0 new, 4 duplicates, 0 failed
}

// A sweep sends messages that a dead producer had only registered, and messages that were sent but
// never begun.
func ExampleProducer_Resend() {
	ctx := context.Background()
	store := recordstest.NewMemory()
	work, err := claims.New(claims.Config{Store: store}) // where workers claim
	if err != nil {
		log.Fatal(err)
	}
	p, err := producer.New(producer.Config{Client: &memoryQueue{}, Store: store, QueueURL: queueURL, Work: work})
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range []string{"accounts", "cards"} {
		if _, err := p.SendOnce(ctx, producer.Message{Key: file, Body: file, Group: file}); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := work.Acquire(ctx, "cards"); err != nil { // a worker is at this one; the other message is lost
		log.Fatal(err)
	}

	stuck, err := p.Stuck(ctx, 0) // an hour, in earnest
	if err != nil {
		log.Fatal(err)
	}
	for _, registration := range stuck {
		fmt.Println(registration.Key, registration.State, registration.MessageID)
		receipt, err := p.Resend(ctx, registration)
		switch {
		case errors.Is(err, claims.Busy):
			continue // the next sweep sees to it
		case err != nil:
			log.Fatal(err)
		}
		fmt.Println("sent again:", receipt.New, receipt.MessageID)
	}
	// Output:
	// accounts completed message-1
	// sent again: true message-3
}
