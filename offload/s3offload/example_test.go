package s3offload_test

import (
	"context"
	"log"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"tenaq/offload"
	"tenaq/offload/s3offload"
	"tenaq/worker"
)

// A worker whose messages may have their bodies in a bucket.
func Example() {
	cfg, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	store, err := s3offload.New(s3offload.Config{Client: s3.NewFromConfig(cfg), Bucket: "orders-bodies"})
	if err != nil {
		log.Fatal(err)
	}
	o, err := offload.New(offload.Config{Store: store, Prefix: "work/"})
	if err != nil {
		log.Fatal(err)
	}
	_ = worker.Config{Offload: o} // and the rest of it
}
