package main

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/rogpeppe/go-internal/testscript"

	"tenaq/internal/cli"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/records/sqliterecords"
)

// record writes a record into the file records.db of a script, whatever is there: record KEY VALUE.
// The form of an entry is JSON and public, so scripts need no worker to have one in every state.
func record(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: record KEY VALUE")
	}
	store := openRecords(ts)
	defer store.Close()
	w := records.Write{Key: args[0], Value: []byte(args[1])}
	if r, err := store.Get(context.Background(), w.Key); err == nil {
		w.If = r.Version
	}
	_, err := store.Put(context.Background(), w)
	ts.Check(err)
}

// register sends a message with package producer, with its registration in records.db: register
// QUEUE KEY BODY. With ! nobody listens where it is sent to, so it remains registered.
func register(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: [!] register QUEUE KEY BODY")
	}
	store := openRecords(ts)
	defer store.Close()
	url := ts.Getenv("TENAQ_ENDPOINT_URL")
	if neg {
		url = "http://127.0.0.1:1"
	}
	client := sqs.New(sqs.Options{
		BaseEndpoint: &url, Region: cli.DefaultRegion, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider(cli.OpenID, cli.OpenSecret, ""),
	})
	p, err := producer.New(producer.Config{
		Client: client, Store: store,
		QueueURL: url + "/000000000000/" + args[0], Owner: "batch/1", Retention: 15 * 24 * time.Hour,
	})
	ts.Check(err)
	_, err = p.SendOnce(context.Background(), producer.Message{Key: args[1], Body: args[2]})
	if neg == (err == nil) {
		ts.Fatalf("register %s: error %v, want one: %t", args[1], err, neg)
	}
}

func openRecords(ts *testscript.TestScript) records.Store {
	store, err := sqliterecords.New(sqliterecords.Config{Path: ts.MkAbs("records.db")})
	ts.Check(err)
	return store
}
