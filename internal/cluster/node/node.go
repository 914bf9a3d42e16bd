// Package node is one node of a cluster: it finds the others, founds a group with them or joins
// theirs, and takes the lead when it is elected.
//
// What it guarantees:
//
//   - A group is founded once. The first of the listed addresses founds it, when all listed nodes
//     have answered that they are empty and have the same list.
//   - A node that lost its directory never votes or confirms an entry as the node that it was. It
//     has another id, and a Raft connection is made to an id. It waits until an operator admits it.
//   - A node whose rows do not match stops voting. So does a node that was removed, even after a
//     restart.
//   - A node whose log has lost what it had promised does not start.
//   - A member that is started at another address is found there, while a majority is reachable.
//   - A peer that hangs does not delay the others: a question to several nodes asks them at the
//     same time, for at most 2 seconds.
//
// It leaves to others: what a leader serves (Config.Lead), how requests reach it (package forward),
// and consensus (package group).
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster"
	"tenaq/internal/cluster/forward"
	"tenaq/internal/cluster/group"
	"tenaq/internal/cluster/raftlog"
	"tenaq/internal/cluster/wire"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/observe/metric"
)

// Config configures a Node. Fields without a default are required.
type Config struct {
	Dir string // data directory

	// Listen is where the node listens for others, as host:port; Advertise is how they reach it.
	Listen, Advertise string

	// Peers are the advertised addresses of the first nodes, the same on all of them. A node whose
	// address is not among them founds nothing.
	Peers []string

	// Identity proves the node to others. If it is nil, Token does, on loopback addresses only.
	Identity *wire.Identity
	Token    string

	Version string // of this program

	// Heartbeat is how long a follower waits for the leader before it asks for votes; 1 s when
	// zero.
	Heartbeat time.Duration

	// Lead is called when this node has taken the lead. It serves until the term is over, or is to
	// be yielded, and returns then. An error is logged.
	Lead func(group.Term) error

	// Free returns the free space on the disk of Dir, in bytes.
	Free func() (uint64, error)

	// Low reports whether that is below the reserve. Other nodes hear of it.
	Low func() bool

	// Requests answers the requests that other nodes forward.
	Requests http.Handler

	// Fatal is called when storage can no longer be trusted, as pebblekv.Options says.
	Fatal func(error)

	Logger *slog.Logger

	store   func(*pebblekv.Options) // tests
	wall    func() time.Time        // tests
	steady  time.Duration           // before a learner gets its vote; tests shorten it
	patient time.Duration           // before a trouble is reported; tests shorten it
}

// LogDir returns the folder of the log in a data directory.
func LogDir(dir string) string { return filepath.Join(dir, "raft") }

// GroupDir returns the folder of the group in a data directory. Its rows are in the folder "state".
func GroupDir(dir string) string { return filepath.Join(dir, "groups", "1") }

// A Node is one node of a cluster. Its methods may be called from any goroutine.
type Node struct {
	cfg    Config
	id     raft.ServerID
	peers  []string // sorted
	log    *pebblekv.Log
	timed  *timedLog // the same
	store  *raftlog.Store
	state  *pebblekv.State // of a member
	port   *wire.Port
	client *http.Client
	life   context.Context // until all is closed
	end    context.CancelFunc

	membership atomic.Pointer[membership]
	part       atomic.Pointer[part] // nil while the node has none
	term       atomic.Pointer[group.Term]
	takeovers  metric.Counter
	ledLast    atomic.Pointer[time.Time] // when a leader was last known
	elsewhere  atomic.Pointer[string]    // the leader of a group that this node is not in yet

	asked    sync.Map   // of raft.ServerID: questions that wait for their answers
	changing sync.Mutex // held while members are changed

	takeoverSeconds *metric.Histogram
	noSeconds       *metric.Histogram // of a node that takes no part

	mu          sync.Mutex
	seats       map[raft.ServerID]seat // of the other members, while this node leads
	waiting     map[raft.ServerID]heard
	moved       map[raft.ServerID]raft.ServerAddress // where members say that they are
	members     []raft.Server                        // of a group that this node is not in yet
	problem     string                               // why not
	problemFrom time.Time                            // since when
	problemSaid bool                                 // in the log
}

// A part is the part that a node takes in its group.
type part struct {
	group *group.Group
	links *transport
}

// Open takes the port and the log of a node. The caller then runs it, or closes it. Errors end with
// what to do.
func Open(cfg Config) (_ *Node, err error) {
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, time.Second)
	cfg.steady, cfg.patient = cmp.Or(cfg.steady, steady), cmp.Or(cfg.patient, patient)
	if cfg.wall == nil {
		cfg.wall = time.Now
	}
	n := &Node{cfg: cfg, peers: slices.Compact(slices.Sorted(slices.Values(cfg.Peers))),
		waiting:         make(map[raft.ServerID]heard),
		moved:           make(map[raft.ServerID]raft.ServerAddress),
		takeoverSeconds: metric.NewHistogram(metric.Latencies...),
		noSeconds:       metric.NewHistogram(metric.Latencies...)}
	n.life, n.end = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	n.client = n.newClient()
	now := time.Now()
	n.ledLast.Store(&now)
	refused := refusals{log: cfg.Logger, said: make(map[string]time.Time)}
	if n.port, err = wire.Listen(wire.Config{Listen: cfg.Listen, Identity: cfg.Identity,
		Token: cfg.Token, Refused: refused.note}); err != nil {
		return nil, fmt.Errorf("%w: correct --cluster-listen, or stop what has the address", err)
	}
	log := pebblekv.Options{Dir: LogDir(cfg.Dir), Fatal: n.cfg.Fatal, Logger: cfg.Logger}
	if cfg.store != nil {
		cfg.store(&log)
	}
	if n.log, err = pebblekv.OpenLog(log); err != nil {
		if locked, ok := errors.AsType[*pebblekv.LockedError](err); ok {
			err = &pebblekv.LockedError{Dir: cfg.Dir, PID: locked.PID}
		}
		return nil, err
	}
	n.id = raft.ServerID(n.log.ID().String())
	n.timed = &timedLog{Log: n.log}
	n.store = raftlog.Open(n.timed, groupNumber)
	m, err := readMembership(n.store)
	if err != nil {
		return nil, err
	}
	n.membership.Store(&m)
	if m.group != (pebblekv.ID{}) && !m.removed {
		err = n.openState(m.group)
	}
	return n, err
}

func (n *Node) openState(id pebblekv.ID) (err error) {
	o := pebblekv.Options{Dir: GroupDir(n.cfg.Dir), Fatal: n.cfg.Fatal, Logger: n.cfg.Logger}
	if n.cfg.store != nil {
		n.cfg.store(&o)
	}
	n.state, err = pebblekv.OpenState(o, id)
	return err
}

// Close releases what Open has taken, for a node that does not run.
func (n *Node) Close() error {
	n.end()
	n.client.CloseIdleConnections()
	var err error
	if n.port != nil {
		err = n.port.Close()
	}
	if n.state != nil {
		err = errors.Join(err, n.state.Close())
	}
	if n.log != nil {
		err = errors.Join(err, n.log.Close())
	}
	return err
}

// How long a stop waits for answers to other nodes, and how long their connections may be idle:
// longer than they keep them.
const (
	drainMax = 2 * time.Second
	idleMax  = 2 * time.Minute
)

// Run takes part in the cluster until ctx is done. It returns when everything is closed.
func (n *Node) Run(ctx context.Context) error {
	var running sync.WaitGroup
	requests := &http.Server{Handler: forward.Receive(n.cfg.Requests), IdleTimeout: idleMax}
	control := &http.Server{Handler: n.handler(), IdleTimeout: idleMax, ReadTimeout: idleMax}
	for _, s := range []*http.Server{requests, control} {
		s.ErrorLog = slog.NewLogLogger(n.cfg.Logger.Handler(), slog.LevelDebug)
	}
	running.Go(func() { _ = requests.Serve(n.port.Listener(wire.HTTP)) })
	running.Go(func() { _ = control.Serve(n.port.Listener(wire.Control)) })
	running.Go(func() { n.acceptLinks(&running) })
	running.Go(func() { n.watchDisk(n.life) })

	err := n.partake(ctx)

	if p := n.part.Load(); p != nil {
		p.group.Close() // and the links
	}
	drain, stop := context.WithTimeout(context.Background(), drainMax)
	defer stop()
	if requests.Shutdown(drain) != nil {
		_ = requests.Close()
	}
	_ = control.Close()
	_ = n.port.Listener(wire.Raft).Close()
	n.end()
	running.Wait()
	return errors.Join(err, n.Close())
}

func (n *Node) acceptLinks(running *sync.WaitGroup) {
	for {
		conn, err := n.port.Listener(wire.Raft).Accept()
		if err != nil {
			return
		}
		p := n.part.Load()
		if p == nil {
			_ = conn.Close()
			continue
		}
		running.Go(func() { p.links.links.welcome(conn) })
	}
}

// partake finds the group of this node and follows it until ctx is done.
func (n *Node) partake(ctx context.Context) error {
	m := *n.membership.Load()
	if m.group == (pebblekv.ID{}) {
		var ok bool
		if m, ok = n.enter(ctx); !ok {
			return nil
		}
	}
	if m.removed {
		n.warnRemoved()
	} else if err := n.join(m); err != nil {
		return err
	}
	n.watch(ctx)
	return nil
}

// join makes this node a member, durably, and starts its part.
func (n *Node) join(m membership) (err error) {
	if n.membership.Load().group != m.group {
		if err := m.save(n.store); err != nil {
			return err
		}
		n.membership.Store(&m)
	}
	if n.state == nil {
		if err := n.openState(m.group); err != nil {
			return err
		}
	}
	links := newTransport(n.port, m.group, n.id)
	g, err := group.Open(group.Config{
		Node: n.id, Log: n.store, State: n.state, Transport: links, Heartbeat: n.cfg.Heartbeat,
		Ask: n.askStanding, Free: n.cfg.Free, Lead: n.lead, Fatal: n.cfg.Fatal,
		Logger: n.cfg.Logger,
	})
	if err != nil {
		return errors.Join(err, links.Close())
	}
	n.part.Store(&part{g, links})
	if len(m.founders) > 0 {
		return g.Bootstrap(m.founders)
	}
	return nil
}

func (n *Node) lead(t group.Term) error {
	n.takeovers.Add(1)
	n.takeoverSeconds.Observe(time.Since(t.Elected).Seconds())
	n.cfg.Logger.Info("became the leader")
	n.term.Store(&t)
	defer n.cfg.Logger.Info("leadership ended")
	defer n.term.Store(nil)
	return n.cfg.Lead(t)
}

// Leads reports whether Lead is running and its term is not over.
func (n *Node) Leads() bool {
	t := n.term.Load()
	if t == nil {
		return false
	}
	select {
	case <-t.Over:
		return false
	default:
		return true
	}
}

// leader returns the id of the leader, as far as this node knows; empty when there is none.
func (n *Node) leader() raft.ServerID {
	if p := n.part.Load(); p != nil && p.group.Err() == nil && !n.membership.Load().removed {
		return p.group.Leader()
	}
	return ""
}

// Leader returns where the node is reached that leads, as far as this one knows. It may be this
// node itself: requests that have waited for a leader wait for this one too.
func (n *Node) Leader() (address string, known bool) {
	if id := n.leader(); id != "" {
		for _, s := range n.part.Load().group.Servers() {
			if s.ID == id {
				return string(s.Address), true
			}
		}
	}
	if a := n.elsewhere.Load(); a != nil && n.part.Load() == nil {
		return *a, true
	}
	return "", false
}

// LeaderSeen returns for how long this node has known no leader; 0 while it knows one.
func (n *Node) LeaderSeen() time.Duration {
	if n.leader() != "" || n.part.Load() == nil && n.elsewhere.Load() != nil {
		return 0
	}
	return time.Since(*n.ledLast.Load())
}

// Dial opens a connection for requests to the node at an address.
func (n *Node) Dial(ctx context.Context, address string) (net.Conn, error) {
	return n.port.Dial(ctx, wire.HTTP, address)
}

// HandOver ends the lead of this node in order and has the voter elected that has got furthest. If
// none can be, this node leads on, and the error says why. It is nil if this node does not lead.
func (n *Node) HandOver(ctx context.Context) error {
	if p := n.part.Load(); p != nil {
		return p.group.HandOver(ctx, "")
	}
	return nil
}

// Checkpoint makes a checkpoint of the rows of this node, for a backup. The error is
// cluster.ErrNotLeader when it does not lead.
func (n *Node) Checkpoint() (*pebblekv.Checkpoint, error) {
	if !n.Leads() {
		return nil, cluster.ErrNotLeader
	}
	return n.state.Checkpoint()
}
