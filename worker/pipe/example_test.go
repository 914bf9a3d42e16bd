//go:build unix

package pipe_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"

	"tenaq/worker"
	"tenaq/worker/pipe"
)

// In place of Handle stands a worker: worker.Config{Handler: convert, ...}.
func ExampleCommand() {
	convert := &pipe.Command{
		Args:   []string{"/bin/sh", "-c", `read name; echo "converting $name under $TENAQ_EFFECT_KEY"; exit 75`},
		Output: os.Stdout,
	}
	m := &worker.Message{ID: "1", Key: "file-17", Body: "holiday.jpg\n"}
	fmt.Println(convert.Handle(context.Background(), m))
	// Output:
	// file-17 | converting holiday.jpg under file-17
	// to be tried again in 1m0s: exit code 75: converting holiday.jpg under file-17
}

func ExampleHTTP() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s of %s\n", body, r.Header.Get("Idempotency-Key"))
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, "the card has expired")
	}))
	defer bank.Close()
	charge := &pipe.HTTP{URL: bank.URL}
	m := &worker.Message{ID: "1", Key: "order-17", Body: `{"amount": 100}`}
	fmt.Println(charge.Handle(context.Background(), m))
	// Output:
	// {"amount": 100} of order-17
	// status 422 Unprocessable Entity: the card has expired
}

func ExampleLambda() {
	function := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"batchItemFailures": [{"itemIdentifier": "2"}]}`)
	}))
	defer function.Close()
	call := &pipe.Lambda{URL: function.URL}
	err := call.HandleBatch(context.Background(), []*worker.Message{{ID: "1"}, {ID: "2"}, {ID: "3"}})
	fmt.Println(err)
	// Output:
	// 1 messages of the batch were not handled, 2 among them: the function reports that it did not handle this message
}
