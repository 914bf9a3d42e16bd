package sqs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"tenaq/internal/api/sqs/sqswire/wiretest"
)

// A whole handler on a store in memory, asked the same in both protocols one after the other. The
// cost of the disk is not included, so that the difference shows.
func BenchmarkProtocols(b *testing.B) {
	w := newWorld(settings{})
	defer w.stop()
	ask := func(b *testing.B, r *http.Request, body []byte) []byte {
		r.Body = http.NoBody
		if r.ContentLength = int64(len(body)); len(body) > 0 {
			r.Body = readCloser{bytes.NewReader(body)}
		}
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, r)
		if answer.Code != http.StatusOK {
			b.Fatalf("status %d: %s", answer.Code, answer.Body)
		}
		return answer.Body.Bytes()
	}
	inJSON := func(action string) *http.Request {
		return &http.Request{Method: http.MethodPost, Host: host, URL: &url.URL{Path: "/"}, Header: http.Header{
			"Content-Type": {"application/x-amz-json-1.0"}, "X-Amz-Target": {"AmazonSQS." + action},
		}}
	}
	inQuery := func() *http.Request {
		return &http.Request{Method: http.MethodPost, Host: host, URL: &url.URL{Path: "/"}, Header: http.Header{
			"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"},
		}}
	}
	both := func(name, action, body string, size int) {
		form, err := wiretest.Form(action, []byte(body))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/json", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := len(ask(b, inJSON(action), []byte(body))); n < size {
					b.Fatalf("the answer has %d bytes", n)
				}
			}
		})
		b.Run(name+"/query", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := len(ask(b, inQuery(), []byte(form))); n < size {
					b.Fatalf("the answer has %d bytes", n)
				}
			}
		})
	}
	ask(b, inJSON("CreateQueue"), []byte(`{"QueueName":"out"}`))
	ask(b, inJSON("CreateQueue"), []byte(`{"QueueName":"in","Attributes":{"VisibilityTimeout":"0"}}`))

	text, err := json.Marshal(strings.Repeat(`{"order":12345,"items":["a","b"]},`, 31)[:1024])
	if err != nil {
		b.Fatal(err)
	}
	var entries []string
	for i := range 10 {
		entries = append(entries, fmt.Sprintf(`{"Id":"e%d","MessageBody":%s}`, i, text))
	}
	batch := `{"QueueUrl":"out","Entries":[` + strings.Join(entries, ",") + `]}`
	ask(b, inJSON("SendMessageBatch"), []byte(strings.Replace(batch, `"out"`, `"in"`, 1)))

	both("SendMessage", "SendMessage", `{"QueueUrl":"out","MessageBody":`+string(text)+`}`, 100)
	both("SendMessageBatch", "SendMessageBatch", batch, 1000)
	both("ReceiveMessage", "ReceiveMessage", `{"QueueUrl":"in","MaxNumberOfMessages":10,"AttributeNames":["All"]}`, 10_000)
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// A discard is a ResponseWriter that costs nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// The cost of a refused send beyond HTTP, by the size of its body, while the writer has no room.
// The Query protocol has its action in the body.
func BenchmarkRefusal(b *testing.B) {
	w := newWorld(settings{queue: 1})
	defer w.stop()
	for _, size := range []int{100, 64 << 10} {
		message := strings.Repeat("x", size)
		for name, body := range map[string]string{
			"application/x-amz-json-1.0":        `{"QueueUrl":"q","MessageBody":"` + message + `"}`,
			"application/x-www-form-urlencoded": "Action=SendMessage&QueueUrl=q&MessageBody=" + message,
		} {
			r := &http.Request{Method: http.MethodPost, Host: host, URL: &url.URL{Path: "/"}, ContentLength: int64(len(body)),
				Header: http.Header{"Content-Type": {name}}}
			if strings.HasSuffix(name, "json-1.0") {
				r.Header["X-Amz-Target"] = []string{"AmazonSQS.SendMessage"}
			}
			b.Run(fmt.Sprint(name[len("application/"):], "/", size), func(b *testing.B) {
				b.ReportAllocs()
				answer := discard{http.Header{}}
				for b.Loop() {
					clear(answer.header)
					r.Body = readCloser{bytes.NewReader([]byte(body))}
					w.handler.ServeHTTP(answer, r)
				}
			})
		}
	}
}
