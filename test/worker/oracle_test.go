// Package worker_test tries to break package worker, with claims and records, and has to fail.
//
// A world is a server, queues with their dead letters, some workers, and trouble: every worker
// reaches the queue through a proxy that loses requests and answers, and the ledger through a store
// that does the same; there are outages, restarts, handlers that fail, panic, hang or do not
// listen. In a second kind of world workers are processes, which are killed and stopped. An oracle
// notes what handlers see and do, and what is left in the end, and says which rules were broken.
// A naive worker shows what the oracle is worth: the oracle must find it guilty.
package worker_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// The rules that an oracle knows.
const (
	ruleLost     = "nothing is lost"           // what was sent is completed, or a dead letter, and the queue is empty
	ruleReason   = "dead letters have reasons" // unless the queue itself moved them
	ruleOnce     = "once"                      // completed work was completed once, and had its effect
	ruleFence    = "fences rise"               // from handler to handler; who believes in its context is not refused
	ruleOverlap  = "no overlap"                // of two handlers of one key that both believe in their contexts
	ruleOrder    = "order"                     // within a message group
	ruleAttempts = "attempts"                  // no more than allowed; a dead letter has had all of them
	ruleTouched  = "hands off"                 // what was lost is not touched by who lost it
	ruleSilent   = "no silent end"             // a handler that succeeded is heard of: done, lost or abandoned
)

// A violation is a rule that was broken, and how.
type violation struct{ rule, text string }

func (v violation) String() string { return v.rule + ": " + v.text }

// An order is the body of a message.
type order struct {
	N    int    // of this message
	Key  string // of the work, which more than one message may name
	Kind kind
}

// A sent is an order in the queue.
type sent struct {
	order
	id    string // of the message
	group string
}

// An outcome is how a handler returned.
type outcome int

const (
	running outcome = iota
	succeeded
	failed
	later  // gave the message back without an attempt being counted
	gaveUp // said that the message is poison
	drained
)

var outcomeNames = [...]string{"running", "succeeded", "failed", "later", "poison", "drained"}

// A run is one handler that works on one message.
type run struct {
	worker   string
	id       string // of the message
	key      string // effect key
	attempt  int
	fence    uint64 // zero without a ledger
	takeover bool
	ctx      context.Context  // nil in another process
	deadline func() time.Time // until when the claim may be relied on; nil without a ledger, and in another process

	began, ended int // places in the order of everything that happened; ended is zero while it runs
	beganAt      time.Time
	outcome      outcome
	charged      bool
	told         string // what followed: done, failed, deferred, lost, abandoned; killed, when nothing could
}

func (r *run) String() string {
	return fmt.Sprintf("%s on %s of %s, attempt %d, fence %d", r.worker, r.id[:min(8, len(r.id))], r.key, r.attempt, r.fence)
}

// tale is what became of the handlers of a message.
func tale(runs []*run) string {
	var b strings.Builder
	for _, r := range runs {
		fmt.Fprintf(&b, "\n\t%d to %d: %s: %s, %s", r.began, r.ended, r, outcomeNames[r.outcome], r.told)
	}
	return b.String()
}

// counts says whether an attempt of the message is used up: not when it was given back for later. A
// lost run counts, because no worker could say in time that it should not. The exception is a run
// that was given back when only the answer was lost: then one of the other runs has the attempt.
func (o *oracle) counts(r *run, runs []*run) bool {
	if r.told == "lost" && (r.outcome == later || r.outcome == drained || o.shares) {
		return !slices.ContainsFunc(runs, func(other *run) bool { return other.began > r.began && other.attempt == r.attempt })
	}
	return r.told != "" && r.told != "deferred"
}

// An oracle notes what happens and judges it. Its methods may be called from any goroutine; what
// they see happens in the order in which they are called.
type oracle struct {
	attempts int  // that a message has
	shares   bool // handlers get batches, so one is at several messages
	native   bool // the queue may dead-letter by itself
	exact    bool // the ledger has no trouble, so every attempt is one of a handler
	ledger   bool // there is one; without it what counts as completed is what handlers say
	pulse    *pulse

	mu       sync.Mutex
	now      int
	sent     []*sent
	runs     []*run
	keys     map[string]*work
	lost     map[string]loss // by receipt handle
	killed   map[string]bool // workers that were killed
	bad      []violation
	events   map[string]int
	excused  int // overlaps of a handler whose context ended late because the machine stood still
	refused  int // effects under fences that were too small
	unbegun  int // attempts of dead letters that no handler began
	inFlight int // handlers
}

// A loss is a delivery that was lost or abandoned.
type loss struct {
	how string
	at  time.Time
}

// A work is what is known of an effect key.
type work struct {
	runs     []*run
	charges  int    // how often the effect was asked for; the first time it happens
	register uint64 // the largest fence that wrote
	done     int    // events
}

func newOracle(attempts int) *oracle {
	return &oracle{attempts: attempts, ledger: true, keys: make(map[string]*work), lost: make(map[string]loss), killed: make(map[string]bool), events: make(map[string]int), pulse: &pulse{}}
}

func (o *oracle) tick() int { o.now++; return o.now }

func (o *oracle) report(rule, format string, args ...any) {
	o.bad = append(o.bad, violation{rule, fmt.Sprintf(format, args...)})
}

func (o *oracle) work(key string) *work {
	if o.keys[key] == nil {
		o.keys[key] = &work{}
	}
	return o.keys[key]
}

// send notes a message that is in the queue.
func (o *oracle) send(s *sent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = append(o.sent, s)
}

// begin notes a handler that begins.
func (o *oracle) begin(r *run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.began, r.beganAt = o.tick(), time.Now()
	if o.killed[r.worker] { // this was on its way
		r.ended, r.told = o.tick(), "killed"
	} else {
		o.inFlight++
	}
	w := o.work(r.key)
	for _, other := range w.runs {
		if !r.believes() {
			break
		}
		if r.fence != 0 && other.fence >= r.fence && !o.excuses(r) {
			o.report(ruleFence, "%s began after %s", r, other)
		}
		if other.ended == 0 && other.believes() && !o.excuses(other) && !o.excuses(r) {
			o.report(ruleOverlap, "%s began while %s was at work", r, other)
		}
	}
	o.runs = append(o.runs, r)
	w.runs = append(w.runs, r)
}

// believes says whether the context of a handler in this process has not ended.
func (r *run) believes() bool { return r.ctx != nil && r.ctx.Err() == nil }

// excuses says whether a context should have ended by now, and did not because the machine stalled:
// then no timer could run.
func (o *oracle) excuses(r *run) bool {
	if r.deadline == nil {
		return false
	}
	now, limit := time.Now(), r.deadline()
	if late := now.Sub(limit); late < 0 || late > stallMin+o.pulse.stood(limit, now) {
		return false
	}
	o.excused++
	return true
}

// write is an effect on something that remembers the largest fence and refuses smaller ones.
func (o *oracle) write(r *run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.accepts(r) && r.believes() && !o.excuses(r) {
		o.report(ruleFence, "a write by %s was refused after one under %d, and it still believed", r, o.work(r.key).register)
	}
}

// accepts is the answer to a write.
func (o *oracle) accepts(r *run) bool {
	w := o.work(r.key)
	if r.fence < w.register {
		o.refused++
		return false
	}
	w.register = r.fence
	return true
}

// believed notes that a handler in another process, at a time before now, had a context that had
// not ended. Late is how long it should have been over by then, because it could have noticed; it
// is not above zero when it should not.
func (o *oracle) believed(r *run, at time.Time, late time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if late > 0 && late < lateMax {
		o.excused++
		return
	}
	for _, other := range o.work(r.key).runs {
		if other != r && other.fence >= r.fence && other.beganAt.Before(at) {
			o.report(ruleOverlap, "%s was at work %v after %s began, %v after the end of its claim", r, at.Sub(other.beganAt), other, late)
		}
	}
}

// lateMax is how long a process has to end a context. It may have been stopped, and the machine is
// a busy one.
const lateMax = 500 * time.Millisecond

// charge is an effect that happens once for a key.
func (o *oracle) charge(r *run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.work(r.key).charges++
	r.charged = true
}

// end notes that a handler returns.
func (o *oracle) end(r *run, out outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.ended != 0 { // it was killed, and this was on its way
		return
	}
	r.ended, r.outcome = o.tick(), out
	o.inFlight--
}

// done notes that the work of a run is recorded as completed.
func (o *oracle) done(r *run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.told = "done"
	w := o.work(r.key)
	if w.done++; w.done > 1 {
		o.report(ruleOnce, "%s completed what was completed before", r)
	}
	if r.outcome != succeeded {
		o.report(ruleOnce, "%s was completed, and its handler had not succeeded", r)
	}
}

// event counts something that no rule is about.
func (o *oracle) event(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tick()
	o.events[name]++
}

// tell notes an event that follows a handler.
func (o *oracle) tell(r *run, told string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r != nil && r.told == "" { // what failed and cannot be dead-lettered yet is deferred after that
		r.told = told
	}
}

// lose notes that a delivery was lost or abandoned. Run is nil when no handler had begun.
func (o *oracle) lose(r *run, handle, told string, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	how := fmt.Sprintf("%s (%v) before a handler began", told, why)
	o.tick()
	if r != nil {
		r.told = told
		how = fmt.Sprintf("%s (%v) by %s", told, why, r)
	}
	o.lost[handle] = loss{how, time.Now()}
}

// touch notes that a worker is about to change a message.
func (o *oracle) touch(operation, handle string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l, ok := o.lost[handle]; ok {
		o.report(ruleTouched, "%s of a message %v after it was %s", operation, time.Since(l.at), l.how)
	}
}

// kill notes that a process is dead: what its handlers have begun is not heard of any more.
func (o *oracle) kill(worker string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.killed[worker] = true
	for _, r := range o.runs {
		if r.worker != worker || r.told != "" {
			continue
		}
		r.told = "killed"
		if r.ended == 0 {
			r.ended = o.tick()
			o.inFlight--
		}
	}
}

// broken are the names of the broken rules so far, each once.
func broken(violations []violation) (rules []string) {
	for _, v := range violations {
		if !slices.Contains(rules, v.rule) {
			rules = append(rules, v.rule)
		}
	}
	slices.Sort(rules)
	return rules
}

// progress is how much has happened, and how many handlers are running.
func (o *oracle) progress() (happened, handlers int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now, o.inFlight
}

// figures say what the run amounted to.
func (o *oracle) figures() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	count := make(map[string]int)
	for _, r := range o.runs {
		count[outcomeNames[r.outcome]]++
		if r.told != "" {
			count["told "+r.told]++
		}
		if r.takeover {
			count["taken over"]++
		}
	}
	twice := 0
	for _, w := range o.keys {
		if w.charges > 1 {
			twice++
		}
	}
	maps.Copy(count, o.events)
	var parts []string
	for name, n := range count {
		parts = append(parts, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%d messages, %d handlers (%s); %d effects asked for more than once, %d refused for their fence, %d overlaps excused, %d attempts of dead letters without a handler",
		len(o.sent), len(o.runs), strings.Join(parts, ", "), twice, o.refused, o.excused, o.unbegun)
}

// stallMin is the shortest pause that counts as a stall of the machine.
const stallMin = 50 * time.Millisecond

// A pulse notices when the machine, or this process, stalls.
type pulse struct {
	mu     sync.Mutex
	stalls [][2]time.Time
}

// beat looks until ctx ends.
func (p *pulse) beat(ctx context.Context) {
	for last := time.Now(); ctx.Err() == nil; {
		time.Sleep(5 * time.Millisecond)
		now := time.Now()
		if now.Sub(last) > stallMin {
			p.mu.Lock()
			p.stalls = append(p.stalls, [2]time.Time{last, now})
			p.mu.Unlock()
		}
		last = now
	}
}

// stood is how long it stalled between two times, and around the first.
func (p *pulse) stood(from, to time.Time) (total time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.stalls {
		if s[0].Before(to) && s[1].After(from) {
			total += s[1].Sub(s[0])
		}
	}
	return total
}
