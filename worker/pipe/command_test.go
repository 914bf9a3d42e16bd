//go:build unix

package pipe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/worker"
	"tenaq/worker/pipe"
)

var (
	later = worker.Later(0, "")

	unavailable = worker.Unavailable(errors.New("why"))
	poison      = worker.Poison(errors.New(""))
	failed      = error(&pipe.ExitError{})
)

func TestExit(t *testing.T) {
	for _, test := range []struct {
		script string
		kind   error
		text   string
	}{
		{"exit 0", nil, ""},
		{"echo fine; exit 0", nil, ""},
		{"echo oh; echo no >&2; exit 1", failed, "exit code 1: oh\nno"},
		{"exit 3", failed, "exit code 3, no output"},
		{"exit 255", failed, "exit code 255"},
		{"echo not yet; exit 75", later, "to be tried again in 1m0s: exit code 75: not yet"},
		{"echo no JSON; exit 65", poison, "exit code 65: no JSON"},
		{"kill -KILL $$", failed, "killed by SIGKILL, no output"},
		{"echo so far; kill -SEGV $$", failed, "killed by SIGSEGV: so far"},
		{"kill -TERM $$", failed, "killed by SIGTERM"},
		{"exit 143", failed, "exit code 143"},
	} {
		sameKind(t, shell(test.script).Handle(t.Context(), message("body")), test.kind, test.text)
	}
	e := exitOf(t, shell("echo a; exit 65").Handle(t.Context(), message("")))
	if e.Code != 65 || e.Signal != "" || e.Output != "a\n" || e.Cause != nil {
		t.Errorf("got %+v", e)
	}
	e = exitOf(t, shell("kill -KILL $$").Handle(t.Context(), message("")))
	if e.Code != -1 || e.Signal != "SIGKILL" {
		t.Errorf("got %+v", e)
	}
	c := shell("exit 75")
	c.Pause = 5 * time.Minute
	sameKind(t, c.Handle(t.Context(), message("")), later, "again in 5m0s")
}

// A command that cannot be started has a reason and counts as no attempt: it is not the fault of
// the message. Most of it is found before anything is received.
func TestNotStarted(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	must(t, os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600))
	unknown := filepath.Join(dir, "unknown")
	must(t, os.WriteFile(unknown, []byte("no program"), 0o700))
	for _, test := range []struct {
		command *pipe.Command
		want    error
		text    string
		check   string // of what Check says; empty when only a start can tell
	}{
		{&pipe.Command{}, nil, "Args is empty", "Args is empty"},
		{&pipe.Command{Args: []string{"no-such-program-here"}}, exec.ErrNotFound, "start the task: ", "cannot run no-such-program-here: "},
		{&pipe.Command{Args: []string{filepath.Join(dir, "nowhere")}}, fs.ErrNotExist, "start the task: ", "cannot run "},
		{&pipe.Command{Args: []string{plain}}, fs.ErrPermission, "start the task: ", "cannot run "},
		{&pipe.Command{Args: []string{"./plain"}, Dir: dir}, fs.ErrPermission, "start the task: ", "cannot run ./plain: "},
		{&pipe.Command{Args: []string{unknown}}, nil, "exec format error", ""},
		{&pipe.Command{Args: []string{"/bin/sh"}, Dir: filepath.Join(dir, "nowhere")}, fs.ErrNotExist, "start the task: ", ""},
	} {
		err := test.command.Handle(t.Context(), message("body"))
		sameKind(t, err, unavailable, test.text)
		if test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%v: got %v, want %v", test.command.Args, err, test.want)
		}
		if err := test.command.Check(); (err == nil) != (test.check == "") || err != nil && !strings.Contains(err.Error(), test.check) {
			t.Errorf("check %v: got %v, want %q", test.command.Args, err, test.check)
		}
	}
	if err := (&pipe.Command{Args: []string{"./unknown"}, Dir: dir}).Check(); err != nil {
		t.Errorf("a program of its directory: %v", err)
	}
}

// Without a directory for its files no task is started, and no attempt is used up.
func TestNoTemporaryDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for dir, text := range map[string]string{
		filepath.Join(t.TempDir(), "gone"): "gone: there is no such directory: set TMPDIR to a directory that this user can write to",
		file:                               "file: not a directory: set TMPDIR to a directory that this user can write to",
	} {
		t.Setenv("TMPDIR", dir)
		if err := shell("exit 0").Check(); err == nil || !strings.HasSuffix(err.Error(), text) {
			t.Errorf("check: got %v, want %q", err, text)
		}
		sameKind(t, shell("exit 0").Handle(t.Context(), message("body")), unavailable, "start the task: ")
	}
}

// A shortage on this machine is not the fault of the message, so it is not an attempt.
func TestShortage(t *testing.T) {
	busy := filepath.Join(t.TempDir(), "busy")
	must(t, os.WriteFile(busy, []byte("#!/bin/sh\n"), 0o700))
	f, err := os.OpenFile(busy, os.O_WRONLY, 0) // a program that is being written cannot be run
	must(t, err)
	defer f.Close()
	err = (&pipe.Command{Args: []string{busy}}).Handle(t.Context(), message("body"))
	sameKind(t, err, unavailable, "text file busy")
}

// No environment can hold a NUL, however often it is tried.
func TestKeyWithNUL(t *testing.T) {
	m := message("")
	m.Key = "a\x00b"
	sameKind(t, shell("exit 0").Handle(t.Context(), m), poison, "its key has a zero byte")
}

func TestStdin(t *testing.T) {
	body := strings.Repeat("x", 1<<20)
	for _, script := range []string{
		"exit 0",
		"exec <&-; exit 0",
		"head -c 10 >/dev/null",
		`test "$(wc -c)" -eq 1048576`,
		`test "$(tr -d x | wc -c)" -eq 0`,
	} {
		if err := shell(script).Handle(t.Context(), message(body)); err != nil {
			t.Errorf("%s: %v", script, err)
		}
	}
	if err := shell(`test "$(cat; echo .)" = "$(printf 'ä\n\n.')"`).Handle(t.Context(), message("ä\n\n")); err != nil {
		t.Errorf("the body did not arrive byte for byte: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	c := shell(`env | grep -E '^(TENAQ_|OWN|HOME)' | grep -v _FILE= | sort; exit 1`)
	c.Env = []string{"OWN=1", "TENAQ_KEY=of the worker", "PATH=" + os.Getenv("PATH")}
	want := `OWN=1
TENAQ_ATTEMPT=0
TENAQ_EFFECT_KEY=order-17#2
TENAQ_FENCE=0
TENAQ_GENERATION=2
TENAQ_GROUP=g
TENAQ_KEY=order-17
TENAQ_LINEAGE=m-0
TENAQ_MESSAGE_ID=m-1
TENAQ_QUEUE_URL=http://127.0.0.1:9324/000000000000/orders
TENAQ_RECEIVES=3
TENAQ_REDRIVES=1
TENAQ_SENT=2026-01-02T03:04:05.006Z
`
	if got := exitOf(t, c.Handle(t.Context(), message(""))).Output; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	m := message("")
	m.Group = ""
	if err := shell(`test -z "$TENAQ_GROUP" && test -n "$PATH"`).Handle(t.Context(), m); err != nil {
		t.Errorf("the group of the worker's own environment is taken for that of the message: %v", err)
	}
	dir := t.TempDir()
	c = shell(`test "$(pwd -P)" = "$1" && test -r "$TENAQ_METADATA_FILE"`)
	c.Args = append(c.Args, "sh", dir)
	c.Dir = dir
	if err := c.Handle(t.Context(), message("")); err != nil {
		t.Errorf("Dir: %v", err)
	}
}

func TestMetadataFile(t *testing.T) {
	m := message("body")
	m.Dedup = "d"
	m.Attributes = map[string]types.MessageAttributeValue{
		"trace": {DataType: aws.String("String"), StringValue: aws.String("<a&b>")},
		"count": {DataType: aws.String("Number.int"), StringValue: aws.String("7")},
		"blob":  {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 254, 255}},
	}
	e := exitOf(t, shell(`cat "$TENAQ_METADATA_FILE"; ls -ld "$(dirname "$TENAQ_METADATA_FILE")" | cut -c1-10; exit 1`).Handle(t.Context(), m))
	text, mode, _ := strings.Cut(e.Output, "\n")
	if mode != "drwx------\n" {
		t.Errorf("the directory has mode %q, want it private", mode)
	}
	if !strings.Contains(text, "<a&b>") {
		t.Errorf("got %s, want no escapes for web pages", text)
	}
	var got, want map[string]any
	must(t, json.Unmarshal([]byte(text), &got))
	must(t, json.Unmarshal([]byte(`{
		"messageId": "m-1", "key": "order-17", "effectKey": "order-17#2", "generation": 2, "fence": 0, "attempt": 0,
		"receives": 3, "redrives": 1, "lineage": "m-0", "group": "g", "deduplicationId": "d",
		"queueUrl": "http://127.0.0.1:9324/000000000000/orders", "sent": "2026-01-02T03:04:05.006Z",
		"attributes": {
			"trace": {"dataType": "String", "stringValue": "<a&b>"},
			"count": {"dataType": "Number.int", "stringValue": "7"},
			"blob": {"dataType": "Binary", "binaryValue": "AAH+/w=="}
		}
	}`), &want))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// If its result cannot be read, the work has not succeeded.
func TestResultRefused(t *testing.T) {
	for script, text := range map[string]string{
		`head -c 131073 /dev/zero > "$TENAQ_RESULT_FILE"`: "more than 131072 bytes",
		`mkdir "$TENAQ_RESULT_FILE"`:                      "not a regular file",
		`mkfifo "$TENAQ_RESULT_FILE"`:                     "not a regular file",
		`ln -s /dev/zero "$TENAQ_RESULT_FILE"`:            "not a regular file",
	} {
		if err := shell(script).Handle(t.Context(), message("")); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v, want an error with %q", script, err, text)
		}
	}
	for _, script := range []string{
		`head -c 131072 /dev/zero > "$TENAQ_RESULT_FILE"`,
		`: > "$TENAQ_RESULT_FILE"`,
		`rm -r "$(dirname "$TENAQ_RESULT_FILE")"`,
	} {
		if err := shell(script).Handle(t.Context(), message("")); err != nil {
			t.Errorf("%s: %v", script, err)
		}
	}
}

// However much a task prints, a bounded part is kept, and the end of that is the reason.
func TestHugeOutput(t *testing.T) {
	c := shell(`echo first; head -c 20000000 /dev/zero | tr '\0' x; printf '\nlast'; exit 1`)
	c.OutputMax = 1000
	err := c.Handle(t.Context(), message(""))
	out := exitOf(t, err).Output
	const left = "\n… 19999011 bytes left out …\n"
	if !strings.HasPrefix(out, "first\nx") || !strings.HasSuffix(out, "x\nlast") || !strings.Contains(out, left) || len(out) != 1000+len(left) {
		t.Errorf("got %d bytes: %s", len(out), out)
	}
	if reason := err.Error(); len(reason) > 1024 || !strings.HasPrefix(reason, "exit code 1: …x") || !strings.HasSuffix(reason, "x\nlast") {
		t.Errorf("got a reason of %d bytes: %s", len(reason), reason)
	}
}

func TestUnprintableOutput(t *testing.T) {
	e := exitOf(t, shell(`printf 'a\033[31m\377\000b\r\nü\n'; exit 1`).Handle(t.Context(), message("")))
	if want := "a\\x1b[31m\\xff\\x00b\nü\n"; e.Output != want {
		t.Errorf("got %q, want %q", e.Output, want)
	}
}

// A buffer that tasks print to, one call at a time.
type buffer struct {
	mu    sync.Mutex
	calls []string
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, string(p))
	return len(p), nil
}

func TestOutputPassedOn(t *testing.T) {
	var b buffer
	c := shell(`echo one; echo two >&2; printf '\n\033no end'`)
	c.Output = &b
	m := message("")
	m.Key = "a\nb"
	must(t, c.Handle(t.Context(), m))
	want := []string{`a\x0ab | one` + "\n", `a\x0ab | two` + "\n", `a\x0ab | ` + "\n", `a\x0ab | \x1bno end` + "\n"}
	if !slices.Equal(b.calls, want) {
		t.Errorf("got %q, want %q", b.calls, want)
	}
}

// Many tasks at once: each gets its own body, and lines stay whole.
func TestConcurrent(t *testing.T) {
	var b bytes.Buffer // calls do not overlap, or the race detector finds it
	c := shell(`read line; for i in 1 2 3 4 5; do echo "$line of $TENAQ_KEY"; done; test "$line" = "body-$TENAQ_KEY"`)
	c.Output = &b
	var tasks sync.WaitGroup
	for i := range 40 {
		tasks.Go(func() {
			m := message(fmt.Sprintf("body-%d\n", i))
			m.Key = fmt.Sprint(i)
			if err := c.Handle(t.Context(), m); err != nil {
				t.Errorf("task %d: %v", i, err)
			}
		})
	}
	tasks.Wait()
	counts := make(map[string]int)
	for line := range strings.Lines(b.String()) {
		counts[line]++
	}
	for i := range 40 {
		if n := counts[fmt.Sprintf("%d | body-%d of %d\n", i, i, i)]; n != 5 {
			t.Errorf("%d lines of task %d, want 5", n, i)
		}
	}
}

// A message whose variables are too long for the system is a failed attempt: it would fail next
// time, too, and must not keep a slot of the worker.
func TestVariablesTooLong(t *testing.T) {
	m := message("body")
	m.Lineage = strings.Repeat("a", 200<<10)
	err := (&pipe.Command{Args: []string{"/bin/sh", "-c", "true"}}).Handle(t.Context(), m)
	if !errors.Is(err, syscall.E2BIG) || reflect.TypeOf(err) == reflect.TypeOf(worker.Unavailable(err)) {
		t.Errorf("got %T %v, want a failed attempt", err, err)
	}
}
