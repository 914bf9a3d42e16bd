package outbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A crew is the other processes.
type crew struct {
	d *demo

	mu      sync.Mutex
	closed  bool // nobody is hired any more
	members map[string]*member
	hired   map[role]int
}

// A member is a process.
type member struct {
	task    Task
	process *os.Process
	stdin   io.Closer // ends when this process does, so that none is left behind
	ended   chan struct{}
	leaving bool // it is expected to end
	killed  bool
	again   bool    // and another one is to take its place
	next    *member // that one
	err     error
}

// hire starts a process.
func (c *crew) hire(t Task) (*member, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("start a process: the demo has ended")
	}
	c.hired[t.Role]++
	t.Name = fmt.Sprintf("%s-%d", t.Role, c.hired[t.Role])
	t.Dir, t.Database, t.Stage, t.Queues, t.Break = c.d.Dir, c.d.url, c.d.stage.url, c.d.Queues, c.d.Break
	told, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.logFile(t.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	cmd, err := c.d.Process()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's interrupt is not for it
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", t.Name, err)
	}
	m := &member{task: t, process: cmd.Process, stdin: stdin, ended: make(chan struct{})}
	c.members[t.Name] = m
	go c.watch(m, cmd)
	if _, err := stdin.Write(append(told, '\n')); err != nil {
		return nil, fmt.Errorf("tell %s what to do: %w", t.Name, err)
	}
	return m, nil
}

func (c *crew) logFile(name string) string { return filepath.Join(c.d.Dir, name+".log") }

// watch waits for the end of a process, which is a finding if nobody asked for it.
func (c *crew) watch(m *member, cmd *exec.Cmd) {
	err := cmd.Wait()
	c.mu.Lock()
	m.err = err
	fine := m.leaving || m.task.Role.ends() && err == nil
	delete(c.members, m.task.Name)
	c.mu.Unlock()
	close(m.ended)
	if !fine {
		c.d.fail(fmt.Errorf("%s ended by itself: %v%s", m.task.Name, cmd.ProcessState, c.logTail(m.task.Name)))
	}
}

// logTail returns the last lines of a log, to be appended to an error.
func (c *crew) logTail(name string) string {
	text, err := os.ReadFile(c.logFile(name))
	if text = bytes.TrimSpace(text); err != nil || len(text) == 0 {
		return ""
	}
	return "; its log ends: " + string(text[max(0, len(text)-2000):])
}

// over reports whether a process has ended, and those that took its place.
func (c *crew) over(m *member) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for m.next != nil {
		m = m.next
	}
	select {
	case <-m.ended:
		return !m.again
	default:
		return false
	}
}

// bury makes a process one that is dead, before it is killed. It reports false when it was.
func (c *crew) bury(name string, again bool) (*member, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[name]
	if m == nil || m.leaving {
		return nil, false
	}
	m.leaving, m.killed, m.again = true, true, again
	return m, true
}

// kill kills a process that has been buried, with -9, and has another one take its place if it is to.
func (c *crew) kill(m *member) (next *member, err error) {
	_ = m.process.Kill() // it fails when the process has ended, which is as good
	<-m.ended
	_ = m.stdin.Close()
	if !m.again {
		return nil, nil
	}
	if next, err = c.hire(m.task); err == nil {
		c.mu.Lock()
		m.next = next
		c.mu.Unlock()
	}
	return next, err
}

// alive reports whether a process lives and is not about to be killed.
func (c *crew) alive(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[name]
	return m != nil && !m.killed
}

// leaveMax is how long a process may take to end that was told to.
const leaveMax = 20 * time.Second

// dismiss ends the processes of some roles, or all, in the orderly way, and counts those that do not end so.
func (c *crew) dismiss(roles ...role) error {
	leaving := c.leave(roles...)
	limit := time.After(leaveMax)
	for _, m := range leaving {
		_ = m.stdin.Close()
	}
	for _, m := range leaving {
		select {
		case <-m.ended:
		case <-limit:
			_ = m.process.Kill()
			<-m.ended
		case <-c.d.ctx.Done():
			return c.d.ctx.Err()
		}
		if m.err != nil {
			c.d.out.Unclean++
			c.d.Say("%s did not end as it should: %v%s", m.task.Name, m.err, c.logTail(m.task.Name))
		}
	}
	return nil
}

// leave marks processes as those that are to end, and returns them.
func (c *crew) leave(roles ...role) []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	var leaving []*member
	for _, m := range c.members {
		if len(roles) == 0 || slices.Contains(roles, m.task.Role) {
			m.leaving = true
			leaving = append(leaving, m)
		}
	}
	return leaving
}

// close makes sure that there is no process left.
func (c *crew) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	for _, m := range c.leave() {
		_ = m.process.Kill()
		<-m.ended
		_ = m.stdin.Close()
	}
}
