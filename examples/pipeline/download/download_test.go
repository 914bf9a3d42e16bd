package download

import (
	"bytes"
	"context"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/server"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}

var samples = []string{"../files/accounts-2026-02-28.csv", "../files/balances-2026-02-28.csv", "../files/cards-2026-02-28.csv"}

// The commands of the README, against a server, download each sent file once.
func TestCommands(t *testing.T) {
	client := startServer(t)
	t.Setenv("PIPELINE_RECORDS", filepath.Join(t.TempDir(), "records.db"))
	source, err := filepath.Abs("../files")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	for _, batch := range []string{"31", "31", "32"} { // the second and the third time add nothing
		if err := Run(t.Context(), slices.Concat([]string{"send", batch}, samples)); err != nil {
			t.Fatal(err)
		}
	}
	if got := messages(t, client); got != len(samples) {
		t.Errorf("%d messages, want one for each of the %d files", got, len(samples))
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, []string{"work", "file://" + source, out}) }()
	for begin := time.Now(); messages(t, client) > 0 && time.Since(begin) < time.Minute; {
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var got []string
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		got = append(got, "../files/"+e.Name())
	}
	if !slices.Equal(got, samples) {
		t.Errorf("downloaded %q, want %q", got, samples)
	}
	for _, sample := range samples {
		want, _ := os.ReadFile(sample)
		if got, err := os.ReadFile(filepath.Join(out, filepath.Base(sample))); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %q and error %v, want %q", sample, got, err, want)
		}
	}
}

func TestUsage(t *testing.T) {
	startServer(t)
	t.Setenv("PIPELINE_RECORDS", filepath.Join(t.TempDir(), "records.db"))
	for _, args := range [][]string{nil, {"send"}, {"send", "31"}, {"work", "https://files.example.com"}, {"play", "a", "b"}} {
		if err := Run(t.Context(), args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// startServer starts a server with the queues, and points the SDK at it as "tenaq env" does.
func startServer(t *testing.T) *sqs.Client {
	t.Helper()
	s, err := server.New(server.Config{
		Listen: "127.0.0.1:0", AdminListen: "off", DataDir: t.TempDir(), DiskReserve: -1,
		Queues: []server.Queue{{Name: queueName, Attributes: map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"}}},
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

// messages is how many messages are in the queue, in flight or not.
func messages(t *testing.T, client *sqs.Client) int {
	t.Helper()
	url, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(queueName)})
	if err != nil {
		t.Fatal(err)
	}
	return depth(t, client, *url.QueueUrl)
}
