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
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver for files
)

// A Crew is the other processes of a scenario, and what they have reported. Its mutex is locked
// while On runs; Kill, Freeze, Thaw, Wait and Aside are for On and unlock it while they wait.
type Crew struct {
	*SQS
	Mux *http.ServeMux // for other servers of the scenario, such as a bank
	URL string         // of Mux

	On   func(r Report) // takes a report, and returns when its author may go on
	Line func()         // shows the progress while Until waits

	server *http.Server
	log    *os.File
	began  time.Time

	mu      sync.Mutex
	changed chan struct{} // closed with every change, and replaced
	members map[string]*member
	deaths  []Death        // to come
	hired   map[string]int // by role
	reports []Report
	unclean int
	closed  bool
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

// A member is a process.
type member struct {
	child   told
	once    bool // it ends by itself when it is done
	process *os.Process
	stdin   io.Closer // ends when this process does, so that none is left behind
	ended   chan struct{}
	leaving bool    // it is expected to end
	dead    bool    // it was killed, or is about to be
	final   bool    // and none takes its place
	frozen  bool    // it is stopped
	next    *member // took its place
	err     error
}

// Points that the crew reports itself.
const (
	Killed = "killed"
	Frozen = "frozen"
	Thawed = "thawed"
)

// Limits for a machine in trouble.
const (
	endMax  = 20 * time.Second // for a process that was told to end
	stepMax = time.Minute
)

func newCrew(s *SQS) (*Crew, error) {
	log, err := os.Create(filepath.Join(s.Dir, "events.jsonl"))
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Close()
		return nil, err
	}
	c := &Crew{
		SQS: s, Mux: http.NewServeMux(), URL: "http://" + l.Addr().String(),
		On: func(Report) {}, Line: func() {}, log: log, began: time.Now(),
		changed: make(chan struct{}), members: make(map[string]*member),
		hired: make(map[string]int),
	}
	c.Mux.HandleFunc("POST /report", func(w http.ResponseWriter, r *http.Request) {
		var in Report
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.Take(in)
	})
	c.server = &http.Server{Handler: c.Mux}
	go func() { _ = c.server.Serve(l) }()
	return c, nil
}

// Take takes a report, of a process or of what a process has asked, such as a bank.
func (c *Crew) Take(r Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[r.From]; m != nil && m.dead {
		return // said before it was killed
	}
	c.record(r)
	i := slices.IndexFunc(c.deaths, func(d Death) bool {
		return d.Point == r.Point && (d.Key == "" || d.Key == r.Key) &&
			(d.Task || c.Alive(r.From)) && (d.If == nil || d.If(r))
	})
	if i < 0 {
		c.On(r)
	} else {
		d := c.deaths[i]
		c.deaths = slices.Delete(c.deaths, i, i+1)
		c.die(d, r)
	}
	c.change()
}

// Plan plans deaths. Of two that fit a report, the one that was planned first happens.
func (c *Crew) Plan(deaths ...Death) { c.Do(func() { c.deaths = append(c.deaths, deaths...) }) }

func (c *Crew) die(d Death, r Report) {
	why := cmp.Or(d.Why, d.Point)
	if d.Task {
		c.recordKill(r.From, r.Role, why, r.Key)
		_ = syscall.Kill(r.PID, syscall.SIGKILL)
		return
	}
	c.kill(r.From, why, r.Key, !d.Final)
}

func (c *Crew) recordKill(from, role, why, key string) {
	c.record(Report{From: from, Role: role, Point: Killed, Key: key, Text: why})
	c.Say("killed %s, %s", from, why)
}

func (c *Crew) record(r Report) {
	r.At = time.Since(c.began).Seconds()
	c.reports = append(c.reports, r)
	line, _ := json.Marshal(r)
	_, _ = c.log.Write(append(line, '\n')) // for a person who looks into a failure
	c.change()
}

// Do runs f with the mutex locked, as On runs.
func (c *Crew) Do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.change()
}

// Reports returns the reports so far, in their order.
func (c *Crew) Reports() []Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reports)
}

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
		Role: role, Scenario: c.Name, Stage: c.URL, Endpoint: c.Endpoint, Region: c.AWS.Region,
		Ours: c.Other == nil, Dir: c.Dir, Broken: c.Broken, Task: text,
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
	args, err := command()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(args[0], args[1:]...)
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
	m := &member{child: told, once: once, process: cmd.Process, stdin: stdin,
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
	c.mu.Lock()
	m.err = err
	fine := m.leaving || m.once && err == nil
	if m.next == nil {
		delete(c.members, m.child.Name)
	}
	c.change()
	c.mu.Unlock()
	close(m.ended)
	if !fine {
		c.Fail(fmt.Errorf("%s ended by itself: %v%s", m.child.Name, cmd.ProcessState,
			c.logTail(m.child.Name)))
	}
}

// logTail returns the end of a log, to be appended to an error.
func (c *Crew) logTail(name string) string {
	text, err := os.ReadFile(c.logFile(name))
	if text = bytes.TrimSpace(text); err != nil || len(text) == 0 {
		return ""
	}
	return "; its log ends: " + string(text[max(0, len(text)-1000):])
}

// Alive reports whether a process lives and is not about to be killed.
func (c *Crew) Alive(name string) bool {
	m := c.members[name]
	return m != nil && !m.dead && !m.leaving
}

// IsFrozen reports whether a process is stopped.
func (c *Crew) IsFrozen(name string) bool {
	m := c.members[name]
	return m != nil && m.frozen
}

// Kill kills a process with kill -9 and starts another one in its place, whose name it returns:
// empty if the process was dead before.
func (c *Crew) Kill(name, why, key string) (next string) { return c.kill(name, why, key, true) }

func (c *Crew) kill(name, why, key string, again bool) (next string) {
	m := c.members[name]
	if !c.Alive(name) {
		return ""
	}
	m.dead, m.leaving, m.final = true, true, !again
	c.recordKill(name, m.child.Role, why, key)
	c.Aside(func() {
		_ = m.process.Kill() // it fails if the process has ended, which is as good
		<-m.ended
		_ = m.stdin.Close()
	})
	if c.closed || !again {
		return ""
	}
	successor, err := c.hire(m.child, m.once)
	if err != nil {
		c.Fail(err)
		return ""
	}
	m.next = successor
	return successor.child.Name
}

// Freeze stops a process where it is, as a machine does that runs out of memory or moves to another
// host. Free reports whether the databases can be written: a process that is stopped in the middle
// of a write keeps SQLite locked for all, which is a limit of SQLite files and not the subject
// here.
func (c *Crew) Freeze(name string, free func() bool) {
	m := c.members[name]
	if !c.Alive(name) {
		return
	}
	m.frozen = true
	c.record(Report{From: name, Role: m.child.Role, Point: Frozen})
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
}

// Thaw lets a stopped process go on.
func (c *Crew) Thaw(name string) {
	if m := c.members[name]; m != nil && m.frozen {
		m.frozen = false
		c.record(Report{From: name, Role: m.child.Role, Point: Thawed})
		_ = m.process.Signal(syscall.SIGCONT)
	}
}

// Wait returns when something is so, or after the limit, or when the scenario fails.
func (c *Crew) Wait(limit time.Duration, so func() bool) {
	over := time.After(limit)
	for !so() {
		changed, ended := c.changed, false
		c.Aside(func() {
			select {
			case <-changed:
			case <-over:
				ended = true
			case <-c.Ctx.Done():
				ended = true
			}
		})
		if ended {
			return
		}
	}
}

// Aside does something that takes its time while the mutex is not locked.
func (c *Crew) Aside(do func()) {
	c.mu.Unlock()
	defer c.mu.Lock()
	do()
}

func (c *Crew) change() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Usual runs the usual way to write the program beside the story, unless a part is left out.
func (c *Crew) Usual(part func()) (wait func()) {
	if c.Broken != "" {
		return func() {}
	}
	return c.Beside(part)
}

// Until asks again and again whether something has happened, for a minute at most.
func (c *Crew) Until(what string, happened func() bool) {
	for over := time.Now().Add(stepMax); ; Pause(c.Ctx, 50*time.Millisecond) {
		c.Line()
		ok := happened()
		c.Must(context.Cause(c.Ctx))
		switch {
		case ok:
			return
		case time.Now().After(over):
			c.Must(fmt.Errorf("%s: not done after %v", what, stepMax))
		}
	}
}

// Dismiss tells the processes of some roles to end, or all processes, and waits until they have
// ended.
func (c *Crew) Dismiss(roles ...string) {
	leaving := c.leave(roles...)
	for _, m := range leaving {
		_ = m.stdin.Close()
		_ = m.process.Signal(syscall.SIGCONT) // a stopped one does not notice
	}
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
			c.Say("%s did not end as it should: %v%s", m.child.Name, m.err,
				c.logTail(m.child.Name))
		}
	}
}

// Unclean is how many processes did not end as they should when they were told to.
func (c *Crew) Unclean() int { return c.unclean }

func (c *Crew) leave(roles ...string) (leaving []*member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if !m.leaving && (len(roles) == 0 || slices.Contains(roles, m.child.Role)) {
			m.leaving = true
			leaving = append(leaving, m)
		}
	}
	return leaving
}

// close makes sure that no process is left.
func (c *Crew) close() {
	c.mu.Lock()
	c.closed = true
	var left []*member
	for _, m := range c.members {
		m.leaving = true
		left = append(left, m)
	}
	c.mu.Unlock()
	for _, m := range left {
		_ = m.process.Kill()
		<-m.ended
		_ = m.stdin.Close()
	}
	c.cancel(nil)
	_ = c.server.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.log.Close()
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

// Seen returns the reports of a point so far, or all for an empty one. It is for On; the result is
// not to be changed.
func (c *Crew) Seen(point string) []Report {
	if point == "" {
		return c.reports
	}
	return At(c.reports, point)
}

// Last returns the last report of a point about a key. It is for On.
func (c *Crew) Last(point, key string) (last Report) {
	for _, r := range c.Seen(point) {
		if r.Key == key {
			last = r
		}
	}
	return last
}

// At returns the reports of a point.
func At(reports []Report, point string) (some []Report) {
	for _, r := range reports {
		if r.Point == point {
			some = append(some, r)
		}
	}
	return some
}
