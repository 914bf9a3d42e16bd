package order

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"tenaq/records"
	"tenaq/records/sqliterecords"
)

// A crew is the worker processes. One that is killed is replaced, as a supervisor would: by another one, with
// another name.
type crew struct {
	d *demo

	// To find out whether a stopped process holds a database.
	store records.Store
	table *table

	mu      sync.Mutex
	members map[string]*member // those that live
	hired   int
}

// A member is a process.
type member struct {
	name    string
	place   int
	process *os.Process
	stdin   io.Closer // ends when this process does, so that none is left behind
	ended   chan struct{}
	frozen  bool      // it is stopped
	woken   time.Time // it was stopped until then
	leaving bool      // it is expected to end
	err     error
}

// probeMax is how long a database may be held by somebody who is alive.
const probeMax = 200 * time.Millisecond

func newCrew(d *demo) (*crew, error) {
	c := &crew{d: d, members: make(map[string]*member)}
	var err error
	if c.table, err = openTable(filepath.Join(d.Dir, tableFile), probeMax); err != nil {
		return nil, err
	}
	c.store, err = sqliterecords.New(sqliterecords.Config{Path: filepath.Join(d.Dir, recordsFile), Wait: probeMax})
	if err != nil {
		c.table.close()
		return nil, err
	}
	return c, nil
}

// start starts all of them.
func (c *crew) start() error {
	for place := range crewSize {
		if err := c.hire(place); err != nil {
			return err
		}
	}
	return nil
}

// hire starts a process.
func (c *crew) hire(place int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hired++
	m := &member{name: fmt.Sprintf("worker-%d", c.hired), place: place, ended: make(chan struct{})}
	told, err := json.Marshal(Task{
		Name: m.name, QueueURL: c.d.QueueURL, Dir: c.d.Dir, URL: c.d.url, Break: c.d.Break,
	})
	if err != nil {
		return err
	}
	log, err := os.OpenFile(c.logFile(m.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd, err := c.d.Worker()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	// A group of its own: a terminal's interrupt is not for it, and when this process dies while it is stopped the
	// system wakes it up and ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	m.process, m.stdin = cmd.Process, stdin
	c.members[m.name] = m
	go c.watch(m, cmd)
	if _, err := stdin.Write(append(told, '\n')); err != nil {
		return fmt.Errorf("tell %s what to do: %w", m.name, err)
	}
	return nil
}

func (c *crew) logFile(name string) string { return filepath.Join(c.d.Dir, name+".log") }

// watch waits for the end of a process, which is a finding if nobody asked for it.
func (c *crew) watch(m *member, cmd *exec.Cmd) {
	err := cmd.Wait()
	c.mu.Lock()
	m.err = err
	expected := m.leaving
	delete(c.members, m.name)
	c.mu.Unlock()
	close(m.ended)
	if !expected {
		c.d.stage.fail(fmt.Errorf("%s ended by itself: %v%s", m.name, cmd.ProcessState, c.logTail(m.name)))
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

// alive reports whether a process lives and is not about to be killed.
func (c *crew) alive(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[name]
	return m != nil && !m.leaving
}

// stopped reports whether a process is stopped.
func (c *crew) stopped(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[name]
	return m != nil && m.frozen
}

// wakeUp is how long a process that was stopped has to notice what it has missed. Its handlers end in that time with
// whatever they come to first.
const wakeUp = lease / 3

// awake reports whether a process runs, and has for long enough to know that.
func (c *crew) awake(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[name]
	return m == nil || !m.frozen && time.Since(m.woken) > wakeUp
}

// bury makes a process one that is dead, before it is killed. It reports false when it was.
func (c *crew) bury(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[name]
	if m == nil || m.leaving {
		return false
	}
	m.leaving = true
	return true
}

// kill kills a process that has been buried, and starts another one in its place.
func (c *crew) kill(name string) error {
	c.mu.Lock()
	m := c.members[name]
	c.mu.Unlock()
	if m == nil {
		return nil
	}
	_ = m.process.Kill() // it fails when the process has ended, which is as good
	<-m.ended
	_ = m.stdin.Close()
	return c.hire(m.place)
}

// freeze stops a process where it is, as a machine does that is out of memory or moved to another host.
func (c *crew) freeze(ctx context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[name]
	if m == nil {
		return nil
	}
	if err := m.process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	m.frozen = true
	go c.keepFrozen(ctx, m)
	return nil
}

// keepFrozen sees to it that a stopped process has not been stopped in the midst of a write to one of the
// databases: SQLite would then be locked for all, which is a limit of SQLite files and not what is to be
// shown. Such a process goes on for a moment.
func (c *crew) keepFrozen(ctx context.Context, m *member) {
	const at, every, patience = 20 * time.Millisecond, 200 * time.Millisecond, 4
	pause, misses := at, patience // at first it may well have been in a write
	for ctx.Err() == nil && c.stopped(m.name) {
		sleep(ctx, pause)
		if c.writable(ctx) {
			pause, misses = every, 0
			continue
		}
		if misses++; misses <= patience {
			continue // somebody else writes
		}
		c.mu.Lock()
		if m.frozen {
			_ = m.process.Signal(syscall.SIGCONT)
			time.Sleep(at)
			_ = m.process.Signal(syscall.SIGSTOP)
		}
		c.mu.Unlock()
	}
}

// writable reports whether nobody holds the databases.
func (c *crew) writable(ctx context.Context) bool {
	if c.table.probe(ctx) != nil {
		return false
	}
	var conflict *records.Conflict
	_, err := c.store.Put(ctx, records.Write{Key: "probe", If: 1})
	return errors.As(err, &conflict)
}

// thaw lets a process go on.
func (c *crew) thaw(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[name]
	if m == nil {
		return nil
	}
	m.frozen, m.woken = false, time.Now()
	if err := m.process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("continue %s: %w", name, err)
	}
	return nil
}

// leave marks all processes as those that are to end, and returns them.
func (c *crew) leave() []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*member
	for _, m := range c.members {
		m.leaving = true
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *member) int { return a.place - b.place })
	return all
}

// stopMax is how long a worker may take to end that was told to.
const stopMax = 20 * time.Second

// stop ends the processes in the orderly way, and returns how many did not end so.
func (c *crew) stop() (unclean int) {
	all := c.leave()
	for _, m := range all {
		_ = m.process.Signal(syscall.SIGTERM)
		_ = m.process.Signal(syscall.SIGCONT) // a stopped one cannot hear
	}
	limit := time.After(stopMax)
	for _, m := range all {
		select {
		case <-m.ended:
		case <-limit:
			_ = m.process.Kill()
			<-m.ended
		}
		_ = m.stdin.Close()
		// Of the signal dies who has been started just before and does not listen yet.
		if m.err != nil && !endedBy(m.err, syscall.SIGTERM) {
			unclean++
		}
	}
	return unclean
}

// endedBy reports whether a process was ended by a signal.
func endedBy(err error, signal syscall.Signal) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// close makes sure that there is no process left.
func (c *crew) close() {
	for _, m := range c.leave() {
		_ = m.process.Kill()
		<-m.ended
		_ = m.stdin.Close()
	}
	c.table.close()
	_ = c.store.Close()
}
