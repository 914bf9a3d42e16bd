package producer_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/producer"
	"tenaq/records/recordstest"
)

// A refusal leaves nothing behind: the corrected message can be sent under the key, and is the one
// that counts.
func TestRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders.fifo")
		made := p.producer(nil, nil, producer.Config{})
		bad := file("a")
		bad.Group = "no group id has blanks"
		r, err := made.SendOnce(t.Context(), bad)
		wantError(t, err, producer.ErrRefused)
		var api smithy.APIError
		if !errors.As(err, &api) || !strings.Contains(err.Error(), "correct the message") || r.New || r.MessageID != "" {
			t.Errorf("receipt %+v, error %v", r, err)
		}
		p.wantState("a", "")
		if r := send(t, made, file("a")); !r.New || r.Differs || r.Attempts != 1 {
			t.Errorf("receipt %+v", r)
		}
		p.wantMessages(1)
	})
}

func TestNoSuchQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		p.url += "x"
		_, err := p.producer(nil, nil, producer.Config{}).SendOnce(t.Context(), file("a"))
		wantError(t, err, producer.ErrRefused)
		if !errors.As(err, new(*types.QueueDoesNotExist)) || !strings.Contains(err.Error(), "create the queue") {
			t.Errorf("error %v", err)
		}
		p.wantState("a", "")
	})
}

// For each possible fault between producer and queue, the test checks what the producer reports and
// what the next call does. Retries are those of the SDK.
func TestOutcomes(t *testing.T) {
	retried := func(c *sqstest.Client) producer.SQS {
		return sqs.New(c.Options(), func(o *sqs.Options) { o.Retryer = retry.NewStandard() })
	}
	once := func(c *sqstest.Client) producer.SQS { return c }
	// A client that shows nothing of its tries.
	opaque := func(c *sqstest.Client) producer.SQS { return opaqueClient{c} }
	script := func(faults ...sqstest.Fault) func(string) sqstest.Fault {
		return func(string) (f sqstest.Fault) {
			if len(faults) > 0 {
				f, faults = faults[0], faults[1:]
			}
			return f
		}
	}
	for _, row := range []struct {
		name     string
		client   func(*sqstest.Client) producer.SQS
		faults   []sqstest.Fault
		err      error // nil is none
		notSent  bool  // the error is that it was not sent
		standard int   // messages after the next call, in a standard queue
	}{
		{"all well", once, nil, nil, false, 1},
		{"lost request", once, []sqstest.Fault{sqstest.Dropped}, producer.ErrUnknown, false, 1},
		{"lost answer", once, []sqstest.Fault{sqstest.Unanswered}, producer.ErrUnknown, false, 2},
		{"server error", once, []sqstest.Fault{sqstest.Broken}, producer.ErrUnknown, false, 1},
		{"throttled", once, []sqstest.Fault{sqstest.Throttled}, nil, true, 1},
		{"retry helps", retried, []sqstest.Fault{sqstest.Throttled, sqstest.Dropped}, nil, false, 1},
		{"retry helps too much", retried, []sqstest.Fault{sqstest.Unanswered}, nil, false, 2},
		{"throttled thrice", retried, []sqstest.Fault{sqstest.Throttled, sqstest.Throttled, sqstest.Throttled}, nil, true, 1},
		{"lost answer, then throttled", retried, []sqstest.Fault{sqstest.Unanswered, sqstest.Throttled, sqstest.Throttled}, producer.ErrUnknown, false, 2},
		{"opaque, lost answer", opaque, []sqstest.Fault{sqstest.Unanswered}, producer.ErrUnknown, false, 2},
		{"opaque, throttled", opaque, []sqstest.Fault{sqstest.Throttled}, nil, true, 1},
	} {
		for _, queue := range []string{"orders", "orders.fifo"} {
			t.Run(row.name+"/"+queue, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					p := at(t, queue)
					client := p.server.Client()
					client.SetFault(script(row.faults...))
					made := p.producer(row.client(client), nil, producer.Config{})
					r, err := made.SendOnce(t.Context(), file("a"))
					switch {
					case row.err != nil:
						wantError(t, err, row.err)
						p.wantState("a", claims.Failed)
					case row.notSent:
						if err == nil || errors.Is(err, producer.ErrUnknown) || errors.Is(err, producer.ErrRefused) {
							t.Errorf("error %v, want that it was not sent", err)
						}
						p.wantState("a", claims.Failed)
					default:
						must(t, err)
					}
					wantNewIf(t, r, err == nil)

					began := time.Now()
					client.SetFault(nil)
					again := send(t, made, file("a"))
					wantNew(t, again, err != nil)
					if time.Since(began) != 0 {
						t.Errorf("the next call waited %v", time.Since(began))
					}
					want := row.standard
					if queue == "orders.fifo" {
						want = 1 // within the window
					}
					p.wantMessages(want)
				})
			})
		}
	}
}

func wantNewIf(t *testing.T, r producer.Receipt, is bool) {
	t.Helper()
	if r.New != is || (r.MessageID != "") != is {
		t.Errorf("receipt %+v, want new %v", r, is)
	}
}

type opaqueClient struct{ producer.SQS }

func (c opaqueClient) SendMessage(ctx context.Context, in *sqs.SendMessageInput, _ ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	return c.SQS.SendMessage(ctx, in)
}

// After the window a FIFO queue does not know a deduplication id any more: a lost answer makes a
// second message. Both have the key, for the claim on it.
func TestLostAnswerAfterTheWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders.fifo")
		client := p.server.Client()
		client.SetFault(first(1, sqstest.Unanswered))
		made := p.producer(client, nil, producer.Config{})
		_, err := made.SendOnce(t.Context(), file("a"))
		wantError(t, err, producer.ErrUnknown)
		time.Sleep(window)
		if r := send(t, made, file("a")); !r.New || r.Attempts != 2 {
			t.Errorf("receipt %+v, want a second attempt", r)
		}
		for _, m := range p.wantMessages(2) {
			if v := *m.MessageAttributes["tenaq"].StringValue; v != "v=1&key=a" {
				t.Errorf("trail %s", v)
			}
		}
	})
}

// A queue that does not answer is given up before another sender may send.
func TestHangingQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		c := p.server.Client()
		hangs := sqs.New(c.Options(), func(o *sqs.Options) {
			o.HTTPClient = smithyhttp.ClientDoFunc(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			})
		})
		began := time.Now()
		_, err := p.producer(hangs, nil, producer.Config{}).SendOnce(t.Context(), file("a"))
		wantError(t, err, producer.ErrUnknown)
		if took := time.Since(began); took >= lease || took < lease/2 {
			t.Errorf("given up after %v", took)
		}
		p.wantState("a", claims.Failed)
		wantNew(t, send(t, p.producer(nil, nil, producer.Config{}), file("a")), true)
	})
}

// The caller goes away between two tries of the SDK: the first was throttled, the message stays
// registered.
func TestEndsBetweenTries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		ctx, cancel := context.WithCancel(t.Context())
		c := p.server.Client()
		c.SetFault(func(string) sqstest.Fault { cancel(); return sqstest.Throttled })
		client := sqs.New(c.Options(), func(o *sqs.Options) { o.Retryer = retry.NewStandard() })
		_, err := p.producer(client, nil, producer.Config{}).SendOnce(ctx, file("a"))
		if err == nil || errors.Is(err, producer.ErrUnknown) || errors.Is(err, producer.ErrRefused) {
			t.Errorf("error %v, want that it was not sent", err)
		}
		p.wantState("a", claims.Failed)
	})
}

// Two tries of the SDK, the first throttled, the second without a connection: neither is a refusal
// of the message.
func TestThrottledThenNobodyListens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		c := p.server.Client()
		c.SetFault(always(sqstest.Throttled))
		client := sqs.New(c.Options(), func(o *sqs.Options) {
			o.Retryer = retry.NewStandard()
			o.HTTPClient = smithyhttp.ClientDoFunc(func(r *http.Request) (*http.Response, error) {
				if c.Calls("SendMessage") == 0 {
					return c.Do(r)
				}
				return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
			})
		})
		_, err := p.producer(client, nil, producer.Config{}).SendOnce(t.Context(), file("a"))
		if err == nil || errors.Is(err, producer.ErrUnknown) || errors.Is(err, producer.ErrRefused) {
			t.Errorf("error %v, want that it was not sent", err)
		}
		p.wantState("a", claims.Failed)
	})
}

// A registration is taken back although the store is ill for a while.
func TestRefusedWhileStoreIsAway(t *testing.T) {
	for _, how := range []recordstest.How{recordstest.Before, recordstest.After} {
		bubble(t, func(t *testing.T) {
			p := at(t, "orders.fifo")
			store := &recordstest.Faulty{Store: p.store, Fault: func(c recordstest.Call) (f recordstest.Fault) {
				if c.Op == recordstest.Delete && c.N < 6 {
					f.How = how
				}
				return f
			}}
			made := p.producer(nil, store, producer.Config{})
			bad := file("a")
			bad.Group = "no group id has blanks"
			_, err := made.SendOnce(t.Context(), bad)
			wantError(t, err, producer.ErrRefused)
			p.wantState("a", "")
			wantNew(t, send(t, made, file("a")), true)
		})
	}
}

// No server listens: nothing was sent, and that is known.
func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for name, client := range map[string]producer.SQS{
		"sdk":    sqs.New(options("http://"+l.Addr().String(), transport)),
		"opaque": opaqueClient{sqs.New(options("http://"+l.Addr().String(), transport))},
	} {
		p := at(t, "orders")
		_, err = p.producer(client, nil, producer.Config{}).SendOnce(t.Context(), file("a"))
		if err == nil || errors.Is(err, producer.ErrUnknown) || errors.Is(err, producer.ErrRefused) {
			t.Errorf("%s: error %v, want that it was not sent", name, err)
		}
		p.wantState("a", claims.Failed)
	}
}

// Without credentials nothing leaves, and that is known.
func TestNoCredentials(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		c := p.server.Client()
		client := sqs.New(c.Options(), func(o *sqs.Options) {
			o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{}, errors.New("no credentials")
			})
		})
		_, err := p.producer(client, nil, producer.Config{}).SendOnce(t.Context(), file("a"))
		if err == nil || errors.Is(err, producer.ErrUnknown) || c.Calls("SendMessage") != 0 {
			t.Errorf("error %v, want that it was not sent", err)
		}
	})
}

func options(endpoint string, transport *http.Transport) sqs.Options {
	return sqs.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, HTTPClient: &http.Client{Transport: transport}, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
}
