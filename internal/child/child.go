// Package child runs a tenaq server as a child process, for tests and demos that kill it.
//
// A Server keeps its address and its data directory through any number of deaths. It is ready when
// it says so itself, which it does after it has answered a request. A server that ends unexpectedly
// is an error that carries the end of its log, because it is a finding, not an accident of the
// test. It leaves to its callers what clients see meanwhile.
//
// A Cluster is several servers that form one cluster. It finds the leader, and reports when all
// have the same rows.
package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Times that a server is given, on a machine that is busy with other things.
const (
	startMax = 30 * time.Second
	stopMax  = 20 * time.Second
)

// A Config says what to run.
type Config struct {
	Program string   // the tenaq binary
	Dir     string   // an existing directory for the data and the log
	Args    []string // further flags of serve
	Env     []string // further environment
}

// A Server is a server process, or what a dead one left behind. Its methods are not for concurrent
// use, except URL, DataDir and PID.
type Server struct {
	cfg  Config
	addr string

	pid     atomic.Int64  // of process
	process *os.Process   // nil when there is none
	ended   chan struct{} // closed when process has ended
	state   *os.ProcessState
}

// New chooses an address for a server that is not started yet.
func New(cfg Config) (*Server, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, addr: addr}, nil
}

// FreeAddr finds a loopback address that is not in use. The port lies below those that systems give
// to outgoing connections: one of these could take it while the server is dead, and the retries of
// its clients are many.
func FreeAddr() (string, error) {
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		if _, taken := given.LoadOrStore(addr, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", errors.New("no free port between 20000 and 29999 on 127.0.0.1")
}

// given has the addresses that FreeAddr has returned: their servers may be dead at the moment.
var given sync.Map

// URL is the endpoint of the SQS API.
func (s *Server) URL() string { return "http://" + s.addr }

// DataDir is the data directory.
func (s *Server) DataDir() string { return filepath.Join(s.cfg.Dir, "data") }

// PID is the id of the process, 0 when there is none.
func (s *Server) PID() int { return int(s.pid.Load()) }

// forget is for a process that has ended.
func (s *Server) forget() {
	s.process = nil
	s.pid.Store(0)
}

func (s *Server) logFile() string { return filepath.Join(s.cfg.Dir, "server.log") }

// Start starts the server and waits until it is ready, which takes the time returned.
func (s *Server) Start(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	ready, err := s.launch()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startMax,
		fmt.Errorf("not ready within %v", startMax))
	defer cancel()
	select {
	case <-ready.written:
		return time.Since(began), nil
	case <-s.ended:
		return 0, s.endedByItself()
	case <-ctx.Done():
		s.Close()
		return 0, fmt.Errorf("start the server: %w%s", context.Cause(ctx), s.logTail())
	}
}

// StartAndKill starts the server and kills it after a while, whether or not it is ready by then.
func (s *Server) StartAndKill(after time.Duration) error {
	if _, err := s.launch(); err != nil {
		return err
	}
	select {
	case <-s.ended:
	case <-time.After(after):
	}
	return s.Kill()
}

func (s *Server) launch() (*firstLine, error) {
	if s.process != nil {
		return nil, errors.New("the server is running already")
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	ready := &firstLine{written: make(chan struct{})}
	cmd := exec.Command(s.cfg.Program, append([]string{
		"serve", "--data-dir", s.DataDir(), "--listen", s.addr, "--admin-listen", "off",
		"--disk-reserve", "0",
	}, s.cfg.Args...)...)
	// The settings of the calling environment are not meant for this server.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "TENAQ_")
	})
	cmd.Env = append(cmd.Env, s.cfg.Env...)
	cmd.Stdout, cmd.Stderr = ready, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	ended := make(chan struct{})
	s.process, s.ended = cmd.Process, ended
	s.pid.Store(int64(cmd.Process.Pid))
	go func() {
		_ = cmd.Wait() // the state says it all
		s.state = cmd.ProcessState
		close(ended)
	}()
	return ready, nil
}

// Kill ends the server as a crash would: kill -9.
func (s *Server) Kill() error {
	if s.process == nil {
		return errors.New("the server is not running")
	}
	_ = s.process.Kill() // it fails when the process has ended, which the state shows
	<-s.ended
	if status, ok := s.state.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		return s.endedByItself()
	}
	s.forget()
	return nil
}

// Pause stops the process where it is, as a machine does that is out of memory or moved to another
// host.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume lets it continue.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

// Stop ends the server in the orderly way and returns an error unless it exits with status 0.
func (s *Server) Stop() error {
	if err := s.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.ended:
	case <-time.After(stopMax):
		s.Close()
		return fmt.Errorf("the server did not stop within %v%s", stopMax, s.logTail())
	}
	if !s.state.Success() {
		return s.endedByItself()
	}
	s.forget()
	return nil
}

// StopAndKill tells the server to stop and kills it after a while, unless it has stopped by then;
// it says which it was.
func (s *Server) StopAndKill(after time.Duration) (killed bool, err error) {
	if err := s.signal(syscall.SIGTERM); err != nil {
		return false, err
	}
	select {
	case <-s.ended:
	case <-time.After(after):
		_ = s.process.Kill()
		<-s.ended
	}
	status, ok := s.state.Sys().(syscall.WaitStatus)
	killed = ok && status.Signal() == syscall.SIGKILL
	if !killed && !s.state.Success() {
		return false, s.endedByItself()
	}
	s.forget()
	return killed, nil
}

// Close makes sure that there is no process left.
func (s *Server) Close() {
	if s.process != nil {
		_ = s.process.Kill()
		<-s.ended
		s.forget()
	}
}

func (s *Server) signal(sig os.Signal) error {
	if s.process == nil {
		return errors.New("the server is not running")
	}
	if err := s.process.Signal(sig); err != nil {
		select {
		case <-s.ended:
			return s.endedByItself()
		case <-time.After(time.Second):
			return fmt.Errorf("send %v to the server: %w", sig, err)
		}
	}
	return nil
}

// endedByItself says that the server ended without being asked to.
func (s *Server) endedByItself() error {
	s.forget()
	return fmt.Errorf("the server ended: %v%s", s.state, s.logTail())
}

// logTail returns the last lines of the log, to be appended to an error.
func (s *Server) logTail() string {
	text, err := os.ReadFile(s.logFile())
	if text = bytes.TrimSpace(text); err != nil || len(text) == 0 { // no log, nothing to append
		return ""
	}
	const most = 2000
	return "; its log ends: " + string(text[max(0, len(text)-most):])
}

// A firstLine notices when the first line has been written to it.
type firstLine struct {
	once    sync.Once
	written chan struct{}
}

var _ io.Writer = (*firstLine)(nil)

func (f *firstLine) Write(p []byte) (int, error) {
	if bytes.IndexByte(p, '\n') >= 0 {
		f.once.Do(func() { close(f.written) })
	}
	return len(p), nil
}
