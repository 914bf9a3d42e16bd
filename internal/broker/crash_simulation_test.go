package broker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/kv/kvtest/crashdisk"
)

// A simulation is the life of one machine.
type simulation struct {
	writes int64 // of files, at most, from the start of the clients to the power cut
	wrap   func(kv.Store) kv.Store
	flows  *flows // what its clients do instead, if set
	tagged *tagged

	t       *testing.T
	rng     *rand.Rand
	history *history
	meddler *meddler
	grace   time.Duration
	turnMax int // of the broker
	bodies  atomic.Int64

	patience time.Duration // clients rest that long, at a mean

	chain      int   // starts to come in which the power is cut
	openWrites int64 // of files, when the store was opened last
	stop       stop

	mu       sync.Mutex
	problems []string // noticed on the way

	totals
}

// briefWrites is more than the changes of files that it takes to start a broker; stopping one takes
// fewer.
const briefWrites = 6

// A stop is what is known of how the broker ended last.
type stop int

const (
	stopClean stop = iota // or it never ran
	stopUnclean
	stopUnknown
)

func newSimulation() *simulation {
	return &simulation{writes: 500, wrap: func(s kv.Store) kv.Store { return s }, openWrites: 60}
}

// complain notes that the server was wrong.
func (s *simulation) complain(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// check returns everything in which the server was wrong.
func (s *simulation) check() []string {
	if s.tagged != nil && s.tagged.unclear && !s.t.Failed() {
		return nil
	}
	if len(s.problems) > 0 || s.t.Failed() {
		return s.problems // the history may have no end
	}
	problems := s.history.check()
	if s.flows != nil {
		problems = append(problems, s.flows.check()...)
	}
	return problems
}

// run takes a machine through some crashes and drains what is left in the end.
func (s *simulation) run(t *testing.T, seed uint64, crashes int) {
	s.rng, s.history = rand.New(rand.NewPCG(seed, 1)), newHistory()
	if s.rng.IntN(2) == 0 {
		s.grace = time.Minute
	}
	s.turnMax = []int{0, 1, 2, 16}[s.rng.IntN(4)]
	s.patience = 4 * time.Second
	if s.rng.IntN(4) == 0 {
		s.patience = 2 * time.Minute // so that some pauses of expiry end while clients work
	}
	most := 31 * year
	if s.flows != nil {
		s.flows.begin(s)
		most = day // the audit does not know of retention
	}
	if s.tagged != nil {
		s.tagged.begin(s)
		most = day // deduplication ids are remembered for longer
	}
	synctest.Test(t, func(t *testing.T) {
		s.t, s.meddler = t, newMeddler(rand.New(rand.NewPCG(s.rng.Uint64(), 4)), most)
		disk := crashdisk.New()
		for s.cuts() < crashes && !s.broken() {
			disk = s.boot(disk, s.fate())
			s.meddler.pause()
		}
		if !s.broken() {
			s.boot(disk, fateNone)
		}
		s.steps = s.meddler.steps
	})
}

// broken says that it makes no sense to continue.
func (s *simulation) broken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.problems) > 0 || s.t.Failed()
}

// fate chooses when the power is cut next. In one case of four it comes and goes a few times before
// any work begins.
func (s *simulation) fate() fate {
	if s.chain > 0 {
		s.chain--
		return fateStart
	}
	switch s.rng.IntN(8) {
	case 0, 1:
		s.chain = s.rng.IntN(6)
		return fateStart
	case 2:
		return fateStop
	}
	return fateWork
}

// boot switches the machine on and returns the disk as it is when the power is cut. Without a fate
// the clients drain the queues.
func (s *simulation) boot(disk *crashdisk.Disk, f fate) *crashdisk.Disk {
	s.history.powerOn()
	m := s.newMachine(disk, f)
	store := m.open()
	if store == nil {
		return disk
	}
	if r := s.start(m, s.wrap(store)); r != nil {
		s.live(m, r)
		r.stop()
	}
	m.enter(closing)
	if err := store.Close(); err != nil {
		s.t.Errorf("close: %v", err)
	}
	m.cut()
	<-m.off
	if f != fateNone {
		s.count(m)
	}
	return m.afterwards
}

// start starts the broker, and returns nothing when the power was cut before that was on disk.
func (s *simulation) start(m *machine, store kv.Store) *rig {
	if m.isOff() {
		return nil
	}
	s.openWrites = m.wrote.Load()
	m.enter(starting)
	if m.fate == fateStart && !m.early {
		m.cutWithin(briefWrites)
	}
	before := s.meddler.wall.now()
	e := &era{
		began: time.Now(), offset: s.meddler.wall.ahead(), grace: s.grace,
		stamp: time.Duration(lastStamp(store).UnixMilli()) * time.Millisecond,
		clean: s.stop == stopClean, unclean: s.stop == stopUnclean,
	}
	b := s.open(store)
	if b == nil {
		return nil
	}
	e.start = time.Duration(b.now) * time.Millisecond
	s.history.begin(e)
	if err := e.check(sinceEpoch(before), sinceEpoch(s.meddler.wall.now())); err != nil {
		s.complain("%v", err)
	}
	r := run(s.t, b)
	if !e.real {
		if s.stop == stopClean {
			s.stop = stopUnknown
		}
		r.stop()
		return nil
	}
	s.stop = stopUnclean
	if e.pausedUntil > 0 {
		s.pauses++
	}
	m.enter(working)
	return r
}

// open opens a broker that may find its store wrong.
func (s *simulation) open(store kv.Store) (b *Broker) {
	defer func() {
		if wrong := recover(); wrong != nil {
			s.complain("the start ended with: %v", wrong)
		}
	}()
	cfg := newConfig(s.t, store)
	cfg.Engine.Window = 16 // so that windows slide
	cfg.Grace, cfg.TurnMax = s.grace, s.turnMax
	if s.turnMax == 16 {
		cfg.TurnBytes = 1000
	}
	cfg.Wall = s.meddler.wall.now
	return mustNew(s.t, cfg)
}

// live lets clients work until the power is cut or the broker has stopped.
func (s *simulation) live(m *machine, r *rig) {
	switch m.fate {
	case fateStart:
		m.cut()
		return
	case fateNone:
		s.look(r)
		s.drain(r)
		return
	case fateWork:
		m.cutWithin(s.writes)
	}
	s.look(r)
	var meddling, clients sync.WaitGroup
	stopped := make(chan struct{})
	meddling.Go(func() { s.meddler.meddle(s.history, m.off, stopped) })
	defer func() { close(stopped); meddling.Wait() }()
	if s.flows != nil {
		s.flows.clients(r, m.off, &clients)
	} else {
		s.clients(r, m.off, &clients)
	}
	if m.fate == fateStop {
		time.Sleep(time.Duration(s.rng.ExpFloat64() * float64(20*time.Second)))
		m.enter(stopping)
		if s.rng.IntN(2) == 0 {
			m.cutWithin(briefWrites / 2)
		}
		s.stop = stopUnknown
		r.stop()
		clients.Wait()
		if !m.isOff() {
			s.stop = stopClean
			m.cutWithin(4 * briefWrites)
		}
		return
	}
	clients.Wait()
	<-m.off
}

// look creates the queues, where they are missing, and checks what needs no draining.
func (s *simulation) look(r *rig) {
	if s.flows != nil {
		s.flows.look(r)
		s.checkReturned(r, flowingNames)
		return
	}
	s.createQueues(r)
	s.checkReturned(r, simulated)
	s.checkSettings(r)
	s.countAll(r)
}

// countAll notes how many messages each queue says it has.
func (s *simulation) countAll(r *rig) {
	c := &client{sim: s, rig: r, rng: s.rng}
	for _, queue := range simulated {
		c.count(queue)
	}
}

func (s *simulation) createQueues(r *rig) {
	for _, queue := range simulated {
		op := &engine.CreateQueue{Queue: named(queue), NameSet: true}
		if queue == "brief" {
			op.Attributes = map[string]string{"MessageRetentionPeriod": strconv.Itoa(int(retention.Seconds()))}
		}
		r.do(op)
	}
	if s.tagged != nil {
		s.tagged.set(r)
	}
}

// checkSettings checks that queues and the register that were answered are there. [DUR-2]
func (s *simulation) checkSettings(r *rig) {
	h := s.history
	tags := do(r, &engine.ListQueueTags{Queue: named("orders")}).Tags
	value := 0
	for _, tag := range tags {
		if tag.Key == "value" {
			value, _ = strconv.Atoi(tag.Value)
		}
	}
	listed := do(r, &engine.ListQueues{Account: named("").Account}).Queues
	h.locked(func() {
		if h.cut {
			return // this answer does not count
		}
		if value < h.tag.answered || value > h.tag.attempted {
			s.complain("the tag is %d after a crash, want %d to %d", value, h.tag.answered, h.tag.attempted)
		}
		h.tag.answered = value // a client that has seen it will see it again
		for name, created := range h.created {
			if created.answered && !slices.Contains(listed, named(name)) {
				s.complain("queue %s was answered and is not there", name)
			}
		}
	})
}

// drain receives everything that is left, once, after every timeout and any pause of expiry have
// ended.
func (s *simulation) drain(r *rig) {
	if s.flows != nil {
		s.flows.drain(r)
		return
	}
	const late = pauseFor - time.Minute // while expiry is paused, if it is
	time.Sleep(late)
	s.countAll(r)
	time.Sleep(pauseFor*slewed/(slewed-1) - late + 3*time.Minute)
	for _, queue := range simulated {
		expected := r.attribute(queue, "ApproximateNumberOfMessages")
		if queue == "brief" && expected != "0" {
			s.complain("%s holds %s messages long after their retention", queue, expected)
		}
		drained, limited := 0, s.tagged != nil // by a rate
		c := &client{sim: s, rig: r, rng: s.rng}
		for {
			got := c.receive(&engine.ReceiveMessage{Queue: named(queue), Max: number(10), Visibility: number(visibilityOfDrain)})
			if len(got) == 0 {
				if !limited {
					break
				}
				limited = false
				time.Sleep(time.Minute)
			}
			for _, d := range got {
				if d.message.drained {
					s.complain("message %s was there twice", d.message.body)
					return // a queue that does not hide messages is never empty
				}
				d.message.drained = true
				drained++
			}
		}
		if got := strconv.Itoa(drained); got != expected {
			s.complain("%s held %s messages, want %s as it had counted", queue, got, expected)
		}
	}
	if s.tagged != nil {
		s.tagged.drain(s, r)
	}
}

const visibilityOfDrain = 43200
