package stage

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver for files
)

// A member is a process of the crew.
type member struct {
	told
	once    bool // it ends by itself when it is done
	process *os.Process
	stdin   io.Closer // ends when this process does, so that none is left behind
	ended   chan struct{}
	leaving bool    // it is expected to end, or has ended
	dead    bool    // it was killed, or is about to be
	final   bool    // and none takes its place
	next    *member // took its place
	err     error
}

// A Death is planned: the process that reports the point is killed with kill -9, once.
type Death struct {
	Point string
	Key   string            // of the work; empty for any
	If    func(Report) bool // nil for always
	Why   string            // for people; empty for the point
	Task  bool              // of what a member has started, such as the task of a pipe
	Final bool              // no other process takes its place
}

// Points that the crew reports itself.
const (
	Killed = "killed"
	Frozen = "frozen"
	Thawed = "thawed"
)

// Hire starts a process that runs until it is dismissed. If it is killed, another one takes its
// place.
func (c *Crew) Hire(role string, task any) { c.hireFor(role, task, false) }

// Finish starts a process that ends when it is done, and waits until it is done, or one that took
// its place.
func (c *Crew) Finish(role string, task any) {
	m := c.hireFor(role, task, true)
	c.Until(role, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for m.next != nil {
			m = m.next
		}
		select {
		case <-m.ended:
			return !m.dead || m.final
		default:
			return false
		}
	})
}

func (c *Crew) hireFor(role string, task any, once bool) *member {
	text, err := json.Marshal(task)
	c.Must(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.hire(told{
		Program: c.Program, Role: role, Scenario: c.Name, Stage: c.URL, Endpoint: c.Endpoint,
		Region: c.AWS.Region, Ours: c.Other == nil, Dir: c.Dir, Broken: c.Broken, Task: text,
	}, once)
	c.Must(err)
	return m
}

func (c *Crew) hire(told told, once bool) (*member, error) {
	if c.closed {
		return nil, errors.New("start a process: the scenario has ended")
	}
	c.hired[told.Role]++
	told.Name = fmt.Sprintf("%s-%d", told.Role, c.hired[told.Role])
	text, err := json.Marshal(told)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.logFile(told.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(told.Program, "demo", "child")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(cmd.Environ(), "TMPDIR="+c.Dir)
	// A group of its own: an interrupt from the terminal is not for it, and when this process dies
	// while the child is stopped, the system wakes the child up and ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", told.Name, err)
	}
	m := &member{told: told, once: once, process: cmd.Process, stdin: stdin,
		ended: make(chan struct{})}
	c.members[told.Name] = m
	go c.watch(m, cmd)
	_, err = stdin.Write(append(text, '\n'))
	return m, err
}

func (c *Crew) logFile(name string) string { return filepath.Join(c.Dir, name+".log") }

// watch waits for the end of a process. If nothing asked for it, it is a finding.
func (c *Crew) watch(m *member, cmd *exec.Cmd) {
	err := cmd.Wait()
	c.Do(func() {
		m.err = err
		if !m.leaving && (!m.once || err != nil) {
			c.Fail(fmt.Errorf("%s ended by itself: %v%s", m.Name, cmd.ProcessState, c.logTail(m)))
		}
		m.leaving = true
	})
	close(m.ended)
}

// logTail returns the end of a log, to be appended to an error.
func (c *Crew) logTail(m *member) string {
	text, err := os.ReadFile(c.logFile(m.Name))
	if text = bytes.TrimSpace(text); err != nil || len(text) == 0 {
		return ""
	}
	return "; its log ends: " + string(text[max(0, len(text)-1000):])
}

// Alive reports whether a process lives and is not about to be killed.
func (c *Crew) Alive(name string) bool {
	m := c.members[name]
	return m != nil && !m.leaving
}

// Plan plans deaths. Of two that fit a report, the one that was planned first happens.
func (c *Crew) Plan(deaths ...Death) { c.Do(func() { c.deaths = append(c.deaths, deaths...) }) }

// dies carries out the death that was planned for a report, if there is one.
func (c *Crew) dies(r Report) bool {
	i := slices.IndexFunc(c.deaths, func(d Death) bool {
		return d.Point == r.Point && (d.Key == "" || d.Key == r.Key) &&
			(d.Task || c.Alive(r.From)) && (d.If == nil || d.If(r))
	})
	if i < 0 {
		return false
	}
	d := c.deaths[i]
	c.deaths = slices.Delete(c.deaths, i, i+1)
	if d.Why = cmp.Or(d.Why, d.Point); d.Task {
		c.recordKill(r.From, r.Role, d.Why, r.Key)
		_ = syscall.Kill(r.PID, syscall.SIGKILL)
	} else {
		c.kill(r.From, d.Why, r.Key, d.Final)
	}
	return true
}

func (c *Crew) recordKill(from, role, why, key string) {
	c.record(Report{From: from, Role: role, Point: Killed, Key: key, Text: why})
	c.Say("killed %s, %s", from, why)
}

// Kill kills a process with kill -9 and starts another one in its place.
func (c *Crew) Kill(name, why, key string) { c.kill(name, why, key, false) }

func (c *Crew) kill(name, why, key string, final bool) {
	if !c.Alive(name) {
		return
	}
	m := c.members[name]
	m.dead, m.leaving, m.final = true, true, final
	c.recordKill(name, m.Role, why, key)
	c.Aside(func() {
		_ = m.process.Kill() // it fails if the process has ended, which is as good
		<-m.ended
	})
	if !c.closed && !final {
		var err error
		m.next, err = c.hire(m.told, m.once)
		c.Fail(err)
	}
}

// Freeze stops a process where it is, as a machine does that runs out of memory or moves to another
// host, and lets it go on when something is so. Free reports whether the databases can be written:
// a process that is stopped in the middle of a write keeps SQLite locked for all, which is a limit
// of SQLite files and not the subject here.
func (c *Crew) Freeze(name, key string, free, so func() bool) {
	m := c.members[name]
	if !c.Alive(name) {
		return
	}
	c.record(Report{From: name, Role: m.Role, Point: Frozen, Key: key})
	c.Aside(func() {
		for c.Ctx.Err() == nil {
			_ = m.process.Signal(syscall.SIGSTOP)
			Pause(c.Ctx, 20*time.Millisecond)
			if free() {
				return
			}
			_ = m.process.Signal(syscall.SIGCONT)
			Pause(c.Ctx, 20*time.Millisecond)
		}
	})
	c.Wait(c.stepMax(), so)
	c.record(Report{From: name, Role: m.Role, Point: Thawed, Key: key})
	_ = m.process.Signal(syscall.SIGCONT)
}

// Unlocked reports whether SQLite files can be written at this moment.
func Unlocked(ctx context.Context, paths ...string) bool {
	for _, path := range paths {
		location := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path),
			RawQuery: "_pragma=busy_timeout(200)&_txlock=immediate"}
		db, err := sql.Open("sqlite", location.String())
		if err != nil {
			return false
		}
		tx, err := db.BeginTx(ctx, nil)
		if err == nil {
			err = tx.Rollback()
		}
		_ = db.Close()
		if err != nil {
			return false
		}
	}
	return true
}

// Dismiss tells the processes of some roles to end, or all processes, and waits until they have
// ended.
func (c *Crew) Dismiss(roles ...string) {
	var leaving []*member
	c.Do(func() {
		for _, m := range c.members {
			if !m.leaving && (len(roles) == 0 || slices.Contains(roles, m.Role)) {
				m.leaving = true
				leaving = append(leaving, m)
				_ = m.stdin.Close()
				_ = m.process.Signal(syscall.SIGCONT) // a stopped one does not notice
			}
		}
	})
	limit := time.After(endMax)
	for _, m := range leaving {
		select {
		case <-m.ended:
		case <-limit:
			_ = m.process.Kill()
			<-m.ended
		}
		if m.err != nil {
			c.unclean++
			c.Say("%s did not end as it should: %v%s", m.Name, m.err, c.logTail(m))
		}
	}
}
