package outbox

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// A stage hears from every process how far it has come, and answers when the process may go on. What it has in mind
// for the process it does in between.
type stage struct {
	d      *demo
	url    string
	server *http.Server
	said   chan string // what is worth telling
	log    *os.File
	began  time.Time

	mu      sync.Mutex
	changed chan struct{} // closed with every change, and replaced
	uploads map[string]upload
	played  map[string]bool // fates that have happened, by fate and job
	up      map[string]bool // jobs that were uploaded
	deaths  map[role]int
	lates   int

	relayDeaths  []point // still to come; the first one is next
	relayDied    []point
	replayDeaths []point
	busy         bool                       // a relay is being killed
	newcomer     string                     // the relay in its place, until it is heard of
	unsettled    map[string]map[string]bool // jobs that a relay has sent, or begun to, and not written down
	excused      map[string]int             // jobs that may be sent again, and how often

	// When leases are left out nothing is left to chance: the first relay that has rows waits until another one has
	// some of them too, and no relay dies before both have sent one.
	first   *report
	met     bool
	senders map[string]string // by job
	doubled bool
}

func newStage(d *demo) (*stage, error) {
	log, err := os.Create(filepath.Join(d.Dir, "events.txt"))
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Close()
		return nil, err
	}
	s := &stage{
		d: d, url: "http://" + l.Addr().String(), said: make(chan string, 1000), log: log, began: time.Now(), changed: make(chan struct{}),
		uploads: make(map[string]upload), played: make(map[string]bool), up: make(map[string]bool), deaths: make(map[role]int),
		unsettled: make(map[string]map[string]bool), excused: make(map[string]int), senders: make(map[string]string),
	}
	s.server = &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		var r report
		if err := json.NewDecoder(in.Body).Decode(&r); err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		s.at(r)
	})}
	go func() { _ = s.server.Serve(l) }()
	return s, nil
}

func (s *stage) close() {
	_ = s.server.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.log.Close()
}

// expect is told what is uploaded in the storm. The relays begin to die.
func (s *stage) expect(uploads []upload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range uploads {
		s.uploads[u.Job] = u
	}
	for range s.d.Scale.RelayDeaths {
		s.relayDeaths = append(s.relayDeaths, pointClaiming, pointClaimed, pointSent, pointSettled)
	}
}

// expectReplay is told where processes that replay die.
func (s *stage) expectReplay(deaths ...point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replayDeaths = deaths
}

// at takes a report and returns when its author may go on.
func (s *stage) at(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.d.crew.alive(r.Name) {
		return // it said so before it was killed
	}
	s.note("%s %s %v%s", r.Name, r.Point, r.Jobs, told(r.Upload))
	switch r.Role {
	case roleUsual:
		s.atUpload(r, map[point]fate{pointBetween: diesBetween}, false)
	case roleUpload:
		s.atUpload(r, map[point]fate{pointRow: diesRow, pointOutbox: diesOutbox, pointCommit: diesCommit}, true)
	case roleRelay:
		s.atRelay(r)
	case roleWorker:
		u := s.uploads[r.Jobs[0]]
		if map[point]fate{pointHalf: diesHalf, pointWritten: diesWritten, pointRecorded: diesRecorded}[r.Point] == u.Worker && s.plays(u.Worker, u.Job) {
			s.kill(r, true, "which had %s: %s", u.Job, u.Worker)
		}
	case roleReplay:
		if len(s.replayDeaths) > 0 && s.replayDeaths[0] == r.Point {
			s.replayDeaths = s.replayDeaths[1:]
			s.kill(r, true, "%s", r.Point)
		}
	}
	s.change()
}

func told(u *upload) string {
	if u == nil {
		return ""
	}
	return fmt.Sprint(u.Job, " ", u.Fate)
}

// plays reports whether a fate has not been played yet, and plays it.
func (s *stage) plays(f fate, job string) bool {
	key := string(f) + " " + job
	was := s.played[key]
	s.played[key] = true
	return f != plain && !was
}

// atUpload hears of an upload.
func (s *stage) atUpload(r report, deadly map[point]fate, again bool) {
	u := *r.Upload
	switch {
	case deadly[r.Point] == u.Fate && s.plays(u.Fate, u.Job):
		s.kill(r, again, "with %s: %s", u.Job, u.Fate)
	case r.Point == pointLate:
		s.mu.Unlock()
		so := s.overtaken(r.Row)
		s.mu.Lock()
		if so && s.plays(late, u.Job) {
			s.lates++
			s.say("%s is committed now; younger rows were sent before", u.Job)
		}
	case r.Point == pointCommit:
		s.up[u.Job] = true
	}
}

// Younger rows that are sent before a row that is late is committed, and how long it waits for them. The second is
// for machines that are in trouble.
const (
	youngerSent = 3
	youngerMax  = 40 * time.Second
)

// overtaken returns when younger rows than a row have been sent.
func (s *stage) overtaken(row string) bool {
	for began := time.Now(); time.Since(began) < youngerMax && s.d.ctx.Err() == nil; sleep(s.d.ctx, 50*time.Millisecond) {
		n, err := s.d.db.count(s.d.ctx, `SELECT count(*) FROM outbox_sent WHERE id > $1`, row)
		if err != nil {
			s.d.fail(err)
		}
		if n >= youngerSent {
			return true
		}
	}
	return false
}

// atRelay hears of a relay.
func (s *stage) atRelay(r report) {
	if s.newcomer == r.Name {
		s.newcomer = ""
		s.change()
	}
	mine := s.unsettled[r.Name]
	if mine == nil {
		mine = make(map[string]bool)
		s.unsettled[r.Name] = mine
	}
	switch r.Point {
	case pointClaiming: // the others shall not send everything while one is being replaced
		s.wait(stepMax, func() bool { return !s.busy && s.newcomer == "" })
	case pointClaimed:
		if s.d.Break == Leases {
			s.meet(r)
		}
	case pointSent:
		for _, job := range r.Jobs {
			if other, ok := s.senders[job]; ok && other != r.Name {
				s.doubled = true
			}
			s.senders[job] = r.Name
		}
	case pointSending:
		for _, job := range r.Jobs {
			mine[job] = true
		}
	case pointSettled:
		for _, job := range r.Jobs {
			delete(mine, job)
		}
	case pointDoubt, pointLost:
		for _, job := range r.Jobs {
			s.excused[job]++
		}
	}
	dies := len(s.relayDeaths) > 0 && s.relayDeaths[0] == r.Point && !s.busy && s.newcomer == ""
	if r.Point == pointSent && r.Queue != s.d.Queues.Plain {
		dies = false // a FIFO queue would drop the copies
	}
	if s.d.Break == Leases && !s.doubled {
		dies = false
	}
	if !dies || !s.d.crew.alive(r.Name) {
		return
	}
	s.relayDeaths = s.relayDeaths[1:]
	s.relayDied = append(s.relayDied, r.Point)
	for job := range mine {
		s.excused[job]++
	}
	s.busy = true
	s.newcomer = s.kill(r, true, "%s", r.Point)
	s.busy = false
	s.change()
}

// meet lets the first relay that has rows wait for another one that has some of them too.
func (s *stage) meet(r report) {
	const most = 20 * time.Second // a relay gives a claim up after half a minute
	switch {
	case s.first == nil:
		s.first = &r
		s.wait(most, func() bool { return s.met })
	case r.Name != s.first.Name && slices.ContainsFunc(r.Jobs, func(job string) bool { return slices.Contains(s.first.Jobs, job) }):
		s.met = true
		s.change()
	}
}

// kill kills a process with -9, and returns the name of the one in its place.
func (s *stage) kill(r report, again bool, format string, args ...any) (next string) {
	m, ok := s.d.crew.bury(r.Name, again)
	if !ok {
		return ""
	}
	s.deaths[r.Role]++
	s.say("killed %s, %s", r.Name, fmt.Sprintf(format, args...))
	s.mu.Unlock()
	successor, err := s.d.crew.kill(m)
	s.mu.Lock()
	switch {
	case err != nil && s.d.ctx.Err() == nil:
		s.d.fail(err)
	case successor != nil:
		next = successor.task.Name
	}
	return next
}

// killed is how many processes of a role were killed.
func (s *stage) killed(r role) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deaths[r]
}

// diedAt is how many relays were killed at each of some points.
func (s *stage) diedAt(points ...point) (n []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range points {
		died := 0
		for _, at := range s.relayDied {
			if at == p {
				died++
			}
		}
		n = append(n, died)
	}
	return n
}

// late is how many uploads were committed after younger rows had been sent.
func (s *stage) late() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lates
}

// excuses is how often the message of a job may have been sent again.
func (s *stage) excuses(job string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.excused[job]
}

// uploaded is how many uploads were committed.
func (s *stage) uploaded() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.up)
}

// wait returns when something is so, or after a while. The mutex is locked, but not while it waits.
func (s *stage) wait(limit time.Duration, so func() bool) {
	over := time.After(limit)
	for !so() {
		changed := s.changed
		s.mu.Unlock()
		ended := false
		select {
		case <-changed:
		case <-over:
			ended = true
		case <-s.d.ctx.Done():
			ended = true
		}
		s.mu.Lock()
		if ended {
			return
		}
	}
}

// change wakes up who waits.
func (s *stage) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// note writes a line to the log of the stage.
func (s *stage) note(format string, args ...any) {
	fmt.Fprintf(s.log, "%6.2f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// say tells the one who watches.
func (s *stage) say(format string, args ...any) {
	s.note(format, args...)
	select {
	case s.said <- fmt.Sprintf(format, args...):
	default: // nobody listens any more
	}
}
