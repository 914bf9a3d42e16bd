// Package pgtest runs a real PostgreSQL for tests, from the binaries of the machine.
//
// URL gives each test a database of its own on a server that the whole test binary shares. New
// gives it a server of its own, which can be killed and started again. Both leave nothing behind,
// however the test binary ends: each server is the child of a shell that holds a pipe from the test
// binary, and stops the server and removes its files when the pipe closes.
//
// If PostgreSQL is missing, tests are skipped with a message; with TENAQ_REQUIRE_ALL=1 they fail.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tenaq/internal/child/postgres"
	"tenaq/internal/testing/proof"

	"github.com/jackc/pgx/v5"
)

// startMax is how long a server may take to start, on a machine that is busy with other things.
const startMax = time.Minute

// A Server is one PostgreSQL, or what is left of it while it is dead. It listens on a socket in its
// own directory and nowhere else.
type Server struct {
	bin, dir string
	options  []string
	as       *syscall.Credential // nil: who runs the test

	hold  io.Closer     // the pipe that the shell above the server waits on
	ended chan struct{} // closed when that shell has ended
}

var shared struct {
	sync.Mutex
	server *Server
	n      atomic.Int64
}

// URL returns the address of an empty database for one test, on a server without fsync.
func URL(t testing.TB) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		s, err := start(find(t), "fsync=off", "full_page_writes=off", "max_connections=300")
		if err != nil {
			t.Fatal(err)
		}
		shared.server = s // until the test binary ends
	}
	name := fmt.Sprintf("test%d", shared.n.Add(1))
	if err := shared.server.exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return shared.server.url(name)
}

// New starts a server for one test, with its data on disk as PostgreSQL comes but for the options,
// which are like work_mem=8MB.
func New(t testing.TB, options ...string) *Server {
	t.Helper()
	s, err := start(find(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop() })
	return s
}

// URL is the address of the server's only database.
func (s *Server) URL() string { return s.url("postgres") }

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres://postgres@/%s?host=%s&port=5432&sslmode=disable", database, s.dir)
}

// Data is the server's data directory.
func (s *Server) Data() string { return filepath.Join(s.dir, "data") }

// Kill ends the server's first process with SIGKILL; the others notice and end too, without tidying
// up.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Data(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.ended
}

// Restart starts a server that was killed.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// find returns the directory of PostgreSQL's programs.
func find(t testing.TB) string {
	t.Helper()
	dir := postgres.Programs()
	if dir == "" {
		proof.Missing(t, "no PostgreSQL here: apt-get install postgresql")
	}
	return dir
}

// start makes a cluster of databases and runs a server on it.
func start(bin string, options ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, options: options}
	if err := s.prepare(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := s.run(); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return s, nil
}

func (s *Server) prepare() (err error) {
	if s.as, err = postgres.User(s.dir); err != nil {
		return err
	}
	initdb := s.command(filepath.Join(s.bin, "initdb"), "--pgdata=data", "--username=postgres",
		"--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	// not for a terminal's ^C
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	return cmd
}

// keeper runs a server until it ends, or until standard input does; in the second case it stops the
// server and removes the directory that it is in.
const keeper = `
exec 3<&0
"$@" </dev/null 3<&- >>log 2>&1 &
server=$!
(cat <&3; touch over; kill -QUIT $server) >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait $server
if [ -e over ]; then rm -rf "$PWD"; else kill $watch; fi
`

// run starts the server and waits until it answers. After a kill the first attempts fail, while
// processes of the dead server are still there.
func (s *Server) run() error {
	args := []string{"-c", keeper, "keeper", filepath.Join(s.bin, "postgres"), "-D", "data", "-k",
		s.dir, "-c", "listen_addresses="}
	for _, o := range s.options {
		args = append(args, "-c", o)
	}
	var last error
	for begin := time.Now(); time.Since(begin) < startMax; {
		cmd := s.command("/bin/sh", args...)
		hold, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		s.hold, s.ended = hold, make(chan struct{})
		go func(ended chan struct{}) {
			cmd.Wait()
			close(ended)
		}(s.ended)
		if err = s.answers(begin.Add(startMax)); err == nil {
			return nil
		}
		last = err
	}
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	s.stop()
	return errors.Join(last, errors.New(string(log)))
}

// answers waits for the server to answer, or to end.
func (s *Server) answers(deadline time.Time) error {
	for {
		err := s.exec("SELECT 1")
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-s.ended:
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends the server and removes its files.
func (s *Server) stop() {
	s.hold.Close()
	<-s.ended
	os.RemoveAll(s.dir)
}

func (s *Server) exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}
