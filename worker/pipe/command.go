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

// A Command runs a subprocess for each message. Args is required; the rest has defaults. It must
// not be copied or changed after its first use.
//
// The task gets the body on its standard input, which it need not read. Its environment has
// TENAQ_MESSAGE_ID, TENAQ_KEY, TENAQ_EFFECT_KEY, TENAQ_GENERATION, TENAQ_FENCE, TENAQ_ATTEMPT,
// TENAQ_RECEIVES, TENAQ_REDRIVES, TENAQ_LINEAGE, TENAQ_GROUP, TENAQ_QUEUE_URL and TENAQ_SENT (RFC
// 3339), which package worker explains. TENAQ_METADATA_FILE names a JSON file with the same values
// and the message attributes. What the task writes to the file TENAQ_RESULT_FILE, at most
// claims.ResultMax bytes, is recorded as the result of the work. Both files are in a temporary
// directory of the task.
//
// The exit code decides about the message:
//
//	0              done
//	65             poison: it goes to the dead-letter queue at once (EX_DATAERR of sysexits.h)
//	75             later: it comes back after Pause, and no attempt is counted (EX_TEMPFAIL)
//	anything else  an attempt has failed, with the end of the output as the reason
//
// A result that is too long is a failed attempt, too.
//
// A task that cannot be started is not an attempt, because the message is not the cause: the
// program is missing or cannot be run, there is no directory for temporary files, or the machine is
// out of processes, files or disk. The worker keeps the message and retries until tasks start
// (worker.Unavailable). Check finds most of these errors before the first receive.
//
// When the context ends, the process group of the task gets a SIGTERM, and after Grace a SIGKILL.
// After the task has ended, the rest of its group is killed; processes that hold its output open
// are not waited for. On Linux, the task is also killed when this process dies.
//
// Each running task uses one OS thread of this process.
type Command struct {
	// Args are the program and its arguments. A program without a slash in its name is looked up in
	// PATH.
	Args []string

	// Dir is the working directory of the task: that of this process when empty.
	Dir string

	// Env is the environment, without the variables about the message: that of this process when
	// nil.
	Env []string

	// Grace is how long a task may take to stop: 10 s when zero. It should be shorter than
	// worker.Config.Drain.
	Grace time.Duration

	// Pause is how long the message of a task that exits with 75 is given back for: 60 s when zero.
	Pause time.Duration

	// OutputMax is how much of the output of a task is kept, in bytes: 64 KiB when zero. Of longer
	// output, the beginning and the end are kept.
	OutputMax int

	// Output, if set, gets the output of tasks, one line per Write, with the key of the message in
	// front. Calls do not overlap. A Write that blocks delays all tasks.
	Output io.Writer

	once   sync.Once
	passer *passer
}

// Exit codes of tasks that have a meaning, from sysexits.h.
const (
	exitPoison = 65
	exitLater  = 75
)

// An ExitError says how a failed task ended. Errors of Command wrap it if the task was started.
type ExitError struct {
	Code   int    // -1 when a signal ended it
	Signal string // such as SIGKILL; empty when it exited
	// of standard output and standard error, bounded and safe to print
	Output string
	Cause  error // why it was told to stop, or nil
}

// Error says how the task ended, with the end of its output.
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

// subprocess returns the command of a task with these variables.
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

// collector returns the kept output of a task, and the writer for it.
func (c *Command) collector(m *worker.Message) (*output, io.WriteCloser) {
	out := &output{max: cmp.Or(c.OutputMax, outputMax)}
	if c.Output == nil {
		return out, &printed{out: out}
	}
	c.once.Do(func() { c.passer = &passer{to: c.Output} })
	return out, &printed{out, &lines{to: c.passer, prefix: safe(m.Key, "") + " | "}}
}

// exitError returns how a failed task ended.
func exitError(state *os.ProcessState, stopped error, out *output) *ExitError {
	e := &ExitError{Code: state.ExitCode(), Output: out.String(), Cause: stopped}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = cmp.Or(unix.SignalName(status.Signal()), status.Signal().String())
	}
	return e
}

// verdict returns the error for an exit code.
func (c *Command) verdict(e *ExitError) error {
	switch e.Code {
	case exitLater:
		return worker.Later(cmp.Or(c.Pause, pauseDefault), e.Error())
	case exitPoison:
		return worker.Poison(e)
	}
	return e
}

// errNoArgs says that there is nothing to run.
var errNoArgs = errors.New("pipe: Command.Args is empty: it names the program to run")

// notStarted returns the error of a task that could not be started. The message is not the cause,
// so it uses up no attempt.
func notStarted(err error) error {
	return worker.Unavailable(fmt.Errorf("start the task: %w", err))
}

// Check returns an error if no task could start, because the program is missing or cannot be run,
// or because there is no usable directory for temporary files. Call it before the worker runs.
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
