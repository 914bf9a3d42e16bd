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

// A Lambda makes a request for each batch of messages: a POST with the event with which AWS Lambda
// calls a function whose event source is an SQS queue. It understands the answer as Lambda does
// when ReportBatchItemFailures is on. So a function that runs elsewhere, in the runtime interface
// emulator or behind any HTTP server, can be given messages.
//
// The answer is JSON that names the messages which have failed:
//
//	{"batchItemFailures": [{"itemIdentifier": "MESSAGE ID"}]}
//
// All messages are done when there is no answer, or it is null, or an object in which the list is
// empty, null or missing. All have failed when it is no such JSON, when an identifier is empty,
// missing or not of the batch, when the answer reports an error of the function (with the header
// X-Amz-Function-Error, or by errorType and errorMessage), and with every status but a 2xx. Beyond
// that 429 and 503 with Retry-After, and no connection, are as with HTTP. No results are recorded.
//
// A record has an additional member tenaq with what else there is to know about the message, the
// effect key and the fence above all. Its receiptHandle is empty: the worker holds the lease, and a
// function that deletes messages or changes their visibility itself cannot be used. The attributes
// SenderId, ApproximateFirstReceiveTimestamp, SequenceNumber and AWSTraceHeader are missing.
//
// URL is needed, the rest has defaults. A Lambda must not be copied or changed after its first use.
type Lambda struct {
	// URL is where requests go.
	URL string

	// QueueARN is what records name as their source. It is made from the URL of the queue when
	// empty, without a region if that does not tell.
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
	var some worker.Failures
	if errors.As(err, &some) {
		return some[m.ID]
	}
	return err
}

// answerMax bounds the answer of a function, in bytes. One failure has fewer than 100.
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
		// One message of many may be what the function refuses, and nobody knows which.
		var refused *StatusError
		if errors.As(err, &refused) && refused.Status == http.StatusUnprocessableEntity {
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

// errReported is why a message has failed that the function named.
var errReported = errors.New("the function reports that it did not handle this message")

// batchAnswer reads the answer of a function. Names of members count to the letter, as they do for
// Lambda.
func batchAnswer(text []byte, batch []*worker.Message) error {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil
	}
	wrong := func(what string) error {
		return fmt.Errorf("the whole batch has failed, because the answer of the function %s: %s",
			what, head(safe(string(text), "\n\t")))
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return wrong("is no JSON object")
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

// An event is what Lambda calls a function with.
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

// A lambdaAttribute has two lists more, which SQS has reserved and never filled.
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

// systemAttributes are those of them that a handler knows.
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

// sourceOf is the ARN of a queue and its region. The URL of a queue ends in account and name, and
// Amazon's hosts begin with sqs and the region.
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
