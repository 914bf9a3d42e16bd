// Package sdk tests a whole server, with its disk and its sockets, through the unmodified AWS SDK
// for Go. The tests check how the SDK understands answers: types of errors, checksums, pages,
// retries.
package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"tenaq/internal/server"
)

// A node is a running server and a client of it.
type node struct {
	*sqs.Client
	t      *testing.T
	cfg    server.Config
	server *server.Server
	cancel context.CancelFunc
	done   chan error
}

// start runs a server on an empty directory. Change adapts its configuration.
func start(t *testing.T, change func(*server.Config)) *node {
	t.Helper()
	cfg := server.Config{
		Listen:      "127.0.0.1:0",
		AdminListen: "127.0.0.1:0",
		DataDir:     t.TempDir(),
		Logger:      slog.New(slog.NewTextHandler(io.Discard, nil)),
		Fatal:       func(err error) { panic(err) },
	}
	if change != nil {
		change(&cfg)
	}
	return startWith(t, cfg)
}

// startWith runs a server. The test ends it.
func startWith(t *testing.T, cfg server.Config) *node {
	t.Helper()
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{t: t, cfg: cfg, server: s, cancel: cancel, done: make(chan error, 1)}
	go func() { n.done <- s.Run(ctx) }()
	n.Client = connect("http://"+s.Addr(), nil)
	t.Cleanup(func() { n.stop() })
	return n
}

// connect returns a client that makes each request once.
func connect(endpoint string, client *http.Client) *sqs.Client {
	o := sqs.Options{
		Region:           "us-east-1",
		BaseEndpoint:     aws.String(endpoint),
		Credentials:      credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		RetryMaxAttempts: 1,
	}
	if client != nil {
		o.HTTPClient = client
	}
	return sqs.New(o)
}

// stop asks the server to stop, as SIGTERM does, and waits until it has. A second call does
// nothing.
func (n *node) stop() {
	n.t.Helper()
	if n.done == nil {
		return
	}
	n.cancel()
	select {
	case err := <-n.done:
		if err != nil {
			n.t.Errorf("Run: %v", err)
		}
	case <-time.After(18 * time.Second): // ten are allowed, and a machine may pause [DUR-24]
		n.t.Fatal("the server has not stopped within 18 seconds")
	}
	n.done = nil
}

// restart stops the server and starts another on the same directory.
func (n *node) restart(change func(*server.Config)) *node {
	n.t.Helper()
	n.stop()
	cfg := n.cfg
	if change != nil {
		change(&cfg)
	}
	return startWith(n.t, cfg)
}

// crash starts a server on what the disk held at this moment, while the old one ran. The old one is
// then stopped.
func (n *node) crash(change func(*server.Config)) *node {
	n.t.Helper()
	cfg := n.cfg
	cfg.DataDir = n.t.TempDir()
	copyStore(n.t, cfg.DataDir, n.cfg.DataDir)
	n.stop()
	if change != nil {
		change(&cfg)
	}
	return startWith(n.t, cfg)
}

// copyStore copies a data directory without its ballast. The server may be running. The witness is
// copied before the store, because it is written after it: no crash could leave a witness that is
// ahead of its store.
func copyStore(t *testing.T, to, from string) {
	t.Helper()
	const witness = "witness"
	copyFiles(t, to, from, func(name string) bool { return name == witness })
	copyFiles(t, to, from, func(name string) bool { return name != witness && name != "ballast" })
}

func copyFiles(t *testing.T, to, from string, wanted func(name string) bool) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !wanted(d.Name()) {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The helpers below do what most tests begin with, and end the test when it fails.

func (n *node) queue(name string, attributes ...string) string {
	n.t.Helper()
	in := &sqs.CreateQueueInput{QueueName: aws.String(name)}
	for i := 0; i < len(attributes); i += 2 {
		if in.Attributes == nil {
			in.Attributes = map[string]string{}
		}
		in.Attributes[attributes[i]] = attributes[i+1]
	}
	out, err := n.CreateQueue(n.t.Context(), in)
	if err != nil {
		n.t.Fatal(err)
	}
	return *out.QueueUrl
}

func (n *node) send(url, body string) string {
	n.t.Helper()
	out, err := n.SendMessage(n.t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body})
	if err != nil {
		n.t.Fatal(err)
	}
	return *out.MessageId
}

// receive receives up to ten messages with their system attributes.
func (n *node) receive(url string, change ...func(*sqs.ReceiveMessageInput)) []types.Message {
	n.t.Helper()
	in := &sqs.ReceiveMessageInput{
		QueueUrl:                    &url,
		MaxNumberOfMessages:         10,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		MessageAttributeNames:       []string{"All"},
	}
	for _, c := range change {
		c(in)
	}
	out, err := n.ReceiveMessage(n.t.Context(), in)
	if err != nil {
		n.t.Fatal(err)
	}
	return out.Messages
}

// one receives exactly one message.
func (n *node) one(url string, change ...func(*sqs.ReceiveMessageInput)) types.Message {
	n.t.Helper()
	messages := n.receive(url, change...)
	if len(messages) != 1 {
		n.t.Fatalf("received %d messages, want 1", len(messages))
	}
	return messages[0]
}

// none receives nothing.
func (n *node) none(url, when string) {
	n.t.Helper()
	if got := n.receive(url); len(got) != 0 {
		n.t.Errorf("%s: received %d messages, want none", when, len(got))
	}
}

func (n *node) delete(url string, handle *string) {
	n.t.Helper()
	if _, err := n.DeleteMessage(n.t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: handle}); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) hide(url string, handle *string, seconds int32) error {
	_, err := n.ChangeMessageVisibility(n.t.Context(), &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &url, ReceiptHandle: handle, VisibilityTimeout: seconds,
	})
	return err
}

// counters returns how many messages are visible, in flight and delayed.
func (n *node) counters(url string) [3]int {
	n.t.Helper()
	names := []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}
	out, err := n.GetQueueAttributes(n.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: names})
	if err != nil {
		n.t.Fatal(err)
	}
	var counts [3]int
	for i, name := range names {
		if counts[i], err = strconv.Atoi(out.Attributes[string(name)]); err != nil {
			n.t.Fatal(err)
		}
	}
	return counts
}

func timeout(seconds int32) func(*sqs.ReceiveMessageInput) {
	return func(in *sqs.ReceiveMessageInput) { in.VisibilityTimeout = seconds }
}

func count(m types.Message) string {
	return m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)]
}

// refused says what is wrong with an error that should be an error of the API with a code and a
// status, and of the type of target when that is not nil.
func refused(err error, code string, status int, target any) error {
	var api smithy.APIError
	var resp *smithyhttp.ResponseError
	switch {
	case !errors.As(err, &api):
		return fmt.Errorf("got %w, want an error of the API", err)
	case api.ErrorCode() != code:
		return fmt.Errorf("got code %q (%w), want %q", api.ErrorCode(), err, code)
	case !errors.As(err, &resp) || resp.HTTPStatusCode() != status:
		return fmt.Errorf("got %w, want status %d", err, status)
	case target != nil && !errors.As(err, target):
		return fmt.Errorf("got %T, want %T", api, target)
	}
	return nil
}

// dialing returns an HTTP client that connects to one address whatever it is asked for.
func dialing(address string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
}
