// Package broker is the single writer: it turns requests that arrive on many goroutines into one
// order of commands, and answers each when the disk has it.
//
// The writer works in turns. A turn takes the waiting requests, stamps each with the time and
// randomness, and applies it. Polls of queues in which something happened try again. The committer
// then waits for the disk and answers, while the writer continues. At most two turns are in flight.
// The second waits for the first on its way to the disk, so the writer begins it only for many
// requests. A few requests do better in one larger turn once the first is on disk.
//
// What it guarantees:
//
//   - An answer leaves only when every turn it could have seen is on disk, and in the order of
//     turns. That holds for refusals and for answers that changed nothing as well.
//     [DUR-3, DUR-4, DUR-5]
//   - Time as the engine sees it never decreases. [CLOCK-1]
//   - A request is refused for overload only before it is accepted. After that it gets its real
//     outcome, however late. [DUR-25] A receive without room for its answer is refused as well, and
//     has changed nothing. [RCV-24]
//   - When another node becomes the writer, every accepted request is answered: with ErrNotLeader
//     when it was not carried out, and with ErrOutcomeUnknown when its turn, or one that it could
//     have seen, is lost. The broker then stops.
//   - Waiting polls are served in the order of their arrival and cost memory only. A poll whose
//     client has left gets no messages. [POLL-9, POLL-10]
//
// It leaves the rules of the queue to engine, and HTTP to api/sqs.
package broker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"math"
	randv2 "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/observe/metric"
	"tenaq/internal/observe/tally"
)

// Refusals of the broker itself.
var (
	// ErrThrottled refuses a request that was not taken up because too many are waiting.
	ErrThrottled = errors.New("too many requests are waiting: try again with back-off")

	// ErrStopped refuses a request that was not taken up because the server is stopping.
	ErrStopped = errors.New("the server is stopping: try again")

	// ErrNoSpace refuses a send because the disk is nearly full.
	ErrNoSpace = errors.New("the disk reserve is reached: free disk space; receives and deletes go on")

	// ErrNotLeader refuses a request that was not carried out because another node has become the
	// writer.
	ErrNotLeader = errors.New("another node has taken over: try again")

	// ErrOutcomeUnknown answers a request that was carried out just when another node became the
	// writer: it may have taken effect or not.
	ErrOutcomeUnknown = errors.New("another node has taken over: the outcome of the request is unknown")
)

// Config configures a Broker.
type Config struct {
	Store  kv.Store
	Engine engine.Config

	// Wall is the wall clock, time.Now when nil. TimeScale makes broker time pass that many times
	// as fast; 1 when zero. [CLOCK-14]
	Wall      func() time.Time
	TimeScale float64

	// Applied is when this node applied the last write of the store, if another node has made that
	// write: the wall clock of this one may differ, so broker time continues from there. It is zero
	// when the store is this node's own, and when nothing was applied since the program started.
	Applied time.Time

	// Grace bounds the visibility grace after an unclean stop; none when zero. [CLOCK-11, CLOCK-13]
	Grace time.Duration

	// TurnMax is how many requests one turn takes at most, 1024 when zero; it takes fewer large
	// ones. QueueMax is how many may wait for a turn, 16384 when zero. PollMax is how many polls
	// may wait for messages, 100000 when zero; a long poll beyond it is answered at once.
	TurnMax, QueueMax, PollMax int

	// TurnBytes bounds what one turn writes; no bound when zero. A turn carries out nothing more
	// once it has written so much, so its last operation may exceed the bound.
	TurnBytes int

	// Confirm returns nil when this node was the writer at some moment after the call. The answers
	// of a turn that wrote nothing wait for it, because another node may have written meanwhile; a
	// receive that ends empty does not. It is nil when no other node can become the writer.
	Confirm func() error
}

// A Broker owns the engine. Do and ReadContent may be called from any goroutine while Run runs.
type Broker struct {
	cfg    Config
	engine *engine.Engine
	clock  *clock
	random *randv2.ChaCha8

	wake    chan struct{} // has an element when intake, or the writer itself, has work
	commits chan *turn
	slots   chan struct{} // one element per turn in flight
	lost    chan struct{} // closed when another node has become the writer
	lose    sync.Once
	flying  atomic.Int32 // how many these are
	putOff  atomic.Bool  // there may be work that waits for a turn in flight to land

	beat atomic.Pointer[time.Time] // when the last turn was answered

	commitTimes, turnSizes     *metric.Histogram
	recentCommits, recentTurns metric.Recent
	waiting                    atomic.Int64 // polls

	policies atomic.Uint64 // turns in which the policy of some queue changed
	noSpace  atomic.Bool   // on the disk, for histories

	requests requestPool
	// The time of the turn under way. It is one for the whole turn, so that a receive cannot find
	// what the poll in front of it could not find a moment before. [CLOCK-2, POLL-9]
	now          int64
	expiryPaused bool

	intake   intake
	polls    polls
	stir     func(engine.QueueName)
	again    []*request // to be submitted again in the next turn
	house    housekeeping
	draining bool
}

// New opens the engine over the store and makes the start durable. Nothing is served before Run.
// The error is kv.ErrLost.
func New(cfg Config) (*Broker, error) {
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	cfg.TimeScale = cmp.Or(cfg.TimeScale, 1)
	cfg.TurnMax = cmp.Or(cfg.TurnMax, 1024)
	cfg.QueueMax = cmp.Or(cfg.QueueMax, 16_384)
	cfg.PollMax = cmp.Or(cfg.PollMax, 100_000)
	cfg.Engine.Tally = cmp.Or(cfg.Engine.Tally, new(tally.Queues))
	b := &Broker{
		cfg:     cfg,
		engine:  engine.Open(cfg.Store, cfg.Engine),
		wake:    make(chan struct{}, 1),
		commits: make(chan *turn, 2),
		slots:   make(chan struct{}, 2),
		lost:    make(chan struct{}),

		commitTimes: metric.NewHistogram(metric.Latencies...),
		turnSizes:   metric.NewHistogram(metric.Batches...),
	}
	var seed [32]byte
	rand.Read(seed[:])
	b.random = randv2.NewChaCha8(seed)
	b.clock = newClock(cfg.Wall, cfg.TimeScale, b.engine.LastStamp(), b.engine.ExpiryPausedUntil())
	if !cfg.Applied.IsZero() {
		slack := takeOverSlack
		if b.engine.IsClean() {
			slack = 0 // and no grace
		}
		b.clock.takeOver(b.engine.LastStamp(), time.Since(cfg.Applied), slack,
			b.engine.ExpiryPausedUntil())
	}
	b.intake.max = cfg.QueueMax
	b.polls.init()
	b.stir = b.polls.stir
	b.tick()
	b.inform(&engine.Start{Grace: cfg.Grace.Milliseconds()})
	b.notePause()
	if wait := b.engine.Commit(); wait != nil {
		if err := wait(); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	b.beat.Store(&now)
	return b, nil
}

// Do submits an operation and waits until op has its answer, or for an *engine.Error when the
// engine refuses.
//
// When ctx ends before a receive is answered, Do returns its error, and the receive hands out
// nothing any more. Any other operation is carried out once it is taken up, so Do waits for its
// answer and looks only at a ctx that has a deadline. A caller that must not wait for a disk that
// hangs sets one. When Do returns the error of ctx, op still belongs to the broker: the caller
// neither reads its answer nor submits it again.
func (b *Broker) Do(ctx context.Context, op engine.Op) error {
	p, err := b.Submit(op)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// ReadContent reads what a delivered message carries; false when it has been removed since.
func (b *Broker) ReadContent(d engine.Delivery) (engine.Content, bool) {
	return engine.ReadContent(b.cfg.Store, d.Space, d.Seq, b.cfg.Engine.Fault)
}

// ReadStory reads what consumers said about a message; false when they said nothing.
func (b *Broker) ReadStory(d engine.Delivery) (engine.Story, bool) {
	return engine.ReadStory(b.cfg.Store, d.Space, d.Seq, b.cfg.Engine.Fault)
}

// ReadHistory reads a page of a search that was submitted, and where the next one begins; empty
// after the last.
func (b *Broker) ReadHistory(op *engine.History) (page []engine.Outcome, next string) {
	return engine.ReadHistory(b.cfg.Store, op, b.cfg.Engine.Fault)
}

// Histories returns queues that keep a history, and the name to continue after.
func (b *Broker) Histories(account, after string, most int) ([]engine.QueueName, string) {
	return engine.Histories(b.cfg.Store, account, after, most, b.cfg.Engine.Fault)
}

// Policy reads the policy of a queue, which is empty when there is none, or no such queue. It is at
// least as new as the last change that was answered. [AUTH-45]
func (b *Broker) Policy(name engine.QueueName) string {
	return engine.ReadPolicy(b.cfg.Store, name, b.cfg.Engine.Fault)
}

// PolicyVersion grows with every change of any policy, before the change is answered. A policy that
// was read after PolicyVersion is valid until the version changes.
func (b *Broker) PolicyVersion() uint64 { return b.policies.Load() }

// Document reads a document; false if there is none. It is at least as new as the last PutDocument
// that was answered.
func (b *Broker) Document(name string) ([]byte, bool) {
	return engine.ReadDocument(b.cfg.Store, name, b.cfg.Engine.Fault)
}

// Drain answers every waiting poll, and lets no poll wait from now on.
func (b *Broker) Drain() {
	b.intake.drain()
	b.signal()
}

// RefuseSends makes sends fail with ErrNoSpace and messages end without an outcome, or ends both.
// [DUR-20, DUR-22, HIST-6]
func (b *Broker) RefuseSends(refuse bool) {
	b.intake.setFull(refuse)
	b.noSpace.Store(refuse)
	b.signal() // schedules that had to wait are due [SCHED-10]
}

// Silence is how long ago the last turn reached the disk. Turns happen every few seconds even
// without requests, so a long silence means that the writer or the disk hangs.
func (b *Broker) Silence() time.Duration { return time.Since(*b.beat.Load()) }

// Tally is what has happened to the queues since the start.
func (b *Broker) Tally() *tally.Queues { return b.cfg.Engine.Tally }

// IsFull reports whether an operation of a class, with about size bytes of messages to send, would
// be refused with ErrThrottled now. It takes no lock, so a server under overload can ask before it
// reads a request. Submit may still refuse.
func (b *Broker) IsFull(class engine.Class, size int64) bool { return b.intake.isFull(class, size) }

// Metrics are how the writer works, for monitoring.
type Metrics struct {
	Commits *metric.Histogram // seconds that the disk took for turns that wrote
	Turns   *metric.Histogram // requests that were taken up together
	Polls   int64             // receives that wait for messages
	Intake  int               // requests that wait to be taken up

	// Those of the latest minutes: times in microseconds, and requests.
	RecentCommits, RecentTurns *metric.Recent

	NoSpace bool // sends are refused with ErrNoSpace
}

// Metrics returns how the writer works now.
func (b *Broker) Metrics() Metrics {
	return Metrics{Commits: b.commitTimes, Turns: b.turnSizes, Polls: b.waiting.Load(),
		Intake: b.intake.len(), RecentCommits: &b.recentCommits, RecentTurns: &b.recentTurns,
		NoSpace: b.noSpace.Load()}
}

// signal tells the writer that there is something to do.
func (b *Broker) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Run carries out turns until ctx is done. Then it takes up no more requests, answers those that it
// has taken up, records a clean stop, and returns when all of that is on disk.
//
// When another node becomes the writer, Run ends at once. It answers what a turn in flight has
// carried out when the outcome of that turn is known, and everything else that was taken up with
// ErrNotLeader. It then returns kv.ErrLost.
func (b *Broker) Run(ctx context.Context) error {
	var committer sync.WaitGroup
	committer.Go(b.commit)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil && !b.isLost() {
		select {
		case <-b.wake:
		case <-timer.C:
		case <-b.lost:
			continue
		case <-ctx.Done():
		}
		if b.gathers() {
			b.stepMeanwhile()
			continue
		}
		if b.launch() {
			b.commits <- b.turn()
			timer.Reset(b.sleep())
		}
	}
	b.intake.stop(ErrStopped)
	b.draining = true
	for (b.intake.len() > 0 || len(b.again) > 0 || b.polls.count > 0) && b.launch() {
		b.commits <- b.turn()
	}
	if b.launch() {
		b.tick()
		b.inform(&engine.Stamp{Clean: true}) // [CLOCK-12, DUR-24]
		b.commits <- &turn{wait: b.engine.Commit()}
	} else {
		b.dismiss()
	}
	close(b.commits)
	committer.Wait()
	if b.isLost() {
		return kv.ErrLost
	}
	return nil
}

// Abandon tells the broker that another node has become the writer of its store: nothing is taken
// up from now on, and Run ends. The broker notices by itself when a commit is lost. It may be
// called from any goroutine, more than once.
func (b *Broker) Abandon() {
	b.lose.Do(func() {
		b.intake.stop(ErrNotLeader)
		close(b.lost)
	})
}

func (b *Broker) isLost() bool {
	select {
	case <-b.lost:
		return true
	default:
		return false
	}
}

// dismiss answers everything that was taken up and that no turn has carried out.
func (b *Broker) dismiss() {
	taken, _ := b.intake.take(math.MaxInt)
	for _, r := range slices.Concat(b.again, taken, b.polls.deadlines) {
		r.err = ErrNotLeader
		r.answer()
	}
}

// gathers reports whether the waiting requests are too few for a second turn. The committer wakes
// the writer when the turn in flight is on disk.
func (b *Broker) gathers() bool {
	if len(b.again) > 0 || b.isMany(b.intake.len()) {
		return false
	}
	// before the look at the turn: the committer may be done with it at any moment
	b.putOff.Store(true)
	return b.flying.Load() > 0 || !b.putOff.CompareAndSwap(true, false)
}

// A turn carries out more than turnLarge requests only while it has written less than largeBytes.
// Under overload, one wait for the disk then serves nearly all small sends that wait. Large ones
// take several turns, so that none of these is long.
const turnLarge, largeBytes = 256, 1 << 20

// isMany reports whether the waiting requests are worth a turn that waits behind another one.
func (b *Broker) isMany(waiting int) bool { return waiting >= min(b.cfg.TurnMax, turnLarge)/4 }

// launch waits until one more turn may be in flight. It returns false when there is to be no turn
// any more, because another node has become the writer.
func (b *Broker) launch() bool {
	select {
	case b.slots <- struct{}{}:
		b.flying.Add(1)
	case <-b.lost:
	}
	return !b.isLost()
}

// land ends a turn that launch has begun.
func (b *Broker) land() {
	b.flying.Add(-1)
	<-b.slots
	if b.putOff.CompareAndSwap(true, false) {
		b.signal()
	}
}

// A turn is the answers that wait for one commit.
type turn struct {
	wait    func() error // nil when the turn wrote nothing
	confirm bool         // the turn answers with what other writers could have changed
	answers []*request
}

func (t *turn) answer() {
	for _, r := range t.answers {
		r.answer()
	}
	t.answers = nil
}

// commit is the committer: it answers the requests of each turn when the turn, and so every earlier
// one, is on disk. When a turn is lost, so is every later one, because it has seen the lost one.
func (b *Broker) commit() {
	lost := false
	for t := range b.commits {
		if err := b.settle(t); err != nil {
			lost = true
			b.Abandon()
		}
		if lost {
			for _, r := range t.answers {
				r.err = ErrOutcomeUnknown
			}
		}
		t.answer()
		now := time.Now()
		b.beat.Store(&now)
		b.land()
	}
}

// settle waits until a turn is on disk, or until it is known that there was nothing else to read.
func (b *Broker) settle(t *turn) error {
	switch {
	case t.wait == nil && t.confirm && b.cfg.Confirm != nil:
		return b.cfg.Confirm()
	case t.wait == nil:
		return nil
	}
	from := time.Now()
	err := t.wait()
	took := time.Since(from)
	b.commitTimes.Observe(took.Seconds())
	b.recentCommits.Observe(took.Microseconds())
	return err
}

// turn carries out one turn.
func (b *Broker) turn() *turn {
	t := new(turn)
	taken, draining := b.intake.take(b.cfg.TurnMax)
	b.draining = b.draining || draining
	b.tick() // after everything that was taken has arrived
	b.notePause()
	b.keepHouse(len(taken) > 0)
	todo := slices.Concat(b.again, taken) // none may overtake one that was put off [POLL-9]
	b.again = nil
	b.intake.putBack(b.submitAll(t, todo))
	clear(taken) // the line may use its memory again much later
	b.servePolls(t)
	t.wait = b.engine.Commit()
	if b.engine.TakePolicyChanges() {
		// after readers see the policy, and before the change is answered [AUTH-45]
		b.policies.Add(1)
	}
	b.waiting.Store(int64(b.polls.count))
	if n := len(taken); n > 0 {
		b.turnSizes.Observe(float64(n))
		b.recentTurns.Observe(int64(n))
	}
	if b.intake.len() > 0 || len(b.again) > 0 {
		b.signal()
	}
	return t
}

// full reports whether the turn has written as much as one turn may.
func (b *Broker) full() bool {
	return b.cfg.TurnBytes > 0 && b.engine.TurnBytes() >= b.cfg.TurnBytes
}

// submitAll submits requests until the turn is full, and returns the others.
func (b *Broker) submitAll(t *turn, requests []*request) (others []*request) {
	for i, r := range requests {
		if b.full() || i >= turnLarge && b.engine.TurnBytes() >= largeBytes {
			return requests[i:]
		}
		b.submit(t, r)
	}
	return nil
}

// tick looks at the clock.
func (b *Broker) tick() { b.now, b.expiryPaused = b.clock.look() }

// ExpiryPausedUntil returns when expiry resumes if it was paused when the broker was opened, and
// zero if it was not. Call it before Run.
func (b *Broker) ExpiryPausedUntil() time.Time {
	if !b.expiryPaused {
		return time.Time{}
	}
	return time.UnixMilli(b.clock.pausedUntil.Milliseconds())
}

// notePause stores when paused expiry resumes, for the next start. [CLOCK-8]
func (b *Broker) notePause() {
	until := b.clock.pausedUntil.Milliseconds()
	if b.expiryPaused && until != b.engine.ExpiryPausedUntil() {
		b.inform(&engine.PauseExpiry{Until: until})
	}
}

// submit applies a request and answers it with the turn, unless it has to be submitted again or is
// a poll that waits.
func (b *Broker) submit(t *turn, r *request) {
	receive, isReceive := r.op.(*engine.ReceiveMessage)
	if isReceive && (!b.letPass(t, r, receive.Queue) || !r.take()) {
		return
	}
	r.err = b.applyOp(r)
	if r.err == engine.ErrAgain {
		r.release()
		b.again = append(b.again, r)
		return
	}
	isEmpty := isReceive && r.err == nil && len(receive.Messages) == 0
	if isEmpty && (receive.WaitFor > 0 || receive.NoRoom) && !b.draining &&
		b.polls.count < b.cfg.PollMax {
		wait, ready := receive.WaitFor, receive.NextReady
		if r.noRoom = receive.NoRoom; r.noRoom {
			wait, ready = cmp.Or(wait, roomWait), b.now+roomRetry
		}
		r.release()
		b.polls.add(r, receive.Queue, r.arrived+wait, ready)
		return
	}
	t.answers = append(t.answers, r)
	if isEmpty {
		b.countEmpty(receive.Queue)
		if receive.NoRoom {
			r.err = ErrThrottled // nothing was handed out
		}
	} else {
		t.confirm = true
	}
	if remove, ok := r.op.(*engine.DeleteQueue); ok && r.err == nil {
		// Not later: its name may be given to a new queue in this turn. [QUEUE-17]
		if q := b.polls.queues[remove.Queue]; q != nil {
			b.serve(t, q)
		}
	}
}

// countEmpty counts a receive that is answered without a message.
func (b *Broker) countEmpty(q engine.QueueName) {
	b.cfg.Engine.Tally.Of(q.Account, q.Name).Empty.Add(1)
}

// letPass serves the polls that arrived before a receive, if there may be messages for them. When
// they cannot all be served in this turn, it puts the receive behind them and reports false.
// [POLL-9]
func (b *Broker) letPass(t *turn, r *request, name engine.QueueName) bool {
	if r.arrived == 0 {
		r.arrived = b.now
	}
	q := b.polls.queues[name]
	if q == nil || !q.stirred && (q.ready == 0 || q.ready > b.now) {
		return true
	}
	if b.serve(t, q); q.stirred {
		b.again = append(b.again, r)
		return false
	}
	return true
}

// apply stamps an operation and applies it.
func (b *Broker) apply(op engine.Op) error {
	c := engine.Command{Now: b.now, ExpiryPaused: b.expiryPaused,
		NoHistory: b.noSpace.Load(), Op: op}
	binary.LittleEndian.PutUint64(c.Seed[:8], b.random.Uint64())
	binary.LittleEndian.PutUint64(c.Seed[8:], b.random.Uint64())
	err := b.engine.Apply(c)
	b.engine.TakeStirred(b.stir)
	return err
}

// inform applies an operation of the broker's own, which is never refused.
func (b *Broker) inform(op engine.Op) { _ = b.apply(op) }

// sleep returns how long the writer may sleep when no signal wakes it.
func (b *Broker) sleep() time.Duration {
	d := b.houseRest()
	if at, ok := b.polls.next(); ok {
		d = min(d, b.clock.until(at))
	}
	return d
}
