package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/cli"
	"tenaq/internal/testing/faultproxy"
	"tenaq/queuetest"
)

// bridged starts two servers and a proxy before the second, which fails as plan says.
func bridged(t *testing.T, plan func(faultproxy.Request) faultproxy.Fault) (from, to *queuetest.Server, proxy *faultproxy.Proxy) {
	t.Helper()
	from, to = queuetest.New(t), queuetest.New(t)
	proxy, err := faultproxy.Start(faultproxy.Config{Target: to.Endpoint, Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	t.Setenv("TENAQ_ENDPOINT_URL", from.Endpoint)
	return from, to, proxy
}

// fill sends n messages with the bodies 0, 1 and so on, in three groups.
func fill(t *testing.T, s *queuetest.Server, url string, n int) {
	t.Helper()
	for i := range n {
		in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(fmt.Sprint(i)),
			MessageGroupId: aws.String(fmt.Sprint("g", i%3)), MessageDeduplicationId: aws.String(fmt.Sprint("d", i))}
		if _, err := s.Client.SendMessage(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
}

// Each message of a FIFO queue arrives once and in order, although every third answer is lost.
func TestBridgeInOrder(t *testing.T) {
	const n = 30
	from, to, proxy := bridged(t, func(r faultproxy.Request) (f faultproxy.Fault) {
		if r.Operation == "SendMessage" && r.N%3 == 0 {
			f.How = faultproxy.Lose
		}
		return f
	})
	fill(t, from, from.Queue("line.fifo", nil), n)
	to.Queue("line.fifo", nil)
	wantExecute(t, cli.ExitOK, "moved 30 messages from line.fifo to line.fifo", "bridge", "line.fifo", "line.fifo",
		"--to-endpoint-url", proxy.URL(), "--until-empty")
	if left := from.Messages("line.fifo"); len(left) > 0 {
		t.Errorf("%d messages are left", len(left))
	}
	next, got := map[string]int{"g0": 0, "g1": 1, "g2": 2}, to.Messages("line.fifo")
	for _, m := range got {
		if m.Body != fmt.Sprint(next[m.Group]) {
			t.Errorf("in group %s: message %s, want %d", m.Group, m.Body, next[m.Group])
		}
		next[m.Group] += 3
	}
	if lost := proxy.Count("SendMessage")[faultproxy.Lose]; len(got) != n || lost == 0 {
		t.Errorf("%d messages arrived with %d answers lost, want %d and some", len(got), lost, n)
	}
}

// A copy has the body, the attributes and the trace header of its message.
func TestBridgeCopies(t *testing.T) {
	from, to, proxy := bridged(t, nil)
	url, copies := from.Queue("orders", nil), to.Queue("orders", nil)
	in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("a\tb"),
		MessageAttributes: map[string]types.MessageAttributeValue{
			"kind":   {DataType: aws.String("String.custom"), StringValue: aws.String("x")},
			"digest": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 255}},
			"tenaq":  {DataType: aws.String("String"), StringValue: aws.String("v=1&key=order-17")}},
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String("Root=1-5759e988-bd862e3fe1be46a994272793")}}}
	if _, err := from.Client.SendMessage(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	wantExecute(t, cli.ExitOK, "moved 1 message", "bridge", "orders", "orders", "--to-endpoint-url", proxy.URL(), "--until-empty")
	out, err := to.Client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &copies,
		MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}})
	if err != nil || len(out.Messages) != 1 {
		t.Fatalf("%v, %v", out, err)
	}
	m := out.Messages[0]
	if *m.Body != "a\tb" || len(m.MessageAttributes) != 3 || string(m.MessageAttributes["digest"].BinaryValue) != "\x00\x01\xff" ||
		*m.MessageAttributes["kind"].DataType != "String.custom" || *m.MessageAttributes["tenaq"].StringValue != "v=1&key=order-17" ||
		m.Attributes["AWSTraceHeader"] != "Root=1-5759e988-bd862e3fe1be46a994272793" {
		t.Errorf("got %+v", m)
	}
}

// While the destination is away, no receive is counted, so no message becomes a dead letter.
func TestBridgeOutage(t *testing.T) {
	from, to, proxy := bridged(t, nil)
	from.Queue("dead", nil)
	url := from.Queue("orders", map[string]string{"RedrivePolicy": queuetest.RedrivePolicy("dead", 1)})
	to.Queue("orders", nil)
	for range 20 {
		if _, err := from.Client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x")}); err != nil {
			t.Fatal(err)
		}
	}
	result := make(chan int)
	go func() {
		code, _, _ := execute(t, "bridge", "orders", "orders", "--to-endpoint-url", proxy.URL(), "--until-empty", "--timeout", "2s")
		result <- code
	}()
	received := func() (n int) {
		for _, m := range from.Messages("orders") {
			n += m.Receives
		}
		return n
	}
	// The bridge has resolved its queues when it has received.
	for begin := time.Now(); received() == 0 && len(to.Messages("orders")) == 0; time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("nothing was received")
		}
	}
	proxy.Outage(true)
	time.Sleep(3 * time.Second)
	proxy.Outage(false)
	if code := <-result; code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	if dead := from.Messages("dead"); len(dead) > 0 {
		t.Errorf("%d dead letters, want none", len(dead))
	}
	if got := len(to.Messages("orders")); got < 20 {
		t.Errorf("%d messages arrived, want 20", got)
	}
}

// A message that the destination refuses stays, and the others pass.
func TestBridgeRefused(t *testing.T) {
	from, to, proxy := bridged(t, nil)
	from.Queue("dead", nil)
	url := from.Queue("orders", map[string]string{"RedrivePolicy": queuetest.RedrivePolicy("dead", 1)})
	to.Queue("orders", map[string]string{"MaximumMessageSize": "1024"})
	for _, body := range []string{"small", strings.Repeat("x", 2048), "small too"} {
		if _, err := from.Client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body}); err != nil {
			t.Fatal(err)
		}
	}
	wantExecute(t, cli.ExitOK, "moved 2 messages", "bridge", "orders", "orders", "--to-endpoint-url", proxy.URL(), "--until-empty")
	if dead := from.Messages("dead"); len(dead) != 1 {
		t.Errorf("%d dead letters, want 1", len(dead))
	}

	wantExecute(t, cli.ExitUsage, "would be moved to itself", "bridge", "orders", "orders", "--to-endpoint-url", from.Endpoint)
	wantExecute(t, cli.ExitUsage, "must both be FIFO queues", "bridge", "orders", "line.fifo", "--to-endpoint-url", fifoOn(to))
	wantExecute(t, cli.ExitUsage, "add --to-endpoint-url", "bridge", "orders", "orders")
	wantExecute(t, cli.ExitNotFound, "has no queue", "bridge", "orders", "nowhere", "--to-endpoint-url", to.Endpoint)
}

func fifoOn(s *queuetest.Server) string {
	s.Queue("line.fifo", nil)
	return s.Endpoint
}
