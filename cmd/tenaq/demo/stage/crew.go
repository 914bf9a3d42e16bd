package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// A Crew is the other processes of a scenario, and what they have reported. Its mutex is locked
// while On runs; Kill, Freeze, Wait and Aside are for On and unlock it while they wait.
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

// endMax is the limit for a process that was told to end, on a machine in trouble.
const endMax = 20 * time.Second

// stepMax is the limit for a step. A server of the demo's own that needs longer has a bug, but an
// emulator on a busy machine may just be slow.
func (c *Crew) stepMax() time.Duration {
	if c.Other != nil {
		return 3 * time.Minute
	}
	return time.Minute
}

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

// Take takes a report of a process, or of a server that the process has called, such as a bank.
func (c *Crew) Take(r Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[r.From]; m != nil && m.dead {
		return // said before it was killed
	}
	c.record(r)
	if !c.dies(r) {
		c.On(r)
	}
	c.change()
}

func (c *Crew) record(r Report) {
	r.At = time.Since(c.began).Seconds()
	c.reports = append(c.reports, r)
	line, _ := json.Marshal(r)
	_, _ = c.log.Write(append(line, '\n')) // as evidence of a failure
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

// Until asks again and again whether something has happened, and ends the scenario after the limit
// for a step.
func (c *Crew) Until(what string, happened func() bool) {
	for over := time.Now().Add(c.stepMax()); ; Pause(c.Ctx, 50*time.Millisecond) {
		c.Line()
		ok := happened()
		c.Must(context.Cause(c.Ctx))
		switch {
		case ok:
			return
		case time.Now().After(over):
			c.Must(fmt.Errorf("%s: not done after %v", what, c.stepMax()))
		}
	}
}

// close makes sure that no process is left.
func (c *Crew) close() {
	c.mu.Lock()
	c.closed = true
	left := slices.Collect(maps.Values(c.members))
	c.mu.Unlock()
	for _, m := range left {
		_ = m.process.Kill()
		<-m.ended
	}
	c.cancel(nil)
	_ = c.server.Close()
	_ = c.log.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.reports) == 0 { // an empty log is no evidence, and the directory would be kept for it
		_ = os.Remove(c.log.Name())
	}
}
