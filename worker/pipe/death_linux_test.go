package pipe_test

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
)

// A task does not outlive a worker that is killed.
func TestWorkerKilled(t *testing.T) {
	k := newTalk(t)
	program, err := os.Executable()
	must(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), role+"=worker", "TALK="+k.path, "TMPDIR="+t.TempDir())
	must(t, cmd.Start())
	k.hear(t, "running")
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	k.over(t)
}

// A task does outlive the thread that any other goroutine has used up: the kernel takes the death
// of the thread that started it for the death of its parent.
func TestThreadsEnd(t *testing.T) {
	var tasks sync.WaitGroup
	done := make(chan struct{})
	c := shell("read line; exit 0") // ends with the end of its body
	for range 20 {
		tasks.Go(func() {
			for range 5 {
				if err := c.Handle(t.Context(), message("x\n")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() {
		tasks.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		var threads sync.WaitGroup
		for range 10 {
			threads.Go(runtime.LockOSThread) // a goroutine that ends like that takes its thread along
		}
		threads.Wait()
	}
}
