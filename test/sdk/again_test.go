package sdk

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"tenaq/internal/door/credentials"
	"tenaq/internal/server"
	"tenaq/internal/testing/faultproxy"
)

const testKey, testSecret = "AKIDEXAMPLE", "the-secret-of-the-test"

// startWithKey starts a server that wants a key, which its client has.
func startWithKey(t *testing.T) *node {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials.json")
	text := fmt.Sprintf(`{"credentials": [{"id": %q, "secret": %q, "account": "000000000000", "allow": ["*"]}]}`, testKey, testSecret)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := credentials.Open(credentials.Config{File: path})
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, func(c *server.Config) { c.Credentials = set })
	options := n.Options()
	options.Credentials = awscredentials.NewStaticCredentialsProvider(testKey, testSecret, "")
	n.Client = sqs.New(options)
	return n
}

// The SDK retries a send whose answer was lost, or which arrives later than its retry. The queue
// gets its messages once, and the SDK the answer to the send that stored them. Without a key it
// gets them twice. [AGAIN-1, AGAIN-2, AGAIN-3, AGAIN-7]
func TestRetriedSends(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  faultproxy.Fault
		keys   bool
		copies int // of each message
	}{
		{"answer lost", faultproxy.Fault{How: faultproxy.Lose}, true, 1},
		{"late", faultproxy.Fault{How: faultproxy.Late, LateBy: 300 * time.Millisecond}, true, 1},
		{"answer lost without a key", faultproxy.Fault{How: faultproxy.Lose}, false, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var n *node
			if test.keys {
				n = startWithKey(t)
			} else {
				n = start(t, nil)
			}
			url := n.queue("orders")
			proxy, err := faultproxy.Start(faultproxy.Config{Target: "http://" + n.server.Addr(), Plan: func(r faultproxy.Request) faultproxy.Fault {
				if r.N == 1 {
					return test.fault
				}
				return faultproxy.Fault{}
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer proxy.Close()
			client := sqs.New(sqs.Options{Region: "us-east-1", BaseEndpoint: aws.String(proxy.URL()), Credentials: n.Options().Credentials,
				Retryer: retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Millisecond })})

			want := map[string]int{} // ids, and how often
			one, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("one")})
			if err != nil {
				t.Fatal(err)
			}
			want[*one.MessageId]++
			if test.fault.How == faultproxy.Lose { // a late one may come before its retry after all
				checkRetried(t, "send", one.ResultMetadata, test.keys)
			}
			batch, err := client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: []types.SendMessageBatchRequestEntry{
				{Id: aws.String("a"), MessageBody: aws.String("two")}, {Id: aws.String("b"), MessageBody: aws.String("three")}}})
			if err != nil || len(batch.Successful) != 2 {
				t.Fatalf("the batch answers %v, %v, want two messages", batch, err)
			}
			for _, sent := range batch.Successful {
				want[*sent.MessageId]++
			}
			if test.fault.How == faultproxy.Lose {
				checkRetried(t, "batch", batch.ResultMetadata, test.keys)
			}

			proxy.Close() // waits for the requests that are late
			got, messages := map[string]int{}, n.take(url, 0, 30)
			for _, m := range messages {
				got[*m.MessageId]++
			}
			if len(messages) != 3*test.copies || test.copies == 1 && !maps.Equal(got, want) {
				t.Errorf("received %d messages, %v, want %d of each of %v", len(messages), got, test.copies, want)
			}
		})
	}
}

// checkRetried looks at an answer to the second attempt of a call.
func checkRetried(t *testing.T, what string, answer middleware.Metadata, want bool) {
	t.Helper()
	resp, ok := awsmiddleware.GetRawResponse(answer).(*smithyhttp.Response)
	if !ok {
		t.Fatal("the SDK does not show the response")
	}
	if got := resp.Header.Get("Tenaq-Retried") == "true"; got != want {
		t.Errorf("%s: the header Tenaq-Retried is there: %v, want %v", what, got, want)
	}
}
