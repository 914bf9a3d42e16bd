// Package sqstest adds faults to the server of package queuetest: clients whose requests are lost,
// refused or carried out twice, where Client.SetFault says so. It fits into a synctest bubble.
package sqstest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/queuetest"
)

// A Server is a queue server that lives as long as its test.
type Server struct{ *queuetest.Server }

// New starts a server, and stops it at the end of the test. In a bubble, call it in the bubble.
func New(t testing.TB) *Server {
	t.Helper()
	return &Server{queuetest.New(t)}
}

// A Fault is what goes wrong with a request.
type Fault int

const (
	None       Fault = iota
	Dropped          // the server does not see it
	Unanswered       // the server carries it out, and the answer is lost
	Broken           // the server answers 500 and has done nothing
	Throttled        // the server refuses it for now
	Doubled          // the server carries it out twice, and the second answer is given
)

// A Client is one client of a server, with faults of its own.
type Client struct {
	*sqs.Client
	server *Server

	mu    sync.Mutex
	fault func(operation string) Fault
	calls map[string]int
}

// Client returns a client, which tries every request once.
func (s *Server) Client() *Client {
	c := &Client{server: s, calls: make(map[string]int)}
	c.Client = sqs.New(sqs.Options{
		Region:       queuetest.Region,
		BaseEndpoint: &s.Endpoint,
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:   c,
		Retryer:      aws.NopRetryer{},
	})
	return c
}

// SetFault decides about every request from now on. The operation of a request to /v1 is its method
// and its path, such as POST /v1/replace. The function is called from many goroutines,
// one at a time; nil is no faults.
func (c *Client) SetFault(f func(operation string) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

// Calls is how often an operation was asked for.
func (c *Client) Calls(operation string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[operation]
}

var errLost = errors.New("connection lost")

// Do carries a request to the server. It implements the HTTPClient of the SDK.
func (c *Client) Do(r *http.Request) (*http.Response, error) {
	_, operation, sqs := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if !sqs {
		operation = r.Method + " " + r.URL.Path
	}
	fault := c.decide(operation)
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	switch fault {
	case Dropped:
		return nil, errLost
	case Broken:
		return answer(http.StatusInternalServerError, "com.amazonaws.sqs#InternalFailure"), nil
	case Throttled:
		return answer(http.StatusBadRequest, "com.amazonaws.sqs#RequestThrottled"), nil
	case Doubled:
		if _, err := c.carry(r, body); err != nil {
			return nil, err
		}
	}
	resp, err := c.carry(r, body)
	if fault == Unanswered && err == nil {
		return nil, errLost
	}
	return resp, err
}

func (c *Client) decide(operation string) Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[operation]++
	if c.fault == nil {
		return None
	}
	return c.fault(operation)
}

// carry has the server answer a request.
func (c *Client) carry(r *http.Request, body []byte) (*http.Response, error) {
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	return c.server.HTTP.Do(again)
}

func answer(status int, kind string) *http.Response {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"__type":"`+kind+`","message":"fault in a test"}`)
	return w.Result()
}

// Queue creates a queue and returns its URL. Attributes are given as name, value.
func (s *Server) Queue(t testing.TB, name string, attributes ...string) (url string) {
	t.Helper()
	set := make(map[string]string)
	for i := 0; i < len(attributes); i += 2 {
		set[attributes[i]] = attributes[i+1]
	}
	return s.Server.Queue(name, set)
}

// ARN is the ARN of a queue of this server.
func ARN(name string) string { return queuetest.ARN(name) }

// RedrivePolicy is the value of that attribute.
func RedrivePolicy(deadLetters string, maxReceiveCount string) string {
	n, _ := strconv.Atoi(maxReceiveCount)
	return queuetest.RedrivePolicy(deadLetters, n)
}
