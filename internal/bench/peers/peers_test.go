package peers

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tenaq/internal/bench"
	"tenaq/internal/cli"
)

// launched starts a peer that is installed. PostgreSQL has to be where nothing may be skipped.
func launched(t *testing.T, p *Peer) server {
	t.Helper()
	dir, err := os.MkdirTemp("", "tenaq-peers-test-") // not in one that only its owner may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s, err := p.launch(t.Context(), dir, nil)
	switch {
	case errors.Is(err, errMissing) && p.Name == "postgresql" && os.Getenv("TENAQ_REQUIRE_ALL") == "1":
		t.Fatal("not installed: " + p.install)
	case errors.Is(err, errMissing):
		t.Skip("SKIPPED: not installed: " + p.install)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// A peer delivers each sent message once, and no deleted one.
func TestPeers(t *testing.T) {
	for _, p := range All[always:] {
		t.Run(p.Name, func(t *testing.T) {
			s := launched(t, &p)
			for i, w := range []bench.Work{
				{Kind: bench.Life, Size: 100}, {Kind: bench.Life, Size: 4096, Batch: 10}, {Kind: bench.Send, Size: 100},
			} {
				w.Queue, w.Random = "test-"+string(rune('a'+i)), true
				c, err := s.contender(t.Context(), w)
				if err != nil {
					t.Fatal(err)
				}
				load := bench.Load{Clients: 4, Round: 200 * time.Millisecond}
				results, err := bench.Compare(t.Context(), load, 1, nil, bench.Named{Name: p.Name, Contender: c})
				if err != nil {
					t.Fatal(err)
				}
				if r := results[0]; r.Messages == 0 || r.Steps == 0 || r.Messages > r.Steps*int64(max(1, w.Batch)) || len(r.Rates) != 1 {
					t.Errorf("%+v: got %+v", w, r)
				}
			}
			if b, ok := s.(*broker); ok {
				deliver(t, b)
			}
		})
	}
}

func deliver(t *testing.T, b *broker) {
	const queue = "test-deliver"
	if err := b.create(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	c, err := b.dial(t.Context(), queue, &bench.Work{Kind: bench.Life, Batch: 5, Size: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	soon := func() time.Time { return time.Now().Add(200 * time.Millisecond) }
	if n, err := c.consume(5, soon()); n != 0 || err != nil {
		t.Errorf("got %d, %v from an empty queue", n, err)
	}
	for range 3 {
		if err := c.send([]string{"1", "22", "333", "4444", "55555"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if n, err := c.consume(5, time.Now().Add(answerMax)); n != 5 || err != nil {
			t.Errorf("got %d, %v, want 5", n, err)
		}
	}
	if n, err := c.consume(5, soon()); n != 0 || err != nil {
		t.Errorf("got %d, %v from a queue whose messages were deleted", n, err)
	}
	if err := b.drop(queue); err != nil {
		t.Error(err)
	}
}

// The rows of a comparison: those that always take part, the chosen ones, and those not installed.
func TestCompare(t *testing.T) {
	missing := Peer{"missing", "Missing", "", "look for it", func(context.Context, *place) (server, error) {
		return nil, errMissing
	}}
	broken := missing
	broken.start = func(context.Context, *place) (server, error) { return nil, errors.New("no luck") }
	dir := t.TempDir()
	c := &Config{Dir: dir, Load: bench.Load{Clients: 2, Round: 100 * time.Millisecond}, Rounds: 1}
	r, err := Compare(t.Context(), c, []Peer{missing}, cli.NewProgress(io.Discard, "test"))
	if err != nil {
		t.Fatal(err)
	}
	if row := r.Rows[0]; row.Missing != "look for it" || len(row.Cells) != 0 || r.Failed() != 0 {
		t.Errorf("got %+v", r)
	}
	if got := strings.Join(r.Table().Rows[0], " "); !strings.HasSuffix(got, "not installed: look for it") {
		t.Errorf("got %q", got)
	}
	if _, err := Compare(t.Context(), c, []Peer{broken}, cli.NewProgress(io.Discard, "test")); err == nil || !strings.Contains(err.Error(), "Missing: no luck") {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A bound is judged by the median of the rounds, and only where both were measured.
func TestJudge(t *testing.T) {
	row := func(name, column string, rounds ...float64) Row {
		return Row{Name: name, Cells: []Cell{{Column: column, rounds: rounds}}}
	}
	for _, tt := range []struct {
		ours, theirs []float64
		measured     float64
		failed       int
	}{
		{[]float64{10, 30, 20}, []float64{10, 10, 10}, 2, 0},
		{[]float64{10, 12, 20}, []float64{10, 10, 10}, 1.2, 1},
		{[]float64{13, 13, 13}, []float64{10, 10, 10}, 1.3, 0},
		{[]float64{13, 26, 13}, []float64{10, 40, 10}, 1.3, 0},
	} {
		r := Report{Rows: []Row{row("tenaq", "lives", tt.ours...), row("rabbitmq", "lives", tt.theirs...), row("redis", "lives", 1)}}
		r.judge()
		if len(r.Ratios) != 1 || r.Ratios[0].Measured != tt.measured || r.Failed() != tt.failed {
			t.Errorf("%v against %v: got %+v", tt.ours, tt.theirs, r.Ratios)
		}
		if want := map[int]string{0: "yes", 1: "no"}[tt.failed]; r.RatioTable().Rows[0][3] != want {
			t.Errorf("got %v, want %s", r.RatioTable().Rows, want)
		}
	}
	for _, b := range bounds {
		if _, err := named(b.Peer); err != nil {
			t.Error(err)
		}
		known := false
		for _, c := range columns {
			known = known || c.name == b.What
		}
		if !known {
			t.Errorf("there is a bound for %q, which is not measured", b.What)
		}
	}
}

func TestChoose(t *testing.T) {
	if got, err := Choose(nil); err != nil || len(got) != len(All) {
		t.Errorf("got %d peers, %v", len(got), err)
	}
	got, err := Choose([]string{"nats", "redis"})
	if err != nil || len(got) != 4 || got[0].Name != "tenaq" || got[2].Name != "nats" {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, name := range []string{"tenaq", "kafka"} {
		if _, err := Choose([]string{name}); err == nil || !strings.Contains(err.Error(), "redis, rabbitmq, rabbitmq-get") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A peer ends with all its processes, whether it is closed or loses the one that started it.
func TestProcessEnds(t *testing.T) {
	at := &place{dir: t.TempDir()}
	p, err := start(at, []string{"NOTE=here"}, "/bin/sh", "-c", `sleep 1000 & echo $! $NOTE; trap "" TERM; sleep 1000`)
	if err != nil {
		t.Fatal(err)
	}
	err = p.ready(t.Context(), func(context.Context) error {
		if !strings.Contains(p.log(), " here\n") {
			return errors.New("nothing was printed")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p.close()
	child, _, _ := strings.Cut(p.log(), " ")
	for began := time.Now(); runs(child); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("process %s is still there", child)
		}
	}
	p, err = start(at, nil, "/bin/sh", "-c", "echo what is wrong; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	err = p.ready(t.Context(), func(context.Context) error { return errors.New("no answer") })
	if err == nil || !strings.Contains(err.Error(), "what is wrong") {
		t.Errorf("got %v, want the log", err)
	}
}

// runs reports whether there is a process that is not merely unreaped.
func runs(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// Fetched programs are found where the other programs of tests are.
func TestFetched(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TENAQ_EMULATOR_DIR", dir)
	if _, err := fetched("elasticmq", "lib"); err != errMissing {
		t.Errorf("got %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "elasticmq", "lib"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := fetched("elasticmq", "lib"); err != nil || got != filepath.Join(dir, "elasticmq", "lib") {
		t.Errorf("got %s, %v", got, err)
	}
	t.Setenv("PATH", dir)
	if _, err := program("sh"); err != errMissing {
		t.Errorf("got %v", err)
	}
	if _, err := exec.LookPath("/bin/sh"); err != nil {
		t.Error(err)
	}
}
