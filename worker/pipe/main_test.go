//go:build unix

package pipe_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tenaq/worker"
	"tenaq/worker/pipe"
)

// role says which program the test binary acts as, instead of running tests.
const role = "PIPE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "escape":
		escape()
	case "worker":
		runForever()
	}
	os.Exit(runTests(m))
}

// runTests runs the tests, and checks that tasks have left nothing behind: no directory, no child,
// no goroutine.
func runTests(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "pipe-test-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv("TMPDIR", dir)
	// A variable of the worker itself must not pass for one about a message.
	os.Setenv("TENAQ_GROUP", "of the worker")
	if code = m.Run(); code != 0 {
		return code
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "tenaq-task-*")); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "directories of tasks are left:", left)
		code = 1
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		fmt.Fprintln(os.Stderr, "a child is left:", pid, err)
		code = 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// escape leaves its process group and lives on with its streams open, until it is killed.
func escape() {
	_, _ = syscall.Setsid()
	fmt.Println(os.Getpid())
	time.Sleep(2 * time.Minute)
	os.Exit(0)
}

// runForever is a worker with a task that does not end.
func runForever() {
	err := shell(`exec 3>"$TALK"; echo running >&3; exec sleep 1000`).Handle(context.Background(), message(""))
	fmt.Println(err)
}

// message is a message as a worker without a ledger would hand it on.
func message(body string) *worker.Message {
	return &worker.Message{
		ID: "m-1", Body: body, Key: "order-17", Lineage: "m-0", Receives: 3, Redrives: 1, Generation: 2,
		Group: "g", QueueURL: "http://127.0.0.1:9324/000000000000/orders",
		Sent: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC),
	}
}

// shell is a task that is a shell script.
func shell(script string) *pipe.Command {
	return &pipe.Command{Args: []string{"/bin/sh", "-c", script}}
}

// A talk is a named pipe through which tasks say how far they are. It ends when the last of them
// has let it go.
type talk struct {
	path  string
	lines chan string
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	k := &talk{path: filepath.Join(t.TempDir(), "talk"), lines: make(chan string, 100)}
	must(t, syscall.Mkfifo(k.path, 0o600))
	go func() {
		defer close(k.lines)
		f, err := os.Open(k.path) // waits for the first who speaks
		if err != nil {
			return
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			k.lines <- s.Text()
		}
	}()
	return k
}

// hear waits for a line.
func (k *talk) hear(t *testing.T, want string) {
	t.Helper()
	if got, ok := <-k.lines; got != want {
		t.Fatalf("heard %q (%t), want %q", got, ok, want)
	}
}

// over waits until no process is left that could write.
func (k *talk) over(t *testing.T) {
	t.Helper()
	for line := range k.lines {
		t.Errorf("heard %q, want the end", line)
	}
}

// start runs a handler in the background.
func start(ctx context.Context, h worker.Handler, m *worker.Message) (result chan error) {
	result = make(chan error, 1)
	go func() { result <- h.Handle(ctx, m) }()
	return result
}

// sameKind wants an error of the kind of another one, such as worker.Later, and with some text in
// it.
func sameKind(t *testing.T, got, kind error, text string) {
	t.Helper()
	if fmt.Sprintf("%T", got) != fmt.Sprintf("%T", kind) || got != nil && !strings.Contains(got.Error(), text) {
		t.Errorf("got a %T: %v\nwant a %T with %q in it", got, got, kind, text)
	}
}

// exitOf is what an error says about the end of a task.
func exitOf(t *testing.T, err error) *pipe.ExitError {
	t.Helper()
	var e *pipe.ExitError
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an ExitError", err)
	}
	return e
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// killLater kills a process that the test has started, by what it said is its id.
func killLater(t *testing.T, id string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(id))
	must(t, err)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
}
