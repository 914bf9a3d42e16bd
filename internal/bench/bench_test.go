package bench_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/internal/bench"
	"tenaq/internal/server"
)

// start runs a server over a store in a temporary directory.
func start(t *testing.T) bench.Endpoint {
	s, err := server.New(server.Config{DataDir: t.TempDir(), Listen: "127.0.0.1:0", AdminListen: "off", DiskReserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return at("http://" + s.Addr())
}

func at(address string) bench.Endpoint {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return bench.Endpoint{URL: u, Region: "us-east-1"}
}

func contender(t *testing.T, w bench.Work) bench.Named {
	t.Helper()
	c, err := bench.New(w)
	if err != nil {
		t.Fatal(err)
	}
	return bench.Named{Name: string(w.Kind), Contender: c}
}

var few = bench.Load{Clients: 4, Round: 100 * time.Millisecond}

// Every workload does what it says, and leaves no queue behind.
func TestWorks(t *testing.T) {
	e := start(t)
	for i, tt := range []struct {
		work     bench.Work
		requests int64 // of a step
	}{
		{bench.Work{Kind: bench.Send}, 1},
		{bench.Work{Kind: bench.Send, Batch: 10, Size: 5000}, 1},
		{bench.Work{Kind: bench.Send, Groups: 3}, 1},
		{bench.Work{Kind: bench.Send, Groups: 30, Batch: 7}, 1},
		{bench.Work{Kind: bench.Life, Polls: 3}, 3},
		{bench.Work{Kind: bench.Life, Batch: 10, Depth: 25}, 3},
		{bench.Work{Kind: bench.Life, Groups: 100, Depth: 100}, 3},
		{bench.Work{Kind: bench.Receive, Depth: 4000}, 2},
		{bench.Work{Kind: bench.Receive, Depth: 20000, Batch: 10}, 2},
	} {
		w := tt.work
		w.Endpoint, w.Queue = e, fmt.Sprintf("q%d", i)
		t.Run(fmt.Sprintf("%s-%d-%d", w.Kind, w.Batch, w.Groups), func(t *testing.T) {
			results, err := bench.Compare(t.Context(), few, 2, nil, contender(t, w))
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			if r.Steps == 0 || r.Messages == 0 || r.Latency.Count() != r.Steps || r.Took < 2*few.Round {
				t.Errorf("got %d steps, %d messages, %d latencies in %v", r.Steps, r.Messages, r.Latency.Count(), r.Took)
			}
			if most := r.Steps * tt.requests; r.Requests > most || r.Requests < most-r.Empty {
				t.Errorf("got %d requests in %d steps, want %d in each", r.Requests, r.Steps, tt.requests)
			}
			if r.Ratio != 1 || r.Least != 1 || r.Most != 1 {
				t.Errorf("got ratio %v from %v to %v, want 1 for the first", r.Ratio, r.Least, r.Most)
			}
		})
	}
	answer, err := bench.Call(t.Context(), e, "ListQueues", "{}")
	if err != nil || string(answer) != "{}" {
		t.Errorf("left behind: %s, %v", answer, err)
	}
}

// An impossible measurement is refused before anything is done.
func TestRefused(t *testing.T) {
	for _, w := range []bench.Work{
		{}, {Kind: "mow"}, {Kind: bench.Send, Batch: 11}, {Kind: bench.Send, Size: 1<<20 + 1},
		{Kind: bench.Send, Size: 200_000, Batch: 10}, {Kind: bench.Receive},
	} {
		if _, err := bench.New(w); err == nil {
			t.Errorf("%+v: taken", w)
		}
	}
}

// The baseline answers what the endpoint answered, so that every workload runs on it as well.
func TestBaseline(t *testing.T) {
	e := start(t)
	for _, w := range []bench.Work{
		{Kind: bench.Send, Queue: "a"}, {Kind: bench.Life, Queue: "b"}, {Kind: bench.Life, Queue: "c", Batch: 10, Groups: 5},
	} {
		w.Endpoint = e
		answers, err := bench.Answers(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- bench.ServeNothing(ctx, l, answers) }()
		nothing := w
		nothing.Endpoint = at("http://" + l.Addr().String())
		results, err := bench.Compare(t.Context(), few, 2, nil, contender(t, nothing), contender(t, w))
		if err != nil {
			t.Fatal(err)
		}
		if results[0].Messages == 0 || results[1].Messages == 0 || results[1].Ratio <= 0 {
			t.Errorf("%+v: got %d and %d messages, ratio %v", w, results[0].Messages, results[1].Messages, results[1].Ratio)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// The engine by itself is a contender too.
func TestEngine(t *testing.T) {
	for _, w := range []bench.Work{{}, {Batch: 10}, {Batch: 10, Groups: 50}} {
		c := bench.Named{Name: "engine", Contender: bench.Engine(t.TempDir(), w)}
		results, err := bench.Compare(t.Context(), few, 1, nil, c)
		if err != nil {
			t.Fatal(err)
		}
		if r := results[0]; r.Messages == 0 || r.Messages%r.Steps != 0 {
			t.Errorf("%+v: got %d messages in %d steps", w, r.Messages, r.Steps)
		}
	}
}

// A fake is a server that does what a test wants.
func fake(t *testing.T, h http.HandlerFunc) bench.Endpoint {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch _, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); action {
		case "CreateQueue":
			io.WriteString(w, `{"QueueUrl":"http://there/q"}`)
		case "DeleteQueue":
		default:
			h(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return at(s.URL)
}

// With a rate, requests that were due while the server stalled have waited too, although no
// connection was left to send them on.
func TestLatenciesAreHonest(t *testing.T) {
	var requests atomic.Int64
	e := fake(t, func(http.ResponseWriter, *http.Request) {
		if requests.Add(1) == 150 { // in the round that counts
			time.Sleep(400 * time.Millisecond)
		}
	})
	load := bench.Load{Clients: 1, Rate: 100, Round: time.Second}
	results, err := bench.Compare(t.Context(), load, 1, nil, contender(t, bench.Work{Endpoint: e, Queue: "q", Kind: bench.Send}))
	if err != nil {
		t.Fatal(err)
	}
	r := results[0]
	if r.Steps != 100 {
		t.Errorf("got %d steps, want each of 100 that were due", r.Steps)
	}
	// Forty were due in the meantime, and the tenth part of all was due in its first hundred
	// milliseconds.
	if got := r.Latency.At(90); got < 250*time.Millisecond {
		t.Errorf("got a 90th percentile of %v, want one that knows of the wait", got)
	}
}

// A refusal for overload is counted, but not as a message.
func TestThrottled(t *testing.T) {
	var requests atomic.Int64
	e := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"__type":"com.amazonaws.sqs#RequestThrottled","message":"slower"}`)
		}
	})
	results, err := bench.Compare(t.Context(), few, 1, nil, contender(t, bench.Work{Endpoint: e, Queue: "q", Kind: bench.Life}))
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.Throttled == 0 || r.Messages != 0 {
		t.Errorf("got %d refused and %d messages", r.Throttled, r.Messages)
	}
}

// Any result but success and overload ends the comparison, with the answer in the error.
func TestErrors(t *testing.T) {
	for want, h := range map[string]http.HandlerFunc{
		"QueueDoesNotExist": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"__type":"com.amazonaws.sqs#QueueDoesNotExist"}`)
		},
		"SendMessage": func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
		`"Failed"`: func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"Failed":[{"Id":"1"}]}`)
		},
	} {
		e := fake(t, h)
		_, err := bench.Compare(t.Context(), few, 1, nil, contender(t, bench.Work{Endpoint: e, Queue: "q", Kind: bench.Send}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %s", err, want)
		}
	}
}

// Answers in chunks and connections that the server closes are taken as they come.
func TestOtherServers(t *testing.T) {
	var connections atomic.Int64
	e := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		if connections.Add(1)%3 == 0 {
			w.Header().Set("Connection", "close")
		}
		for range 3 {
			io.WriteString(w, strings.Repeat("x", 3000))
			w.(http.Flusher).Flush()
		}
	})
	steps := int64(0)
	for range 100 { // a round on a busy machine may have few
		results, err := bench.Compare(t.Context(), few, 1, nil, contender(t, bench.Work{Endpoint: e, Queue: "q", Kind: bench.Send}))
		if err != nil {
			t.Fatal(err)
		}
		if steps += int64(results[0].Steps); steps >= 10 {
			return
		}
	}
	t.Errorf("%d steps in 100 rounds, want 10", steps)
}

// Input that is not HTTP is an error.
func TestNoHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).ReadString('\n')
			io.WriteString(c, "220 mail.example.com ESMTP\r\n")
		}
	}()
	if _, err := bench.Call(t.Context(), at("http://"+l.Addr().String()), "ListQueues", "{}"); err == nil || !strings.Contains(err.Error(), "not HTTP") {
		t.Errorf("got %v", err)
	}
}

// A caller that gives up does not wait for a server that never answers.
func TestGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("enough")
	over := make(chan struct{})
	e := fake(t, func(http.ResponseWriter, *http.Request) { cancel(stopped); <-over })
	_, err := bench.Compare(ctx, few, 1, nil, contender(t, bench.Work{Endpoint: e, Queue: "q", Kind: bench.Send}))
	close(over)
	if !errors.Is(err, stopped) {
		t.Errorf("got %v, want %v", err, stopped)
	}
}

// A refused send is not counted, and is repeated while a queue is filled.
func TestRefusedSends(t *testing.T) {
	var requests, taken atomic.Int64
	e := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		switch requests.Add(1) % 4 {
		case 1:
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"__type":"com.amazonaws.sqs#RequestThrottled","message":"slower"}`)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `{"__type":"ServiceUnavailable"}`)
		default:
			taken.Add(1)
			io.WriteString(w, `{"MessageId":"1"}`)
		}
	})
	c := contender(t, bench.Work{Endpoint: e, Queue: "q", Kind: bench.Send})
	got, err := c.Round(t.Context(), few)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got.Messages != taken.Load() || got.Messages != got.Steps || got.Messages != got.Latency.Count() {
		t.Errorf("got %d messages, %d steps, %d latencies, want %d", got.Messages, got.Steps, got.Latency.Count(), taken.Load())
	}
	if got.Throttled == 0 || got.Unnamed == 0 || got.Unnamed >= got.Throttled {
		t.Errorf("got %d refused, %d of them by another name, want about half", got.Throttled, got.Unnamed)
	}
	taken.Store(0)
	if _, err := bench.Fill(t.Context(), bench.Work{Endpoint: e, Queue: "q", Kind: bench.Send, Depth: 400}, func(float64) {}); err != nil {
		t.Fatal(err)
	}
	if got := taken.Load(); got != 40 {
		t.Errorf("filled with %d requests of ten messages, want 40", got)
	}
	taken.Store(0)
	err = bench.Each(t.Context(), e, "SetQueueAttributes", 50, func(float64) {}, func(int64) string { return "{}" })
	if got := taken.Load(); err != nil || got != 50 {
		t.Errorf("got %d requests, %v, want 50", got, err)
	}
}

// A workload on a queue that is there finds what waits in it, and leaves it behind.
func TestOn(t *testing.T) {
	e := start(t)
	url, err := bench.Fill(t.Context(), bench.Work{Endpoint: e, Queue: "deep", Kind: bench.Send, Depth: 20_000}, func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	results, err := bench.Compare(t.Context(), few, 1, nil, contender(t, bench.Work{Endpoint: e, On: url, Kind: bench.Life}))
	if err != nil || results[0].Messages == 0 {
		t.Fatalf("got %+v, %v", results, err)
	}
	answer, err := bench.Call(t.Context(), e, "GetQueueAttributes", fmt.Sprintf(`{"QueueUrl":%q,"AttributeNames":["ApproximateNumberOfMessages"]}`, url))
	if want := `"ApproximateNumberOfMessages":"20000"`; err != nil || !strings.Contains(string(answer), want) {
		t.Errorf("got %s, %v, want %s", answer, err, want)
	}
}

// Polls that fail say so, and polls that wait can be stopped.
func TestPolls(t *testing.T) {
	e := start(t)
	url, err := bench.Fill(t.Context(), bench.Work{Endpoint: e, Queue: "q", Kind: bench.Send}, func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	p, err := bench.Poll(t.Context(), e, url, 10)
	if err != nil {
		t.Fatal(err)
	}
	if p.Stop(); p.Err() != nil {
		t.Errorf("got %v, want none", p.Err())
	}
	asked := make(chan struct{}, 10)
	e = fake(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		asked <- struct{}{}
	})
	if p, err = bench.Poll(t.Context(), e, url, 1); err != nil {
		t.Fatal(err)
	}
	<-asked
	for range 10_000 {
		if p.Err() != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	p.Stop()
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "status 400") {
		t.Errorf("got %v, want the status", err)
	}
}
