package serverrecords_test

import (
	"context"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/records/serverrecords"
)

// A worker keeps its claims on the server that has its queue.
func Example() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	client := sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		o.BaseEndpoint = aws.String("http://127.0.0.1:9324")
	})
	store, err := serverrecords.New(serverrecords.Config{Client: client})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ledger, err := claims.New(claims.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	claim, err := ledger.Acquire(ctx, "order-17")
	if err != nil {
		log.Fatal(err) // a *claims.Refused says whether it is busy or done
	}
	if err := claim.Complete(ctx, []byte("charge ch_1")); err != nil {
		log.Fatal(err)
	}
}
