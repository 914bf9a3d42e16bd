package sdk

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/server"
)

// A request under a name that is not the server's is refused, whatever address it came to. [AUTH-2]
func TestHost(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *server.Config) { c.AllowedHosts = []string{"Queue.example.com"} })
	for endpoint, ok := range map[string]bool{
		"http://localhost:9324":         true,
		"http://sqs.localhost":          true,
		"http://queue.example.com:8080": true,
		"http://attacker.example":       false,
		"http://queue.example.com.evil": false,
	} {
		client := connect(endpoint, dialing(n.server.Addr()))
		out, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("orders")})
		if !ok {
			if err := refused(err, "AccessDenied", 403, nil); err != nil {
				t.Errorf("%s: %v", endpoint, err)
			}
			continue
		}
		// [QUEUE-36]
		if err != nil || *out.QueueUrl != endpoint+"/000000000000/orders" {
			t.Errorf("%s: got %v, %v, want a URL that begins with it", endpoint, out, err)
		}
	}
}

// [QUEUE-36]
func TestPublicURL(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *server.Config) { c.PublicURL = "https://queue.example.com/sqs" })
	if got, want := n.queue("orders"), "https://queue.example.com/sqs/000000000000/orders"; got != want {
		t.Errorf("queue URL %q, want %q", got, want)
	}
	n.send("https://queue.example.com/sqs/000000000000/orders", "x")
}

// refusedStart checks that a server does not start, and why.
func refusedStart(t *testing.T, what string, cfg server.Config, kind error) error {
	t.Helper()
	s, err := server.New(cfg)
	if err == nil {
		t.Errorf("%s: the server starts with %v", what, startedAnyway(t, s))
		return nil
	}
	if !errors.Is(err, kind) {
		t.Errorf("%s: got %v, want %v", what, err, kind)
	}
	return err
}

// startedAnyway runs a server that should not have started, and returns the counters of its queue.
func startedAnyway(t *testing.T, s *server.Server) [3]int {
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{t: t, Client: connect("http://"+s.Addr(), nil), done: make(chan error, 1), cancel: cancel}
	go func() { n.done <- s.Run(ctx) }()
	defer n.stop()
	return n.counters("orders")
}

// One process owns a directory, and one an address. [DUR-19]
func TestInUse(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	refusedStart(t, "same directory", n.cfg, server.ErrInUse)
	cfg := n.cfg
	cfg.DataDir, cfg.Listen = t.TempDir(), n.server.Addr()
	refusedStart(t, "same address", cfg, server.ErrInUse)
	cfg.Listen, cfg.AdminListen = n.cfg.Listen, n.server.Addr()
	refusedStart(t, "same admin address", cfg, server.ErrInUse)
	n.queue("orders") // the first is not disturbed
}

// [AUTH-1, CLOCK-15]
func TestOpenToEverybody(t *testing.T) {
	t.Parallel()
	cfg := server.Config{Listen: "0.0.0.0:0", AdminListen: "off", DataDir: t.TempDir()}
	refusedStart(t, "every address", cfg, server.ErrConfig)
	cfg.AllowUnauthenticated, cfg.TimeScale = true, 2
	refusedStart(t, "every address with scaled time", cfg, server.ErrConfig)
}

// A changed store is refused, in one sentence, and not touched. [DUR-14, DUR-16, DUR-18]
func TestDamage(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url := n.queue("orders")
	for range 100 {
		n.send(url, strings.Repeat("x", 100))
	}
	n.crash(nil).stop() // a second life, so that the store has been opened before
	n.stop()
	for _, test := range []struct {
		name string
		harm func(t *testing.T, dir string)
		want string // part of the sentence
	}{
		{"manifest", func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "store", "MANIFEST-*"), 0) }, "restore a backup"},
		{"log", func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "store", "*.log"), 0) }, "restore a backup"},
		{"witness", func(t *testing.T, dir string) {
			flip(t, filepath.Join(dir, "witness"), 0)
			flip(t, filepath.Join(dir, "witness"), 1)
		}, "put back the file"},
		{"no store", func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, "store"))) }, "restore a backup"},
		{"no log", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "store", "*.log")) }, "restore a backup"},
		{"newer witness", newerWitness, "run the version that wrote it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := n.cfg
			cfg.DataDir = t.TempDir()
			copyStore(t, cfg.DataDir, n.cfg.DataDir)
			test.harm(t, cfg.DataDir)
			for range 2 { // a refusal does not make a store better
				if err := refusedStart(t, test.name, cfg, server.ErrDamaged); err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want a sentence with %q", err, test.want)
				}
			}
		})
	}
	// The one that was copied is as good as ever.
	n = startWith(t, n.cfg)
	if got := n.counters("orders"); got != [3]int{100, 0, 0} {
		t.Errorf("counters: got %v, want 100 visible", got)
	}
}

// A store that lost acknowledged messages opens only if the operator says how many commits may be
// missing. [DUR-16, DUR-17]
func TestAcceptLoss(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url := n.queue("orders")
	before := t.TempDir()
	copyStore(t, before, n.cfg.DataDir)
	for range 20 {
		n.send(url, "x")
	}
	n.stop()
	// The disk comes back with what it had before the sends; the witness knows better.
	cfg := n.cfg
	cfg.DataDir = before
	witness, err := os.ReadFile(filepath.Join(n.cfg.DataDir, "witness"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(before, "witness"), witness, 0o600))
	cfg.AcceptLoss = 1
	for range 2 {
		err = refusedStart(t, "more lost than accepted", cfg, server.ErrDamaged)
		if err == nil || !strings.Contains(err.Error(), "start once with --accept-loss=") {
			t.Fatalf("got %v, want a sentence that says how to go on", err)
		}
	}
	cfg.AcceptLoss = 1000
	n = startWith(t, cfg)
	if got := n.counters("orders"); got != [3]int{} {
		t.Errorf("counters: got %v, want those of before", got)
	}
	n.send("orders", "y")
	// It was said once; from now on nothing is missing.
	n = n.restart(func(c *server.Config) { c.AcceptLoss = 0 })
	if got := n.counters("orders"); got != [3]int{1, 0, 0} {
		t.Errorf("counters: got %v, want one visible", got)
	}
}

// flip changes one bit in each file of a pattern, at a place between the first byte (0) and the
// last (1).
func flip(t *testing.T, pattern string, place float64) {
	t.Helper()
	for _, path := range files(t, pattern) {
		b, err := os.ReadFile(path)
		must(t, err)
		if len(b) > 0 {
			b[int(place*float64(len(b)-1))] ^= 0x10
		}
		must(t, os.WriteFile(path, b, 0o600))
	}
}

func remove(t *testing.T, pattern string) {
	t.Helper()
	for _, path := range files(t, pattern) {
		must(t, os.Remove(path))
	}
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return paths
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newerWitness gives both slots of the witness the next version, with right checksums: see
// docs/formats.md.
func newerWitness(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "witness")
	b, err := os.ReadFile(path)
	must(t, err)
	for _, at := range []int{0, 4096} {
		slot := b[at : at+64]
		slot[8]++
		binary.BigEndian.PutUint32(slot[60:], crc32.Checksum(slot[:60], crc32.MakeTable(crc32.Castagnoli)))
	}
	must(t, os.WriteFile(path, b, 0o600))
}
