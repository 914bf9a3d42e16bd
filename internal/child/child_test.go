package child

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain makes this program pass for a server when it is told to serve.
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
	case slices.Contains(os.Args, "--fail"):
		fmt.Fprintln(os.Stderr, "the disk is on fire")
		os.Exit(7)
	case slices.Contains(os.Args, "--end"):
		fmt.Println("ready")
		os.Exit(7)
	}
	fmt.Println("ready")
	time.Sleep(time.Minute)
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
