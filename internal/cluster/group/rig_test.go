package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"tenaq/internal/broker"
	"tenaq/internal/cluster/raftlog"
	"tenaq/internal/engine"
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/kv/replica"
)

// A rig is machines in a bubble, with the real broker on top.
type rig struct {
	t       testing.TB
	rng     *rand.Rand
	nodes   []*node
	voters  int // the first of them; the others are not started
	network *network
	made    time.Time
	grace   time.Duration           // of the brokers
	cut     uint64                  // entries after which the log is cut
	wrap    func(kv.Store) kv.Store // what a broker writes to, unless nil

	mu        sync.Mutex
	begun     map[sessionAt]bool
	takeovers []takeover
}

// A sessionAt says that a node has applied the first entry of a session.
type sessionAt struct {
	session replica.Session
	node    raft.ServerID
}

// A takeover is a time at which a node began to serve, and how far broker time was ahead then of
// the true time, at least and at most.
type takeover struct {
	at          time.Time
	least, most time.Duration
}

// takeOver notes one, of a broker that was opened at some time after began. Broker time continues
// from the last stamp of the leader before, and gains a second at most, if this node was there.
func (r *rig) takeOver(term Term, before time.Time, began time.Time) {
	stamp := r.stamp(term.Store)
	since := time.Since(term.Applied) + time.Second + time.Millisecond
	if gain := stamp.Sub(before); !term.Applied.IsZero() && before.UnixMilli() != 0 && gain > since {
		r.t.Errorf("broker time has gained %v when another node took over, want at most %v", gain, since)
	}
	x := takeover{time.Now(), time.Until(stamp), stamp.Sub(began)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeovers = append(r.takeovers, x)
}

// stamp is the latest time in a store.
func (r *rig) stamp(store kv.Store) time.Time {
	value, ok := store.Get(nil, row.SystemKey())
	if !ok {
		return time.UnixMilli(0)
	}
	sys, ok := row.DecodeSystem(value)
	if !ok {
		r.t.Error("the system row cannot be read")
	}
	return time.UnixMilli(sys.Stamp)
}

// A node is one machine. It survives restarts.
type node struct {
	rig  *rig
	id   raft.ServerID
	disk *crashdisk.Disk

	drift  time.Duration                    // that its wall clock gains in a second
	wall   atomic.Int64                     // nanoseconds by which its wall clock is ahead
	free   atomic.Uint64                    // space on the disk
	paused atomic.Pointer[chan struct{}]    // closed when it goes on
	linked atomic.Bool                      // to the other nodes
	hook   atomic.Pointer[func(errorfs.Op)] // called before each operation of the disk
	later  atomic.Uint64                    // by how much the terms are later that it hears of

	mu      sync.Mutex
	running atomic.Bool    // changes under mu
	busy    sync.WaitGroup // clients that use the broker

	// Of the program that runs, or ran last.
	starts atomic.Int64
	led    atomic.Bool // and committed, since it started
	port   atomic.Pointer[port]
	log    *pebblekv.Log
	state  *pebblekv.State
	group  *Group
	asked  atomic.Pointer[Group]         // the group, for other nodes
	broker atomic.Pointer[broker.Broker] // while it leads
	store  atomic.Pointer[replica.Store] // of the last of its terms
	terms  atomic.Int64                  // in which it has served
	copied atomic.Int64                  // copies that it has taken, of programs that have ended
}

// newRig returns a rig of three voters that run.
func newRig(t testing.TB, rng *rand.Rand) *rig {
	r := newMachines(t, rng, 3)
	for i, wall := range []time.Duration{0, time.Minute, -time.Minute, time.Second} {
		r.nodes[i].wall.Store(int64(wall))
	}
	r.start()
	return r
}

// bubble runs a test in virtual time, in a rig with a queue.
func bubble(t *testing.T, seed uint64, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rand.New(rand.NewPCG(seed, 1)))
		defer r.close()
		r.create()
		test(t, r)
	})
}

// newMachines returns a rig before anything runs, with one machine more than there will be voters.
func newMachines(t testing.TB, rng *rand.Rand, voters int) *rig {
	r := &rig{t: t, rng: rng, voters: voters, cut: 25, made: time.Now(), begun: make(map[sessionAt]bool),
		network: newNetwork(rand.New(rand.NewPCG(rng.Uint64(), 4)))}
	for i := range voters + 1 {
		n := &node{rig: r, id: raft.ServerID(fmt.Sprintf("n%d", i+1)), disk: crashdisk.New()}
		n.free.Store(copyRoom)
		n.linked.Store(true)
		r.nodes = append(r.nodes, n)
	}
	return r
}

// start starts the voters and makes them a group.
func (r *rig) start() {
	for _, n := range r.nodes[:r.voters] {
		n.start()
	}
	for _, n := range r.nodes[:r.voters] {
		if err := n.group.Bootstrap(r.servers()); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) servers() (servers []raft.Server) {
	for _, n := range r.nodes[:r.voters] {
		servers = append(servers, raft.Server{ID: n.id, Address: raft.ServerAddress(n.id)})
	}
	return servers
}

func (r *rig) node(id raft.ServerID) *node {
	for _, n := range r.nodes {
		if n.id == id {
			return n
		}
	}
	panic("no node " + id)
}

func (r *rig) close() {
	for _, n := range r.nodes {
		if n.running.Load() {
			n.stop()
		}
	}
	r.network.under.Wait()
}

var groupID = pebblekv.ID([]byte("a group of nodes"))

// start starts the program on the disk of the node.
func (n *node) start() {
	n.rig.t.Helper()
	if err := n.open(); err != nil {
		n.rig.t.Fatal(err)
	}
}

// open is start, with the error that refuses the disk.
func (n *node) open() error {
	t, fatal := n.rig.t, func(err error) { panic(err) }
	fs := errorfs.Wrap(n.disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if hook := n.hook.Load(); hook != nil {
			(*hook)(op)
		}
		return nil
	}))
	var err error
	if n.log, err = pebblekv.OpenLog(pebblekv.Options{Dir: "/raft", FS: fs, Fatal: fatal,
		MemTableBytes: 256 << 10, SeparateBytes: 64}); err != nil {
		t.Fatal(err)
	}
	if n.state, err = pebblekv.OpenState(pebblekv.Options{Dir: "/groups/1", FS: fs,
		Fatal: fatal, MemTableBytes: 64 << 10, SeparateBytes: 64}, groupID); err != nil {
		t.Fatal(err)
	}
	p := newPort(n)
	n.group, err = Open(Config{
		Node: n.id, Log: raftlog.Open(n.log, 1), State: n.state, Transport: p,
		Heartbeat: time.Second, Ask: n.ask, Lead: n.lead, Fatal: fatal,
		Logger:     slog.New(slog.DiscardHandler),
		Free:       func() (uint64, error) { return n.free.Load(), nil },
		CutEntries: n.rig.cut,
		raft: func(c *raft.Config) {
			c.Logger = &pausing{hclog.NewNullLogger(), p}
		},
	})
	if err != nil {
		return errors.Join(err, n.log.Close(), n.state.Close())
	}
	n.asked.Store(n.group)
	n.led.Store(false)
	n.starts.Add(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running.Store(true)
	n.port.Store(p)
	return nil
}

// A pausing logger pauses Raft with its machine, where time makes Raft do something: it writes a
// warning first. Raft continues last of all, so that the broker has some time in which it believes
// that it leads.
type pausing struct {
	hclog.Logger
	port *port
}

func (l *pausing) Warn(string, ...any) {
	if l.port.node.paused.Load() != nil {
		l.port.awake()
		time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
	}
}

// connect makes the links of the node whole that disconnect has cut.
func (n *node) connect() { n.cutLinks(-1); n.linked.Store(true) }

// disconnect cuts all links of the node.
func (n *node) disconnect() { n.linked.Store(false); n.cutLinks(1) }

func (n *node) cutLinks(by int) {
	for _, o := range n.rig.nodes {
		if o != n {
			n.rig.network.set(n.id, o.id, func(l *link) { l.cuts += by })
			n.rig.network.set(o.id, n.id, func(l *link) { l.cuts += by })
		}
	}
}

// pause stops the machine: others see nothing that it does, and messages to it wait.
func (n *node) pause() {
	c := make(chan struct{})
	n.paused.Store(&c)
}

func (n *node) resume() {
	if c := n.paused.Swap(nil); c != nil {
		close(*c)
	}
}

// ask asks another node how far it has got.
func (n *node) ask(server raft.Server) (Standing, error) {
	got, err := n.port.Load().ask(server.ID, time.Second, func(far *port) (any, error) {
		return far.node.asked.Load().Standing(), nil
	})
	if err != nil {
		return Standing{}, err
	}
	standing := got.(Standing)
	n.rig.mu.Lock()
	n.rig.begun[sessionAt{standing.Position.Session, server.ID}] = true
	n.rig.mu.Unlock()
	standing.Term += n.later.Load()
	return standing, nil
}

// lead serves with a broker. A majority must have applied the first entry of the session by now.
func (n *node) lead(term Term) error {
	n.rig.mu.Lock()
	session := n.asked.Load().Position().Session
	n.rig.begun[sessionAt{session, n.id}] = true
	have := 0
	for _, o := range n.rig.nodes {
		if n.rig.begun[sessionAt{session, o.id}] {
			have++
		}
	}
	n.rig.mu.Unlock()
	if have <= n.rig.voters/2 {
		n.rig.t.Errorf("%d nodes have applied the first entry of a session that begins to serve",
			have)
	}
	if since := time.Since(term.Applied); n.led.Load() && since > time.Hour {
		n.rig.t.Errorf("the last commit before this session was applied %v ago", since)
	}
	p, before, began := n.port.Load(), n.rig.stamp(term.Store), time.Now()
	store := kv.Store(term.Store)
	if n.rig.wrap != nil {
		store = n.rig.wrap(store)
	}
	b, err := broker.New(broker.Config{
		Store: store, Applied: term.Applied, Confirm: term.Store.Confirm, TurnBytes: 4 << 20,
		Grace: n.rig.grace,
		Wall: func() time.Time {
			p.awake()
			drift := time.Duration(time.Since(n.rig.made).Seconds() * float64(n.drift))
			return time.Now().Add(time.Duration(n.wall.Load()) + drift)
		},
		Engine: engine.Config{Region: "elsewhere", InFlightMax: 120_000, Fault: func(s string) {
			panic(s)
		}},
	})
	if err != nil {
		return err
	}
	if term.Store.Bytes() == 0 { // unless the store is hasty
		n.led.Store(true)
	}
	n.terms.Add(1)
	n.rig.takeOver(term, before, began)
	n.store.Store(term.Store)
	n.broker.Store(b)
	defer n.broker.Store(nil)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	for yield := term.Yield; ; {
		select {
		case <-yield:
			p.awake()
			stop()
			yield = nil
		case <-term.Over:
			p.awake()
			b.Abandon()
			return <-ended
		case err := <-ended:
			return err
		}
	}
}

// stop ends the program in order. The group is not told.
func (n *node) stop() {
	n.unplug()
	n.close()
}

// unplug separates the program from everything but its disk: no node and no client sees what it
// does from now on.
func (n *node) unplug() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running.Store(false)
	n.port.Load().close()
}

func (n *node) close() {
	n.group.Close()
	n.busy.Wait()
	n.copied.Add(n.group.copies.Load())
	if err := errors.Join(n.log.Close(), n.state.Close()); err != nil {
		n.rig.t.Error(err)
	}
}

// cutPower ends the program at this moment: nothing that it does from now on reaches another node
// or its disk.
func (n *node) cutPower() {
	n.unplug()
	n.disk = n.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: n.rig.rng.IntN(101),
		RNG: rand.New(rand.NewPCG(n.rig.rng.Uint64(), 3))})
	n.close()
}

// enter returns the broker of a node that serves, nil when there is none. The program does not end
// before exit.
func (n *node) enter() *broker.Broker {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.broker.Load()
	if b == nil || !n.running.Load() {
		return nil
	}
	n.busy.Add(1)
	return b
}

func (n *node) exit() { n.busy.Done() }

// leader waits until some node serves, and returns it.
func (r *rig) leader() *node {
	r.t.Helper()
	for range 3000 {
		for _, n := range r.nodes {
			if n.running.Load() && n.broker.Load() != nil {
				return n
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatal("no node leads after 30 s")
	return nil
}

// do sends a request to the leader until it is answered. It repeats requests that were not carried
// out, and requests with an unknown outcome.
func (r *rig) do(op func() engine.Op) (done engine.Op, err error) {
	for range 1000 {
		for _, n := range r.nodes {
			b := n.enter()
			if b == nil {
				continue
			}
			done = op() // an operation whose outcome is unknown still belongs to its broker
			err = b.Do(context.Background(), done)
			n.exit()
			switch {
			case err == nil && n.running.Load():
				return done, nil
			case err != nil && !errors.Is(err, broker.ErrNotLeader) && !errors.Is(err, broker.ErrOutcomeUnknown):
				return done, err
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, errAway
}

// read reads the content of a message from a node that serves.
func (r *rig) read(m engine.Delivery) (engine.Content, bool) {
	for _, n := range r.nodes {
		if b := n.enter(); b != nil {
			defer n.exit()
			return b.ReadContent(m)
		}
	}
	return engine.Content{}, false
}

// settle waits until all running nodes have the same rows, and returns their mark.
func (r *rig) settle() {
	r.t.Helper()
	for range 3000 {
		r.leader()
		same := true
		for _, n := range r.nodes {
			same = same && (!n.running.Load() ||
				n.group.Position().Mark == r.leader().group.Position().Mark)
		}
		if same {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, n := range r.nodes {
		if !n.running.Load() {
			continue
		}
		r.t.Errorf("%s: %+v, error %v", n.id, n.group.Position(), n.group.Err())
	}
	r.t.Fatal("the rows are not equal after 30 s")
}
