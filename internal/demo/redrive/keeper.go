package redrive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A keeper keeps a redriver process running, hears from it what it does, and kills it once.
type keeper struct {
	d      *demo
	spare  map[string]string // orders at which it is not killed
	server *http.Server
	url    string
	failed context.CancelCauseFunc // of the run, when the process ends by itself

	mu      sync.Mutex
	closed  bool // no process is started any more
	process *process
	killIn  int    // sends; zero is never
	victim  string // the order that was sent when it was killed
	seen    seen
}

// A process is one that runs.
type process struct {
	*os.Process
	stdin   io.Closer // ends when this process does, so that none is left behind
	ended   chan struct{}
	leaving bool
	err     error
}

// A seen is what was heard of the redrivers.
type seen struct {
	first    int      // messages redriven in the first step
	states   []string // of the breaker, one after the other
	trips    int      // how often it opened since it was closed
	most     int      // messages on their way
	parked   int
	redriven int
	killed   int
	started  int
}

// passed notes a state of the breaker.
func (s *seen) passed(state string) {
	if s.states[len(s.states)-1] != state {
		s.states = append(s.states, state)
	}
}

func (d *demo) newKeeper(failed context.CancelCauseFunc, spare map[string]string) (*keeper, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &keeper{d: d, spare: spare, url: "http://" + l.Addr().String(), failed: failed}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sent", k.sent)
	mux.HandleFunc("POST /step", k.step)
	k.server = &http.Server{Handler: mux}
	go func() { _ = k.server.Serve(l) }()
	return k, nil
}

// start starts a process.
func (k *keeper) start() error {
	told, err := json.Marshal(Task{Queues: k.d.Ours, Dir: k.d.Dir, URL: k.url, Look: k.d.Scale.Look, Break: k.d.Break})
	if err != nil {
		return err
	}
	cmd, err := k.d.Redriver()
	if err != nil {
		return err
	}
	log, err := openLog(k.d.Dir, redriverLog)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's interrupt is not for it
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a redriver: %w", err)
	}
	k.seen.started++
	k.process = &process{Process: cmd.Process, stdin: stdin, ended: make(chan struct{})}
	go k.watch(k.process, cmd)
	_, err = stdin.Write(append(told, '\n'))
	return err
}

// watch waits for the end of a process, which is a finding if nobody asked for it.
func (k *keeper) watch(p *process, cmd *exec.Cmd) {
	err := cmd.Wait()
	k.mu.Lock()
	p.err = err
	expected := p.leaving
	k.mu.Unlock()
	close(p.ended)
	if !expected {
		k.failed(fmt.Errorf("the redriver ended by itself: %v%s", cmd.ProcessState, logTail(k.d.Dir, redriverLog)))
	}
}

// killAfter lets it die at the n-th send from now on.
func (k *keeper) killAfter(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.killIn = n
}

// sent hears of an order that is on its way, and perhaps never answers.
func (k *keeper) sent(out http.ResponseWriter, in *http.Request) {
	var b booking
	_ = json.NewDecoder(in.Body).Decode(&b)
	k.mu.Lock()
	if k.killIn > 1 {
		k.killIn--
	}
	_, spared := k.spare[b.Order]
	p := k.process
	dies := k.killIn == 1 && !spared && !p.leaving
	if dies {
		k.killIn, k.victim = 0, b.Order
		k.seen.killed++
		p.leaving = true
	}
	k.mu.Unlock()
	if !dies {
		return
	}
	_ = p.Kill()
	<-p.ended
	_ = p.stdin.Close()
	if err := k.start(); err != nil {
		k.failed(err)
	}
}

// step hears of a step.
func (k *keeper) step(_ http.ResponseWriter, in *http.Request) {
	var s step
	if json.NewDecoder(in.Body).Decode(&s) != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.seen.states) == 0 {
		k.seen.first, k.seen.states = s.Redriven, []string{"CLOSED"} // as it begins
	}
	if s.Trips > k.seen.trips && s.Breaker != "OPEN" {
		k.seen.passed("OPEN") // and half open by the end of the same step
	}
	k.seen.passed(s.Breaker)
	k.seen.trips = s.Trips
	k.seen.most = max(k.seen.most, s.OnTheWay)
	k.seen.parked, k.seen.redriven = s.Parked, s.Redriven
}

// look is what was heard so far.
func (k *keeper) look() seen {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen
}

// leaveMax is how long a process has to end.
const leaveMax = 20 * time.Second

// close ends the process.
func (k *keeper) close() error {
	defer k.server.Close()
	k.mu.Lock()
	p := k.process
	k.closed = true
	if p != nil {
		p.leaving = true
	}
	k.mu.Unlock()
	if p == nil {
		return nil
	}
	_ = p.stdin.Close()
	select {
	case <-p.ended:
		var exit *exec.ExitError
		if errors.As(p.err, &exit) {
			return fmt.Errorf("the redriver ended with an error: %w%s", p.err, logTail(k.d.Dir, redriverLog))
		}
		return nil
	case <-time.After(leaveMax):
		_ = p.Kill()
		<-p.ended
		return fmt.Errorf("the redriver did not end within %v", leaveMax)
	}
}

const redriverLog = "redriver.log"

func openLog(dir, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// logTail returns the last lines of a log, to be appended to an error.
func logTail(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if text = bytes.TrimSpace(text); err != nil || len(text) == 0 {
		return ""
	}
	return "; its log ends: " + string(text[max(0, len(text)-2000):])
}
