package order

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// A fate is what happens to an order on its way.
type fate int

const (
	plain      fate = iota // the bank takes one and a half to two leases
	long                   // two and a half, and nobody disturbs the worker
	crashed                // the worker is killed when the card is charged and the order is not recorded
	doomed                 // so is every worker that tries, until the order is a dead letter
	frozen                 // the worker is stopped there, until another one has done its work
	unanswered             // the card is charged, and the bank hangs up
	refused                // there is no money on the card, until the next day
	copied                 // its message is in the queue twice
)

// cast says how many orders have a fate; the others are plain.
var cast = map[fate]int{long: 2, crashed: 3, doomed: 1, frozen: 2, unanswered: 3, refused: 2, copied: 3}

// A story is how an order fares.
type story struct {
	fate       fate
	played     bool // what the fate says has happened
	begins     int  // of handlers
	asked      int  // requests for charges, those aside that the bank knew
	recorded   int
	turnedAway int       // deliveries that found it busy or done
	dead       int       // dead letters
	holder     string    // who received its message last
	bereft     time.Time // when that one was killed; zero when somebody has begun since
}

// A stage hears from every handler how far it has come, and answers when the handler may go on. What it has in
// mind for an order it does in between.
type stage struct {
	d    *demo
	ctx  context.Context
	fail context.CancelCauseFunc
	said chan string // what is worth telling
	log  *os.File

	mu      sync.Mutex
	changed chan struct{} // closed with every change, and replaced
	began   time.Time
	rng     *rand.Rand
	stories map[string]*story
	running map[string]*handling // by the id of the run
	busy    int                  // things that the stage is at

	tomorrow  bool // the cards are good
	killed    int
	bereaved  int // of the kills, those between charge and record
	frozen    int
	stale     int // writes that a fence refused
	beside    int // handlers that went on beside another one of the same order
	takeOvers []time.Duration
	times     []time.Duration // of handlers that were the only one of their order
	long      int             // of these, longer than two leases
}

// A handling is a handler at work.
type handling struct {
	report
	began     time.Time
	overtaken bool // another one began although this one's process was awake
	guarded   bool // its process is not to be killed or stopped before it ends
}

func newStage(ctx context.Context, fail context.CancelCauseFunc, d *demo) (*stage, error) {
	log, err := os.Create(filepath.Join(d.Dir, "events.txt"))
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(d.Seed, 1))
	s := &stage{
		d: d, ctx: ctx, fail: fail, said: make(chan string, 1000), log: log,
		rng: rng, began: time.Now(), changed: make(chan struct{}),
		stories: make(map[string]*story), running: make(map[string]*handling),
	}
	fates := make([]fate, len(d.work))
	next := 0
	for f := plain; f <= copied; f++ {
		for range cast[f] {
			fates[next] = f
			next++
		}
	}
	rng.Shuffle(len(fates), func(i, j int) { fates[i], fates[j] = fates[j], fates[i] })
	for i, o := range d.work {
		s.stories[o.Order] = &story{fate: fates[i]}
	}
	return s, nil
}

func (s *stage) close() { _ = s.log.Close() }

// begin begins the kills at random moments.
func (s *stage) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy++
	go s.killAtRandom(s.rng.Uint64())
}

// Points that workers report. A handler waits for the answer.
const (
	pointReceived = "received"
	pointBegin    = "begin"
	pointCharged  = "charged"  // the card is charged, and nothing recorded yet
	pointRecorded = "recorded" // the order is in the table; the ledger does not know yet
	pointEnd      = "end"
	pointAway     = "turned away" // the order was busy or done
	pointDead     = "dead letter"
)

// A report is what a worker says.
type report struct {
	Worker  string `json:"worker"`
	Run     string `json:"run"` // of the handler; each has one of its own
	Point   string `json:"point"`
	Order   string `json:"order"`
	Attempt int    `json:"attempt"`
	Fence   uint64 `json:"fence"`
	Lost    bool   `json:"lost"`  // at the end: the handler was told that it had lost the claim or the lease
	Stale   bool   `json:"stale"` // at the end: the fence refused its write
	Error   string `json:"error"`
}

func (s *stage) serve(mux *http.ServeMux) {
	mux.HandleFunc("POST /stage", func(w http.ResponseWriter, r *http.Request) {
		var in report
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.at(in)
	})
}

// at takes a report and returns when its author may go on.
func (s *stage) at(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.d.crew.alive(r.Worker) {
		return // it said so before it was killed
	}
	s.note("%s %s %s, attempt %d, fence %d%s", r.Worker, r.Point, r.Order, r.Attempt, r.Fence, ending(r))
	o := s.stories[r.Order]
	if o == nil {
		return
	}
	switch r.Point {
	case pointReceived:
		o.holder = r.Worker
	case pointBegin:
		s.atBegin(r, o)
	case pointCharged:
		s.atCharged(r, o)
	case pointRecorded:
		o.recorded++
	case pointEnd:
		s.atEnd(r, o)
	case pointAway:
		o.turnedAway++
		if o.holder == r.Worker {
			o.holder = ""
		}
	case pointDead:
		o.dead++
		o.holder, o.bereft = "", time.Time{}
	}
	s.change()
}

func ending(r report) (text string) {
	if r.Lost {
		text += ", lost"
	}
	if r.Error != "" {
		text += ": " + r.Error
	}
	return text
}

// atBegin: a handler begins.
func (s *stage) atBegin(r report, o *story) {
	for _, other := range s.running {
		// With a smaller fence it is this one that comes late: it was stopped before it could say so.
		if other.Order == r.Order && other.Fence <= r.Fence && s.d.crew.awake(other.Worker) {
			other.overtaken = true
		}
	}
	o.begins++
	if !o.bereft.IsZero() {
		s.takeOvers = append(s.takeOvers, time.Since(o.bereft))
		o.bereft = time.Time{}
	}
	h := &handling{report: r, began: time.Now()}
	s.running[r.Run] = h
	// What is shown with these may not depend on chance; of copies, when it is that the checks can fail.
	h.guarded = o.begins == 1 && (o.fate == long || o.fate == copied && s.d.Break != Nothing)
	if o.fate == copied && !o.played {
		o.played = true
		s.aside(func() { s.sendCopy(r.Order) })
	}
}

// atCharged: a card is charged, and nothing recorded.
func (s *stage) atCharged(r report, o *story) {
	switch {
	case o.fate == crashed && !o.played, o.fate == doomed && o.dead == 0:
		if s.kill(r.Worker) {
			o.played = true
			s.bereaved++
			s.say("killed %s, which had charged the card of %s", r.Worker, r.Order)
		}
	case o.fate == frozen && !o.played && s.freeze(r):
		o.played = true
		s.frozen++
		s.wait(disturbMax, func() bool { return o.recorded > 0 })
		s.thaw(r)
		s.say("woke %s up, which had charged the card of %s; somebody else has recorded it", r.Worker, r.Order)
	}
}

// atEnd: a handler is about to return.
func (s *stage) atEnd(r report, o *story) {
	h := s.running[r.Run]
	if h == nil {
		return
	}
	delete(s.running, r.Run)
	o.holder = ""
	if h.overtaken && !r.Lost {
		s.beside++
	}
	if r.Stale {
		s.stale++
	}
	if took := time.Since(h.began); r.Error == "" && o.begins == 1 {
		s.times = append(s.times, took)
		if took > 2*lease {
			s.long++
		}
	}
}

// plan is how the bank deals with the card of an order.
func (s *stage) plan(key string) plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	const quick = lease / 6
	slow := lease*3/2 + time.Duration(s.rng.Int64N(int64(lease/2)))
	// When claims or heartbeats are left out nothing is left to chance: the bank waits for what then happens.
	limit := lease
	if s.d.Break == Claims || s.d.Break == Heartbeats {
		limit = 30 * time.Second
	}
	o := s.stories[key]
	if o.asked++; o.asked > 1 && o.fate != refused {
		return plan{takes: quick}
	}
	switch o.fate {
	case doomed, frozen:
		return plan{takes: quick}
	case refused:
		return plan{takes: quick, refuse: !s.tomorrow}
	case unanswered:
		hangUp := !o.played
		o.played = true
		return plan{takes: quick, hangUp: hangUp}
	case copied:
		return plan{takes: slow, until: func() { s.await(limit, func() bool { return o.begins > 1 || o.turnedAway > 0 }) }}
	case long:
		if s.d.Break == Heartbeats {
			return plan{takes: slow, until: func() { s.await(limit, func() bool { return o.begins > 1 }) }}
		}
		return plan{takes: 5 * lease / 2}
	}
	return plan{takes: slow}
}

// nextDay puts money on the cards.
func (s *stage) nextDay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tomorrow = true
}

// A moment is where the stage has come to.
type moment struct {
	killed int
	idle   bool // nothing is under way
}

func (s *stage) progress() moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return moment{killed: s.killed, idle: s.busy == 0 && len(s.running) == 0}
}

// await returns when something is so, or after a while.
func (s *stage) await(limit time.Duration, so func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait(limit, so)
}

// wait is await with the mutex locked, which it is not while it waits. It reports whether it is so.
func (s *stage) wait(limit time.Duration, so func() bool) bool {
	over := time.After(limit)
	for !so() {
		changed := s.changed
		s.mu.Unlock()
		ended := false
		select {
		case <-changed:
		case <-over:
			ended = true
		case <-s.ctx.Done():
			ended = true
		}
		s.mu.Lock()
		if ended {
			return so()
		}
	}
	return true
}

// change wakes up who waits.
func (s *stage) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// aside does something that takes its time while the mutex is not locked.
func (s *stage) aside(do func()) {
	s.busy++
	s.mu.Unlock()
	do()
	s.mu.Lock()
	s.busy--
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

// guarded reports whether a process is needed as it is.
func (s *stage) guarded(worker string) bool {
	for _, h := range s.running {
		if h.Worker == worker && h.guarded {
			return true
		}
	}
	return false
}

// workersAt returns the processes that are at work and can be killed.
func (s *stage) workersAt() (names []string) {
	for _, h := range s.running {
		if !slices.Contains(names, h.Worker) && !s.guarded(h.Worker) && !s.d.crew.stopped(h.Worker) {
			names = append(names, h.Worker)
		}
	}
	slices.Sort(names)
	return names
}
