package studio

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/internal/server"
	"tenaq/internal/testing/pgtest"
	"tenaq/outbox"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// The commands of the README, against a server: each video is transcoded once, though it is
// uploaded twice; and again, when it is replayed.
func TestCommands(t *testing.T) {
	for name, database := range map[string]func(t *testing.T) string{
		"sqlite":   func(*testing.T) string { return "sqlite:studio.db" },
		"postgres": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			db := database(t)
			t.Chdir(t.TempDir())
			must(t, os.Mkdir("results", 0o700))
			startServer(t)
			for range 2 { // the second time adds nothing
				must(t, Run(t.Context(), []string{"-db", db, "upload", "video-1", "video-2", "video-3"}))
			}
			const all = 3
			said := runAll(t, db, "bad", func(said string) bool { return strings.Count(said, ": done in") == all })
			if n := strings.Count(said, ": sent as message"); n != all {
				t.Errorf("%d messages were sent, want one for each of the %d videos", n, all)
			}
			if got := read(t, "video-2"); got != "video-2 in bad quality\n" {
				t.Errorf("video-2 is %q", got)
			}

			// The same again is known to be done.
			s := openStudio(t, db)
			must(t, s.within(t.Context(), func(tx *sql.Tx) error {
				return s.Enqueue(t.Context(), tx, outbox.Message{
					Queue: QueueName, Key: "video-2", Body: `{"ID": "job-of-video-2", "Video": "video-2"}`, Dedup: "job-of-video-2",
				})
			}))
			runAll(t, db, "good", func(said string) bool {
				return strings.Contains(said, "job-of-video-2, generation 0: attempt 1: duplicate")
			})
			if got := read(t, "video-2"); got != "video-2 in bad quality\n" {
				t.Errorf("after the same once more video-2 is %q", got)
			}

			replay(t, s)
			runAll(t, db, "good", func(said string) bool { return strings.Count(said, "generation 1: attempt 1: done in") == all })
			for _, video := range []string{"video-1", "video-2", "video-3"} {
				if got, want := read(t, video), video+" in good quality\n"; got != want {
					t.Errorf("after the replay: got %q, want %q", got, want)
				}
			}
		})
	}
}

// replay does what "tenaq outbox replay --from 1h --run" does.
func replay(t *testing.T, s *Studio) {
	t.Helper()
	now := time.Now()
	r, err := outbox.NewReplayer(outbox.ReplayConfig{
		Box:    s.Box.(outbox.History),
		Source: outbox.Source{From: now.Add(-time.Hour), To: now.Add(time.Hour)},
	})
	must(t, err)
	_, err = r.Run(t.Context())
	must(t, err)
}

// An upload that fails leaves no job, and nothing to be sent.
func TestUploadIsOneTransaction(t *testing.T) {
	for name, database := range map[string]func(t *testing.T) string{
		"sqlite":   func(*testing.T) string { return "sqlite:studio.db" },
		"postgres": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			db := database(t)
			t.Chdir(t.TempDir())
			s := openStudio(t, db)
			if _, err := s.Upload(t.Context(), Job{"job-1", "video-1"}, outbox.Message{Queue: "", Key: "video-1", Body: "{}"}); err == nil {
				t.Error("a message without a queue is uploaded")
			}
			var jobs int
			must(t, s.DB.QueryRow(`SELECT count(*) FROM jobs`).Scan(&jobs))
			stats, err := s.Box.Stats(t.Context())
			must(t, err)
			if jobs != 0 || stats.Pending != 0 {
				t.Errorf("%d jobs and %d rows are left, want none", jobs, stats.Pending)
			}
		})
	}
}

// A worker that comes late marks nothing: neither behind a later holder of its claim nor behind a
// later generation.
func TestStaleWorker(t *testing.T) {
	t.Chdir(t.TempDir())
	startServer(t)
	const db = "sqlite:studio.db"
	must(t, os.Mkdir("results", 0o700))
	must(t, Run(t.Context(), []string{"-db", db, "upload", "video-1", "video-2"}))
	s := openStudio(t, db)
	_, err := s.DB.Exec(`UPDATE jobs SET fence = 9000000000000000000 WHERE video_id = 'video-1'`)
	must(t, err)
	_, err = s.DB.Exec(`UPDATE jobs SET generation = 1 WHERE video_id = 'video-2'`)
	must(t, err)
	runAll(t, db, "bad", func(said string) bool {
		return strings.Contains(said, "job-of-video-1, generation 0: attempt 1: failed: "+errStale.Error()) && strings.Contains(said, "job-of-video-2, generation 0: attempt 1: failed: "+errStale.Error())
	})
	ledger, err := claims.New(claims.Config{Store: s.Records})
	must(t, err)
	if entry, err := ledger.Entry(t.Context(), "job-of-video-1"); err != nil || entry.State == claims.Completed {
		t.Errorf("the ledger says %s, error %v", entry.State, err)
	}
}

func TestUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	startServer(t)
	for _, args := range [][]string{nil, {"upload"}, {"relay", "now"}, {"work"}, {"play"}, {"-db", "nowhere:1", "relay"}, {"-nothing"}} {
		if err := Run(t.Context(), args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// runAll runs a relay and a worker until what they have said is enough, for a minute at most.
func runAll(t *testing.T, db, quality string, enough func(said string) bool) string {
	t.Helper()
	said := &buffer{}
	log.SetOutput(said)
	defer log.SetOutput(io.Discard)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- Run(ctx, []string{"-db", db, "relay"}) }()
	go func() { ended <- Run(ctx, []string{"-db", db, "-quality", quality, "work", "results"}) }()
	for begin := time.Now(); !enough(said.String()); time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Errorf("not done within a minute:\n%s", said)
			break
		}
	}
	stop()
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Error(err)
	}
	return said.String()
}

// A buffer is written to by some goroutines and read by another.
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, video string) string {
	t.Helper()
	text, err := os.ReadFile("results/" + video + ".txt")
	must(t, err)
	return string(text)
}

func openStudio(t *testing.T, db string) *Studio {
	t.Helper()
	s, err := Open(t.Context(), db)
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

// startServer starts a server with the queue, and points the SDK at it as "tenaq env" does.
func startServer(t *testing.T) {
	t.Helper()
	s, err := server.New(server.Config{
		Listen: "127.0.0.1:0", AdminListen: "off", DataDir: t.TempDir(), DiskReserve: -1,
		Queues: []server.Queue{{Name: QueueName}},
	})
	must(t, err)
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
}
