//go:build unix

package pginbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/claims"
	"tenaq/internal/server"
	"tenaq/internal/testing/proof"
	"tenaq/records/pgrecords"
	"tenaq/worker"
	"tenaq/worker/pginbox"
)

// These variables make the test binary a worker: the address of the database, and the URL of the
// queue.
const (
	processDatabase = "PGINBOX_TEST_DATABASE"
	processQueue    = "PGINBOX_TEST_QUEUE"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(processDatabase); url != "" {
		if err := work(url, os.Getenv(processQueue)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// work works on the orders of a queue until it is killed.
func work(url, queue string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	store, err := pgrecords.New(pgrecords.Config{Pool: pool})
	if err != nil {
		return err
	}
	ledger, err := claims.New(claims.Config{Store: store, Lease: lease})
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{
		Client: connect(queue), QueueURL: queue, Handler: pginbox.Handler(pool, order), Claims: ledger, Lease: lease,
		Key:    func(m *worker.Message) (string, error) { return m.Body, nil },
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// connect returns a client of the server that has a queue.
func connect(queue string) *sqs.Client {
	endpoint := queue[:strings.Index(queue, "/000000000000/")]
	return sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
	})
}

// serve runs a server until the end of the test, and returns the URL of a queue.
func serve(t *testing.T) string {
	t.Helper()
	s, err := server.New(server.Config{
		Listen: "127.0.0.1:0", AdminListen: "off", DataDir: t.TempDir(), DiskReserve: -1, Queues: []server.Queue{{Name: "orders"}},
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
	return "http://" + s.Addr() + "/000000000000/orders"
}

// Workers that are killed at any moment leave all of a message's work behind, or none of it and a
// message that comes back.
func TestKilledProcesses(t *testing.T) {
	const orders = 800
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	rng := rand.New(rand.NewPCG(proof.Seed(t), 0))
	r := newRig(t)
	queue := serve(t)
	client := connect(queue)
	for i := 0; i < orders; i += 10 {
		in := &sqs.SendMessageBatchInput{QueueUrl: &queue}
		for j := range 10 {
			id := fmt.Sprint(i + j)
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: &id, MessageBody: &id})
		}
		_, err := client.SendMessageBatch(t.Context(), in)
		must(t, err)
	}
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), processDatabase+"="+r.url, processQueue+"="+queue)
		cmd.Stderr = os.Stderr
		must(t, cmd.Start())
		return cmd
	}
	completed := func() (n int) {
		must(t, r.pool.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&n))
		return n
	}
	kill := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	for range rounds {
		enough, cmd := completed()+1+rng.IntN(40), start()
		for deadline := time.Now().Add(time.Minute); completed() < enough && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		kill(cmd)
	}
	left := orders - completed()
	last := start()
	defer kill(last)
	for deadline := time.Now().Add(2 * time.Minute); completed() < orders && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	for i := range orders {
		r.wantOnce(fmt.Sprint(i))
	}
	t.Logf("%d workers were killed; %d of %d orders were left to the last", rounds, left, orders)
	if left == 0 {
		t.Error("nothing was left to do after the kills, which shows little")
	}
}
