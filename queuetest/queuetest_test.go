package queuetest_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/goleak"

	"tenaq/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func send(t *testing.T, client *sqs.Client, url, body string) {
	t.Helper()
	if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body}); err != nil {
		t.Fatal(err)
	}
}

// receive returns the bodies of one receive, which waits up to 20 s.
func receive(t *testing.T, client *sqs.Client, url string) (bodies []string) {
	t.Helper()
	out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range out.Messages {
		bodies = append(bodies, aws.ToString(m.Body))
	}
	return bodies
}

// The longest visibility timeout that SQS allows passes in a moment of real time, and no earlier by
// the clock of the bubble.
func TestVisibilityTimeout(t *testing.T) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(t)
		url := s.Queue("orders", map[string]string{"VisibilityTimeout": "43200"})
		send(t, s.Client, url, "order-17")
		start := time.Now()
		if got := receive(t, s.Client, url); !slices.Equal(got, []string{"order-17"}) {
			t.Fatalf("received %q, want order-17", got)
		}
		if got := s.Messages("orders"); len(got) != 1 || got[0].State != queuetest.InFlight || got[0].Receives != 1 || !got[0].VisibleAt.Equal(start.Add(12*time.Hour)) {
			t.Errorf("the queue has %+v, want one message in flight for 12 h", got)
		}
		for received := 0; received == 0; {
			received = len(receive(t, s.Client, url))
		}
		if got := time.Since(start); got != 12*time.Hour {
			t.Errorf("received again after %v, want 12h", got)
		}
	})
	if took := time.Since(began); took > time.Minute {
		t.Errorf("12 hours took %v of real time", took)
	}
}

// Messages shows every state and hides and counts nothing, page after page.
func TestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(t)
		url := s.Queue("orders", nil)
		if got := s.Messages("orders"); len(got) != 0 {
			t.Errorf("a new queue has %+v", got)
		}
		send(t, s.Client, url, "first")
		receive(t, s.Client, url)
		_, err := s.Client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("later"), DelaySeconds: 60})
		if err != nil {
			t.Fatal(err)
		}
		const n = 250
		for i := range n {
			send(t, s.Client, url, fmt.Sprint(i))
		}
		for range 2 {
			count, last := make(map[queuetest.State]int), ""
			for _, m := range s.Messages("orders") {
				count[m.State]++
				if m.State == queuetest.Visible {
					last = m.Body
				}
			}
			if count[queuetest.Visible] != n || count[queuetest.InFlight] != 1 || count[queuetest.Delayed] != 1 || last != fmt.Sprint(n-1) {
				t.Errorf("the queue has %v and ends with %s", count, last)
			}
		}
	})
}

// A message that was received too often is in the dead-letter queue, and says where it came from.
func TestDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(t)
		s.Queue("dead", nil)
		url := s.Queue("orders", map[string]string{"VisibilityTimeout": "10", "RedrivePolicy": queuetest.RedrivePolicy("dead", 1)})
		send(t, s.Client, url, "order-17")
		receive(t, s.Client, url)
		if got := receive(t, s.Client, url); len(got) != 0 {
			t.Errorf("received %q a second time", got)
		}
		if got := s.Messages("dead"); len(got) != 1 || got[0].Body != "order-17" || got[0].DeadLetterSource != queuetest.ARN("orders") {
			t.Errorf("the dead-letter queue has %+v, want order-17", got)
		}
	})
}

// On a FIFO queue a message behind one in flight is blocked.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(t)
		url := s.Queue("orders.fifo", map[string]string{"ContentBasedDeduplication": "true"})
		for _, body := range []string{"a", "b"} {
			_, err := s.Client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body, MessageGroupId: aws.String("g")})
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url}); err != nil {
			t.Fatal(err)
		}
		got := s.Messages("orders.fifo")
		if len(got) != 2 || got[0].State != queuetest.InFlight || got[1].State != queuetest.Blocked || got[1].Group != "g" {
			t.Errorf("the queue has %+v, want one in flight and one blocked", got)
		}
	})
}

// Outside of a bubble other clients reach the server by its URL, and a poll that waits does not
// delay the end of the test.
func TestLoopback(t *testing.T) {
	began := time.Now()
	t.Run("server", func(t *testing.T) {
		s := queuetest.New(t)
		url := s.Queue("orders", nil)
		client := sqs.New(sqs.Options{
			Region: queuetest.Region, BaseEndpoint: &s.Endpoint, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), HTTPClient: s.HTTP,
		})
		send(t, client, url, "order-17")
		if got := receive(t, s.Client, url); !slices.Equal(got, []string{"order-17"}) {
			t.Errorf("received %q, want order-17", got)
		}
		if got := s.Messages("orders"); len(got) != 1 || got[0].Body != "order-17" {
			t.Errorf("the queue has %+v", got)
		}
		polling := make(chan struct{})
		go func() {
			close(polling)
			_, _ = s.Client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, WaitTimeSeconds: 20})
		}()
		<-polling
	})
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the test took %v: it waited for a poll", took)
	}
}

// A request that the server refuses fails the test, with the reason.
func TestRefused(t *testing.T) {
	if what := os.Getenv("QUEUETEST_REFUSED"); what != "" {
		s := queuetest.New(t)
		if what == "queue" {
			s.Queue("no such name!", nil)
		}
		s.Messages("missing")
		return
	}
	for what, want := range map[string]string{"queue": "queuetest: create queue no such name!: ", "messages": "queuetest: look at queue missing: 4"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRefused$")
		cmd.Env = append(os.Environ(), "QUEUETEST_REFUSED="+what)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s\nwant %q", what, err, out, want)
		}
	}
}

// The test of the example is one.
func TestReminder(t *testing.T) { testReminder(t) }

// Servers share nothing.
func TestParallel(t *testing.T) {
	for i := range max(4, runtime.GOMAXPROCS(0)) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := queuetest.New(t)
				send(t, s.Client, s.Queue("orders", nil), fmt.Sprint(i))
				if got := s.Messages("orders"); len(got) != 1 || got[0].Body != fmt.Sprint(i) {
					t.Errorf("the queue has %+v", got)
				}
			})
		})
	}
}
