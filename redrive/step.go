package redrive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/work/pulse"
	"tenaq/internal/work/queuename"
	"tenaq/internal/work/trail"
	"tenaq/records"
)

// A Report is what a step did, or would do.
type Report struct {
	State     State
	Changed   bool // the breaker has another state than before
	Outcomes  []Outcome
	Decisions []Decided
	Depth     int // dead letters that were there, as the queue counts them

	// Silence says how messages are judged that do not come back. It is nil when there is a ledger,
	// and when no dead letter was looked at.
	Silence *Silence
}

// A Decided is a decision about one dead letter.
type Decided struct {
	Letter
	Decision
}

// Count is how many decisions were of one kind.
func (r *Report) Count(a Action) (n int) {
	for _, d := range r.Decisions {
		if d.Action == a {
			n++
		}
	}
	return n
}

// lookMax is how many dead letters one step looks at. The next one goes on behind them: they are
// hidden.
const lookMax = 1000

// Step finds out what has become of messages redriven earlier, and then redrives, holds or parks as
// many dead letters as it may. After an error what it has done so far stands, and is in the report;
// the rest comes back. The error is ErrOverlap when another redriver works on the same queue.
//
// What is about to be sent is written down first. A step that died after that is continued by the
// next one.
func (r *Redriver) Step(ctx context.Context) (Report, error) {
	return r.step(ctx, false)
}

// Plan says what Step would do, and does nothing but look at up to so many dead letters, which are
// hidden for Config.Look afterwards.
func (r *Redriver) Plan(ctx context.Context) (Report, error) {
	return r.step(ctx, true)
}

func (r *Redriver) step(ctx context.Context, dry bool) (report Report, err error) {
	w := &walk{Redriver: r, ctx: ctx, dry: dry, began: time.Now(), report: &report,
		waiting: make(map[string]bool), fates: make(map[string]fate),
		turned: make(map[string]bool), heads: make(map[string]bool)}
	if w.state, w.version, err = r.load(ctx); err != nil {
		return report, err
	}
	before := w.state.Breaker.State
	defer func() {
		report.State = w.state
		report.Changed = before != w.state.Breaker.State
	}()
	if err := w.prepare(); err != nil {
		return report, err
	}
	if w.refused.Load() && w.isUnnamed() {
		return report, ErrNotDeadLetters // without another receive, which counts
	}
	w.askWorkers()
	known, silent := w.ask()
	if err := w.judge(known); err != nil {
		return report, err
	}
	err = w.look()
	if w.marked && err == nil {
		err = w.put(w.state)
	}
	if err != nil {
		return report, err
	}
	return report, w.giveUp(silent)
}

// A walk is one step.
type walk struct {
	*Redriver
	ctx     context.Context
	dry     bool
	began   time.Time
	report  *Report
	state   State
	version records.Version
	target  target // of what is redriven
	health  Health // of the consumer, without what was held against it in this step already
	seen    int    // dead letters

	waiting map[string]bool // groups of FIFO queues of which a message was held in this step
	// lineages of dead letters that were put behind another one of their group in this step
	turned map[string]bool
	heads  map[string]bool // groups whose Head was seen in this step
	fates  map[string]fate // of flights that the server was asked about, by their letters
	marked bool            // flights got marks that are not written down yet
}

// prepare looks at the queues.
func (w *walk) prepare() (err error) {
	w.report.Depth, err = w.depth(w.ctx)
	return err
}

// ask finds out what has become of the messages that are on their way. Of the silent ones nobody
// has heard; those that nobody can be asked about now stay open.
func (w *walk) ask() (known, silent []Outcome) {
	for _, f := range w.state.Flights {
		o := Outcome{Letter: f.Letter, At: time.Now()}
		switch {
		case w.cfg.Outcomes != nil:
			result, reason, err := w.cfg.Outcomes.Outcome(w.ctx, f)
			if err != nil {
				w.cfg.Logger.Warn("what has become of a message is not known now", "key", f.Key,
					"error", err)
				continue
			}
			o.Result, o.Reason = result, reason
		case w.cfg.Claims != nil:
			e, err := w.entry(f.Key)
			if err != nil {
				w.cfg.Logger.Warn("the ledger cannot be asked now", "key", f.Key, "error", err)
				continue
			}
			if e.Age > 0 { // it is known
				o.At = o.At.Add(-e.Age)
			}
			o.Result, o.Reason = f.result(e), e.Reason
		case w.follower != nil && f.Mark != "":
			fate, known, err := w.follower.fate(w.ctx, &f)
			if err != nil {
				w.cfg.Logger.Warn("cannot ask the server what became of a message; the next step asks again", "key", f.Key, "error", err)
				fate, known = open, true
			}
			if known {
				w.fates[f.Letter] = fate
			}
		}
		if o.Result == Silent {
			silent = append(silent, o)
		} else {
			known = append(known, o)
		}
	}
	return known, silent
}

// giveUp ends the wait for messages of which nothing was heard, by the ledger or by a look at the
// dead letters.
func (w *walk) giveUp(silent []Outcome) error {
	overdue := func(o Outcome) bool {
		return slices.ContainsFunc(w.state.Flights, func(f Flight) bool {
			return f.Letter == o.Letter && f.over(&w.cfg.Policy, time.Now())
		})
	}
	if !slices.ContainsFunc(silent, overdue) {
		return nil
	}
	return w.judge(silent)
}

// entry is what the ledger says about a key; its zero value when that is nothing.
func (w *walk) entry(key string) (claims.Entry, error) {
	e, err := w.cfg.Claims.Entry(w.ctx, key)
	if errors.Is(err, claims.ErrNoEntry) {
		return claims.Entry{}, nil
	}
	return e, err
}

// result is what the entry of its work says about a flight.
func (f *Flight) result(e claims.Entry) Result {
	fresh := e.Fence > f.Fence
	switch {
	case e.State == claims.Completed && fresh:
		return Succeeded
	case e.State == claims.Completed:
		return Moot
	case fresh && (e.State == claims.Exhausted || e.State == claims.Parked):
		return Failed
	}
	return Silent
}

// workersMax bounds how many workers are remembered. More are not needed to know that all is well.
const workersMax = 100

// askWorkers asks what the workers have done since they were asked last.
func (w *walk) askWorkers() {
	if w.cfg.Claims == nil || w.state.Target == "" {
		return
	}
	now, err := pulse.Read(w.ctx, w.cfg.Claims.Store(), w.state.Target)
	if err != nil {
		w.cfg.Logger.Warn("it is not known now whether the consumer is well", "error", err)
		return
	}
	live := make(map[string]Health, len(now))
	for worker, counts := range now {
		if len(live) == workersMax {
			break
		}
		live[worker] = Health(counts)
		if before, known := w.state.Live[worker]; known {
			w.health.Done += max(0, counts.Done-before.Done)
			w.health.Failed += max(0, counts.Failed-before.Failed)
		} // else nobody knows when it was done
	}
	w.state.Live = live
}

// judge learns from outcomes and from the consumer's health, and remembers.
func (w *walk) judge(outcomes []Outcome) error {
	next := w.state.Judge(&w.cfg.Policy, time.Now(), outcomes, w.health)
	for _, o := range outcomes {
		if o.Result != Silent {
			w.report.Outcomes = append(w.report.Outcomes, o)
		}
		if o.Result == Failed {
			w.health.Failed++
		}
	}
	// what is heard of next is not excused by the same work
	w.health = Health{Done: w.health.excuses()}
	return w.put(next)
}

// put makes a state the one that all redrivers know.
func (w *walk) put(next State) (err error) {
	if w.dry {
		w.state = next
		return nil
	}
	version, err := w.save(w.ctx, next, w.version)
	if err == nil {
		w.state, w.version, w.marked = next, version, false
	}
	return err
}

// look receives dead letters and decides about them, while there is room for more and until it has
// seen all of them, or its time is over.
func (w *walk) look() error {
	most := lookMax
	if w.blind() && slices.ContainsFunc(w.state.Flights, func(f Flight) bool {
		return w.absent(&f, time.Now()) != Silent
	}) {
		most = math.MaxInt // only a look at all of them shows what is not there
	}
	for w.seen < most && time.Since(w.began) < w.cfg.Look/2 {
		now := time.Now()
		if w.state.Room(&w.cfg.Policy, now) == 0 && len(w.state.Flights) == 0 {
			return nil // nothing may go, and nothing can have come back
		}
		letters, err := w.receive(w.ctx)
		if err != nil {
			return err
		}
		if len(letters) == 0 {
			return w.sawAll()
		}
		if w.strange(letters) {
			w.refused.Store(true)
			w.putBack(w.ctx, letters)
			return ErrNotDeadLetters
		}
		for _, l := range letters {
			if !w.turned[l.Lineage] { // else it was counted before
				w.seen++
			}
		}
		if err := w.returned(letters); err != nil {
			return err
		}
		if err := w.decide(letters); err != nil {
			return err
		}
	}
	return nil
}

// returned learns of messages that are dead letters again.
func (w *walk) returned(letters []*letter) error {
	var outcomes []Outcome
	for _, l := range letters {
		i := slices.IndexFunc(w.state.Flights, func(f Flight) bool {
			return f.Lineage == l.Lineage && f.Letter != l.ID
		})
		if i >= 0 {
			outcomes = append(outcomes, Outcome{Letter: w.state.Flights[i].Letter, Result: Failed,
				Reason: l.Reason, At: l.Died})
		}
	}
	if len(outcomes) == 0 {
		return nil
	}
	return w.judge(outcomes)
}

// blind reports whether nobody can be asked what has become of messages.
func (w *walk) blind() bool { return w.cfg.Claims == nil && w.cfg.Outcomes == nil }

// sawAll learns from what is not there: without a ledger, a message that is no dead letter was
// processed when the server says that it was deleted, and probably when it did not come back in the
// time in which it would have. A FIFO queue shows ten messages of a group and then says that it is
// empty, so there it has to be as many as the queue counts.
func (w *walk) sawAll() error {
	if !w.blind() || isFIFO(w.cfg.DeadLetterURL) && w.seen < w.report.Depth {
		return nil
	}
	var outcomes []Outcome
	now := time.Now()
	for _, f := range w.state.Flights {
		if result := w.absent(&f, now); result != Silent {
			outcomes = append(outcomes, Outcome{Letter: f.Letter, Result: result, At: now})
		}
	}
	if len(outcomes) == 0 {
		return nil
	}
	return w.judge(outcomes)
}

// absent is what it means that a flight is not among the dead letters.
func (w *walk) absent(f *Flight, now time.Time) Result {
	switch fate, asked := w.fates[f.Letter]; {
	// A consumer that makes dead letters itself sends them before it deletes the message.
	case fate == deleted:
		return Succeeded
	case !asked && !f.Judge.IsZero() && now.After(f.Judge) && !f.weak():
		return Gone
	}
	return Silent
}

// decide decides about dead letters and carries it out: first it writes down what is about to be
// sent.
func (w *walk) decide(letters []*letter) error {
	next := w.state
	decisions := make([]Decision, len(letters))
	for i, l := range letters {
		if h := next.head(l.Group); h != nil && h.Lineage == l.Lineage {
			w.heads[l.Group] = true
		}
		next, decisions[i] = w.decideOne(next, l)
		if w.heads[l.Group] {
			decisions[i].Behind = false // it stands behind its head
		}
		if l.Group != "" && decisions[i].Action == Hold && !decisions[i].Behind {
			w.waiting[l.Group] = true
		}
	}
	// else there is nothing to write down
	if slices.ContainsFunc(decisions, func(d Decision) bool { return d.Action != Hold }) {
		if err := w.put(next); err != nil {
			return err
		}
	}
	for i, l := range letters {
		w.report.Decisions = append(w.report.Decisions, Decided{l.Letter, decisions[i]})
		if w.dry {
			continue
		}
		if err := w.carryOut(l, decisions[i]); err != nil {
			return fmt.Errorf("%s %s: %w", decisions[i].Action, l.ID, err)
		}
	}
	return nil
}

// decideOne decides about one dead letter.
func (w *walk) decideOne(s State, l *letter) (State, Decision) {
	hold := func(held HoldCause, why string) (State, Decision) {
		return s, Decision{Action: Hold, Held: held, Why: why, Strikes: l.Strikes}
	}
	if l.bad != nil {
		if s.Paused != "" {
			return hold(HeldPaused, "paused: "+s.Paused)
		}
		s.Parked++
		return s, Decision{Action: Park, Why: l.bad.Error(), Strikes: l.Strikes}
	}
	var err error
	if l.target, err = w.targetOf(w.ctx, l); err != nil {
		return hold(HeldOther, err.Error())
	}
	s.Target = queuename.Of(l.target.url)
	next, d := s.Decide(&w.cfg.Policy, time.Now(), l.Letter, rand.Float64())
	if d.Behind && w.turned[l.Lineage] && !w.heads[l.Group] {
		// The group went round, and the message that it waits for is not there. Its worker may be
		// about to send it; after that somebody took it away.
		d.Behind = false
		if time.Since(s.head(l.Group).Since) > w.cfg.Policy.near() {
			s = s.clone()
			s.endHead(l.Group, "")
			next, d = s.Decide(&w.cfg.Policy, time.Now(), l.Letter, rand.Float64())
		}
	}
	if len(next.Flights) == len(s.Flights) {
		return next, d
	}
	if w.waiting[l.Group] {
		return hold(HeldGroup, "an earlier message of its group is held")
	}
	f := &next.Flights[len(next.Flights)-1]
	if w.blind() {
		f.Judge, f.End = f.Due.Add(l.target.silence.Half()), f.Due.Add(l.target.silence.Settled())
	}
	if w.cfg.Claims == nil {
		return next, d
	}
	e, err := w.entry(f.Key)
	switch {
	case err != nil:
		return hold(HeldLedger, "the ledger cannot be asked now: "+err.Error())
	case e.State == claims.Parked: // it would be a dead letter again at once, whoever got it
		s.Parked++
		return s, Decision{Action: Park, Why: "its claim waits for a person: " + e.Reason,
			Strikes: l.Strikes}
	}
	f.Fence = e.Fence // what the ledger says later is known for news by it
	return next, d
}

// carryOut does with a dead letter what was decided.
func (w *walk) carryOut(l *letter, d Decision) error {
	switch d.Action {
	case Hold:
		if d.Behind {
			w.turned[l.Lineage] = true
			// other groups need not wait for it
			if err := w.move(w.ctx, l, w.cfg.DeadLetterURL, d); err != nil {
				w.cfg.Logger.Warn("cannot put a dead letter behind an earlier one of its group; allow sqs:SendMessage on the dead-letter queue if that is denied",
					"group", l.Group, "error", err)
			}
			return nil
		}
		if wait := time.Until(d.Until); wait > w.cfg.Look {
			return w.hide(w.ctx, l, wait)
		}
		return nil // it comes back when its look is over
	case Park:
		return w.move(w.ctx, l, w.cfg.ParkingURL, d)
	}
	err := w.move(w.ctx, l, l.target.url, d)
	if i := slices.IndexFunc(w.state.Flights, func(f Flight) bool {
		return f.Letter == l.ID
	}); i >= 0 && l.mark != "" {
		w.state.Flights[i].Queue, w.state.Flights[i].Mark = queuename.Of(l.target.url), l.mark
		w.marked = true
	}
	return err
}

// A letter is a dead letter in the redriver's hands.
type letter struct {
	Letter
	raw    types.Message
	trail  trail.Trail
	bad    error // why nobody can tell what it is
	target target
	mark   string // of the message that it was sent on as, on a server that gives marks
}
