package v1client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// doer answers requests in place of a server.
type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

// answering returns a client whose server always answers the same.
func answering(status int, ours bool, body string) *Client {
	return &Client{URL: "http://queue.test/", HTTP: doer(func(*http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		if ours {
			w.Header().Set(Header, "1")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
		return w.Result(), nil
	})}
}

// Only an answer with the header counts as one of tenaq. A server that cannot be reached does not
// count as another server.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		status int
		ours   bool
		body   string
		want   string // the error; empty for the answer {"n": 7}
	}{
		{200, true, `{"n": 7}`, ""},
		{200, true, `<html>`, "cannot read the answer of http://queue.test/"},
		{200, false, `{"n": 7}`, ErrOther.Error()},
		{404, false, `nothing`, ErrOther.Error()},
		{502, false, `<html>`, "the server answers 502 (Bad Gateway)"},
		{429, false, ``, "the server answers 429 (Too Many Requests)"},
		{404, true, `{"code":"NotFound","message":"Unknown path."}`, "Unknown path (NotFound)"},
		{409, true, `{"type":"about:blank","title":"Conflict","status":409,"detail":"d","code":"Busy","message":"wait"}`, "wait (Busy)"},
		{500, true, `not JSON`, "the server answers 500 (Internal Server Error)"},
		{500, true, `{"error":"no code"}`, "the server answers 500 (Internal Server Error)"},
	} {
		var answer struct{ N int }
		err := answering(tt.status, tt.ours, tt.body).Get(t.Context(), "/queues", nil, &answer)
		switch {
		case tt.want == "" && (err != nil || answer.N != 7):
			t.Errorf("%d %s: got %+v, %v", tt.status, tt.body, answer, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%d %s: got %v, want %s", tt.status, tt.body, err, tt.want)
		}
		refusal, ok := errors.AsType[*Error](err)
		if ok && (refusal.Status != tt.status || refusal.Passing() != (tt.status == 429 || tt.status >= 500)) {
			t.Errorf("%d: the refusal is %+v, passing %v", tt.status, refusal, refusal.Passing())
		}
	}
}

// A request goes where the client of the SQS API sends its own, signed with the same key.
func TestRequests(t *testing.T) {
	var got *http.Request
	var body string
	client := sqs.New(sqs.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://queue.test:9324"),
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		HTTPClient: doer(func(r *http.Request) (*http.Response, error) {
			text, _ := io.ReadAll(r.Body)
			got, body = r, string(text)
			return nil, context.DeadlineExceeded
		}),
	})
	c := New(client)
	if err := c.Get(t.Context(), "/queues", url.Values{"limit": {"5"}}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	const signed = "Credential=AKIDEXAMPLE/"
	if got.Method != "GET" || got.URL.String() != "http://queue.test:9324/v1/queues?limit=5" || body != "" ||
		!strings.Contains(got.Header.Get("Authorization"), signed) || !strings.Contains(got.Header.Get("Authorization"), "/eu-west-1/sqs/aws4_request") {
		t.Errorf("got %s %s %q %v", got.Method, got.URL, body, got.Header)
	}
	c.Post(t.Context(), "/records", map[string]int{"n": 7}, nil)
	if got.Method != "POST" || body != `{"n":7}` || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s %s %q %v", got.Method, got.URL, body, got.Header)
	}
	c.Credentials = nil
	c.Get(t.Context(), "/queues", nil, nil)
	if a := got.Header.Get("Authorization"); a != "" {
		t.Errorf("signed without credentials: %s", a)
	}
}

// A client without an address of its own has no tenaq server.
func TestNoServer(t *testing.T) {
	for _, client := range []any{nil, "a fake", sqs.New(sqs.Options{Region: "us-east-1"})} {
		if c := New(client); c != nil {
			t.Errorf("%T: got a client for %s", client, c.URL)
		}
	}
}
