package worker_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/server"
	"tenaq/internal/testing/proof"
	"tenaq/internal/testing/sqstest"
	"tenaq/records"
	"tenaq/records/recordstest"
	"tenaq/records/sqliterecords"
)

const (
	lease       = 3 * time.Second // the shortest that a worker takes
	ledgerLease = 2 * time.Second
	attempts    = 3
	drain       = time.Second
	retention   = time.Hour // of messages
)

// A worldConfig says what is special about a world.
type worldConfig struct {
	fifo     bool
	receives int  // maxReceiveCount
	sqlite   bool // the ledger is in a file, and not in memory
	noClock  bool // the store of the ledger has none
	batches  int  // messages that a handler gets, if more than one
	prefetch int
	twins    float64 // how many messages name the work of another one; 1 in 12 when zero
	long     bool    // handlers take about as long as a lease

	ledgerOnly bool // only the ledger has trouble
	peace      bool // nothing has
	virtual    bool // in a bubble: no network, no disk, and time passes at once
	noLedger   bool // a mutant: workers without claims
}

// A world is a server with a queue, its dead letters, and workers.
type world struct {
	*testing.T
	worldConfig
	seed   uint64
	oracle *oracle
	api    *sqs.Client // without trouble
	target string      // URL of the server; or
	bubble *sqstest.Server
	url    string
	dead   string
	file   string              // of the ledger, with sqlite
	memory *recordstest.Memory // otherwise
	calm   atomic.Bool         // the trouble is over
	seats  []*seat
	ledger *claims.Ledger // without trouble, for the judge
}

// soak says whether there is time.
func soak() bool { return proof.Count(0, 0, 0, 1) == 1 }

// troubleTime is how long the trouble of one world lasts.
func troubleTime() time.Duration { return time.Duration(proof.Count(4, 15, 15, 600)) * time.Second }

// newWorld makes a world with a number of workers, none of which runs yet.
func newWorld(t *testing.T, cfg worldConfig, workers int) *world {
	t.Helper()
	seed := proof.Seed(t)
	w := &world{T: t, worldConfig: cfg, seed: seed, oracle: newOracle(attempts)}
	w.oracle.shares, w.oracle.native, w.oracle.exact = cfg.batches > 1, cfg.receives < 100, cfg.peace
	w.calm.Store(cfg.peace)
	if cfg.virtual {
		w.bubble = sqstest.New(t)
		w.api = w.bubble.Client().Client
	} else {
		w.target = startServer(t)
		w.api = connect(w.target, 1, nil)
		ctx, cancel := context.WithCancel(context.Background())
		var beating sync.WaitGroup
		beating.Go(func() { w.oracle.pulse.beat(ctx) })
		t.Cleanup(func() {
			cancel()
			beating.Wait()
		})
	}
	w.url, w.dead = makeQueues(t, w.api, cfg.fifo, cfg.receives)
	if cfg.sqlite {
		w.file = filepath.Join(t.TempDir(), "records.db")
	} else {
		w.memory = recordstest.NewMemory()
	}
	w.ledger = w.newLedger(w.store())
	for i := range workers {
		w.seats = append(w.seats, w.newSeat(i))
	}
	return w
}

// startServer runs a server until the end of the test, and returns its URL.
func startServer(t *testing.T) string {
	t.Helper()
	s, err := server.New(server.Config{
		Listen: "127.0.0.1:0", AdminListen: "off", DataDir: t.TempDir(), DiskReserve: -1,
		Logger: slog.New(slog.DiscardHandler), Fatal: func(err error) { panic(err) },
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return "http://" + s.Addr()
}

// connect returns a client that tries each request so often.
func connect(endpoint string, tries int, doer sqs.HTTPClient) *sqs.Client {
	return sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, HTTPClient: doer, RetryMaxAttempts: tries,
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
	})
}

// makeQueues makes a queue and one for its dead letters.
func makeQueues(t *testing.T, api *sqs.Client, fifo bool, receives int) (url, dead string) {
	t.Helper()
	suffix, attributes := "", map[string]string{"MessageRetentionPeriod": fmt.Sprint(int(retention.Seconds()))}
	if fifo {
		suffix = ".fifo"
		attributes["FifoQueue"] = "true"
	}
	create := func(name string) string {
		out, err := api.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(name + suffix), Attributes: attributes})
		must(t, err)
		return *out.QueueUrl
	}
	dead = create("dead")
	attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, attributesOf(t, api, dead)["QueueArn"], receives)
	return create("orders"), dead
}

func attributesOf(t *testing.T, api *sqs.Client, url string) map[string]string {
	t.Helper()
	out, err := api.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	must(t, err)
	return out.Attributes
}

// count is how many messages a queue has, in whatever state.
func count(t *testing.T, api *sqs.Client, url string) (n int) {
	t.Helper()
	attributes := attributesOf(t, api, url)
	for _, name := range []string{"", "NotVisible", "Delayed"} {
		one, err := strconv.Atoi(attributes["ApproximateNumberOfMessages"+name])
		must(t, err)
		n += one
	}
	return n
}

// store opens the store of the ledger once more, as another process would.
func (w *world) store() records.Store {
	w.Helper()
	if !w.sqlite {
		return w.memory
	}
	s, err := sqliterecords.New(sqliterecords.Config{Path: w.file})
	must(w.T, err)
	w.Cleanup(func() { _ = s.Close() })
	return s
}

func (w *world) newLedger(s records.Store) *claims.Ledger {
	w.Helper()
	l, err := claims.New(claims.Config{Store: s, Lease: ledgerLease})
	must(w.T, err)
	return l
}

// send sends a message and notes it.
func (w *world) send(s *sent) {
	in := &sqs.SendMessageInput{QueueUrl: &w.url, MessageBody: aws.String(s.order.String())}
	if w.fifo {
		in.MessageGroupId, in.MessageDeduplicationId = &s.group, &s.Key
	}
	out, err := w.api.SendMessage(w.Context(), in)
	if err != nil {
		w.Error(err)
		return
	}
	s.id = *out.MessageId
	w.oracle.send(s)
}

// Senders of a world, and the message groups that each sends to.
const (
	senders = 4
	groups  = 10
)

// sendFor sends messages for a time, at most rate a second. Some name the work of another one.
func (w *world) sendFor(d time.Duration, rate int) {
	twins := cmp.Or(w.twins, 1./12)
	var all sync.WaitGroup
	for i := range senders {
		rng := rand.New(rand.NewPCG(w.seed, 100+uint64(i)))
		all.Go(func() {
			began := time.Now()
			for n := i; time.Since(began) < d; n += senders {
				s := &sent{order: order{N: n, Key: fmt.Sprint("order-", n), Kind: someKind(rng)}}
				if w.fifo {
					s.group = fmt.Sprint("group-", i, "-", rng.IntN(groups))
				} else if n > senders && rng.Float64() < twins {
					s.Key = fmt.Sprint("order-", n-senders*(1+rng.IntN(min(n/senders, 6)))) // which may name another itself
				}
				w.send(s)
				time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(rate))))
			}
		})
	}
	all.Wait()
}

// settle waits until the queue is empty and no handler is running, while anything still happens.
func (w *world) settle() {
	w.Helper()
	began := time.Now()
	for last, seen := began, 0; time.Since(last) < 30*time.Second && time.Since(began) < 5*time.Minute+troubleTime(); time.Sleep(200 * time.Millisecond) {
		happened, handlers := w.oracle.progress()
		if handlers == 0 && count(w.T, w.api, w.url) == 0 {
			return
		}
		if happened > seen {
			last, seen = time.Now(), happened
		}
	}
	a := attributesOf(w.T, w.api, w.url)
	w.Logf("nothing happens any more that would end, and there are %s messages, %s in flight, %s delayed",
		a["ApproximateNumberOfMessages"], a["ApproximateNumberOfMessagesNotVisible"], a["ApproximateNumberOfMessagesDelayed"])
}

// end finds out what is left.
func (w *world) end() (e end) {
	w.Helper()
	if e.left = count(w.T, w.api, w.url); e.left > 0 {
		w.showLeft()
	}
	e.dead = lettersIn(w.T, w.api, w.dead)
	e.entries = make(map[string]claims.Entry)
	for after := ""; ; {
		page, err := w.ledger.List(w.Context(), "", after, 0)
		must(w.T, err)
		for _, entry := range page {
			e.entries[entry.Key] = entry
			after = entry.Key
		}
		if len(page) == 0 {
			return e
		}
	}
}

// showLeft logs messages that are left in the queue.
func (w *world) showLeft() {
	w.Helper()
	out, err := w.api.ReceiveMessage(w.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: &w.url, MaxNumberOfMessages: 10, WaitTimeSeconds: 10, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	must(w.T, err)
	for _, m := range out.Messages {
		w.Logf("left: %s %s, with %v", *m.MessageId, *m.Body, m.Attributes)
	}
}

// lettersIn takes all dead letters out of their queue.
func lettersIn(t *testing.T, api *sqs.Client, dead string) (letters []letter) {
	t.Helper()
	for count(t, api, dead) > 0 {
		out, err := api.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &dead, MaxNumberOfMessages: 10, WaitTimeSeconds: 5, MessageAttributeNames: []string{"All"},
		})
		must(t, err)
		for _, m := range out.Messages {
			l := letter{moved: true}
			must(t, json.Unmarshal([]byte(*m.Body), &l.order))
			if a, ok := m.MessageAttributes["tenaq"]; ok {
				trail, err := url.ParseQuery(*a.StringValue)
				must(t, err)
				l.moved, l.reason = false, trail.Get("reason")
				l.attempts, err = strconv.Atoi(trail.Get("attempts"))
				must(t, err)
			}
			letters = append(letters, l)
			_, err := api.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &dead, ReceiptHandle: m.ReceiptHandle})
			must(t, err)
		}
	}
	return letters
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
