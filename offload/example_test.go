package offload_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"tenaq/offload"
)

// A body that is too large for SQS is kept in a directory, and its pointer is sent.
func Example() {
	path, err := os.MkdirTemp("", "bodies")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(path)
	store, err := offload.OpenDirectory(path, "orders-bodies")
	if err != nil {
		log.Fatal(err)
	}
	o, err := offload.New(offload.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	body, attributes, err := o.Out(ctx, "accounts-2026-02-28", strings.Repeat("row\n", 500_000), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(body), "bytes are sent")

	body, attributes, err = o.In(ctx, body, attributes) // package worker does this itself
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(body), "bytes are received, with", len(attributes), "attributes")
	// Output:
	// 150 bytes are sent
	// 2000000 bytes are received, with 0 attributes
}
