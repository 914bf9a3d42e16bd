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

// A Report says what a step did, or would do.
type Report struct {
	State     State
	Changed   bool // the state of the breaker changed
	Outcomes  []Outcome
	Decisions []Decided
	Depth     int // number of dead letters by the count of the queue

	// Silence says how to judge messages that do not come back. It is nil if there is a ledger, and
	// if the step saw no dead letter.
	Silence *Silence

	// Hidden is how many of the dead letters that a plan looked at could not be given back. They
	// stay hidden for up to Config.Look.
	Hidden int
}

// A Decided is a decision about one dead letter.
type Decided struct {
	Letter
	Decision
}

// Count returns the number of decisions for an action.
func (r *Report) Count(a Action) (n int) {
	for _, d := range r.Decisions {
		if d.Action == a {
			n++
		}
	}
	return n
}

// lookMax is the maximum number of dead letters of one step. They are hidden then, so the next step
// continues behind them.
const lookMax = 1000

// Step finds out the outcomes of messages that were redriven earlier, and then redrives, holds or
// parks dead letters. After an error, what it did so far is valid and in the report; the other
// messages come back. It returns ErrOverlap if another redriver works on the same queue.
//
// It stores its decisions before it sends. If it dies after that, the next step continues.
func (r *Redriver) Step(ctx context.Context) (Report, error) {
	return r.step(ctx, false)
}

// Plan says what Step would do. For a paused redriver, that is the first step after the pause, so
// an operator can check it before Resume. It receives dead letters and gives them back at its end,
// even after an error. A tenaq server takes back their receives as well; elsewhere their receive
// counts grow by one.
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
	before, paused := w.state.Breaker.State, w.state.Paused
	if dry {
		w.state.Paused = ""
	}
	defer func() {
		report.Hidden = w.giveBackAll()
		if dry {
			w.state.Paused = paused
		}
		report.State = w.state
		report.Changed = before != w.state.Breaker.State
	}()
	if report.Depth, err = r.depth(ctx); err != nil {
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
	if w.marked { // also if the look failed later
		if stored := w.put(w.state); err == nil {
			err = stored
		}
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
	target  target // of the last message
	health  Health // of the consumer, less what this step has counted already
	seen    int    // dead letters

	looked  []*letter       // by a plan, which gives them back
	waiting map[string]bool // groups of FIFO queues of which a message was held in this step
	// lineages of dead letters that were put behind another one of their group in this step
	turned map[string]bool
	heads  map[string]bool // groups whose Head was seen in this step
	fates  map[string]fate // of flights, as the server said, by their letters
	marked bool            // flights got marks that are not stored yet
}

// ask finds out the outcomes of the messages on their way. The silent ones have none yet. Messages
// whose outcome cannot be determined now are in neither list.
func (w *walk) ask() (known, silent []Outcome) {
	for i, f := range w.state.Flights {
		o := Outcome{Letter: f.Letter, At: time.Now()}
		if w.follows() && f.Mark == "" {
			f = w.find(i)
		}
		switch {
		case w.cfg.Outcomes != nil:
			result, reason, err := w.cfg.Outcomes.Outcome(w.ctx, f)
			if err != nil {
				w.cfg.Logger.Warn("cannot determine what became of a message", "key", f.Key,
					"error", err)
				continue
			}
			o.Result, o.Reason = result, reason
		case w.cfg.Claims != nil:
			e, err := w.entry(f.Key)
			if err != nil {
				w.cfg.Logger.Warn("cannot read the ledger", "key", f.Key, "error", err)
				continue
			}
			if e.Age > 0 { // the store has a clock
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

// follows reports whether the server says what became of messages, and no ledger does.
func (w *walk) follows() bool { return w.blind() && w.follower != nil }

// find gives a flight its mark, if the answer that had it was lost, or the redriver died before it
// stored the mark. A message that no queue has any more gets none.
func (w *walk) find(i int) Flight {
	f := &w.state.Flights[i]
	if !w.features.has(w.ctx).moves {
		return *f
	}
	at := w.whereabouts(w.ctx, f.Lineage, f.Letter)
	if at.Mark != "" && at.Queue != w.name && at.Queue != queuename.Of(w.cfg.ParkingURL) {
		f.Queue, f.Mark, w.marked = at.Queue, at.Mark, true
	}
	return *f
}

// giveUp ends the wait for messages without an outcome.
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

// entry returns the entry of a key, or the zero value.
func (w *walk) entry(key string) (claims.Entry, error) {
	e, err := w.cfg.Claims.Entry(w.ctx, key)
	if errors.Is(err, claims.ErrNoEntry) {
		return claims.Entry{}, nil
	}
	return e, err
}

// result returns the result of a flight by the entry of its work.
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

// workersMax is the maximum number of workers that the state remembers, which is enough to know
// that the consumer works.
const workersMax = 100

// askWorkers finds out what the workers have done since the last step.
func (w *walk) askWorkers() {
	if w.cfg.Claims == nil || w.state.Target == "" {
		return
	}
	now, err := pulse.Read(w.ctx, w.cfg.Claims.Store(), w.state.Target)
	if err != nil {
		w.cfg.Logger.Warn("cannot determine whether the consumer is healthy", "error", err)
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
		} // otherwise it is unknown when that was
	}
	w.state.Live = live
}

// judge updates and stores the state with outcomes and the health of the consumer.
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
	// The same work does not excuse the next outcomes.
	w.health = Health{Done: w.health.excuses()}
	return w.put(next)
}

// put stores a state.
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

// look receives dead letters and decides about them, until it has seen all of them, or until half
// of Config.Look has passed.
func (w *walk) look() error {
	most := lookMax
	if w.blind() && slices.ContainsFunc(w.state.Flights, func(f Flight) bool {
		return w.absent(&f, time.Now()) != Silent
	}) {
		most = math.MaxInt // only all of them together show what has not come back
	}
	for w.seen < most && time.Since(w.began) < w.cfg.Look/2 {
		now := time.Now()
		if w.state.Room(&w.cfg.Policy, now) == 0 && len(w.state.Flights) == 0 {
			return nil // nothing may be sent, and nothing can have come back
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
			_ = w.giveBack(w.ctx, letters) // after an error they are visible when the look ends
			return ErrNotDeadLetters
		}
		if w.dry {
			w.looked = append(w.looked, letters...)
		}
		for _, l := range letters {
			if !w.turned[l.Lineage] { // otherwise it was counted before
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

// giveBackFor is how long a plan tries to give back what it has looked at.
const giveBackFor = 10 * time.Second

// giveBackAll gives back what a plan has looked at, also when its time is over, and returns how
// many dead letters stay hidden.
func (w *walk) giveBackAll() (hidden int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), giveBackFor)
	defer cancel()
	for _, err := range w.giveBack(ctx, w.looked) {
		if err != nil {
			hidden++
		}
	}
	return hidden
}

// returned judges messages that are dead letters again.
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

// blind reports whether neither a ledger nor Config.Outcomes knows the outcomes of messages.
func (w *walk) blind() bool { return w.cfg.Claims == nil && w.cfg.Outcomes == nil }

// sawAll judges messages that are not among the dead letters. Without a ledger, such a message was
// processed if the server says that it was deleted, and probably if it did not come back in the
// usual time. A FIFO queue looks empty after ten messages of each group, so there the step must
// have seen as many as the queue counts.
func (w *walk) sawAll() error {
	if !w.blind() || queuename.IsFIFO(w.cfg.DeadLetterURL) && w.seen < w.report.Depth {
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

// absent returns the result of a flight that is not among the dead letters.
func (w *walk) absent(f *Flight, now time.Time) Result {
	switch fate, asked := w.fates[f.Letter]; {
	// A consumer that sends dead letters itself does so before it deletes the message.
	case fate == deleted:
		return Succeeded
	case !asked && !f.Judge.IsZero() && now.After(f.Judge) && !f.weak():
		return Gone
	}
	return Silent
}

// decide decides about dead letters, stores the decisions, and carries them out.
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
	// Holding does not change the state.
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
		// The whole group was seen, without the message that it waits for. Its worker may be about
		// to send it. After that time, it was removed.
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
		return hold(HeldLedger, "cannot read the ledger: "+err.Error())
	case e.State == claims.Parked: // it would be a dead letter again at once
		s.Parked++
		return s, Decision{Action: Park, Why: "its claim waits for a person: " + e.Reason,
			Strikes: l.Strikes}
	}
	f.Fence = e.Fence // a later entry has a larger one
	return next, d
}

// carryOut carries out the decision about a dead letter.
func (w *walk) carryOut(l *letter, d Decision) error {
	switch d.Action {
	case Hold:
		if d.Behind {
			w.turned[l.Lineage] = true
			// Other groups do not wait for an error here.
			if err := w.move(w.ctx, l, w.cfg.DeadLetterURL, d); err != nil {
				w.cfg.Logger.Warn("cannot put a dead letter after an earlier one of its group; allow sqs:SendMessage on the dead-letter queue if that is denied",
					"group", l.Group, "error", err)
			}
			return nil
		}
		if wait := time.Until(d.Until); wait > w.cfg.Look {
			return w.hide(w.ctx, l, wait)
		}
		return nil // it comes back when its look ends
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

// A letter is a received dead letter.
type letter struct {
	Letter
	raw    types.Message
	trail  trail.Trail
	bad    error // why its trail cannot be read
	target target
	mark   string // of its redriven message, on a server that gives marks
	lost   bool   // another process has taken it
}
