// Package queuetest runs a tenaq server inside a test: the real server, on a store in memory.
//
//	func TestOrders(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			server := queuetest.New(t)
//			url := server.Queue("orders", nil)
//			... // send with server.Client, run the consumer, wait for hours
//			if left := server.Messages("orders"); len(left) > 0 {
//				t.Errorf("%d orders are left", len(left))
//			}
//		})
//	}
//
// What it guarantees:
//
//   - Queues behave like those of "tenaq serve": rules, errors and limits are the same code.
//   - In a bubble of package testing/synctest, the server uses the clock of the bubble, so delays,
//     visibility timeouts and retention pass instantly. No network is used, and no goroutine is
//     left at the end of the test.
//   - Outside a bubble, the server listens on a port of its own on the loopback interface, so other
//     processes and clients in other languages can use it.
//   - Servers share nothing. Tests with one server each may run in parallel.
//
// What it leaves to others: credentials are accepted and not checked, nothing is stored on disk,
// and there is no admin port. Test those against "tenaq serve".
package queuetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/api/handle"
	"tenaq/internal/api/intake"
	api "tenaq/internal/api/sqs"
	v1 "tenaq/internal/api/v1"
	"tenaq/internal/broker"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/work/sqslimits"
)

// Account and Region are what queue URLs and ARNs of a Server show.
const (
	Account = "000000000000"
	Region  = "us-east-1"
)

// A Server is a queue server that runs until its test ends.
type Server struct {
	// Client sends requests to the server, each of them once.
	Client *sqs.Client

	// Endpoint is the URL of the server. In a bubble nothing listens there: use HTTP.
	Endpoint string

	// HTTP carries requests to the server, in a bubble too. Set it as the HTTPClient of other
	// clients of the SDK.
	HTTP *http.Client

	t testing.TB
}

// New starts a server and stops it at the end of the test. In a bubble, call it within the bubble.
func New(t testing.TB) *Server {
	t.Helper()
	b, err := broker.New(broker.Config{
		Store: kv.NewMemory(),
		Engine: engine.Config{
			Region: Region, InFlightMax: sqslimits.InFlightMax,
			Fault: func(sentence string) { panic(sentence) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	handler := handlerOf(b)
	s := &Server{t: t}
	if inBubble() {
		s.Endpoint, s.HTTP = "http://127.0.0.1:9324", &http.Client{Transport: inMemory{handler}}
	} else {
		listener := httptest.NewServer(handler)
		t.Cleanup(func() {
			listener.CloseClientConnections() // or the long polls of the test would delay its end
			listener.Close()
		})
		s.Endpoint, s.HTTP = listener.URL, listener.Client()
	}
	s.Client = sqs.New(sqs.Options{
		Region:       Region,
		BaseEndpoint: &s.Endpoint,
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:   s.HTTP,
		Retryer:      aws.NopRetryer{},
	})
	return s
}

// handlerOf serves the SQS API, and /v1 beside it.
func handlerOf(b *broker.Broker) http.Handler {
	logger, door := slog.New(slog.DiscardHandler), auth.New(auth.Config{Account: Account,
		Region: Region})
	policies := auth.NewPolicies(b, logger)
	in := intake.New(intake.Config{Polls: func() int64 { return b.Metrics().Polls }})
	sealer := handle.New(make([]byte, handle.KeySize))
	queues := api.New(api.Config{
		Broker: b, Sealer: sealer, Logger: logger, Door: door,
		Policies: policies, Intake: in,
	})
	look := v1.New(v1.Config{Broker: b, Door: door, Policies: policies, Intake: in, Logger: logger,
		Sealer: sealer})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v1.Is(r) {
			look.ServeHTTP(w, r)
			return
		}
		queues.ServeHTTP(w, r)
	})
}

// inBubble reports whether the caller runs in a bubble of package synctest, which panics when it
// does not.
func inBubble() (in bool) {
	defer func() {
		if why := recover(); why != nil {
			in = !strings.Contains(fmt.Sprint(why), "not in a bubble")
		}
	}()
	synctest.Wait()
	return true
}

// inMemory is a transport that calls the server. A client that goes away ends the context of its
// request, as a connection that is closed does.
type inMemory struct{ handler http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	in := httptest.NewRequest(r.Method, r.URL.String(),
		bytes.NewReader(body)).WithContext(r.Context())
	in.Header, in.Host = r.Header.Clone(), r.URL.Host
	out := httptest.NewRecorder()
	func() {
		defer func() {
			if why := recover(); why != nil && why != http.ErrAbortHandler {
				panic(why)
			}
		}()
		m.handler.ServeHTTP(out, in)
	}()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return out.Result(), nil
}

// Queue creates a queue and returns its URL. Attributes are those of CreateQueue and may be nil. A
// name that ends in .fifo makes a FIFO queue. The test fails when the server refuses.
func (s *Server) Queue(name string, attributes map[string]string) (url string) {
	s.t.Helper()
	if strings.HasSuffix(name, ".fifo") {
		fifo := map[string]string{"FifoQueue": "true"}
		maps.Copy(fifo, attributes)
		attributes = fifo
	}
	out, err := s.Client.CreateQueue(s.t.Context(),
		&sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		s.t.Fatalf("queuetest: create queue %s: %v", name, err)
	}
	return aws.ToString(out.QueueUrl)
}

// ARN returns the ARN of a queue of any Server.
func ARN(name string) string { return "arn:aws:sqs:" + Region + ":" + Account + ":" + name }

// RedrivePolicy returns the attribute RedrivePolicy of a queue that moves a message to the queue
// deadLetters when it was received maxReceives times. SQS allows 1 to 1000.
func RedrivePolicy(deadLetters string, maxReceives int) string {
	return fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, ARN(deadLetters), maxReceives)
}

// A State says what keeps a message from being received.
type State string

const (
	Visible  State = "visible"   // nothing: the next receive may take it
	InFlight State = "in_flight" // it was received and is hidden until VisibleAt
	Delayed  State = "delayed"   // its delay ends at VisibleAt
	// on a FIFO queue: an earlier message of its group is in flight or delayed
	Blocked State = "blocked"
	// on a FIFO queue with tenaq:fifo-on-dead-letter: a dead letter holds its group
	Held State = "held"
)

// A Message is a message as it is in its queue.
type Message struct {
	ID               string    `json:"messageId"`
	Body             string    `json:"body"`
	State            State     `json:"state"`
	Sent             time.Time `json:"sent"`
	VisibleAt        time.Time `json:"visibleAt"`
	Receives         int       `json:"receiveCount"`
	Group            string    `json:"groupId"`          // on FIFO queues
	DeadLetterSource string    `json:"deadLetterSource"` // ARN of the queue that it came from
}

// Messages returns all messages of a queue, in the order in which receives would find them. It
// looks without receiving: nothing is hidden or counted. The test fails when there is no such
// queue.
func (s *Server) Messages(name string) (all []Message) {
	s.t.Helper()
	for next, more := "", true; more; more = next != "" {
		query := url.Values{"limit": {"100"}, "body": {fmt.Sprint(sqslimits.MessageBytesMax)},
			"after": {next}}
		if next == "" {
			query.Del("after")
		}
		var page struct {
			Messages []Message `json:"messages"`
			Next     string    `json:"next"`
		}
		if err := s.get("/v1/queues/"+name+"/messages?"+query.Encode(), &page); err != nil {
			s.t.Fatalf("queuetest: look at queue %s: %v", name, err)
		}
		all, next = append(all, page.Messages...), page.Next
	}
	return all
}

func (s *Server) get(path string, into any) error {
	resp, err := s.HTTP.Get(s.Endpoint + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(body))
	}
	return json.Unmarshal(body, into)
}
