package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A crew is a number of worker processes. One that is killed is replaced, as whatever looks after processes would.
type crew struct {
	demo     *demo
	settings string // the file

	hiring context.Context // ends when nobody is replaced any more
	leave  context.CancelFunc
	seats  sync.WaitGroup
	failed chan error // when a worker ends in any other way than by a kill
}

// stopMax is how long a worker has to stop, and hiresMax how often one is replaced: far more than there are deaths.
const (
	stopMax  = 20 * time.Second
	hiresMax = 50
)

// startCrew starts n workers.
func (d *demo) startCrew(ctx context.Context, settings Settings, n int) (*crew, error) {
	path, err := settings.write("workers.json")
	if err != nil {
		return nil, err
	}
	c := &crew{demo: d, settings: path, failed: make(chan error, n)}
	c.hiring, c.leave = context.WithCancel(ctx)
	for range n {
		c.seats.Go(c.occupy)
	}
	return c, nil
}

// occupy keeps one worker running.
func (c *crew) occupy() {
	for range hiresMax {
		killed, err := c.employ()
		if c.hiring.Err() != nil && (err == nil || killed) {
			return
		}
		if !killed {
			if err == nil {
				err = errors.New("exit status 0")
			}
			c.failed <- fmt.Errorf("a worker ended, see workers.log: %w", err)
			return
		}
	}
	c.failed <- fmt.Errorf("a worker was replaced %d times", hiresMax)
}

// employ runs one worker to its end, and reports whether it was killed.
func (c *crew) employ() (killed bool, err error) {
	log, err := os.OpenFile(filepath.Join(c.demo.Dir, "workers.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	defer log.Close()
	cmd, err := c.demo.Part(PartWorker, c.settings)
	if err != nil {
		return false, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	// What tasks leave behind whose worker is killed is to be found here, and goes with the rest.
	cmd.Env = append(cmd.Environ(), "TMPDIR="+filepath.Join(c.demo.Dir, "tmp"))
	hold, err := cmd.StdinPipe() // a worker ends when it is closed, so none outlives this process
	if err != nil {
		return false, err
	}
	defer hold.Close()
	if err := cmd.Start(); err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-c.hiring.Done():
		_ = cmd.Process.Signal(syscall.SIGTERM) // it fails when the worker has ended
		select {
		case err = <-ended:
		case <-time.After(stopMax):
			_ = cmd.Process.Kill()
			<-ended
			return false, fmt.Errorf("it did not stop within %v", stopMax)
		}
	}
	return isKill(cmd.ProcessState), err
}

// isKill reports whether a process ended by kill -9.
func isKill(state *os.ProcessState) bool {
	if state == nil {
		return false
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// stop ends the workers in the orderly way. It may be called more than once.
func (c *crew) stop() error {
	c.leave()
	c.seats.Wait()
	select {
	case err := <-c.failed:
		return err
	default:
		return nil
	}
}
