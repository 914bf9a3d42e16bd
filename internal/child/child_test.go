package child

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain makes this program act as a server when its arguments say serve.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "serve" {
		os.Exit(m.Run())
	}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "TENAQ_") {
			fmt.Fprintln(os.Stderr, "unexpected:", v)
			os.Exit(3)
		}
	}
	switch {
	case slices.Contains(os.Args, "--cluster-listen"):
		beNode()
	case slices.Contains(os.Args, "--fail"):
		fmt.Fprintln(os.Stderr, "the disk is on fire")
		os.Exit(7)
	case slices.Contains(os.Args, "--end"):
		fmt.Println("ready")
		os.Exit(7)
	}
	told := make(chan os.Signal, 1)
	switch {
	case slices.Contains(os.Args, "--deaf"):
		signal.Ignore(syscall.SIGTERM)
	case slices.Contains(os.Args, "--polite"):
		signal.Notify(told, syscall.SIGTERM)
	}
	fmt.Println("ready")
	select {
	case <-told:
		os.Exit(0)
	case <-time.After(time.Minute):
	}
}

func newServer(t *testing.T, args ...string) *Server {
	t.Helper()
	s, err := New(Config{Program: os.Args[0], Dir: t.TempDir(), Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func start(t *testing.T, s *Server) {
	t.Helper()
	if _, err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestKillAndStartAgain(t *testing.T) {
	t.Setenv("TENAQ_LISTEN", "of whoever runs this")
	s := newServer(t)
	for range 3 {
		start(t, s)
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.StartAndKill(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err == nil {
		t.Error("killing a dead server: got no error, want one")
	}
}

// The id is that of the process that is running now.
func TestPID(t *testing.T) {
	s := newServer(t)
	if got := s.PID(); got != 0 {
		t.Errorf("before the start: got %d, want 0", got)
	}
	start(t, s)
	first := s.PID()
	if err := syscall.Kill(first, syscall.SIGKILL); first <= 0 || err != nil {
		t.Fatalf("killing %d: %v", first, err)
	}
	if err := s.Kill(); err != nil {
		t.Errorf("got %v, want that the server was killed", err)
	}
	if got := s.PID(); got != 0 {
		t.Errorf("after its end: got %d, want 0", got)
	}
	start(t, s)
	if got := s.PID(); got <= 0 || got == first {
		t.Errorf("after another start: got %d, want another than %d", got, first)
	}
}

func TestStopAndKill(t *testing.T) {
	s := newServer(t, "--deaf")
	start(t, s)
	if killed, err := s.StopAndKill(time.Millisecond); err != nil || !killed {
		t.Errorf("one that does not stop: killed %v, %v, want true", killed, err)
	}
	s = newServer(t, "--polite")
	start(t, s)
	if killed, err := s.StopAndKill(time.Minute); err != nil || killed {
		t.Errorf("one that stops: killed %v, %v, want false", killed, err)
	}
	s = newServer(t)
	start(t, s)
	if _, err := s.StopAndKill(time.Minute); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("one that ends by the signal: got %v, want how", err)
	}
}

func TestPause(t *testing.T) {
	s := newServer(t)
	start(t, s)
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Errorf("killing a paused server: got %v, want no error", err)
	}
}

func TestEndIsReported(t *testing.T) {
	s := newServer(t, "--fail")
	_, err := s.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 7") || !strings.Contains(err.Error(), "on fire") {
		t.Errorf("got %v, want the exit status and the log", err)
	}
	s = newServer(t, "--end")
	start(t, s)
	<-s.ended
	if err := s.Kill(); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("killing what has ended: got %v, want the exit status", err)
	}
	start(t, s) // it can be started again all the same
}

func TestStopWantsStatusZero(t *testing.T) {
	s := newServer(t) // which dies of SIGTERM
	start(t, s)
	if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("got %v, want the signal", err)
	}
}
