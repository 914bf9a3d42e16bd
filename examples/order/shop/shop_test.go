package shop

import (
	"bytes"
	"context"
	"io"
	"log"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/server"
	"tenaq/internal/testing/pgtest"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// The commands of the README, against a server: each card is charged once, each order is written,
// each mail sent, although everything is sent twice, and one message comes back after it is done.
func TestCommands(t *testing.T) {
	for name, address := range map[string]func(t *testing.T) string{
		"sqlite":   func(*testing.T) string { return "sqlite:records.db" },
		"postgres": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			records := address(t)
			t.Chdir(t.TempDir())
			client := startServer(t)
			for range 2 { // the second time adds nothing
				if err := Run(t.Context(), []string{"-records", records, "send", "order-1", "order-2", "order-3"}); err != nil {
					t.Fatal(err)
				}
			}
			if got := messages(t, client); got != 3 {
				t.Errorf("%d messages, want 3", got)
			}
			twin := sync.OnceFunc(func() {
				if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{
					QueueUrl: queueURL(t, client), MessageBody: aws.String(`{"ID": "order-1", "Cents": 1999}`),
				}); err != nil {
					t.Error(err)
				}
			})
			said := runWorker(t, records, func(said string) bool {
				if strings.Contains(said, "order-1: attempt 1: done in") {
					twin()
				}
				return strings.Contains(said, ": duplicate") && messages(t, client) == 0 && unsent(t, records) == 0
			})
			charges, err := os.ReadFile("charges.log")
			if err != nil || bytes.Count(charges, []byte("\n")) != 3 {
				t.Errorf("charges are\n%s(error %v), want one for each of 3 orders", charges, err)
			}
			for _, id := range []string{"order-1", "order-2", "order-3"} {
				if n := strings.Count(said, "mail <"+id+"@"); n != 1 {
					t.Errorf("%d mails for %s, want 1", n, id)
				}
				if n := strings.Count(said, id+": attempt 1: done in"); n != 1 {
					t.Errorf("%s was done %d times, want once", id, n)
				}
			}
			if got := count(t, records, `SELECT count(*) FROM orders WHERE fence > 0`); got != 3 {
				t.Errorf("%d orders are written, want 3", got)
			}
		})
	}
}

// A handler does not write over the order of a later holder.
func TestStaleOrder(t *testing.T) {
	t.Chdir(t.TempDir())
	startServer(t)
	const records = "sqlite:records.db"
	if err := Run(t.Context(), []string{"-records", records, "send", "order-1"}); err != nil {
		t.Fatal(err)
	}
	store, b, err := Open(t.Context(), records)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	defer store.Close()
	if _, err := b.db.Exec(`INSERT INTO orders VALUES ('order-1', 'of a later holder', $1)`, int64(math.MaxInt64)); err != nil {
		t.Fatal(err)
	}
	runWorker(t, records, func(said string) bool { return strings.Contains(said, "order-1: attempt 1: failed: "+ErrStale.Error()) })
	if got := count(t, records, `SELECT count(*) FROM orders WHERE charge = 'of a later holder'`); got != 1 {
		t.Error("the order of a later holder is gone")
	}
	if got := count(t, records, `SELECT count(*) FROM outbox`); got != 0 {
		t.Error("there is a mail about an order that was not written")
	}
}

// An order that was written by a worker which died before it could say so is written again, and its
// mail is not sent again.
func TestOrderWrittenBefore(t *testing.T) {
	t.Chdir(t.TempDir())
	startServer(t)
	const records = "sqlite:records.db"
	if err := Run(t.Context(), []string{"-records", records, "send", "order-1"}); err != nil {
		t.Fatal(err)
	}
	store, b, err := Open(t.Context(), records)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	defer store.Close()
	for _, insert := range []string{
		`INSERT INTO orders VALUES ('order-1', 'ch-1', 1)`,
		`INSERT INTO outbox VALUES ('order-1', 'thank you', TRUE)`,
	} {
		if _, err := b.db.Exec(insert); err != nil {
			t.Fatal(err)
		}
	}
	said := runWorker(t, records, func(said string) bool { return strings.Contains(said, "order-1: attempt 1: done in") })
	if strings.Contains(said, "mail <") {
		t.Errorf("the mail was sent again:\n%s", said)
	}
	if got := count(t, records, `SELECT count(*) FROM orders WHERE fence > 1`); got != 1 {
		t.Error("the order does not have the fence of its last holder")
	}
}

func TestUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	startServer(t)
	for _, args := range [][]string{nil, {"send"}, {"work", "order-1"}, {"play"}, {"-records", "nowhere:1", "work"}, {"-nothing"}} {
		if err := Run(t.Context(), args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// runWorker runs the worker until what it has said is enough, for a minute at most, and returns
// what it has said.
func runWorker(t *testing.T, records string, enough func(said string) bool) string {
	t.Helper()
	said := &buffer{}
	log.SetOutput(said)
	defer log.SetOutput(io.Discard)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, []string{"-records", records, "-bank", "100ms", "work"}) }()
	for begin := time.Now(); !enough(said.String()); time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Errorf("not done within a minute:\n%s", said)
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return said.String()
}

// A buffer is written to by one goroutine and read by another.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func count(t *testing.T, records, query string) (n int) {
	t.Helper()
	store, b, err := Open(t.Context(), records)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	defer store.Close()
	if err := b.db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// unsent is how many of the three mails are not sent.
func unsent(t *testing.T, records string) int {
	return 3 - count(t, records, `SELECT count(*) FROM outbox WHERE sent`)
}

// startServer starts a server with the queue, and points the SDK at it as "tenaq env" does.
func startServer(t *testing.T) *sqs.Client {
	t.Helper()
	s, err := server.New(server.Config{
		Listen: "127.0.0.1:0", AdminListen: "off", DataDir: t.TempDir(), DiskReserve: -1,
		Queues: []server.Queue{{Name: "order"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	endpoint := "http://" + s.Addr()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": endpoint, "AWS_ENDPOINT_URL_SQS": endpoint, "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	return sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
}

func queueURL(t *testing.T, client *sqs.Client) *string {
	t.Helper()
	out, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("order")})
	if err != nil {
		t.Fatal(err)
	}
	return out.QueueUrl
}

// messages is how many messages are in the queue, in flight or not.
func messages(t *testing.T, client *sqs.Client) (n int) {
	t.Helper()
	out, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: queueURL(t, client), AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"} {
		if out.Attributes[name] != "0" {
			n += int(out.Attributes[name][0] - '0') // there are never ten
		}
	}
	return n
}
