package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/raft"

	"tenaq/internal/broker"
	"tenaq/internal/cluster/raftlog"
	"tenaq/internal/engine"
	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/kv/replica"
)

// A rig is three machines in a bubble, with the real broker on top.
type rig struct {
	t      testing.TB
	rng    *rand.Rand
	nodes  []*node
	voters int // the first of them; the others are not started

	flip  atomic.Int64 // the bit of a copy that the network changes, from 1 on; 0 for none
	flips atomic.Int64 // that it has changed
}

// A node is one machine. It survives restarts.
type node struct {
	rig  *rig
	id   raft.ServerID
	disk *crashdisk.Disk
	wall time.Duration // how far its wall clock is ahead

	free    atomic.Uint64                    // space on the disk
	hook    atomic.Pointer[func(errorfs.Op)] // called before each operation of the disk
	starts  atomic.Int64
	running atomic.Bool
	linked  atomic.Bool // to the other nodes
	led     atomic.Bool // since it started
	link    *raft.InmemTransport
	log     *pebblekv.Log
	state   *pebblekv.State
	group   *Group
	asked   atomic.Pointer[Group]         // the group, for other nodes
	broker  atomic.Pointer[broker.Broker] // while it leads
	store   atomic.Pointer[replica.Store] // of the last of its terms
	terms   atomic.Int64                  // in which it has served
	later   atomic.Uint64                 // by how much the terms are later that it hears of
}

// A slowLink is a network on which entries take some milliseconds each way, so that some are always
// under way when something happens.
type slowLink struct {
	*raft.InmemTransport
	rig *rig
}

func (l slowLink) AppendEntries(
	id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse,
) error {
	time.Sleep(time.Duration(1+rand.IntN(4)) * time.Millisecond)
	err := l.InmemTransport.AppendEntries(id, to, args, resp)
	time.Sleep(time.Duration(1+rand.IntN(4)) * time.Millisecond)
	return err
}

// InstallSnapshot brings no answer of a node that has lost power meanwhile.
func (l slowLink) InstallSnapshot(
	id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	var n *node
	for _, o := range l.rig.nodes {
		if o.id == id {
			n = o
		}
	}
	starts := n.starts.Load()
	if bit := l.rig.flip.Load(); bit > 0 {
		data = &flipped{data, (bit - 1) % (8 * args.Size), &l.rig.flips}
	}
	err := l.InmemTransport.InstallSnapshot(id, to, args, resp, data)
	if n.starts.Load() != starts || !n.linked.Load() {
		return errAway
	}
	return err
}

// A flipped is a stream with one bit changed.
type flipped struct {
	io.Reader
	bit   int64
	flips *atomic.Int64
}

func (f *flipped) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if at := f.bit / 8; f.bit >= 0 && at < int64(n) {
		p[at] ^= 1 << (f.bit % 8)
		f.flips.Add(1)
	}
	f.bit -= 8 * int64(n)
	return n, err
}

func newRig(t testing.TB, rng *rand.Rand) *rig {
	r := &rig{t: t, rng: rng, voters: 3}
	walls := []time.Duration{0, time.Minute, -time.Minute, time.Second}
	for i, wall := range walls {
		n := &node{rig: r, id: raft.ServerID(fmt.Sprintf("n%d", i+1)), wall: wall,
			disk: crashdisk.New()}
		n.free.Store(copyRoom)
		r.nodes = append(r.nodes, n)
	}
	for _, n := range r.nodes[:r.voters] {
		n.start()
	}
	for _, n := range r.nodes[:r.voters] {
		if err := n.group.Bootstrap(r.servers()); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *rig) servers() (servers []raft.Server) {
	for _, n := range r.nodes[:r.voters] {
		servers = append(servers, raft.Server{ID: n.id, Address: raft.ServerAddress(n.id)})
	}
	return servers
}

func (r *rig) close() {
	for _, n := range r.nodes {
		if n.running.Load() {
			n.stop()
		}
	}
}

var groupID = pebblekv.ID([]byte("a group of nodes"))

// start starts the program on the disk of the node.
func (n *node) start() {
	t, fatal := n.rig.t, func(err error) { panic(err) }
	fs := errorfs.Wrap(n.disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if hook := n.hook.Load(); hook != nil {
			(*hook)(op)
		}
		return nil
	}))
	var err error
	if n.log, err = pebblekv.OpenLog(pebblekv.Options{Dir: "/raft", FS: fs, Fatal: fatal,
		MemTableBytes: 256 << 10}); err != nil {
		t.Fatal(err)
	}
	if n.state, err = pebblekv.OpenState(pebblekv.Options{Dir: "/groups/1", FS: fs,
		Fatal: fatal, MemTableBytes: 64 << 10}, groupID); err != nil {
		t.Fatal(err)
	}
	_, n.link = raft.NewInmemTransportWithTimeout(raft.ServerAddress(n.id), time.Second)
	n.group, err = Open(Config{
		Node: n.id, Log: raftlog.Open(n.log, 1), State: n.state, Transport: slowLink{n.link, n.rig},
		Heartbeat: time.Second, Ask: n.ask, Lead: n.lead, Fatal: fatal,
		Logger:     slog.New(slog.DiscardHandler),
		Free:       func() (uint64, error) { return n.free.Load(), nil },
		CutEntries: 25,
	})
	if err != nil {
		t.Fatal(err)
	}
	n.asked.Store(n.group)
	n.led.Store(false)
	n.starts.Add(1)
	n.running.Store(true)
	n.connect()
}

// connect links the node to all that run.
func (n *node) connect() {
	n.linked.Store(true)
	for _, o := range n.rig.nodes {
		if o != n && o.running.Load() {
			n.link.Connect(o.link.LocalAddr(), o.link)
			o.link.Connect(n.link.LocalAddr(), n.link)
		}
	}
}

func (n *node) disconnect() {
	n.linked.Store(false)
	n.link.DisconnectAll()
	for _, o := range n.rig.nodes {
		if o != n && o.running.Load() {
			o.link.Disconnect(n.link.LocalAddr())
		}
	}
}

var errAway = errors.New("no such node")

// ask is what a node answers another about how far it has got.
func (n *node) ask(server raft.Server) (Standing, error) {
	for _, o := range n.rig.nodes {
		if o.id == server.ID && o.linked.Load() && n.linked.Load() {
			time.Sleep(time.Millisecond)
			standing := o.asked.Load().Standing()
			standing.Term += n.later.Load()
			return standing, nil
		}
	}
	return Standing{}, errAway
}

// lead serves with a broker. A majority must have applied the first entry of the session by now.
func (n *node) lead(term Term) error {
	have, session := 0, n.asked.Load().Position().Session
	for _, o := range n.rig.nodes {
		if g := o.asked.Load(); g != nil && g.Position().Session == session {
			have++
		}
	}
	if have < 2 {
		n.rig.t.Errorf("%d nodes have applied the first entry of a session that begins to serve",
			have)
	}
	if since := time.Since(term.Applied); n.led.Swap(true) && since > time.Hour {
		n.rig.t.Errorf("the last commit before this session was applied %v ago", since)
	}
	b, err := broker.New(broker.Config{
		Store: term.Store, Applied: term.Applied, Confirm: term.Store.Confirm, TurnBytes: 4 << 20,
		Wall: func() time.Time { return time.Now().Add(n.wall) },
		Engine: engine.Config{Region: "elsewhere", InFlightMax: 120_000, Fault: func(s string) {
			panic(s)
		}},
	})
	if err != nil {
		return err
	}
	n.terms.Add(1)
	n.store.Store(term.Store)
	n.broker.Store(b)
	defer n.broker.Store(nil)
	ended := make(chan error, 1)
	go func() { ended <- b.Run(context.Background()) }()
	select {
	case <-term.Over:
		b.Abandon()
		return <-ended
	case err := <-ended:
		return err
	}
}

// stop ends the program in order. The group is not told.
func (n *node) stop() {
	n.disconnect()
	n.running.Store(false)
	n.close()
}

func (n *node) close() {
	n.group.Close()
	if err := errors.Join(n.log.Close(), n.state.Close()); err != nil {
		n.rig.t.Error(err)
	}
}

// cutPower ends the program at this moment: nothing that it does from now on reaches another node
// or its disk.
func (n *node) cutPower() {
	n.disconnect()
	n.running.Store(false)
	n.disk = n.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: n.rig.rng.IntN(101),
		RNG: rand.New(rand.NewPCG(n.rig.rng.Uint64(), 3))})
	n.close()
}

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

// do asks whichever node leads until it is answered. It tries again what was not carried out, and
// what has an unknown outcome.
func (r *rig) do(op func() engine.Op) (done engine.Op, err error) {
	for range 1000 {
		for _, n := range r.nodes {
			b := n.broker.Load()
			if b == nil || !n.running.Load() {
				continue
			}
			done = op() // an operation whose outcome is unknown still belongs to its broker
			err = b.Do(context.Background(), done)
			switch {
			case err == nil:
				return done, nil
			case !errors.Is(err, broker.ErrNotLeader) && !errors.Is(err, broker.ErrOutcomeUnknown):
				return done, err
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, errAway
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
