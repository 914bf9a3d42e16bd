package pipe

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"tenaq/worker"
)

// A Lambda makes a request for each batch of messages: a POST with the event of AWS Lambda for an
// SQS queue. It reads the answer like Lambda with ReportBatchItemFailures. So a function can run
// elsewhere, in the runtime interface emulator or behind any HTTP server.
//
// The answer is JSON that names the messages which have failed:
//
//	{"batchItemFailures": [{"itemIdentifier": "MESSAGE ID"}]}
//
// All messages are done if the answer is empty, null, or an object in which the list is empty, null
// or missing. All have failed in these cases:
//
//   - the answer is not such JSON
//   - an identifier is empty, missing or not of the batch
//   - the answer reports an error of the function, in the header X-Amz-Function-Error, or by
//     errorType and errorMessage
//   - the status is not a 2xx. But 429 and 503 with Retry-After, and a missing connection, have the
//     same effects as with HTTP.
//
// No results are recorded.
//
// A record has an additional member tenaq with the effect key, the fence and other facts about the
// message. Its receiptHandle is empty, because the worker holds the lease: the function must not
// delete messages or change their visibility. The attributes SenderId,
// ApproximateFirstReceiveTimestamp, SequenceNumber and AWSTraceHeader are missing.
//
// URL is required; the rest has defaults. A Lambda must not be copied or changed after its first
// use.
type Lambda struct {
	// URL is where requests go.
	URL string

	// QueueARN is the source of records. When empty, it is made from the URL of the queue, without
	// a region if the URL has none.
	QueueARN string

	// Client, Header, Timeout and Pause are as those of HTTP.
	Client  *http.Client
	Header  http.Header
	Timeout time.Duration
	Pause   time.Duration

	once     sync.Once
	endpoint *endpoint
}

// Handle makes the request for a single message.
func (l *Lambda) Handle(ctx context.Context, m *worker.Message) error {
	err := l.HandleBatch(ctx, []*worker.Message{m})
	if some, ok := errors.AsType[worker.Failures](err); ok {
		return some[m.ID]
	}
	return err
}

// answerMax is the maximum size of an answer, in bytes. One failure has fewer than 100.
const answerMax = 64 << 10

// HandleBatch makes the request for a batch and waits for the answer.
func (l *Lambda) HandleBatch(ctx context.Context, batch []*worker.Message) error {
	l.once.Do(func() {
		header := canonical(l.Header)
		header.Set("Content-Type", "application/json")
		l.endpoint = &endpoint{l.URL, withoutRedirects(l.Client), header, l.Timeout, l.Pause}
	})
	body, err := encode(l.event(batch))
	if err != nil {
		return fmt.Errorf("pipe: %w", err)
	}
	a, err := l.endpoint.post(ctx, nil, string(body), answerMax)
	if err != nil {
		// The function may refuse one message of many, and does not say which.
		refused, ok := errors.AsType[*StatusError](err)
		if ok && refused.Status == http.StatusUnprocessableEntity {
			return refused
		}
		return err
	}
	if kind := a.header.Get("X-Amz-Function-Error"); kind != "" {
		return fmt.Errorf("the function failed (%s): %s", safe(kind, ""),
			head(safe(string(a.body), "\n\t")))
	}
	return batchAnswer(a.body, batch)
}

// errReported is the error of a message that the function reported.
var errReported = errors.New("the function reports that it did not handle this message")

// batchAnswer reads the answer of a function. The names of members are case-sensitive, as for
// Lambda.
func batchAnswer(text []byte, batch []*worker.Message) error {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil
	}
	wrong := func(what string) error {
		return fmt.Errorf("the whole batch failed, because the answer of the function %s: %s",
			what, head(safe(string(text), "\n\t")))
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return wrong("is not a JSON object")
	}
	list, ok := members["batchItemFailures"]
	if !ok {
		_, message := members["errorMessage"]
		_, kind := members["errorType"]
		if message && kind {
			return fmt.Errorf("the function failed: %s", head(safe(string(text), "\n\t")))
		}
		return nil
	}
	var items []map[string]json.RawMessage
	if err := json.Unmarshal(list, &items); err != nil {
		return wrong("has no list of objects as batchItemFailures")
	}
	failures := make(worker.Failures, len(items))
	for _, item := range items {
		var id string
		if err := json.Unmarshal(item["itemIdentifier"], &id); err != nil || id == "" {
			return wrong("has an item without an itemIdentifier")
		}
		failures[id] = errReported
	}
	known := 0
	for _, m := range batch {
		if failures[m.ID] != nil {
			known++
		}
	}
	switch {
	case known < len(failures):
		return wrong("names a message that is not in the batch")
	case known == 0:
		return nil
	}
	return failures
}

// An event is the argument of a function of Lambda.
type event struct {
	Records []record `json:"Records"`
}

type record struct {
	MessageID         string                     `json:"messageId"`
	ReceiptHandle     string                     `json:"receiptHandle"`
	Body              string                     `json:"body"`
	Attributes        map[string]string          `json:"attributes"`
	MessageAttributes map[string]lambdaAttribute `json:"messageAttributes"`
	MD5               string                     `json:"md5OfBody"`
	EventSource       string                     `json:"eventSource"`
	EventSourceARN    string                     `json:"eventSourceARN"`
	Region            string                     `json:"awsRegion"`
	Tenaq             metadata                   `json:"tenaq"`
}

// A lambdaAttribute has two more lists, which SQS reserves and never fills.
type lambdaAttribute struct {
	attribute
	StringValues []string `json:"stringListValues"`
	BinaryValues [][]byte `json:"binaryListValues"`
}

func (l *Lambda) event(batch []*worker.Message) event {
	e := event{Records: make([]record, len(batch))}
	for i, m := range batch {
		sum := md5.Sum([]byte(m.Body))
		arn, region := sourceOf(l.QueueARN, m.QueueURL)
		e.Records[i] = record{
			MessageID:         m.ID,
			Body:              m.Body,
			Attributes:        systemAttributes(m),
			MessageAttributes: make(map[string]lambdaAttribute, len(m.Attributes)),
			MD5:               hex.EncodeToString(sum[:]),
			EventSource:       "aws:sqs",
			EventSourceARN:    arn,
			Region:            region,
			Tenaq:             metadataOf(m),
		}
		for name, a := range attributesOf(m) {
			e.Records[i].MessageAttributes[name] = lambdaAttribute{a, []string{}, [][]byte{}}
		}
	}
	return e
}

// systemAttributes returns the system attributes that a handler knows.
func systemAttributes(m *worker.Message) map[string]string {
	a := map[string]string{"ApproximateReceiveCount": strconv.Itoa(m.Receives)}
	if !m.Sent.IsZero() {
		a["SentTimestamp"] = strconv.FormatInt(m.Sent.UnixMilli(), 10)
	}
	if m.Group != "" {
		a["MessageGroupId"] = m.Group
	}
	if m.Dedup != "" {
		a["MessageDeduplicationId"] = m.Dedup
	}
	return a
}

// sourceOf returns the ARN of a queue and its region. The URL of a queue ends in account and name,
// and the hosts of Amazon begin with sqs and the region.
func sourceOf(arn, queueURL string) (source, region string) {
	if arn == "" {
		u, err := url.Parse(queueURL)
		if err != nil {
			return "", ""
		}
		if host := strings.Split(u.Hostname(), "."); len(host) > 2 && host[0] == "sqs" {
			region = host[1]
		}
		path := strings.Split(strings.Trim(u.Path, "/"), "/")
		if len(path) < 2 {
			return "", region
		}
		return "arn:aws:sqs:" + region + ":" + path[len(path)-2] + ":" + path[len(path)-1], region
	}
	if parts := strings.Split(arn, ":"); len(parts) == 6 {
		region = parts[3]
	}
	return arn, region
}
