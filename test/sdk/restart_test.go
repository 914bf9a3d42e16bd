package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/server"
)

// Answers from before a restart hold after it, whether the stop was clean or not.
// [DUR-1, DUR-2, DUR-8, DUR-9, DUR-10, HND-18]
func TestRestart(t *testing.T) {
	eachRestart(t, func(t *testing.T, n *node, again restart) {
		url, ctx := n.queue("orders", "VisibilityTimeout", "600"), t.Context()
		if _, err := n.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: &url, Tags: map[string]string{"a": "b"}}); err != nil {
			t.Fatal(err)
		}
		ids := map[string]string{}
		for _, body := range []string{"deleted", "hidden", "returned", "seen twice", "to delete", "waiting"} {
			ids[body] = n.send(url, body)
		}
		handles := map[string]*string{}
		for range 5 {
			m := n.one(url, func(in *sqs.ReceiveMessageInput) { in.MaxNumberOfMessages = 1 })
			handles[*m.Body] = m.ReceiptHandle
		}
		n.delete(url, handles["deleted"])
		if err := n.hide(url, handles["seen twice"], 0); err != nil {
			t.Fatal(err)
		}
		// It went behind the one that waits. [ORD-3]
		if m := n.one(url, func(in *sqs.ReceiveMessageInput) { in.MaxNumberOfMessages = 1 }); *m.Body != "waiting" {
			t.Fatalf("got %q, want waiting", *m.Body)
		} else if err := n.hide(url, m.ReceiptHandle, 0); err != nil {
			t.Fatal(err)
		}
		m := n.one(url, func(in *sqs.ReceiveMessageInput) { in.MaxNumberOfMessages = 1 })
		if *m.Body != "seen twice" || count(m) != "2" {
			t.Fatalf("got %q the %sth time, want seen twice the second time", *m.Body, count(m))
		}
		old := handles["seen twice"]
		handles["seen twice"] = m.ReceiptHandle
		if err := n.hide(url, handles["returned"], 0); err != nil {
			t.Fatal(err)
		}
		before := n.counters(url)

		n = again(n, nil)
		url = "orders" // the server has another port now
		if got := n.counters(url); got != before || got != [3]int{2, 3, 0} {
			t.Errorf("counters: got %v, want %v as before", got, before)
		}
		if got := attributes(t, n, url, "VisibilityTimeout")["VisibilityTimeout"]; got != "600" {
			t.Errorf("visibility timeout: got %s, want 600", got)
		}
		if tags, err := n.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: &url}); err != nil || tags.Tags["a"] != "b" {
			t.Errorf("tags: got %v, %v", tags, err)
		}
		// Both were returned, perhaps in the same millisecond: then the older one is first.
		got := n.receive(url)
		slices.SortFunc(got, func(a, b types.Message) int { return -strings.Compare(*a.Body, *b.Body) })
		if len(got) != 2 || *got[0].Body != "waiting" || *got[1].Body != "returned" || count(got[1]) != "2" || *got[1].MessageId != ids["returned"] {
			t.Fatalf("received %d messages, want waiting, and returned for the second time", len(got))
		}
		n.delete(url, handles["deleted"])
		n.delete(url, handles["to delete"])
		n.delete(url, old) // does nothing [HND-8]
		if err := n.hide(url, handles["hidden"], 0); err != nil {
			t.Errorf("change: %v", err)
		}
		if err := n.hide(url, handles["seen twice"], 0); err != nil {
			t.Errorf("change: %v", err)
		}
		if err := refused(n.hide(url, handles["deleted"], 0), "InvalidParameterValue", 400, nil); err != nil {
			t.Error(err)
		}
		counts := map[string]string{}
		for _, m := range n.receive(url) {
			counts[*m.Body] = count(m)
		}
		if len(counts) != 2 || counts["hidden"] != "2" || counts["seen twice"] != "3" {
			t.Errorf("receive counts: got %v, want hidden 2 and seen twice 3", counts)
		}
	})
}

// Expired messages stay gone, delays continue, and retained messages stay. [DUR-11, DELAY-1, RET-1]
func TestRestartAndTime(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *server.Config) { c.TimeScale = 500 })
	short, long := n.queue("short", "MessageRetentionPeriod", "60"), n.queue("long")
	n.send(short, "gone")
	n.send(long, "here")
	if _, err := n.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &long, MessageBody: aws.String("later"), DelaySeconds: 900}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the message expires", func() bool { return n.counters(short) == [3]int{} })
	n = n.restart(nil)
	n.none("short", "after the restart")
	m := n.one("long", timeout(43200))
	if *m.Body != "here" {
		t.Errorf("got %q, want here", *m.Body)
	}
	n.delete("long", m.ReceiptHandle)
	eventually(t, "the delay ends", func() bool { return n.counters("long") == [3]int{1, 0, 0} })
	if m := n.one("long"); *m.Body != "later" {
		t.Errorf("got %q, want later", *m.Body)
	}
}

// A stop answers the polls that wait with nothing, and loses nothing that was answered.
// [POLL-11, DUR-24]
func TestStop(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url := n.queue("orders")
	var polls []<-chan polled
	for range 20 {
		polls = append(polls, n.poll(context.Background(), n.queue("empty"), 20))
	}
	var sent, unclear atomic.Int64
	var senders sync.WaitGroup
	for i := range 4 {
		senders.Go(func() {
			for j := 0; ; j++ {
				_, err := n.SendMessage(context.Background(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(fmt.Sprint(i, j))})
				if err != nil {
					unclear.Add(1)
					return
				}
				sent.Add(1)
			}
		})
	}
	eventually(t, "a few sends", func() bool { return sent.Load() > 20 })
	began := time.Now()
	n.stop()
	if took := time.Since(began); took > 15*time.Second { // less than the polls would wait
		t.Errorf("the stop took %v", took)
	}
	for _, p := range polls {
		if got := <-p; got.err != nil || got.messages != nil {
			t.Errorf("a poll at the stop: got %v, %v, want nothing", got.messages, got.err)
		}
	}
	senders.Wait()
	n = n.restart(nil)
	stored := int64(n.counters("orders")[0])
	if low, high := sent.Load(), sent.Load()+unclear.Load(); stored < low || stored > high {
		t.Errorf("%d messages are stored, want %d to %d", stored, low, high)
	}
}

// The stop does not wait for clients that do nothing. [DUR-24]
func TestStopWithIdleClients(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a stop may take")
	}
	t.Parallel()
	n := start(t, nil)
	for _, head := range []string{"", "POST / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n" +
		"Content-Type: application/x-amz-json-1.0\r\nX-Amz-Target: AmazonSQS.ListQueues\r\n\r\n{"} {
		conn, err := net.Dial("tcp", n.server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, head); err != nil {
			t.Fatal(err)
		}
	}
	begun()
	n.cancel()
	// Meanwhile load balancers are told to look elsewhere.
	eventually(t, "readyz says that the server stops", func() bool {
		resp, err := http.Get("http://" + n.server.AdminAddr() + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == 503 && strings.Contains(string(body), "stopping")
	})
	n.stop()
}

// A server whose disk runs full refuses sends and lets everything through that empties it. It says
// so where load balancers ask. [DUR-20, DUR-21, ERR-12]
func TestFullDisk(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url, ctx := n.queue("orders"), t.Context()
	for i := range 3 {
		n.send(url, fmt.Sprint(i))
	}
	n = n.restart(func(c *server.Config) { c.DiskReserve = 1 << 62 })
	url = "orders"
	n.queue("another") // answered once the disk has been looked at
	_, err := n.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x")})
	if err := refused(err, "ServiceUnavailable", 503, nil); err != nil {
		t.Error(err)
	}
	_, err = n.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: []types.SendMessageBatchRequestEntry{{Id: aws.String("a"), MessageBody: aws.String("x")}}})
	if err := refused(err, "ServiceUnavailable", 503, nil); err != nil {
		t.Error(err)
	}
	got := n.receive(url)
	if len(got) != 3 {
		t.Fatalf("received %d messages, want 3", len(got))
	}
	if err := n.hide(url, got[0].ReceiptHandle, 0); err != nil {
		t.Error(err)
	}
	n.delete(url, got[1].ReceiptHandle)
	if _, err := n.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: &url}); err != nil {
		t.Error(err)
	}
	if got := n.counters(url); got != [3]int{} {
		t.Errorf("counters: got %v, want zeros: refused sends store nothing", got)
	}
	resp, err := http.Get("http://" + n.server.AdminAddr() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 503 || !strings.Contains(string(body), "free disk space is below the reserve") {
		t.Errorf("readyz: got %d %q", resp.StatusCode, body)
	}
	// With room again they are accepted. [DUR-22]
	n = n.restart(func(c *server.Config) { c.DiskReserve = 0 })
	n.send(url, "x")
}

// With a time scale, half a day passes in a moment. [CLOCK-14, VIS-1]
func TestTimeScale(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *server.Config) { c.TimeScale = 100_000 })
	url := n.queue("orders", "VisibilityTimeout", "43200")
	n.send(url, "x")
	n.one(url)
	began := time.Now()
	n.none(url, "in flight")
	eventually(t, "the timeout ends", func() bool { return n.counters(url)[0] == 1 })
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("twelve hours took %v, want nearly half a second", took)
	}
	if m := n.one(url); count(m) != "2" {
		t.Errorf("received for the %sth time, want the second", count(m))
	}
}

// An unclean stop hides messages in flight for a while; without the grace, their timeouts end as
// they would have. [CLOCK-10, CLOCK-12, CLOCK-13]
func TestGrace(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url := n.queue("orders", "VisibilityTimeout", "1")
	n.send(url, "x")
	n.one(url)
	n = n.crash(func(c *server.Config) { c.VisibilityGrace = -1 })
	p := <-n.poll(t.Context(), "orders", 20)
	if m := woken(t, "the timeout after a crash", p, "x"); count(m) != "2" {
		t.Errorf("received for the %sth time, want the second", count(m))
	}
	n = n.restart(nil)
	p = <-n.poll(t.Context(), "orders", 20)
	woken(t, "the timeout after a clean stop", p, "x")
}

// A message whose delivery was lost on the way is not lost: it comes back, counted. A retry of the
// receive does not bring it sooner. [VIS-1, RCV-11]
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url := n.queue("orders", "VisibilityTimeout", "1")
	n.send(url, "x")
	began := time.Now()
	lossy := connect("http://"+n.server.Addr(), lossyClient())
	if _, err := lossy.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url}); !errors.Is(err, errLost) {
		t.Fatalf("got %v, want the loss", err)
	}
	if got := n.counters(url); got != [3]int{0, 1, 0} && time.Since(began) < second {
		t.Errorf("counters: got %v, want one in flight", got)
	}
	if m := woken(t, "after the loss", <-n.poll(t.Context(), url, 20), "x"); count(m) != "2" {
		t.Errorf("received for the %sth time, want the second", count(m))
	}
}

// loses is a network that delivers requests and no answers.
type loses struct{}

var errLost = errors.New("lost")

func lossyClient() *http.Client { return &http.Client{Transport: loses{}} }

func (loses) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	return nil, errors.Join(errLost, resp.Body.Close())
}
