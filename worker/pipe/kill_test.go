//go:build unix

package pipe_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tenaq/worker"
	"tenaq/worker/pipe"
)

// A task is not started for a message that is lost already.
func TestEndedBeforeStart(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(worker.ErrLost)
	mark := filepath.Join(t.TempDir(), "mark")
	if err := shell("touch "+mark).Handle(ctx, message("")); err != worker.ErrLost {
		t.Errorf("got %v, want ErrLost", err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the task was started")
	}
}

// A task that is asked to stop may still succeed, or decide about its message.
func TestToldToStop(t *testing.T) {
	for _, test := range []struct {
		on   string
		kind error
		text string
	}{
		{"exit 0", nil, ""},
		{"exit 75", later, "the worker is stopping; exit code 75 after it was told to stop, no output"},
		{"exit 65", poison, "exit code 65"},
		{"echo half; exit 4", failed, "the worker is stopping; exit code 4 after it was told to stop: half"},
		{"trap - TERM; kill -TERM $$", failed, "the worker is stopping; killed by SIGTERM after it was told to stop"},
	} {
		k := newTalk(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		c := shell("trap '" + test.on + "' TERM; exec 3>" + k.path + "; echo ready >&3; while :; do sleep 1000 & wait; done")
		c.Grace = time.Hour
		result := start(ctx, c, message(""))
		k.hear(t, "ready")
		cancel(worker.ErrDraining)
		err := <-result
		sameKind(t, err, test.kind, test.text)
		if test.kind == failed && !errors.Is(err, worker.ErrDraining) {
			t.Errorf("got %v, want an error that wraps why it was told to stop", err)
		}
		k.over(t)
	}
}

// SIGTERM goes to the whole group, and after the grace SIGKILL does, to those that ignore the
// first.
func TestGroupKilled(t *testing.T) {
	k := newTalk(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	c := shell(`exec 3>` + k.path + `; trap : TERM
		sh -c 'trap "" TERM; echo deaf >&3; while :; do sleep 1000; done' &
		sh -c 'trap "echo told >&3; exit" TERM; echo hears >&3; while :; do sleep 1000 & wait; done' &
		while :; do wait; done`)
	c.Grace = 300 * time.Millisecond
	result := start(ctx, c, message(""))
	ready := []string{<-k.lines, <-k.lines}
	if got := strings.Join(ready, " "); got != "deaf hears" && got != "hears deaf" {
		t.Fatalf("heard %s", got)
	}
	cancel(worker.ErrLost)
	k.hear(t, "told")
	err := <-result
	if e := exitOf(t, err); e.Signal != "SIGKILL" || !errors.Is(err, worker.ErrLost) {
		t.Errorf("got %v, want a task that was killed because of ErrLost", err)
	}
	k.over(t)
}

// Processes that a task leaves running are killed when it ends, even if it succeeds.
func TestLeftBehindKilled(t *testing.T) {
	for _, code := range []string{"0", "1"} {
		k := newTalk(t)
		c := shell(`exec 3>` + k.path + `; (trap "" TERM HUP; while :; do sleep 1000; done) & echo ready >&3; exit ` + code)
		if err := c.Handle(t.Context(), message("")); (err == nil) != (code == "0") {
			t.Errorf("exit code %s: got %v", code, err)
		}
		k.hear(t, "ready")
		k.over(t)
	}
}

// The worker does not wait for a process that has left the group and holds the streams of the task
// open.
func TestEscaped(t *testing.T) {
	program, err := os.Executable()
	must(t, err)
	for _, end := range []string{"exit 3", "kill -KILL $$"} {
		said := filepath.Join(t.TempDir(), "said")
		// The one that escapes has the output and the input of the task as further streams.
		c := shell(`exec 4<&0; echo before; ` + role + `=escape ` + program + ` > ` + said + ` 3>&1 & until [ -s ` + said + ` ]; do sleep 0.01; done; ` + end)
		err := c.Handle(t.Context(), message(strings.Repeat("never read", 1<<17)))
		id, readErr := os.ReadFile(said)
		must(t, readErr)
		killLater(t, string(id))
		if e := exitOf(t, err); e.Output != "before\n" {
			t.Errorf("%s: got %v", end, err)
		}
	}
}

// Everything that was printed before the end of a task is kept, up to the last byte.
func TestOutputComplete(t *testing.T) {
	c := shell(`head -c 60000 /dev/zero | tr '\0' x; echo; printf end; exit 1`)
	c.OutputMax = 1 << 20
	for range 20 {
		if out := exitOf(t, c.Handle(t.Context(), message(""))).Output; len(out) != 60004 || !strings.HasSuffix(out, "x\nend") {
			t.Fatalf("got %d bytes, want 60004", len(out))
		}
	}
}

var _ worker.Handler = (*pipe.Command)(nil)
