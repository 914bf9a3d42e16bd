//go:build unix

package pipe

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A task is a subprocess in a process group of its own.
type task struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the task has ended and has been reaped

	mu   sync.Mutex
	gone bool // it is about to be reaped; then another process may get its id
}

// run runs cmd with input on its standard input. It writes the output to printed and closes that.
// It returns how the task ended and, if it was told to stop, why. An error means that it was not
// started.
func run(
	ctx context.Context, cmd *exec.Cmd, input string, printed io.WriteCloser, grace time.Duration,
) (state *os.ProcessState, stopped, err error) {
	stdin, feed, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer feed.Close()
	collect, stdout, err := os.Pipe()
	if err != nil {
		stdin.Close()
		return nil, nil, err
	}
	defer collect.Close()
	// One pipe for both keeps the order of the output.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stdout
	t := &task{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go t.keep(started)
	err = <-started
	stdin.Close()
	stdout.Close()
	if err != nil {
		return nil, nil, err
	}

	var streams sync.WaitGroup
	streams.Go(func() {
		// A task need not read its body.
		_, _ = io.WriteString(feed, input)
		feed.Close()
	})
	streams.Go(func() { gather(collect, printed) })
	stopped = t.wait(ctx, grace)
	feed.Close()
	_ = collect.SetReadDeadline(time.Unix(1, 0)) // see gather
	streams.Wait()
	return cmd.ProcessState, stopped, nil
}

// keep starts the task and waits until it has ended, on one OS thread that runs nothing else. On
// Linux, the end of the thread that started a task counts as the death of its parent, and Go may
// end a thread that other goroutines have used (https://go.dev/issue/27505).
func (t *task) keep(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t.cmd.SysProcAttr = groupLeader()
	err := t.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	awaitEnd(t.cmd)
	// The task is dead but not yet reaped, so no other group can have its id.
	t.signal(syscall.SIGKILL)
	t.mu.Lock()
	t.gone = true
	t.mu.Unlock()
	_ = t.cmd.Wait() // the state has the result
	close(t.ended)
}

// wait waits until the task has ended. If ctx ends first, it tells the task to stop, kills it after
// grace, and returns the cause.
func (t *task) wait(ctx context.Context, grace time.Duration) (stopped error) {
	select {
	case <-t.ended:
		return nil
	case <-ctx.Done():
	}
	t.signal(syscall.SIGTERM)
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-t.ended:
	case <-patience.C:
		t.signal(syscall.SIGKILL)
		<-t.ended
	}
	return context.Cause(ctx)
}

// signal sends a signal to all processes of the group.
func (t *task) signal(s syscall.Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.gone {
		_ = syscall.Kill(-t.cmd.Process.Pid, s) // it fails if no process is left
	}
}

// pipeMax is how much a pipe can hold by default, in bytes.
const pipeMax = 1 << 20

// gather reads the output of a task. After the end of the task, a process that escaped its group
// may hold the output open. So run then sets a deadline, and gather reads what is in the pipe
// without waiting for more.
func gather(from *os.File, printed io.WriteCloser) {
	defer printed.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		_, _ = printed.Write(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return
		}
	}
	raw, err := from.SyscallConn()
	if err != nil || from.SetReadDeadline(time.Time{}) != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) (done bool) {
		for taken := 0; taken < pipeMax; {
			n, err := syscall.Read(int(fd), buf)
			if err == syscall.EINTR {
				continue
			}
			if n <= 0 {
				break // empty, or closed
			}
			_, _ = printed.Write(buf[:n])
			taken += n
		}
		return true
	})
}
