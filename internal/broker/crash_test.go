package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/kv/pebblekv"
)

// Clients do what they like on several queues of a broker on disk, the power is cut at a random moment,
// again and again, also while the store is being opened, and at the end everything that was ever answered
// is held against what is there.
// [DUR-1, DUR-2, DUR-6, DUR-7, DUR-8, DUR-9, DUR-10, DUR-11]
//
// BROKER_CRASHES says how many crashes; the default is what fits into a few seconds.
func TestCrashes(t *testing.T) {
	rng := random(t)
	left := crashes(t)
	var total simulation
	for left > 0 {
		seed := rng.Uint64()
		sim := &simulation{writes: 500, wrap: func(s kv.Store) kv.Store { return s }}
		sim.run(t, seed, min(left, 8))
		left -= sim.crashes
		total.add(sim)
		for i, problem := range sim.check() {
			if i == 20 {
				t.Errorf("and more")
				break
			}
			t.Errorf("simulation %d: %s", seed, problem)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d crashes, %d of them while opening; %d answers, %d messages, %d deliveries",
		total.crashes, total.opening, total.answers, total.messages, total.deliveries)
	if total.deliveries == 0 || total.opening == 0 && total.crashes > 50 {
		t.Errorf("the simulation did not get around to everything")
	}
}

// crashes is how many crashes to simulate.
func crashes(t *testing.T) int {
	if v := os.Getenv("BROKER_CRASHES"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatalf("BROKER_CRASHES: %v", err)
		}
		return n
	}
	if raceEnabled || testing.Short() {
		return 60
	}
	return 400
}

// The simulation finds losses where there are some: on a store that says it has forced what it has only
// applied.
func TestCrashesFindLosses(t *testing.T) {
	rng := random(t)
	for range 10 {
		sim := &simulation{writes: 40, wrap: func(s kv.Store) kv.Store { return lyingStore{s} }}
		sim.run(t, rng.Uint64(), 4)
		if len(sim.check()) > 0 {
			return
		}
	}
	t.Errorf("40 crashes of a store that forces nothing were not noticed")
}

// A lyingStore forces nothing.
type lyingStore struct{ kv.Store }

func (s lyingStore) NewBatch() kv.Batch { return lyingBatch{s.Store.NewBatch()} }

type lyingBatch struct{ kv.Batch }

func (b lyingBatch) Force() (wait func()) { b.Batch.Apply(); return func() {} }

// A simulation is the life of one machine.
type simulation struct {
	writes int64 // of files, at most about, from one power cut to the next
	wrap   func(kv.Store) kv.Store
	flows  *flows // what its clients do instead, if set

	t       *testing.T
	rng     *rand.Rand
	history *history
	grace   time.Duration
	bodies  atomic.Int64

	mu       sync.Mutex
	problems []string // noticed on the way

	crashes, opening, answers, messages, deliveries int
}

// complain notes that the server was wrong.
func (s *simulation) complain(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// check returns everything in which the server was wrong.
func (s *simulation) check() []string {
	problems := append(s.problems, s.history.check()...)
	if s.flows != nil {
		problems = append(problems, s.flows.check()...)
	}
	return problems
}

func (s *simulation) add(o *simulation) {
	s.crashes += o.crashes
	s.opening += o.opening
	s.answers += o.history.answers
	s.messages += len(o.history.messages)
	for _, m := range o.history.messages {
		s.deliveries += len(m.deliveries)
	}
}

// queues of a simulation. In orders and returns nothing ends a message but a delete.
var simulated = []string{"orders", "returns", "brief", "purged"}

// run takes a machine through some crashes and drains what is left in the end.
func (s *simulation) run(t *testing.T, seed uint64, crashes int) {
	s.rng, s.history = rand.New(rand.NewPCG(seed, 1)), newHistory()
	if s.rng.IntN(2) == 0 {
		s.grace = time.Minute
	}
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		if s.flows != nil {
			s.flows.sim, s.flows.began = s, time.Now()
		}
		disk := vfs.NewCrashableMem()
		for s.crashes < crashes && !t.Failed() {
			disk = s.boot(disk)
			time.Sleep(time.Duration(s.rng.ExpFloat64() * float64(10*time.Second)))
		}
		if !t.Failed() {
			s.drain(disk)
		}
	})
}

// A machine is a disk and the moment at which the power is cut.
type machine struct {
	sim   *simulation
	disk  *vfs.MemFS
	after atomic.Int64 // writes of files until then
	cfg   vfs.CrashCloneCfg
	off   chan struct{}

	afterwards *vfs.MemFS // the disk after the power cut
}

// newMachine returns a machine that loses power before a random write, sync or other change of a file.
func (s *simulation) newMachine(disk *vfs.MemFS) *machine {
	m := &machine{sim: s, disk: disk, off: make(chan struct{})}
	m.cfg = vfs.CrashCloneCfg{
		UnsyncedDataPercent: 25 * s.rng.IntN(5),
		RNG:                 rand.New(rand.NewPCG(s.rng.Uint64(), 3)),
	}
	m.after.Store(50 + s.rng.Int64N(s.writes))
	if s.rng.IntN(5) == 0 {
		m.after.Store(1 + s.rng.Int64N(40)) // most likely before the store is open
	}
	return m
}

func (m *machine) String() string { return "power cut" }

// MaybeError is asked before each operation on a file, on whichever goroutine that is on.
func (m *machine) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && m.after.Add(-1) == 0 {
		m.cut()
	}
	return nil
}

// cut takes the state of the disk. Whatever was answered before is in the history by then; what is
// answered after it does not count.
func (m *machine) cut() {
	m.sim.history.powerOff()
	m.afterwards = m.disk.CrashClone(m.cfg)
	close(m.off)
}

// open opens the store on the machine's disk.
func (m *machine) open() *pebblekv.Store {
	store, err := pebblekv.Open(pebblekv.Options{
		FS:            errorfs.Wrap(m.disk, m),
		Dir:           "/data",
		MemTableBytes: 256 << 10, // so that tables are flushed and compacted
		CacheBytes:    1 << 20,
		Fatal: func(err error) {
			m.sim.t.Errorf("the store failed: %v", err)
			runtime.Goexit()
		},
	})
	if err != nil {
		m.sim.t.Errorf("open: %v", err)
	}
	return store
}

// boot switches the machine on, lets clients work until the power is cut, and returns the disk as it is
// then.
func (s *simulation) boot(disk *vfs.MemFS) *vfs.MemFS {
	s.history.powerOn()
	m := s.newMachine(disk)
	store := m.open()
	if store == nil {
		return disk
	}
	s.crashes++
	if s.history.off() {
		s.opening++
	}
	r := start(s.t, s.config(s.wrap(store)))
	var clients sync.WaitGroup
	if s.flows != nil {
		s.flows.look(r)
		s.flows.clients(r, m.off, &clients)
	} else {
		s.look(r)
		s.clients(r, m.off, &clients)
	}
	clients.Wait()
	<-m.off
	r.stop() // a ghost, on a disk that nobody will look at
	if err := store.Close(); err != nil {
		s.t.Errorf("close: %v", err)
	}
	return m.afterwards
}

// clients starts the clients of a machine.
func (s *simulation) clients(r *rig, off <-chan struct{}, wait *sync.WaitGroup) {
	for i := range 6 {
		c := &client{sim: s, rig: r, rng: rand.New(rand.NewPCG(s.rng.Uint64(), 2)), raises: i == 0}
		wait.Go(func() { c.work(off) })
	}
}

func (s *simulation) config(store kv.Store) Config {
	cfg := newConfig(s.t, store)
	cfg.Engine.Window = 16 // so that windows slide
	cfg.Grace = s.grace
	return cfg
}

// look creates the queues, where they are missing, and checks what needs no draining: queues and the
// register that were answered are there. [DUR-2]
func (s *simulation) look(r *rig) {
	h := s.history
	for _, queue := range simulated {
		op := engine.CreateQueue{Queue: named(queue), NameSet: true}
		if queue == "brief" {
			op.Attributes = map[string]string{"MessageRetentionPeriod": strconv.Itoa(int(retention.Seconds()))}
		}
		r.do(op)
	}
	tags := r.do(engine.ListQueueTags{Queue: named("orders")}).Tags
	value := 0
	for _, tag := range tags {
		value, _ = strconv.Atoi(tag.Value)
	}
	listed := r.do(engine.ListQueues{Account: named("").Account}).Queues
	h.locked(func() {
		if h.cut {
			return // this answer does not count
		}
		if value < h.tag.answered || value > h.tag.attempted {
			s.complain("the tag is %d after a crash, want %d to %d", value, h.tag.answered, h.tag.attempted)
		}
		h.tag.answered = value // whoever has seen it will see it again
		for name, created := range h.created {
			if created.answered && !slices.Contains(listed, named(name)) {
				s.complain("queue %s was answered and is not there", name)
			}
		}
	})
}

// drain receives everything that is left, once, after every timeout has ended.
func (s *simulation) drain(disk *vfs.MemFS) {
	h := s.history
	h.powerOn()
	m := &machine{sim: s, disk: disk}
	store := m.open()
	if store == nil {
		return
	}
	r := start(s.t, s.config(s.wrap(store)))
	if s.flows != nil {
		s.flows.look(r)
		s.flows.drain(r)
	} else {
		s.look(r)
		s.empty(r)
	}
	r.stop()
	if err := store.Close(); err != nil {
		s.t.Errorf("close: %v", err)
	}
}

// empty receives everything, and compares it with what the queues have counted.
func (s *simulation) empty(r *rig) {
	time.Sleep(3 * time.Minute)
	for _, queue := range simulated {
		expected := r.attribute(queue, "ApproximateNumberOfMessages")
		drained := 0
		c := &client{sim: s, rig: r, rng: s.rng}
		for {
			got := c.receive(&engine.ReceiveMessage{Queue: named(queue), Max: number(10), Visibility: number(visibilityOfDrain)})
			if len(got) == 0 {
				break
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
}

const visibilityOfDrain = 43200

// A client works on the queues and writes down what it is told.
type client struct {
	sim  *simulation
	rig  *rig
	rng  *rand.Rand
	held []*delivered
	ctx  context.Context

	raises bool // the register
}

// work does random things until the power is off.
func (c *client) work(off <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // who waits for an answer then waits for nothing
		select {
		case <-off:
			cancel()
		case <-ctx.Done():
		}
	}()
	c.ctx = ctx
	for !c.sim.history.off() {
		switch n := c.rng.IntN(100); {
		case n < 20:
			c.sendOne()
		case n < 27:
			c.sendBatch()
		case n < 60:
			got := c.receive(&engine.ReceiveMessage{
				Queue:      named(c.queue()),
				Max:        number(1 + c.rng.Int64N(10)),
				Visibility: number(c.rng.Int64N(20)),
				Wait:       number(c.rng.Int64N(3)),
			})
			c.held = append(c.held, got...)
		case n < 72:
			c.deleteOne()
		case n < 77:
			c.deleteBatch()
		case n < 84:
			c.change()
		case n < 86 && c.raises:
			c.setTag()
		case n == 86:
			c.createQueue()
		case n == 87:
			c.purge()
		default:
			time.Sleep(time.Duration(c.rng.ExpFloat64() * float64(4*time.Second)))
		}
	}
}

func (c *client) queue() string { return simulated[c.rng.IntN(len(simulated))] }

// do carries out an operation. When it was answered in time, then is called with the history locked.
func (c *client) do(a *attempt, op engine.Op, then func(res engine.Result)) {
	ctx := c.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	res, err := c.rig.Do(ctx, op)
	var refusal *engine.Error
	if err != nil && !errors.As(err, &refusal) {
		return
	}
	ok, done := c.sim.history.answer(a)
	defer done()
	if !ok {
		return
	}
	if err != nil {
		// A change of a message that is gone is the only thing that may be refused.
		if _, isChange := op.(*engine.ChangeMessageVisibility); !isChange || refusal.Code != engine.CodeInvalidParameter {
			c.sim.complain("%T was refused: %v", op, err)
		}
		a.answered = false // nothing happened, and nothing is known
		return
	}
	if then != nil {
		then(res)
	}
}

// message makes a new message and notes that it is going to be sent.
func (c *client) message(queue string, a *attempt) (*sentMessage, engine.Draft) {
	n := c.sim.bodies.Add(1)
	m := &sentMessage{body: fmt.Sprint(n), queue: queue, send: a}
	entry := engine.Entry{ID: text(m.body), Body: text(m.body)}
	if c.rng.IntN(4) == 0 {
		delay := c.rng.Int64N(4)
		m.delay, entry.Delay = time.Duration(delay)*time.Second, number(delay)
	}
	if c.rng.IntN(8) == 0 { // too large for the message row
		entry.Body.Value += strings.Repeat(" ", 1500)
	}
	c.sim.history.locked(func() { c.sim.history.messages[m.body] = m })
	return m, engine.NewDraft(entry)
}

func (c *client) sent(m *sentMessage, id engine.MessageID) {
	m.id, m.hasID = id, true
	c.sim.history.byID[id] = m
}

func (c *client) sendOne() {
	a := c.sim.history.call()
	queue := c.queue()
	m, draft := c.message(queue, a)
	c.do(a, &engine.SendMessage{Queue: named(queue), Draft: draft}, func(res engine.Result) { c.sent(m, res.Sent[0].ID) })
}

func (c *client) sendBatch() {
	a := c.sim.history.call()
	queue := c.queue()
	op := &engine.SendMessageBatch{Queue: named(queue), Given: true}
	b := &sentBatch{attempt: a}
	for range 1 + c.rng.IntN(10) {
		m, draft := c.message(queue, a)
		b.messages, op.Drafts = append(b.messages, m), append(op.Drafts, draft)
	}
	c.sim.history.locked(func() { c.sim.history.batches = append(c.sim.history.batches, b) })
	c.do(a, op, func(res engine.Result) {
		for i, sent := range res.Sent {
			c.sent(b.messages[i], sent.ID)
		}
	})
}

// receive returns what it got, as far as it is known.
func (c *client) receive(op *engine.ReceiveMessage) (got []*delivered) {
	h := c.sim.history
	a := h.call()
	c.do(a, op, func(res engine.Result) {
		for i, d := range res.Messages {
			m := h.byID[d.ID]
			if content, ok := c.rig.ReadContent(d); ok {
				m = h.messages[strings.TrimSpace(content.Body)]
			}
			switch {
			case m == nil:
				// Sent without an answer, and removed before its content could be read.
				continue
			case m.queue != op.Queue.Name:
				c.sim.complain("message %s was sent to %s and received from %s", m.body, m.queue, op.Queue.Name)
			case m.hasID && m.id != d.ID:
				c.sim.complain("message %s has the ids %v and %v", m.body, m.id, d.ID)
			}
			c.sent(m, d.ID)
			delivery := &delivered{
				attempt:    a,
				message:    m,
				handle:     handleOf(res, i),
				visibility: time.Duration(op.Visibility.Value) * time.Second,
				receives:   int(d.Receives),
				first:      d.FirstReceive,
			}
			m.deliveries = append(m.deliveries, delivery)
			got = append(got, delivery)
		}
	})
	return got
}

// canary says that a message is never deleted, so that deletes cannot hide every loss.
func (m *sentMessage) canary() bool {
	n, _ := strconv.Atoi(m.body)
	return n%17 == 0
}

// pick takes a random delivery out of those the client holds, or leaves it there.
func (c *client) pick(keep bool) *delivered {
	if len(c.held) == 0 {
		return nil
	}
	i := c.rng.IntN(len(c.held))
	d := c.held[i]
	if !keep {
		c.held = slices.Delete(c.held, i, i+1)
	}
	return d
}

// remove notes that a delete is going to be tried.
func (c *client) remove(a *attempt, d *delivered) *changed {
	ch := &changed{attempt: a, receives: d.receives}
	c.sim.history.locked(func() { d.message.deletes = append(d.message.deletes, ch) })
	return ch
}

func (c *client) deleteOne() {
	d := c.pick(c.rng.IntN(4) == 0)
	if d == nil || d.message.canary() {
		return
	}
	a := c.sim.history.call()
	c.remove(a, d)
	c.do(a, deleteOp(d.message.queue, d.handle), nil)
}

func (c *client) deleteBatch() {
	a := c.sim.history.call()
	b := &deleteBatch{attempt: a}
	op := &engine.DeleteMessageBatch{Given: true}
	for range 10 {
		d := c.pick(false)
		if d == nil || d.message.canary() || len(b.of) > 0 && d.message.queue != b.of[0].queue || slices.Contains(b.of, d.message) {
			continue
		}
		op.Queue = named(d.message.queue)
		op.Entries = append(op.Entries, engine.DeleteEntry{ID: text(d.message.body), Handle: d.handle})
		b.of, b.entries = append(b.of, d.message), append(b.entries, c.remove(a, d))
	}
	if len(b.of) == 0 {
		return
	}
	c.sim.history.locked(func() { c.sim.history.deletes = append(c.sim.history.deletes, b) })
	c.do(a, op, nil)
}

func (c *client) change() {
	d := c.pick(true)
	if d == nil {
		return
	}
	seconds := c.rng.Int64N(15)
	a := c.sim.history.call()
	ch := &changed{attempt: a, receives: d.receives, timeout: time.Duration(seconds) * time.Second}
	c.sim.history.locked(func() { d.message.changes = append(d.message.changes, ch) })
	c.do(a, changeOp(d.message.queue, d.handle, seconds), nil)
}

// setTag raises the register.
func (c *client) setTag() {
	h := c.sim.history
	var value int
	h.locked(func() { h.tag.attempted++; value = h.tag.attempted })
	op := engine.TagQueue{Queue: named("orders"), Tags: []engine.Tag{{Key: "value", Value: strconv.Itoa(value)}}}
	c.do(h.call(), op, func(engine.Result) { h.tag.answered = max(h.tag.answered, value) })
}

func (c *client) createQueue() {
	h := c.sim.history
	a := h.call()
	name := fmt.Sprintf("queue-%d", c.sim.bodies.Add(1))
	h.locked(func() { h.created[name] = a })
	c.do(a, engine.CreateQueue{Queue: named(name), NameSet: true}, nil)
}

func (c *client) purge() {
	h := c.sim.history
	a := h.call()
	h.locked(func() { h.purges = append(h.purges, a) })
	c.do(a, engine.PurgeQueue{Queue: named("purged")}, nil)
}
