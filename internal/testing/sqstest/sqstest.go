// Package sqstest is a server in a test and clients of it, without a network and without a real clock: it
// fits into a synctest bubble, where an hour of long polls, leases and pauses passes at once.
//
// The server is the real one, on a memory store. What goes wrong between a client and a server goes wrong
// where Client.Fault says so.
package sqstest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/api/handle"
	api "tenaq/internal/api/sqs"
	"tenaq/internal/broker"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

const (
	account  = "000000000000"
	region   = "us-east-1"
	endpoint = "http://127.0.0.1:9324" // nobody listens there
)

// A Server is a queue server that lives as long as its test.
type Server struct {
	handler http.Handler
}

// New starts a server, and stops it at the end of the test. In a bubble, call it in the bubble.
func New(t testing.TB) *Server {
	b := broker.New(broker.Config{
		Store: kv.NewMemory(),
		Engine: engine.Config{
			Region: region, InFlightMax: 120_000,
			Fault: func(sentence string) { panic(sentence) },
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return &Server{api.New(api.Config{
		Broker: b, Sealer: handle.New(make([]byte, handle.KeySize)),
		Logger: slog.New(slog.DiscardHandler), Door: auth.New(auth.Config{Account: account}),
	})}
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
		Region:       region,
		BaseEndpoint: aws.String(endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:   c,
		Retryer:      aws.NopRetryer{},
	})
	return c
}

// SetFault decides about every request from now on. The function is called from many goroutines, one at a
// time; nil is no faults.
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
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
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

// carry has the server answer a request. A client that goes away, as a connection that is closed, ends the
// context of the request.
func (c *Client) carry(r *http.Request, body []byte) (*http.Response, error) {
	in := httptest.NewRequest(r.Method, r.URL.String(), bytes.NewReader(body)).WithContext(r.Context())
	in.Header = r.Header.Clone()
	in.Host = r.URL.Host
	out := httptest.NewRecorder()
	func() {
		defer func() {
			if why := recover(); why != nil && why != http.ErrAbortHandler {
				panic(why)
			}
		}()
		c.server.handler.ServeHTTP(out, in)
	}()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return out.Result(), nil
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
	if strings.HasSuffix(name, ".fifo") {
		set[string(types.QueueAttributeNameFifoQueue)] = "true"
	}
	out, err := s.Client().CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: set})
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(out.QueueUrl)
}

// ARN is the ARN of a queue of this server.
func ARN(name string) string { return "arn:aws:sqs:" + region + ":" + account + ":" + name }

// RedrivePolicy is the value of that attribute.
func RedrivePolicy(deadLetters string, maxReceiveCount string) string {
	return `{"deadLetterTargetArn":"` + ARN(deadLetters) + `","maxReceiveCount":` + maxReceiveCount + `}`
}
