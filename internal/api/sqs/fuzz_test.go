package sqs

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/api/sqs/sqswire/wiretest"
)

// FuzzHandler throws arbitrary requests at a handler that has seen all those before. Whatever it is
// asked, it answers with an id of its own and one JSON object or XML document, which is an error of
// the catalogue unless the status is 200, and nothing it is asked is its own fault.
// [WIRE-11, WIRE-18, WIRE-19, ERR-1, ERR-3, ERR-5, ERR-6, XML-13, XML-20, XML-21]
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
	for _, op := range sortedOperations() {
		body := bodies[op.Name]
		if body == "" {
			body = "{}"
		}
		f.Add("POST", "/", "localhost", "", "application/x-amz-json-1.0", "AmazonSQS."+op.Name, "Root=1", body)
	}
	f.Add("POST", "/", "localhost", "", "application/x-amz-json-1.0", "AmazonSQS.ListQueues\nAmazonSQS.DeleteQueue", "", "{}")
	f.Add("POST", "/", "localhost", "", "application/json\napplication/x-www-form-urlencoded", "", "", "Action=ListQueues")
	f.Add("GET", "/000000000000/q", "::1", "null", "text/plain", "", "\xff", "\x00")
	for _, op := range sortedOperations() {
		form, err := wiretest.Form(op.Name, []byte(cmp.Or(bodies[op.Name], "{}")))
		if err != nil {
			f.Fatal(err)
		}
		f.Add("POST", "/000000000000/q", "localhost", "", "application/x-www-form-urlencoded", "", "", form)
		f.Add("GET", "/?"+form, "localhost", "", "", "", "", "")
	}

	w := newWorld(settings{hosts: []string{}})
	f.Cleanup(w.stop)
	w.broker.Drain() // so that no poll waits
	f.Fuzz(func(t *testing.T, method, path, host, origin, kind, target, trace, body string) {
		path, query, _ := strings.Cut(path, "?")
		r := &http.Request{
			Method: method, URL: &url.URL{Path: path, RawQuery: query}, Host: host,
			Header:        http.Header{},
			ContentLength: int64(len(body)), Body: http.NoBody,
		}
		r.Body = httptest.NewRequest("POST", "/", strings.NewReader(body)).Body
		for name, value := range map[string]string{
			"Origin": origin, "Content-Type": kind, "X-Amz-Target": target, "X-Amzn-Trace-Id": trace,
		} {
			if value == "" {
				continue
			}
			for line := range strings.SplitSeq(value, "\n") { // a header may be there several times
				r.Header.Add(name, line)
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
	sent := func(name string) string { // as it is spelt on the wire
		if values := answer.Header()[name]; len(values) == 1 {
			return values[0]
		}
		return ""
	}
	id, query, body := sent("x-amzn-RequestId"), sent("x-amzn-query-error"), answer.Body.Bytes()
	if len(id) != 36 {
		t.Errorf("request id %q, want 36 characters", id)
	}
	failed := answer.Code != http.StatusOK
	if failed != (query != "") || failed && !strings.HasSuffix(query, ";Sender") || answer.Code >= http.StatusInternalServerError {
		t.Errorf("status %d, query error %q: the server blames itself or nobody", answer.Code, query)
	}
	switch kind := sent("Content-Type"); {
	case kind == "text/xml" && string(body) == sqswire.UnknownOperationXML:
	case kind == "text/xml":
		var document struct {
			XMLName xml.Name
			ID      string `xml:"ResponseMetadata>RequestId"`
			ErrorID string `xml:"RequestId"`
			Code    string `xml:"Error>Code"`
			Message string `xml:"Error>Message"`
		}
		if err := xml.Unmarshal(body, &document); err != nil || document.ID+document.ErrorID != id {
			t.Fatalf("body %q is no document with the id %s: %v", body, id, err)
		}
		if failed && (document.Message == "" || !strings.HasPrefix(query, document.Code+";")) {
			t.Errorf("error %s, want a message and the code of %s", body, query)
		}
	case kind == "application/x-amz-json-1.0":
		var members map[string]any
		if err := json.Unmarshal(body, &members); err != nil || members == nil {
			t.Fatalf("body %q is no JSON object: %v", body, err)
		}
		typ, _ := members["__type"].(string)
		message, _ := members["message"].(string)
		if failed && (len(members) != 2 || !strings.HasPrefix(typ, "com.amazon") || message == "") {
			t.Errorf("error %s, want __type and message", body)
		}
	default:
		t.Errorf("content type %q", kind)
	}
}
