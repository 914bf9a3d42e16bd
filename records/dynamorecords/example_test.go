package dynamorecords_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"tenaq/records"
	"tenaq/records/dynamorecords"
)

func ExampleNew() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	store, err := dynamorecords.New(dynamorecords.Config{Client: dynamodb.NewFromConfig(cfg), Table: "records"})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.CreateTable(ctx); err != nil {
		log.Fatal(err)
	}

	_, err = store.Put(ctx, records.Write{Key: "nightly report", Value: []byte("me"), TTL: time.Minute})
	var taken *records.Conflict
	if errors.As(err, &taken) {
		fmt.Printf("%s has it for another %v\n", taken.Current.Value, taken.Current.TTL)
	}
}
