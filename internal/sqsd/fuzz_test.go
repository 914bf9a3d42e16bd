package sqsd

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"tenaq/internal/sqswire"
)

// FuzzHandler throws arbitrary requests at a handler that has seen all those before. Whatever it is
// asked, it answers with an id of its own and one JSON object, which is an error of the catalogue unless
// the status is 200, and nothing it is asked is its own fault.
// [WIRE-11, WIRE-18, WIRE-19, ERR-1, ERR-3, ERR-5, ERR-6]
func FuzzHandler(f *testing.F) {
	bodies := map[string]string{
		"CreateQueue":                  `{"QueueName":"q","Attributes":{"DelaySeconds":"0"},"tags":{"a":"b"}}`,
		"GetQueueUrl":                  `{"QueueName":"q","QueueOwnerAWSAccountId":"000000000000"}`,
		"GetQueueAttributes":           `{"QueueUrl":"q","AttributeNames":["All"]}`,
		"SetQueueAttributes":           `{"QueueUrl":"q","Attributes":{"VisibilityTimeout":"1"}}`,
		"ListQueues":                   `{"QueueNamePrefix":"q","MaxResults":1,"NextToken":"MTpx"}`,
		"SendMessage":                  `{"QueueUrl":"q","MessageBody":"x","MessageAttributes":{"k":{"DataType":"Binary","BinaryValue":"AA=="}},"DelaySeconds":1,"MessageGroupId":"g"}`,
		"SendMessageBatch":             `{"QueueUrl":"q","Entries":[{"Id":"a","MessageBody":"x"},{"Id":"b"}]}`,
		"ReceiveMessage":               `{"QueueUrl":"q","MaxNumberOfMessages":10,"VisibilityTimeout":0,"WaitTimeSeconds":1,"AttributeNames":["All"],"MessageAttributeNames":["k.*"]}`,
		"DeleteMessage":                `{"QueueUrl":"q","ReceiptHandle":"AQEB"}`,
		"DeleteMessageBatch":           `{"QueueUrl":"q","Entries":[{"Id":"a","ReceiptHandle":"AQEB"}]}`,
		"ChangeMessageVisibility":      `{"QueueUrl":"q","ReceiptHandle":"AQEB","VisibilityTimeout":1}`,
		"ChangeMessageVisibilityBatch": `{"QueueUrl":"q","Entries":[{"Id":"a","ReceiptHandle":"AQEB","VisibilityTimeout":0}]}`,
		"PurgeQueue":                   `{"QueueUrl":"http://localhost/000000000000/q"}`,
		"TagQueue":                     `{"QueueUrl":"q","Tags":{"a":"b"}}`,
		"UntagQueue":                   `{"QueueUrl":"q","TagKeys":["a"]}`,
		"ListQueueTags":                `{"QueueUrl":"q"}`,
		"DeleteQueue":                  `{"QueueUrl":"q"}`,
		"ListDeadLetterSourceQueues":   `{"QueueUrl":"q","MaxResults":1}`,
		"StartMessageMoveTask":         `{"SourceArn":"arn:aws:sqs:us-east-1:000000000000:q","DestinationArn":"arn:aws:sqs:us-east-1:000000000000:p","MaxNumberOfMessagesPerSecond":1}`,
		"ListMessageMoveTasks":         `{"SourceArn":"arn:aws:sqs:us-east-1:000000000000:q","MaxResults":1}`,
		"CancelMessageMoveTask":        `{"TaskHandle":"e30="}`,
	}
	for _, op := range sqswire.Operations() {
		body := bodies[op.Name]
		if body == "" {
			body = "{}"
		}
		f.Add("POST", "/", "localhost", "", "application/x-amz-json-1.0", "AmazonSQS."+op.Name, "Root=1", body)
	}
	f.Add("GET", "/000000000000/q", "::1", "null", "text/plain", "", "\xff", "\x00")

	w := newWorld(settings{sqsd: Config{Hosts: []string{}}})
	f.Cleanup(w.stop)
	w.broker.Drain() // so that no poll waits
	f.Fuzz(func(t *testing.T, method, path, host, origin, kind, target, trace, body string) {
		r := &http.Request{
			Method: method, URL: &url.URL{Path: path}, Host: host,
			Header:        http.Header{},
			ContentLength: int64(len(body)), Body: http.NoBody,
		}
		r.Body = httptest.NewRequest("POST", "/", strings.NewReader(body)).Body
		for name, value := range map[string]string{
			"Origin": origin, "Content-Type": kind, "X-Amz-Target": target, "X-Amzn-Trace-Id": trace,
		} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, r.WithContext(t.Context()))
		checkAnswer(t, answer)
	})
}

// checkAnswer holds an answer to what all of them have in common.
func checkAnswer(t *testing.T, answer *httptest.ResponseRecorder) {
	t.Helper()
	sent := func(name string) []string { return answer.Header()[name] } // as it is spelt on the wire
	for name, want := range map[string]int{"x-amzn-RequestId": 36, "Content-Type": len("application/x-amz-json-1.0")} {
		if got := sent(name); len(got) != 1 || len(got[0]) != want {
			t.Errorf("header %s is %q, want one value of %d characters", name, got, want)
		}
	}
	var members map[string]any
	if err := json.Unmarshal(answer.Body.Bytes(), &members); err != nil || members == nil {
		t.Fatalf("body %q is no JSON object: %v", answer.Body, err)
	}
	query := sent("x-amzn-query-error")
	if answer.Code == http.StatusOK {
		if query != nil {
			t.Errorf("query error %q with status 200", query)
		}
		return
	}
	typ, _ := members["__type"].(string)
	message, _ := members["message"].(string)
	if len(members) != 2 || !strings.HasPrefix(typ, "com.amazon") || message == "" {
		t.Errorf("error %s, want __type and message", answer.Body)
	}
	if len(query) != 1 || !strings.HasSuffix(query[0], ";Sender") || answer.Code >= http.StatusInternalServerError {
		t.Errorf("status %d, query error %q: the server blames itself", answer.Code, query)
	}
}
