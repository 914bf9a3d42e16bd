package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/server"
	"tenaq/internal/testing/faultproxy"
	"tenaq/internal/testing/pgtest"
	"tenaq/internal/testing/proof"
	"tenaq/outbox"
)

// An order is a business row, and the body of the message about it. N counts the orders of its
// group in the order of their commits.
type order struct {
	ID    string
	Group string
	N     int
}

// A ledger is the database: what a writer commits in it, and its outbox.
type ledger interface {
	// write writes an order and the message about it in one transaction, which is committed or
	// rolled back after a pause. An error leaves open whether it was committed.
	write(ctx context.Context, o order, to string, commit bool, pause time.Duration) error

	// committed returns the orders that are there.
	committed(ctx context.Context) ([]order, error)
}

func message(o order, to string) outbox.Message {
	body, _ := json.Marshal(o) // which cannot fail
	return outbox.Message{ID: o.ID, Queue: to, Key: o.Group, Type: "order", Body: string(body)}
}

// A storm is one run.
type storm struct {
	*testing.T
	rng     *rand.Rand
	setting setting
	ledger  ledger
	api     *sqs.Client // past the proxy

	mu         sync.Mutex
	rolledBack map[string]bool
	got        map[string][]order // by queue, in the order of receipt
	doubts     int                // writes whose outcome is unknown
}

// Committed rows are sent in the order of their commits, and rows that were rolled back never are,
// no matter which process dies.
func TestStorm(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "shop.db")
		newStorm(t, setting{SQLite: file}, openSQLite(t, file)).blow(func(context.Context) {})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		db := pgtest.New(t)
		s := newStorm(t, setting{Postgres: db.URL()}, openPostgres(t, db.URL()))
		s.blow(func(ctx context.Context) { // the database dies as well
			for wait(ctx, 4*time.Second); ctx.Err() == nil; wait(ctx, 4*time.Second) {
				db.Kill(t)
				db.Restart(t)
			}
		})
	})
}

func newStorm(t *testing.T, s setting, l ledger) *storm {
	seed := proof.Seed(t)
	target := startServer(t)
	faults := faultproxy.Chances{Drop: .02, Lose: .06, Late: .02, Twice: .03, Partly: .05, Fail: .02, Unavailable: .02, Throttle: .03, Slow: .2, DelayMax: 300 * time.Millisecond}
	proxy, err := faultproxy.Start(faultproxy.Config{Target: target, Plan: faultproxy.Sometimes(seed, map[string]faultproxy.Chances{"": faults})})
	must(t, err)
	t.Cleanup(proxy.Close)
	s.Queue = proxy.URL()
	return &storm{
		T: t, rng: rand.New(rand.NewPCG(seed, 0)), setting: s, ledger: l, api: connect(target),
		rolledBack: make(map[string]bool), got: make(map[string][]order),
	}
}

// Durations and numbers of a storm.
const (
	blows   = 15 * time.Second
	writers = 6
	groups  = 5
	relays  = 2
)

var queues = []string{"orders.fifo", "mails"}

// blow writes, relays and kills for a while, and judges what came of it.
func (s *storm) blow(worse func(context.Context)) {
	for _, q := range queues {
		in := &sqs.CreateQueueInput{QueueName: &q}
		if q == "orders.fifo" {
			in.Attributes = map[string]string{"FifoQueue": "true"}
		}
		_, err := s.api.CreateQueue(s.Context(), in)
		must(s.T, err)
	}
	ctx, calm := context.WithTimeout(s.Context(), blows)
	defer calm()
	var all sync.WaitGroup
	for n := range writers {
		rng := rand.New(rand.NewPCG(s.rng.Uint64(), uint64(n)))
		all.Go(func() { s.writer(ctx, rng, n) })
	}
	kills := make([]int, relays)
	for n := range relays {
		rng := rand.New(rand.NewPCG(s.rng.Uint64(), uint64(n)))
		all.Go(func() { kills[n] = s.torment(ctx, rng, n) })
	}
	all.Go(func() { worse(ctx) })
	listening, deaf := context.WithCancel(s.Context())
	defer deaf()
	var ears sync.WaitGroup
	for _, q := range queues {
		ears.Go(func() { s.listen(listening, q) })
	}
	all.Wait()
	committed, err := s.ledger.committed(s.Context())
	for tries := 0; err != nil && tries < 50; tries++ { // by a connection to the server before its last restart
		time.Sleep(100 * time.Millisecond)
		committed, err = s.ledger.committed(s.Context())
	}
	must(s.T, err)
	last := s.hire(relays) // it sends what is left
	patience := time.Now().Add(2 * time.Minute)
	for s.missing(committed) > 0 && time.Now().Before(patience) {
		time.Sleep(100 * time.Millisecond)
	}
	if n := s.missing(committed); n > 0 {
		box, err := s.setting.open(s.Context())
		must(s.T, err)
		stats, err := box.Stats(s.Context())
		text, _ := os.ReadFile(last.log)
		s.Logf("the outbox has %+v, error %v; the last relay says\n%s", stats, err, text)
	}
	last.dismiss()
	deaf()
	ears.Wait()
	s.judge(committed, kills)
}

// writer is a program that takes orders.
func (s *storm) writer(ctx context.Context, rng *rand.Rand, w int) {
	for n := 0; ctx.Err() == nil; n++ {
		o := order{ID: outbox.NewID(), Group: fmt.Sprint("group-", rng.IntN(groups))}
		commit := rng.IntN(5) > 0
		if !commit {
			s.mu.Lock()
			s.rolledBack[o.ID] = true
			s.mu.Unlock()
		}
		err := s.ledger.write(s.Context(), o, queues[rng.IntN(len(queues))], commit, time.Duration(rng.IntN(20))*time.Millisecond)
		if err != nil {
			s.mu.Lock()
			s.doubts++
			s.mu.Unlock()
			wait(ctx, 50*time.Millisecond)
		}
	}
}

// torment kills and stops a relay again and again. It returns how often it was killed.
func (s *storm) torment(ctx context.Context, rng *rand.Rand, place int) (kills int) {
	h := s.hire(place)
	for {
		wait(ctx, time.Duration(200+rng.IntN(2500))*time.Millisecond)
		if ctx.Err() != nil {
			h.kill()
			return kills + 1
		}
		if rng.IntN(3) == 0 { // longer than its lease, at times
			must(s.T, h.cmd.Process.Signal(syscall.SIGSTOP))
			wait(ctx, time.Duration(rng.Int64N(int64(2*lease))))
			must(s.T, h.cmd.Process.Signal(syscall.SIGCONT))
			continue
		}
		h.kill()
		kills++
		h = s.hire(place)
	}
}

// A hand is a relay in another process.
type hand struct {
	*storm
	cmd *exec.Cmd
	log string
}

func (s *storm) hire(place int) *hand {
	text, err := json.Marshal(s.setting)
	must(s.T, err)
	log, err := os.CreateTemp(s.TempDir(), fmt.Sprintf("relay-%d-*", place))
	must(s.T, err)
	defer log.Close() // the child has its own
	h := &hand{storm: s, cmd: exec.Command(os.Args[0]), log: log.Name()}
	h.cmd.Env = append(os.Environ(), childSettings+"="+string(text))
	h.cmd.Stderr = log
	_, err = h.cmd.StdinPipe() // ends with this process
	must(s.T, err)
	must(s.T, h.cmd.Start())
	s.Cleanup(func() {
		if h.cmd.ProcessState == nil {
			_ = h.cmd.Process.Kill()
			_ = h.cmd.Wait()
		}
	})
	return h
}

// kill ends it as a crash would. A relay that could not open its database while that was dead has
// ended.
func (h *hand) kill() {
	if err := h.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		h.Error(err)
	}
	_ = h.cmd.Wait()
}

// dismiss ends it in the orderly way.
func (h *hand) dismiss() {
	must(h.T, h.cmd.Process.Signal(syscall.SIGTERM))
	if err := h.cmd.Wait(); err != nil {
		text, _ := os.ReadFile(h.log)
		h.Errorf("the relay ended with %v\n%s", err, text)
	}
}

// listen receives and deletes all that comes.
func (s *storm) listen(ctx context.Context, queue string) {
	out, err := s.api.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &queue})
	if err != nil {
		s.Error(err)
		return
	}
	for {
		got, err := s.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: out.QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, MessageAttributeNames: []string{"All"},
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.Error(err)
			return
		}
		for _, m := range got.Messages {
			s.hear(queue, m)
			_, err := s.api.DeleteMessage(context.WithoutCancel(ctx), &sqs.DeleteMessageInput{QueueUrl: out.QueueUrl, ReceiptHandle: m.ReceiptHandle})
			if err != nil {
				s.Error(err)
			}
		}
	}
}

func (s *storm) hear(queue string, m types.Message) {
	var o order
	if err := json.Unmarshal([]byte(aws.ToString(m.Body)), &o); err != nil {
		s.Error(err)
		return
	}
	if id := aws.ToString(m.MessageAttributes["tenaq"].StringValue); id != "v=1&key="+o.ID {
		s.Errorf("the message about %s says that it is %q", o.ID, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got[queue] = append(s.got[queue], o)
}

// missing is how many orders no queue has delivered.
func (s *storm) missing(committed []order) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	heard := make(map[string]bool)
	for _, orders := range s.got {
		for _, o := range orders {
			heard[o.ID] = true
		}
	}
	for _, o := range committed {
		if !heard[o.ID] {
			n++
		}
	}
	return n
}

// judge compares what was committed with what the queues delivered.
func (s *storm) judge(committed []order, kills []int) {
	if n := s.missing(committed); n > 0 {
		s.Errorf("%d of %d committed orders were never sent", n, len(committed))
	}
	there := make(map[string]order)
	for _, o := range committed {
		there[o.ID] = o
	}
	twice := 0
	for queue, orders := range s.got {
		times := make(map[string]int)
		last := make(map[string]int)
		for _, o := range orders {
			if s.rolledBack[o.ID] || there[o.ID].ID == "" {
				s.Errorf("%s was sent and is not committed", o.ID)
			}
			if times[o.ID]++; times[o.ID] > 1 {
				twice++
				if queue == "orders.fifo" {
					s.Errorf("%s was delivered %d times by a FIFO queue", o.ID, times[o.ID])
				}
				continue
			}
			n := there[o.ID].N
			if queue == "orders.fifo" && n < last[o.Group] {
				s.Errorf("order %d of %s was delivered after order %d", n, o.Group, last[o.Group])
			}
			last[o.Group] = max(last[o.Group], n)
		}
	}
	s.Logf("%d committed, %d rolled back, %d in doubt, relays killed %v times, %d sent twice to the standard queue",
		len(committed), len(s.rolledBack), s.doubts, kills, twice)
	if len(committed) < 50 {
		s.Errorf("only %d orders were committed, which shows little", len(committed))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
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
