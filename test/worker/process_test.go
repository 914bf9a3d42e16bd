//go:build unix

package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A workshop runs workers in other processes, with an oracle to which they report everything over
// HTTP.
type workshop struct {
	*testing.T
	oracle  *oracle
	effects *httptest.Server
	cfg     childConfig // what all of them are told
	dir     string      // of their logs

	mu        sync.Mutex
	runs      map[string]*run // by worker and number
	continued map[string]time.Time
	begun     func(*run) // is told of every handler that begins; may be nil
}

func newWorkshop(t *testing.T, cfg childConfig) *workshop {
	t.Helper()
	s := &workshop{
		T: t, oracle: newOracle(cfg.Attempts), cfg: cfg, dir: t.TempDir(),
		runs: make(map[string]*run), continued: make(map[string]time.Time),
	}
	s.effects = httptest.NewServer(http.HandlerFunc(s.hear))
	s.cfg.Effects = s.effects.URL
	t.Cleanup(s.effects.Close)
	return s
}

// hear handles a report from a worker.
func (s *workshop) hear(w http.ResponseWriter, r *http.Request) {
	var n note
	if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
		return // it was killed in the middle of the sentence
	}
	run := s.runOf(n)
	if n.Believed {
		s.mu.Lock()
		limit := n.Deadline
		if at := s.continued[n.Worker]; at.After(limit) {
			limit = at // before that it could not have known
		}
		s.mu.Unlock()
		late := n.At.Sub(limit)
		if n.At.Before(n.Deadline) {
			late = 0
		} else if late <= 0 { // it has not been told yet that it was continued
			late = time.Nanosecond
		}
		s.oracle.believed(run, n.At, late)
	}
	switch n.What {
	case "begin":
		if s.begun != nil {
			s.begun(run)
		}
	case "write":
		s.oracle.mu.Lock()
		s.oracle.accepts(run)
		s.oracle.mu.Unlock()
	case "charge":
		s.oracle.charge(run)
	case "end":
		s.oracle.end(run, n.Outcome)
	case "done":
		s.oracle.done(run)
	case "lost", "abandoned":
		s.oracle.lose(run, fmt.Sprint(n.Worker, " ", n.Run), n.What, nil)
	default:
		s.oracle.tell(run, n.What)
	}
}

// runOf finds the handler that a note is about, or makes it.
func (s *workshop) runOf(n note) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprint(n.Worker, " ", n.Run)
	r := s.runs[name]
	if r == nil {
		r = &run{worker: n.Worker, id: n.ID, key: n.Key, attempt: n.Attempt, fence: n.Fence, takeover: n.Takeover}
		s.runs[name] = r
		s.oracle.begin(r)
	}
	return r
}

// A hand is a worker in another process.
type hand struct {
	*workshop
	name string
	cmd  *exec.Cmd
	log  string
}

// hire starts a worker.
func (s *workshop) hire(name string) *hand {
	cfg := s.cfg
	cfg.Name = name
	settings, err := json.Marshal(cfg)
	s.check(err)
	h := &hand{workshop: s, name: name, log: filepath.Join(s.dir, name+".log")}
	log, err := os.Create(h.log)
	s.check(err)
	defer log.Close() // the child has its own
	h.cmd = exec.Command(os.Args[0])
	h.cmd.Env = append(os.Environ(), childSettings+"="+string(settings))
	h.cmd.Stderr = log
	_, err = h.cmd.StdinPipe() // ends with this process
	s.check(err)
	s.check(h.cmd.Start())
	s.Cleanup(func() {
		if h.cmd.ProcessState == nil {
			_ = h.cmd.Process.Kill()
			_ = h.cmd.Wait()
		}
	})
	return h
}

// kill ends it as a crash would.
func (h *hand) kill() {
	h.check(h.cmd.Process.Kill())
	_ = h.cmd.Wait() // which says that it was killed
	if status := h.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		h.Errorf("%s ended by itself: %v\n%s", h.name, h.cmd.ProcessState, h.said())
	}
	h.oracle.kill(h.name)
}

// pause stops it for some time, as a machine does that is moved to another host.
func (h *hand) pause(ctx context.Context, d time.Duration) {
	h.check(h.cmd.Process.Signal(syscall.SIGSTOP))
	wait(ctx, d)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.continued[h.name] = time.Now()
	h.check(h.cmd.Process.Signal(syscall.SIGCONT))
}

// dismiss ends it in the orderly way.
func (h *hand) dismiss() {
	h.check(h.cmd.Process.Signal(syscall.SIGTERM))
	if err := h.cmd.Wait(); err != nil {
		h.Errorf("%s ended with %v\n%s", h.name, err, h.said())
	}
}

// check fails the test, which continues: workers are hired and killed by more than one goroutine.
func (s *workshop) check(err error) {
	if err != nil {
		s.Error(err)
	}
}

func (h *hand) said() string {
	text, _ := os.ReadFile(h.log)
	return string(text[max(0, len(text)-4000):])
}

// torment kills the workers of a place, one after the other, and stops them, until ctx ends. It
// returns who is there then.
func (s *workshop) torment(ctx context.Context, rng *rand.Rand, place string) (h *hand, kills, pauses int) {
	up := func(d time.Duration) time.Duration { return time.Duration(rng.Float64() * float64(d)) }
	for n := 0; ; n++ {
		h = s.hire(fmt.Sprint(place, "-", n))
		for {
			wait(ctx, lease/10+up(lease/2))
			if ctx.Err() != nil {
				return h, kills, pauses
			}
			if rng.IntN(3) > 0 {
				break
			}
			h.pause(ctx, up(2*lease))
			pauses++
		}
		h.kill()
		kills++
	}
}
