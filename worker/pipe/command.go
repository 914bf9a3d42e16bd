//go:build unix

package pipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tenaq/worker"
)

// A Command runs a subprocess for each message. Its Args are needed, the rest has defaults. It must
// not be copied or changed after its first use.
//
// The task finds the body on its standard input, which it need not read. It finds what else there
// is to know in its environment: TENAQ_MESSAGE_ID, TENAQ_KEY, TENAQ_EFFECT_KEY, TENAQ_GENERATION,
// TENAQ_FENCE, TENAQ_ATTEMPT, TENAQ_RECEIVES, TENAQ_REDRIVES, TENAQ_LINEAGE, TENAQ_GROUP,
// TENAQ_QUEUE_URL and TENAQ_SENT (RFC 3339), as package worker explains them, and
// TENAQ_METADATA_FILE, the name of a JSON file that holds the same and the message attributes. What
// it writes to the file TENAQ_RESULT_FILE, at most claims.ResultMax bytes, is recorded as the
// result of the work. Both files are in a directory of the task's own that goes when it ends.
//
// How it exits decides what becomes of the message:
//
//	0              done
//	65             poison: it goes to the dead-letter queue at once (EX_DATAERR of sysexits.h)
//	75             later: it comes back after Pause, and no attempt is counted (EX_TEMPFAIL)
//	anything else  an attempt has failed, with the end of what it printed as the reason
//
// A result that is too long is a failed attempt too, for part of a result is none.
//
// A task that cannot be started is no attempt, since that says nothing about the message: the
// program is missing or cannot be run, there is no directory for temporary files, or this machine
// is short of processes, files or disk. The worker keeps the message and tries again until tasks
// start (worker.Unavailable). Check finds most of these before anything is received.
//
// When the context ends the task gets a SIGTERM, and after Grace a SIGKILL; signals go to its whole
// process group. When it has ended whatever it left running in its group is killed, and what holds
// its output open is not waited for. On Linux the task itself is killed too when this process dies,
// however it dies.
//
// Each task that runs takes one OS thread of this process.
type Command struct {
	// Args are the program and its arguments. A program without a slash in its name is looked for
	// in PATH.
	Args []string

	// Dir is where the task runs: in the directory of this process when empty.
	Dir string

	// Env is the environment, to which what is about the message is added: that of this process
	// when nil.
	Env []string

	// Grace is how long a task that was told to stop may take: 10 s when zero. It should be shorter
	// than worker.Config.Drain.
	Grace time.Duration

	// Pause is how long the message of a task that exits with 75 is given back for: 60 s when zero.
	Pause time.Duration

	// OutputMax bounds what is kept of the output of a task, in bytes: 64 KiB when zero. Of more
	// than that the beginning and the end are kept.
	OutputMax int

	// Output is given what tasks print, line by line, each with the key of its message in front and
	// in one call of Write. Calls do not overlap. A Write that blocks holds up all tasks.
	Output io.Writer

	once   sync.Once
	passer *passer
}

// Exit codes of tasks that have a meaning, from sysexits.h.
const (
	exitPoison = 65
	exitLater  = 75
)

// An ExitError says how a task ended that did not succeed. Errors of Command wrap it when the task
// was started.
type ExitError struct {
	Code   int    // -1 when a signal ended it
	Signal string // such as SIGKILL; empty when it exited
	// what it printed to standard output and standard error, bounded and safe to print
	Output string
	Cause  error // why it was told to stop; nil when it was not
}

// Error says how the task ended, and the last thing that it printed.
func (e *ExitError) Error() string {
	s := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != "" {
		s = "killed by " + e.Signal
	}
	if e.Cause != nil {
		s = fmt.Sprintf("%v; %s after it was told to stop", e.Cause, s)
	}
	if e.Output == "" {
		return s + ", no output"
	}
	return s + ": " + tail(e.Output)
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Cause }

// Handle runs a task for the message and waits until it has ended.
func (c *Command) Handle(ctx context.Context, m *worker.Message) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(c.Args) == 0 {
		return notStarted(errNoArgs)
	}
	vars, err := environment(m)
	if err != nil {
		return worker.Poison(fmt.Errorf("the message cannot be given to a program: %w", err))
	}
	dir, err := newTaskDir(m)
	if err != nil {
		return notStarted(err)
	}
	defer dir.remove()
	out, printed := c.collector(m)
	state, stopped, err := run(ctx, c.subprocess(slices.Concat(vars, dir.environment())), m.Body,
		printed, cmp.Or(c.Grace, 10*time.Second))
	switch {
	// The variables of this message are too long, and will be next time.
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("the message cannot be given to a program: %w", err)
	case err != nil:
		return notStarted(err)
	case state.Success():
		return dir.takeResult(m)
	}
	return c.verdict(exitError(state, stopped, out))
}

// subprocess is the command of a task with these variables.
func (c *Command) subprocess(vars []string) *exec.Cmd {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = c.Env
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = slices.Concat(cmd.Env, vars)
	return cmd
}

// collector returns what keeps the output of a task, and what its output is written to for that.
func (c *Command) collector(m *worker.Message) (*output, io.WriteCloser) {
	out := &output{max: cmp.Or(c.OutputMax, outputMax)}
	if c.Output == nil {
		return out, &printed{out: out}
	}
	c.once.Do(func() { c.passer = &passer{to: c.Output} })
	return out, &printed{out, &lines{to: c.passer, prefix: safe(m.Key, "") + " | "}}
}

// exitError says how a task ended that did not succeed.
func exitError(state *os.ProcessState, stopped error, out *output) *ExitError {
	e := &ExitError{Code: state.ExitCode(), Output: out.String(), Cause: stopped}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = cmp.Or(unix.SignalName(status.Signal()), status.Signal().String())
	}
	return e
}

// verdict says what the exit code means for the message.
func (c *Command) verdict(e *ExitError) error {
	switch e.Code {
	case exitLater:
		return worker.Later(cmp.Or(c.Pause, pauseDefault), e.Error())
	case exitPoison:
		return worker.Poison(e)
	}
	return e
}

// errNoArgs is that there is nothing to run.
var errNoArgs = errors.New("pipe: Command.Args is empty: it names the program to run")

// notStarted is the error of a task that could not be started. It is about this machine and the
// program, never about the message, so it uses up no attempt.
func notStarted(err error) error {
	return worker.Unavailable(fmt.Errorf("start the task: %w", err))
}

// Check reports why no task could be started: a program that is missing or cannot be run, or no
// usable directory for temporary files. Call it before the worker runs.
func (c *Command) Check() error {
	if len(c.Args) == 0 {
		return errNoArgs
	}
	program := c.Args[0]
	if c.Dir != "" && strings.ContainsRune(program, filepath.Separator) &&
		!filepath.IsAbs(program) {
		program = filepath.Join(c.Dir, program)
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("cannot run %s: %w", c.Args[0], err)
	}
	return checkTaskDir()
}
