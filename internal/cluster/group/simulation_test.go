package group

import (
	"fmt"
	"maps"
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
	"tenaq/internal/testing/audit"
	"tenaq/internal/testing/proof"
)

// Machines lose power at any write, are paused and restarted, hand over the lead, lose and delay
// messages in one direction or both, have clocks that differ, drift and step, and disks that flip
// bits, several of these at a time. Clients work their queues meanwhile. Then what the clients saw
// is held against the promises of queues, and the rows of all machines against each other.
//
// Each story is a subtest: with the same TENAQ_SEED, -run repeats one of them alone, as far as
// goroutines repeat.
func TestFaults(t *testing.T) {
	rng, total := proof.Random(t), newTotals()
	faults := proof.Count(100, 1000, 20_000, 1_000_000)
	for total.faults < faults && !t.Failed() {
		seed := rng.Uint64()
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			s := tell(t, seed, min(faultsEach, faults-total.faults), false)
			s.judge(t)
			total.add(s)
		})
	}
	total.report(t)
}

// The stories find the losses of groups whose leader acknowledges mere proposals.
func TestFaultsFindLosses(t *testing.T) {
	proof.Unraced(t)
	rng := proof.Random(t)
	for range 20 {
		s := tell(t, rng.Uint64(), faultsEach/2, true)
		if s.audit(); len(s.report.Violations) > 0 {
			return
		}
	}
	t.Error("20 groups of machines that acknowledge too early were not noticed")
}

// A hastyStore says that everything is committed that it has proposed.
type hastyStore struct {
	kv.Store
	hasty *atomic.Bool
	lost  atomic.Bool
}

func (s *hastyStore) NewBatch() kv.Batch { return hastyBatch{s.Store.NewBatch(), s} }

type hastyBatch struct {
	kv.Batch
	store *hastyStore
}

func (b hastyBatch) Force() (wait func() error) {
	forced := b.Batch.Force()
	if !b.store.hasty.Load() {
		return forced
	}
	go func() { b.store.lost.CompareAndSwap(false, forced() != nil) }()
	return func() error {
		if b.store.lost.Load() {
			return kv.ErrLost
		}
		return nil
	}
}

// faultsEach is how many faults one group of machines sees.
const faultsEach = 200

// A story is the life of a group of machines and its clients.
type story struct {
	*rig
	rng    *rand.Rand // of what breaks
	begun  time.Time
	skewed bool // clocks differ

	heals    []heal
	crashing map[*node]*crash
	down     map[*node]time.Time // until when
	faults   map[string]int
	longest  time.Duration // without an acknowledgement although nothing was broken
	report   *audit.Report
	flipped  bool
	outside  func(f func()) // of the bubble

	sees         sync.Mutex // held to use what follows
	hasty        atomic.Bool
	stopped      atomic.Bool
	bodies       atomic.Int64
	acknowledged atomic.Int64
	moment       atomic.Int64
	history      audit.History
	lineage      map[engine.MessageID]string // bodies
	receives     int
	lately       []sentBefore
}

// A heal ends a fault.
type heal struct {
	at time.Time
	do func()
}

// The queues of a story. A message that is received three times from work or line.fifo becomes a
// dead letter.
var (
	shop = map[string]audit.Queue{
		"dead":      {},
		"work":      {DeadLetter: "dead", MaxReceives: 3},
		"dead.fifo": {FIFO: true},
		"line.fifo": {FIFO: true, DeadLetter: "dead.fifo", MaxReceives: 3},
	}
	names = slices.Sorted(maps.Keys(shop))
)

// tell tells one story, with hasty stores or not.
func tell(t *testing.T, seed uint64, faults int, hasty bool) (s *story) {
	out := outside(t)
	synctest.Test(t, func(t *testing.T) {
		s = newStory(t, seed, out)
		defer s.rig.close()
		s.open()
		s.rig.settle()
		s.hasty.Store(hasty)
		var clients sync.WaitGroup
		for range 6 {
			c := s.client()
			clients.Go(c.work)
		}
		for n := s.count(); n < faults && !t.Failed(); n = s.count() {
			s.tend()
			s.breakSomething()
			time.Sleep(time.Duration(s.rng.ExpFloat64() * float64(350*time.Millisecond)))
			if s.rng.IntN(20) == 0 {
				s.calm(false)
			}
		}
		s.calm(true)
		s.stopped.Store(true)
		clients.Wait()
		if t.Failed() {
			return
		}
		s.rig.settle()
		s.compare()
		s.drain()
		s.rig.settle()
		s.compare()
	})
	return s
}

// audit holds the history against the promises of queues.
func (s *story) audit() {
	s.report = audit.Check(&s.history, audit.Options{Tolerance: s.tolerance()})
}

// judge complains about what was wrong.
func (s *story) judge(t *testing.T) {
	if t.Failed() {
		return
	}
	s.audit()
	for i, v := range s.report.Violations {
		if i == 20 {
			t.Error("and more")
			break
		}
		t.Error(v)
	}
}

// newStory starts machines.
func newStory(t *testing.T, seed uint64, outside func(f func())) *story {
	rng := rand.New(rand.NewPCG(seed, 1))
	voters := 3
	if rng.IntN(4) == 0 {
		voters = 5
	}
	s := &story{rng: rng, outside: outside, begun: time.Now(), skewed: rng.IntN(2) == 0,
		crashing: make(map[*node]*crash), down: make(map[*node]time.Time),
		faults: make(map[string]int), lineage: make(map[engine.MessageID]string),
		history: audit.History{Queues: shop}}
	s.rig = newMachines(t, rand.New(rand.NewPCG(seed, 2)), voters)
	s.wrap = func(k kv.Store) kv.Store { return &hastyStore{Store: k, hasty: &s.hasty} }
	s.grace, s.cut = time.Minute, 10+rng.Uint64N(30)
	for _, n := range s.nodes {
		if s.skewed {
			n.wall.Store(rng.Int64N(int64(2*skewMax)) - int64(skewMax))
			n.drift = time.Duration(rng.IntN(10)-5) * time.Millisecond
		}
	}
	s.rig.start()
	return s
}

// count is how many faults there were.
func (s *story) count() (n int) {
	for _, k := range s.faults {
		n += k
	}
	return n
}

// now is a moment in the time of the audit. Much happens at one time in a bubble; nanoseconds order
// it.
func (s *story) now() time.Duration {
	s.sees.Lock()
	defer s.sees.Unlock()
	return time.Since(s.begun).Truncate(time.Millisecond) + time.Duration(s.moment.Add(1))
}

func (s *story) client() *client {
	return &client{story: s, rng: rand.New(rand.NewPCG(s.rng.Uint64(), 2))}
}

// open creates the queues.
func (s *story) open() {
	for _, name := range []string{"dead", "dead.fifo", "work", "line.fifo"} {
		q, attributes := shop[name], map[string]string{}
		if q.FIFO {
			attributes["FifoQueue"] = "true"
		}
		if q.DeadLetter != "" {
			attributes["RedrivePolicy"] = fmt.Sprintf(
				`{"deadLetterTargetArn":"arn:aws:sqs:elsewhere:000000000000:%s","maxReceiveCount":%d}`,
				q.DeadLetter, q.MaxReceives)
		}
		if _, err := s.do(func() engine.Op {
			return &engine.CreateQueue{Queue: queueName(name), NameSet: true, Attributes: attributes}
		}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// drain receives and deletes everything, once nothing is hidden any more.
func (s *story) drain() {
	time.Sleep(visibilities + s.grace)
	c := s.client()
	for rounds := 0; rounds < 2; rounds++ {
		for found := true; found; {
			found = false
			for _, name := range names {
				for c.receive(name, 30, 0) > 0 {
					found = true
					for h, ok := c.pick(false); ok; h, ok = c.pick(false) {
						c.delete(h)
					}
				}
			}
		}
		time.Sleep(visibilities + s.grace)
	}
	s.history.Drained, s.history.End = true, c.now()
}

// compare holds the rows of all nodes against those of the first.
func (s *story) compare() {
	var first map[string]string
	for _, n := range s.nodes[:s.voters] {
		rows := make(map[string]string)
		for k, v := range n.state.Scan(nil, nil) {
			rows[string(k)] = string(v)
		}
		if first == nil {
			first = rows
		}
		for k, v := range rows {
			if first[k] != v {
				s.t.Errorf("%s has the row %x = %x, and n1 has %x", n.id, k, v, first[k])
				return
			}
		}
		if len(rows) != len(first) || len(rows) == 0 {
			s.t.Errorf("%s has %d rows, and n1 has %d", n.id, len(rows), len(first))
		}
	}
}

// Wall clocks are at most so far from the true time.
const skewMax = 30 * time.Second

// tolerance is by how much broker time can gain on the true time while a message is hidden: a
// twentieth of that while it follows the wall clock, and more when another node takes the lead.
func (s *story) tolerance() time.Duration {
	least := time.Duration(0) // of what wall clocks are ahead
	if s.skewed {
		least = -skewMax - s.history.End/200 // they drift by at most as much
	}
	var most time.Duration
	all := s.takeovers
	for i := range max(0, len(all)-1) {
		end := all[i+1].at
		lowest := max(all[i].least-end.Sub(all[i].at)/20, min(all[i].least, least))
		for _, x := range all[i+1:] {
			if x.at.Sub(end) > visibilities {
				break
			}
			most = max(most, x.most-lowest)
		}
	}
	return 20*time.Millisecond + visibilities/20 + most
}

// tend ends the faults whose time is over, and starts machines.
func (s *story) tend() {
	for n, c := range s.crashing {
		if c.after.Load() != nil || time.Now().After(c.by) {
			s.finish(n)
		}
	}
	for n, until := range s.down {
		if time.Now().After(until) {
			delete(s.down, n)
			n.start()
		}
	}
	s.heals = slices.DeleteFunc(s.heals, func(h heal) bool {
		if time.Now().Before(h.at) {
			return false
		}
		h.do()
		return true
	})
}

// finish ends a program whose machine has lost power.
func (s *story) finish(n *node) {
	c := s.crashing[n]
	c.cut(n)
	n.hook.Store(nil)
	n.close()
	n.disk = c.after.Load()
	delete(s.crashing, n)
	s.leaveOff(n)
}

// leaveOff leaves a machine off for a second or so, and now and then for longer than the log
// reaches back.
func (s *story) leaveOff(n *node) {
	mean := time.Second
	if s.rng.IntN(5) == 0 {
		mean = 20 * time.Second
	}
	s.down[n] = time.Now().Add(time.Duration(s.rng.ExpFloat64() * float64(mean)))
}

// heal ends all faults and starts machines: all of them, or all but a minority that stays off for
// longer.
func (s *story) heal(all bool) {
	off := 0
	for _, n := range s.nodes[:s.voters] {
		if s.crashing[n] != nil {
			s.finish(n)
		}
		until, isDown := s.down[n]
		if !all && isDown && time.Until(until) > 2*time.Second && off < (s.voters-1)/2 {
			off++
		} else if isDown {
			delete(s.down, n)
			n.start()
		}
	}
	for _, h := range s.heals {
		h.do()
	}
	s.heals = nil
}

// calm heals everything and waits until clients are answered again.
func (s *story) calm(all bool) {
	s.heal(all)
	if s.t.Failed() {
		return
	}
	began, before := time.Now(), s.acknowledged.Load()
	for s.acknowledged.Load() == before {
		if time.Since(began) > time.Minute {
			s.complain()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.longest = max(s.longest, time.Since(began))
	for end := s.acknowledged.Load() + 5; s.acknowledged.Load() < end; {
		if time.Since(began) > 2*time.Minute {
			s.complain()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// complain says how the nodes are when nothing works.
func (s *story) complain() {
	s.t.Errorf("no message was acknowledged although nothing was broken any more")
	for _, n := range s.nodes[:s.voters] {
		s.t.Logf("%s: running %v, serves %v, leader %s, state %v, %+v, error %v", n.id, n.running.Load(),
			n.broker.Load() != nil, n.group.Leader(), n.group.raft.State(), n.group.Position(), n.group.Err())
	}
}

// totals are what happened in all stories.
type totals struct {
	stories, faults int
	kinds           map[string]int
	terms           int64
	copies          int64
	longest         time.Duration
	sum             audit.Report
}

func newTotals() *totals { return &totals{kinds: make(map[string]int)} }

func (x *totals) add(s *story) {
	if s == nil || s.report == nil {
		return
	}
	x.stories++
	x.faults += s.count()
	for k, n := range s.faults {
		x.kinds[k] += n
	}
	for _, n := range s.nodes {
		x.terms += n.terms.Load()
		x.copies += n.copied.Load()
	}
	x.longest = max(x.longest, s.longest)
	x.sum.Acknowledged += s.report.Acknowledged
	x.sum.Unanswered += s.report.Unanswered
	x.sum.Deliveries += s.report.Deliveries
	x.sum.Duplicates += s.report.Duplicates
	x.sum.Ordered += s.report.Ordered
	x.sum.DeadLettered += s.report.DeadLettered
}

// report tells what happened, and expects that everything did.
func (x *totals) report(t *testing.T) {
	t.Logf("%d faults in %d groups; %d times of leading, %d copies; %v at most until an answer", x.faults,
		x.stories, x.terms, x.copies, x.longest)
	for _, k := range slices.Sorted(maps.Keys(x.kinds)) {
		t.Logf("%7d %s", x.kinds[k], k)
	}
	t.Logf("%d messages, %d sends unanswered, %d deliveries, %d duplicates recognised, %d behind others, "+
		"%d dead letters", x.sum.Acknowledged, x.sum.Unanswered, x.sum.Deliveries, x.sum.Duplicates, x.sum.Ordered,
		x.sum.DeadLettered)
	if x.faults < 5000 || t.Failed() {
		return
	}
	for _, e := range evils {
		if x.kinds[e.name] == 0 {
			t.Errorf("no %s", e.name)
		}
	}
	if min(x.sum.Unanswered, x.sum.Duplicates, x.sum.Ordered, x.sum.DeadLettered, int(x.terms), int(x.copies)) < x.faults/500 {
		t.Error("the stories did not get around to everything")
	}
}
