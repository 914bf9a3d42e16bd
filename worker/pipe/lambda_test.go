//go:build unix

package pipe_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/worker"
	"tenaq/worker/pipe"
)

var _ worker.BatchHandler = (*pipe.Lambda)(nil)

// batch is three messages, m-1 to m-3.
func batch() (messages []*worker.Message) {
	for i := range 3 {
		m := message(fmt.Sprintf("body %d", i+1))
		m.ID = fmt.Sprintf("m-%d", i+1)
		messages = append(messages, m)
	}
	return messages
}

// Lambda documents these as complete success, complete failure and partial failure.
func TestBatchAnswer(t *testing.T) {
	const all = "*"
	for _, test := range []struct {
		name   string
		status int
		header string
		answer string
		failed string // ids, or all
		text   string
	}{
		{"empty list", 200, "", `{"batchItemFailures":[]}`, "", ""},
		{"null list", 200, "", `{"batchItemFailures":null}`, "", ""},
		{"empty answer", 200, "", ``, "", ""},
		{"blanks", 200, "", " \n", "", ""},
		{"null", 200, "", `null`, "", ""},
		{"empty object", 200, "", `{}`, "", ""},
		{"something else", 200, "", `{"statusCode":200,"body":"ok"}`, "", ""},
		{"no content", 204, "", ``, "", ""},
		{"one", 200, "", `{"batchItemFailures":[{"itemIdentifier":"m-2"}]}`, "m-2", ""},
		{"two", 200, "", `{"batchItemFailures":[{"itemIdentifier":"m-3"},{"itemIdentifier":"m-1","more":1}],"more":{}}`, "m-1 m-3", ""},
		{"twice", 200, "", `{"batchItemFailures":[{"itemIdentifier":"m-2"},{"itemIdentifier":"m-2"}]}`, "m-2", ""},
		{"each", 200, "", `{"batchItemFailures":[{"itemIdentifier":"m-1"},{"itemIdentifier":"m-2"},{"itemIdentifier":"m-3"}]}`, "m-1 m-2 m-3", ""},

		{"no JSON", 200, "", `{"batchItemFailures":[`, all, "is not a JSON object"},
		{"text", 200, "", `Task timed out after 3.00 seconds`, all, "is not a JSON object: Task timed out"},
		{"more behind", 200, "", `{} {}`, all, "is not a JSON object"},
		{"a string", 200, "", `"ok"`, all, "is not a JSON object"},
		{"a list", 200, "", `[]`, all, "is not a JSON object"},
		{"list is no list", 200, "", `{"batchItemFailures":{}}`, all, "no list of objects"},
		{"list of texts", 200, "", `{"batchItemFailures":["m-1"]}`, all, "no list of objects"},
		{"empty identifier", 200, "", `{"batchItemFailures":[{"itemIdentifier":""}]}`, all, "without an itemIdentifier"},
		{"null identifier", 200, "", `{"batchItemFailures":[{"itemIdentifier":null}]}`, all, "without an itemIdentifier"},
		{"number", 200, "", `{"batchItemFailures":[{"itemIdentifier":1}]}`, all, "without an itemIdentifier"},
		{"bad name", 200, "", `{"batchItemFailures":[{"ItemIdentifier":"m-1"}]}`, all, "without an itemIdentifier"},
		{"null item", 200, "", `{"batchItemFailures":[null]}`, all, "without an itemIdentifier"},
		{"unknown", 200, "", `{"batchItemFailures":[{"itemIdentifier":"m-2"},{"itemIdentifier":"m-9"}]}`, all, "names a message that is not in the batch"},
		{"raised", 200, "", `{"errorMessage":"division by zero","errorType":"ZeroDivisionError"}`, all, "the function failed: {"},
		{"raised, as the service says it", 200, "X-Amz-Function-Error: Unhandled", `{}`, all, "the function failed (Unhandled): {}"},
		{"too long", 200, "", strings.Repeat(" ", 64<<10+1), all, "more than 65536 bytes"},
		{"status", 500, "", `{"batchItemFailures":[]}`, all, "status 500"},
		{"one of many", 422, "", ``, all, "status 422"},
		{"redirect", 302, "Location: /", ``, all, "status 302"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := &pipe.Lambda{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
				if name, value, ok := strings.Cut(test.header, ": "); ok {
					w.Header().Set(name, value)
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.answer)
			})}
			messages := batch()
			err := l.HandleBatch(t.Context(), messages)
			var failures worker.Failures
			if errors.As(err, &failures); test.failed == all {
				if err == nil || failures != nil || !strings.Contains(err.Error(), test.text) {
					t.Errorf("got %v, want that the whole batch has failed, with %q", err, test.text)
				}
				if fmt.Sprintf("%T", err) == fmt.Sprintf("%T", poison) {
					t.Errorf("got %v, which is about one message and not about all", err)
				}
				return
			}
			var ids []string
			for _, m := range messages {
				if failures[m.ID] != nil {
					ids = append(ids, m.ID)
				}
			}
			if got := strings.Join(ids, " "); got != test.failed || len(ids) != len(failures) || (err == nil) != (len(ids) == 0) {
				t.Errorf("got %v, want %q to have failed", err, test.failed)
			}
		})
	}
}

// Throttling is not the fault of the messages.
func TestBatchLater(t *testing.T) {
	l := &pipe.Lambda{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusTooManyRequests)
	})}
	sameKind(t, l.HandleBatch(t.Context(), batch()), later, "again in 3s")
	sameKind(t, (&pipe.Lambda{URL: "http://127.0.0.1:1"}).HandleBatch(t.Context(), batch()), later, "cannot be reached")
}

// A single message is a batch of one.
func TestLambdaHandle(t *testing.T) {
	answer := `{"batchItemFailures":[{"itemIdentifier":"m-1"}]}`
	l := &pipe.Lambda{URL: serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, answer) })}
	err := l.Handle(t.Context(), message(""))
	var failures worker.Failures
	if err == nil || errors.As(err, &failures) {
		t.Errorf("got %v, want the error of the message", err)
	}
	answer = ""
	must(t, l.Handle(t.Context(), message("")))
}

func TestEvent(t *testing.T) {
	var got map[string]any
	var header http.Header
	l := &pipe.Lambda{
		QueueARN: "arn:aws:sqs:eu-west-1:123456789012:orders.fifo",
		Header:   http.Header{"Authorization": {"Bearer secret"}},
		URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
			header = r.Header
			if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
				t.Error(err)
			}
		}),
	}
	m := message("<body>")
	m.Dedup = "d"
	m.Attributes = map[string]types.MessageAttributeValue{
		"trace": {DataType: aws.String("String"), StringValue: aws.String("abc")},
		"blob":  {DataType: aws.String("Binary"), BinaryValue: []byte{0, 255}},
	}
	plain := &worker.Message{ID: "m-2", Body: "b", Key: "k", Receives: 1, QueueURL: "https://sqs.us-east-2.amazonaws.com/123456789012/orders"}
	must(t, l.HandleBatch(t.Context(), []*worker.Message{m, plain}))
	var want map[string]any
	must(t, json.Unmarshal([]byte(`{"Records": [{
		"messageId": "m-1", "receiptHandle": "", "body": "<body>",
		"attributes": {"ApproximateReceiveCount": "3", "SentTimestamp": "1767323045006", "MessageGroupId": "g", "MessageDeduplicationId": "d"},
		"messageAttributes": {
			"trace": {"dataType": "String", "stringValue": "abc", "stringListValues": [], "binaryListValues": []},
			"blob": {"dataType": "Binary", "binaryValue": "AP8=", "stringListValues": [], "binaryListValues": []}
		},
		"md5OfBody": "bc1d3a136e6f54eff73adaf5669b9be3",
		"eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:orders.fifo", "awsRegion": "eu-west-1",
		"tenaq": {"messageId": "m-1", "key": "order-17", "effectKey": "order-17#2", "generation": 2, "fence": 0, "attempt": 0,
			"receives": 3, "redrives": 1, "lineage": "m-0", "group": "g", "deduplicationId": "d",
			"queueUrl": "http://127.0.0.1:9324/000000000000/orders", "sent": "2026-01-02T03:04:05.006Z"}
	}, {
		"messageId": "m-2", "receiptHandle": "", "body": "b", "attributes": {"ApproximateReceiveCount": "1"}, "messageAttributes": {},
		"md5OfBody": "92eb5ffee6ae2fec3ad71c777531578f",
		"eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:orders.fifo", "awsRegion": "eu-west-1",
		"tenaq": {"messageId": "m-2", "key": "k", "effectKey": "k", "generation": 0, "fence": 0, "attempt": 0, "receives": 1,
			"redrives": 0, "lineage": "", "queueUrl": "https://sqs.us-east-2.amazonaws.com/123456789012/orders"}
	}]}`), &want))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if header.Get("Content-Type") != "application/json" || header.Get("Authorization") != "Bearer secret" {
		t.Errorf("got the header %v", header)
	}
}

// The source is derived from the URL of the queue if it is not given.
func TestEventSource(t *testing.T) {
	var got struct {
		Records []struct{ EventSourceARN, AWSRegion string }
	}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { _ = json.NewDecoder(r.Body).Decode(&got) })
	for queue, want := range map[string][2]string{
		"https://sqs.us-east-2.amazonaws.com/123456789012/orders": {"arn:aws:sqs:us-east-2:123456789012:orders", "us-east-2"},
		"http://127.0.0.1:9324/000000000000/orders":               {"arn:aws:sqs::000000000000:orders", ""},
		"https://queue.example.com/sqs/000000000000/orders":       {"arn:aws:sqs::000000000000:orders", ""},
		"":       {"", ""},
		"%":      {"", ""},
		"orders": {"", ""},
	} {
		m := message("")
		m.QueueURL = queue
		must(t, (&pipe.Lambda{URL: url}).Handle(t.Context(), m))
		if r := got.Records[0]; r.EventSourceARN != want[0] || r.AWSRegion != want[1] {
			t.Errorf("%s: got %+v, want %q", queue, r, want)
		}
	}
}
