package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/outbox"
	"tenaq/outbox/sqliteoutbox"
)

// printer stands in for *sqs.Client and prints what it is to send.
type printer struct{}

func (printer) GetQueueUrl(_ context.Context, in *sqs.GetQueueUrlInput, _ ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	return &sqs.GetQueueUrlOutput{QueueUrl: aws.String("http://127.0.0.1:9324/000000000000/" + *in.QueueName)}, nil
}

func (printer) SendMessageBatch(_ context.Context, in *sqs.SendMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	var out sqs.SendMessageBatchOutput
	for _, e := range in.Entries {
		fmt.Printf("%s of type %s\n", *e.MessageBody, *e.MessageAttributes["type"].StringValue)
		out.Successful = append(out.Successful, types.SendMessageBatchResultEntry{Id: e.Id, MessageId: aws.String("m-" + *e.Id)})
	}
	return &out, nil
}

// An order and the message about it are written in one transaction, or neither of them. A relay
// sends the message.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	box, err := sqliteoutbox.New(sqliteoutbox.Config{DB: db})
	if err != nil {
		log.Fatal(err)
	}
	if err := box.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (id TEXT)"); err != nil {
		log.Fatal(err)
	}

	place := func(id string, commit bool) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after the commit
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES (?)", id); err != nil {
			return err
		}
		if err := sqliteoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "orders", Key: id, Type: "order_placed", Body: id}); err != nil {
			return err
		}
		if !commit {
			return nil
		}
		return tx.Commit()
	}
	for id, paid := range map[string]bool{"order-17": true, "order-18": false} {
		if err := place(id, paid); err != nil {
			log.Fatal(err)
		}
	}

	relay, err := outbox.New(outbox.Config{Box: box, Client: printer{}}) // in a program of yours sqs.NewFromConfig(cfg)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := relay.Drain(ctx, true); err != nil { // a service calls Run
		log.Fatal(err)
	}
	// Output: order-17 of type order_placed
}
