package bench

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/bench"
	"tenaq/internal/child"
	"tenaq/internal/testing/built"
)

var (
	consumersFlag = flag.String("consumers", "", "compare only consumers whose names match this regular expression")
	// The CPU time of the server comes in steps of 10 ms, so it needs more messages to be exact.
	messagesFlag = flag.Int("messages", 4_000, "number of messages for each consumer in each round")
)

const runMax = 2 * time.Minute

// BenchmarkConsumers has consumers empty queues of one server, a process of its own, with handlers
// that do nothing: package worker, loops written by hand, and sqs-consumer. All of them take a turn
// in each round. What it prints, for each consumer, is
//
//   - how many messages it handles in the time in which the loop with as many handlers at once
//     handles one,
//   - how much CPU time its process and the server take for a message, where that loop and the
//     server take one, and how many microseconds that is,
//   - how many requests it makes for 1,000 messages,
//
// each the median over the rounds.
//
//	go test ./test/bench -run '^$' -bench Consumers -benchtime 3x
func BenchmarkConsumers(b *testing.B) {
	for _, kind := range []struct {
		name   string
		groups int
	}{{"standard", 0}, {"fifo", 1000}} {
		b.Run(kind.name, func(b *testing.B) {
			a := newArena(b, kind.groups)
			consumers := choose(b, allConsumers(b, a))
			for _, c := range consumers {
				a.run(b, c, *messagesFlag/5)
			}
			outcomes := make(map[string][]outcome)
			b.ResetTimer()
			for b.Loop() {
				for _, c := range consumers {
					outcomes[c.name] = append(outcomes[c.name], a.run(b, c, *messagesFlag))
				}
			}
			b.StopTimer()
			// The log of a benchmark is cut after ten lines.
			fmt.Printf("%s, median of %d rounds\n\n%s\n", kind.name, b.N, table(consumers, outcomes))
		})
	}
}

// toRecords stands for requests to records of the server among operations.
const toRecords = "records"

// A consumer is a way to empty a queue.
type consumer struct {
	name string
	loop string // name of the loop to compare it with
	run  func(ctx context.Context, o *observer, queueURL string) error
}

// An outcome is what it took to empty a queue.
type outcome struct {
	Took     time.Duration
	CPU      time.Duration // of the process of the consumer
	Server   time.Duration // CPU time of the server
	Handled  int
	Answered map[string]int // requests by operation
}

// choose leaves out what the flag does not name.
func choose(b *testing.B, consumers []consumer) []consumer {
	chosen, err := regexp.Compile(*consumersFlag)
	if err != nil {
		b.Fatal(err)
	}
	return slices.DeleteFunc(consumers, func(c consumer) bool { return !chosen.MatchString(c.name) })
}

// table is what is known about consumers after a few rounds.
func table(consumers []consumer, outcomes map[string][]outcome) string {
	var s strings.Builder
	s.WriteString("| Consumer | Compared with | Rate | CPU | CPU of the server | Receives | Deletes | Changes | Records |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range consumers {
		runs, loops := outcomes[c.name], outcomes[c.loop]
		ratio := func(of func(mine, its outcome) float64) string {
			var ratios []float64
			for i := range loops {
				ratios = append(ratios, of(runs[i], loops[i]))
			}
			if len(ratios) == 0 {
				return "?"
			}
			return fmt.Sprintf("%.2f", median(ratios))
		}
		requests := func(operations ...string) string {
			var counts []float64
			for _, r := range runs {
				n := 0
				for _, op := range operations {
					n += r.Answered[op]
				}
				counts = append(counts, float64(n)*1000/float64(r.Handled))
			}
			return fmt.Sprintf("%.0f", median(counts))
		}
		cpu := func(of func(outcome) time.Duration) string {
			var each []float64
			for _, r := range runs {
				each = append(each, float64(of(r).Microseconds())/float64(r.Handled))
			}
			return fmt.Sprintf("%s, %.0f µs", ratio(func(mine, its outcome) float64 {
				return float64(of(mine)) / float64(of(its))
			}), median(each))
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.name, c.loop,
			ratio(func(mine, its outcome) float64 { return float64(its.Took) / float64(mine.Took) }),
			cpu(func(o outcome) time.Duration { return o.CPU }),
			cpu(func(o outcome) time.Duration { return o.Server }),
			requests("ReceiveMessage"),
			requests("DeleteMessage", "DeleteMessageBatch"),
			requests("ChangeMessageVisibility", "ChangeMessageVisibilityBatch"), requests(toRecords))
	}
	return s.String()
}

func median(of []float64) float64 {
	slices.Sort(of)
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}

func TestMain(m *testing.M) { os.Exit(built.Tests(m)) }

// An arena is a server in a process of its own, and a client of it that all consumers written in Go
// share.
type arena struct {
	url    string
	pid    int // of the server
	client *sqs.Client
	// requests to records of the server, so far
	records atomic.Int64
	groups  int // of the queues; 0 for standard queues
	queues  atomic.Int64
}

func newArena(b *testing.B, groups int) *arena {
	dir := b.TempDir()
	s, err := child.New(child.Config{Program: built.Program(b), Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Stop(); err != nil {
			b.Error(err)
		}
	})
	// As many connections as the largest loop has goroutines, or it would open one for each
	// request.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 256, 256
	a := &arena{url: s.URL(), pid: s.PID(), groups: groups}
	a.client = sqs.New(sqs.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(s.URL()),
		Credentials:  credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		HTTPClient:   &http.Client{Transport: plainBodies{transport, &a.records}},
	})
	return a
}

// run measures a consumer with a new queue that holds n messages.
func (a *arena) run(b *testing.B, c consumer, n int) outcome {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), runMax)
	defer cancel()
	name := fmt.Sprintf("q%d", a.queues.Add(1))
	attributes := map[string]string{"VisibilityTimeout": "600"} // nothing comes back while it is measured
	if a.groups > 0 {
		name += ".fifo"
		attributes["FifoQueue"] = "true"
	}
	queue, err := a.client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		b.Fatal(err)
	}
	endpoint, err := url.Parse(a.url)
	if err != nil {
		b.Fatal(err)
	}
	w := bench.Work{Endpoint: bench.Endpoint{URL: endpoint}, On: *queue.QueueUrl, Kind: bench.Send, Groups: a.groups, Depth: int64(n)}
	if _, err := bench.Fill(ctx, w, func(float64) {}); err != nil {
		b.Fatal(err)
	}

	runtime.GC() // of what the one before has left
	before, requests := a.cpuTime(b), a.records.Load()
	o := newObserver(a.client, n)
	if err := c.run(ctx, o, *queue.QueueUrl); err != nil {
		b.Fatalf("%s: %v", c.name, err)
	}
	o.outcome.Server, o.outcome.Answered[toRecords] = a.cpuTime(b)-before, int(a.records.Load()-requests)
	if o.outcome.Handled != n {
		b.Fatalf("%s handled %d messages, want %d", c.name, o.outcome.Handled, n)
	}
	if _, err := a.client.DeleteQueue(b.Context(), &sqs.DeleteQueueInput{QueueUrl: queue.QueueUrl}); err != nil {
		b.Fatal(err)
	}
	return o.outcome
}

// cpuTime is what the server has used so far.
func (a *arena) cpuTime(b *testing.B) time.Duration {
	used, err := bench.CPUTime(a.pid)
	if err != nil {
		b.Fatal(err)
	}
	return used
}

// plainBodies hides the WriteTo of request bodies. Once an answer has begun, that of the SDK's
// returns io.EOF. To net/http, which may still be looking for the end of the body, the request has
// then failed, and it closes the connection in the middle of the answer. The messages in there
// would stay hidden. It takes a server as near as this one to answer so soon.
//
// It counts the requests to records of the server.
type plainBodies struct {
	http.RoundTripper
	records *atomic.Int64
}

func (t plainBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		plain := *r
		plain.Body = struct{ io.ReadCloser }{r.Body}
		r = &plain
	}
	if r.URL.Path == "/v1/"+toRecords {
		t.records.Add(1)
	}
	return t.RoundTripper.RoundTrip(r)
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
