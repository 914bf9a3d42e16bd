// Package group replicates one store to the nodes of a cluster: the leader's broker writes, the
// others apply the bytes that it has written.
//
// What it guarantees, as long as fewer than half of the nodes are lost:
//
//   - What the leader's store has confirmed is on disk on a majority of the nodes, and every later
//     leader has it.
//   - One node at a time can commit. A leader that was replaced, or that lost the lead and regained
//     it without noticing, cannot: its entries are fenced.
//   - All nodes have the same rows, byte for byte. Every entry states the hash of the chain of
//     commits. A node whose rows do not match an entry stops at once, and counts for no majority.
//   - A leader serves only once a majority has applied the first entry of its session: never with
//     rows that differ from theirs. It proposes that entry only once a majority has its rows, so a
//     leader with wrong rows stops itself and not the nodes that are right.
//   - The log is bounded. A node that was away for longer than the log reaches back, or that is
//     new, gets a copy of the leader's rows. A copy that was cut off or changed is not used.
//
// What it cannot do:
//
//   - go on without a majority;
//   - tell whether a commit that was lost with the lead takes effect;
//   - repair a node whose rows do not match. An operator replaces it;
//   - go on while no majority has the same rows, or tell which of two nodes is right.
//
// It leaves to others: the rules of the queue (Config.Lead), where nodes are and how they talk
// (Config.Transport and Config.Ask), and membership.
package group

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster/raftlog"
	"tenaq/internal/kv"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/kv/replica"
	"tenaq/internal/observe/metric"
)

// A Transport carries Raft's messages between nodes, with pre-votes.
type Transport interface {
	raft.Transport
	raft.WithPreVote
}

// Config configures a Group. All fields without a default are required.
type Config struct {
	Node      raft.ServerID
	Log       *raftlog.Store
	State     *pebblekv.State
	Transport Transport

	// Heartbeat is how long a follower waits for the leader before it asks for votes.
	Heartbeat time.Duration

	// Ask asks another node for its Standing. It returns within a few heartbeats, with an error
	// when there is no answer.
	Ask func(raft.Server) (Standing, error)

	// Free returns the free space on the disk of the State, in bytes. A node with less than 1 GiB
	// takes no copy.
	Free func() (uint64, error)

	// CutEntries and CutBytes say how much arrives in the log before it is cut. Twice as much is
	// kept for followers that are behind. Default 10,000 entries and 64 MiB.
	CutEntries, CutBytes uint64

	// Lead is called when this node has taken the lead. It serves until the term is over, or is to
	// be yielded, and returns then. An error other than kv.ErrLost is logged.
	Lead func(Term) error

	// Fatal is called when the program cannot go on, as pebblekv.Options says.
	Fatal func(error)

	Logger *slog.Logger

	raft func(*raft.Config) // changes the configuration of Raft, in tests
}

// A Standing is how far a node has got.
type Standing struct {
	Position pebblekv.Position // of its rows
	Term     uint64            // the latest term of Raft that it knows of
}

// A Term is one time of leading.
type Term struct {
	// Store is the store of the leader.
	Store *replica.Store

	// Applied is when the last commit of the leader before came to this node; zero when this node
	// has applied none since it started.
	Applied time.Time

	// Over is closed when another node may lead. A commit that is lost ends the term too.
	Over <-chan struct{}

	// Yield is closed when the lead is to be handed over. Lead then finishes what it has taken up
	// and returns nil; this node still leads meanwhile.
	Yield <-chan struct{}

	// Elected is when the other nodes elected this one.
	Elected time.Time
}

// A Group is one node's part of a replicated store.
type Group struct {
	cfg   Config
	raft  *raft.Raft
	known uint64 // the last entry of the log when the program started

	leading  atomic.Pointer[session] // nil while this node does not lead
	yields   chan yielding
	members  atomic.Pointer[Members]
	live     atomic.Pointer[time.Time]
	arrivals *arrivals
	fencings atomic.Int64
	copies   atomic.Int64 // that have replaced the rows

	Commits, Confirms *metric.Histogram // seconds, of this node while it leads

	use       uses
	sending   sync.Mutex // held while a copy is sent
	copied    *incoming  // that Restore is to use
	arrived   meter      // in the log, since it was last to be cut
	cuts      chan uint64
	cutsEnded chan struct{}

	broken   atomic.Pointer[error] // why this node has stopped taking part
	down     chan struct{}         // closed when it has
	ended    chan struct{}
	end      sync.Once
	finished chan struct{} // the loop of Open
}

// A session is the time of one leader's store.
type session struct {
	id    replica.Session
	term  uint64
	store *replica.Store
}

// Open joins the group that the log belongs to. An empty log belongs to none until Bootstrap.
func Open(cfg Config) (*Group, error) {
	g := &Group{cfg: cfg, down: make(chan struct{}), ended: make(chan struct{}),
		finished: make(chan struct{}), cuts: make(chan uint64, 1), cutsEnded: make(chan struct{}),
		yields:  make(chan yielding),
		Commits: metric.NewHistogram(metric.Latencies...), Confirms: metric.NewHistogram(
			metric.Latencies...)}
	var err error
	if g.known, err = cfg.Log.LastIndex(); err != nil {
		return nil, err
	}
	if err := g.dropCopiedLog(); err != nil {
		return nil, err
	}
	if err := g.checkRows(); err != nil {
		return nil, err
	}
	if err := g.readMembers(); err != nil {
		return nil, err
	}
	g.arrivals = &arrivals{Store: cfg.Log, snapshot: g.snapshot}
	g.raft, err = raft.NewRaft(g.raftConfig(), (*machine)(g), g.arrivals, cfg.Log, (*snapshots)(g),
		inOrder{cfg.Transport})
	if err != nil {
		return nil, fmt.Errorf("join the group: %w", err)
	}
	go g.run()
	go g.cutLogs()
	return g, nil
}

func (g *Group) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = g.cfg.Node
	c.HeartbeatTimeout, c.ElectionTimeout = g.cfg.Heartbeat, g.cfg.Heartbeat
	c.LeaderLeaseTimeout = g.cfg.Heartbeat / 2
	c.NoSnapshotRestoreOnStart = true // the rows are on disk
	c.NoLegacyTelemetry = true
	c.LogOutput, c.LogLevel = io.Discard, "off"
	c.SnapshotThreshold = math.MaxUint64 // cutLogs decides
	c.MaxAppendEntries = 16              // an entry may have 8 MiB
	c.ShutdownOnRemove = false           // whether this node was removed is for others to find out
	if g.cfg.raft != nil {
		g.cfg.raft(c)
	}
	return c
}

// inOrder is a transport without pipelining. With it a leader may never replicate again to a
// follower whose disk has hung: https://github.com/hashicorp/raft/issues/612
type inOrder struct{ Transport }

func (inOrder) AppendEntriesPipeline(
	raft.ServerID, raft.ServerAddress,
) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// Bootstrap makes the servers a group. Every server may be told, and each of the same ones.
func (g *Group) Bootstrap(servers []raft.Server) error {
	before := g.members.Load()
	err := g.raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error()
	if errors.Is(err, raft.ErrCantBootstrap) {
		return nil // it is one already
	}
	if err == nil {
		g.members.CompareAndSwap(before, &Members{1, servers})
	}
	return err
}

// Leader returns the node that leads as far as this one knows; empty when there is none.
func (g *Group) Leader() raft.ServerID {
	_, id := g.raft.LeaderWithID()
	return id
}

// Position returns how far the rows of this node have got.
func (g *Group) Position() pebblekv.Position { return g.cfg.State.Position() }

// Standing returns how far this node has got.
func (g *Group) Standing() Standing { return Standing{g.Position(), g.raft.CurrentTerm()} }

// Fenced is how many entries of replaced leaders this node has passed over.
func (g *Group) Fenced() int64 { return g.fencings.Load() }

// Copies is how many copies of a leader's rows this node has taken since it started.
func (g *Group) Copies() int64 { return g.copies.Load() }

// Progress returns the last entry of the log that is known to be committed, and the last one that
// this node has.
func (g *Group) Progress() (committed, last uint64) {
	return g.raft.CommitIndex(), g.raft.LastIndex()
}

// Err returns why this node has stopped taking part in the group; nil while it does.
func (g *Group) Err() error {
	if err := g.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// Close leaves the group's work to the other nodes. Commits under way end first: Raft decides about
// them, or finds that it has lost the lead. It closes the Transport if that is a raft.WithClose.
func (g *Group) Close() {
	g.finish()
	<-g.finished
	<-g.cutsEnded
	down := g.raft.Shutdown()
	if t, ok := g.cfg.Transport.(raft.WithClose); ok {
		_ = t.Close() // Raft waits for each request under way, and a node that hangs answers none
	}
	_ = down.Error()
}

func (g *Group) finish() { g.end.Do(func() { close(g.ended) }) }

// ErrMismatch says that the rows of this node or of the leader are not what they should be.
var ErrMismatch = errors.New("an entry of the log does not follow the rows of this node")

// breakDown takes this node out of the group. Raft must not count it for a majority any more.
func (g *Group) breakDown(err error) {
	if g.broken.CompareAndSwap(nil, &err) {
		g.cfg.Logger.Error("node left the group", "error", err)
		g.raft.Shutdown()
		close(g.down)
		g.finish()
	}
}

// run takes the lead whenever Raft elects this node.
func (g *Group) run() {
	defer close(g.finished)
	for {
		select {
		case <-g.ended:
			return
		case <-g.raft.LeaderCh():
		}
		for g.raft.State() == raft.Leader && !g.isEnded() {
			if err := g.lead(); err != nil && !errors.Is(err, kv.ErrLost) {
				g.cfg.Logger.Warn("cannot take leadership", "error", err)
				g.pause(g.cfg.Heartbeat / 10)
			}
		}
	}
}

func (g *Group) isEnded() bool {
	select {
	case <-g.ended:
		return true
	default:
		return false
	}
}

func (g *Group) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-g.ended:
	}
}

// lead takes the lead and serves until it is lost.
func (g *Group) lead() error {
	if !g.use.begin(leading) {
		return errBusy
	}
	defer g.use.end(leading)
	elected, term := time.Now(), g.raft.CurrentTerm()
	if err := g.await(g.raft.Barrier(0)); err != nil { // everything that is committed is applied
		return err
	}
	var applied time.Time
	if t := g.live.Load(); t != nil {
		applied = *t
	}
	s := &session{term: term}
	if err := g.compare(s); err != nil {
		return err
	}
	if _, err := rand.Read(s.id[:]); err != nil {
		return err
	}
	if err := g.propose(replica.FirstEntry(s.id, g.cfg.State.Mark()).Encode()).Wait(); err != nil {
		return err
	}
	hasBegun := func(x Standing) bool { return x.Position.Session == s.id }
	if _, err := g.awaitMajority(s, hasBegun); err != nil {
		return err
	}
	s.store = replica.NewStore(g.cfg.State, proposals{g, s}, s.id)
	g.leading.Store(s)
	defer g.leading.Store(nil)
	return g.serve(Term{Store: s.store, Applied: applied, Elected: elected})
}

// compare waits until a majority of the voters has got as far in the log as this node and has the
// same rows. If a majority has others there, those of this node are wrong, and it leaves the group:
// the first entry of its session would make the majority leave.
func (g *Group) compare(s *session) error {
	const others = 1 // of what is asked
	var once sync.Once
	is, err := g.awaitMajority(s,
		func(x Standing) bool { return x.Position == g.Position() },
		func(x Standing) bool {
			p := g.Position()
			if x.Position.Index != p.Index || x.Position.Mark == p.Mark {
				return false
			}
			once.Do(func() {
				g.cfg.Logger.Warn("another node has different rows", "index", p.Index,
					"commit", p.Mark.Number)
			})
			return true
		})
	if err == nil && is == others {
		err = fmt.Errorf("%w: a majority of the nodes has other rows after entry %d of the log",
			ErrMismatch, g.Position().Index)
		g.breakDown(err)
	}
	return err
}

// awaitMajority waits until one of several things is true of a majority of the voters, as long as
// the session lasts, and returns which one.
func (g *Group) awaitMajority(s *session, is ...func(Standing) bool) (which int, err error) {
	for !g.isEnded() && g.raft.State() == raft.Leader && g.raft.CurrentTerm() == s.term {
		future := g.raft.GetConfiguration()
		if err := future.Error(); err != nil {
			return 0, err
		}
		if which, ok := g.ofMajority(future.Configuration().Servers, is); ok {
			return which, nil
		}
		g.pause(g.cfg.Heartbeat / 100)
	}
	return 0, kv.ErrLost
}

// ofMajority asks all voters at the same time, and goes by the first majority that agrees.
func (g *Group) ofMajority(servers []raft.Server, is []func(Standing) bool) (which int, ok bool) {
	answers, voters := make(chan *Standing, len(servers)), 0
	for _, server := range servers {
		switch {
		case server.Suffrage != raft.Voter:
			continue
		case server.ID == g.cfg.Node:
			own := g.Standing()
			answers <- &own
		default:
			go func() {
				standing, err := g.cfg.Ask(server)
				if err != nil {
					answers <- nil
					return
				}
				answers <- &standing
			}()
		}
		voters++
	}
	have := make([]int, len(is))
	for range voters {
		standing := <-answers
		for i := range is {
			if standing == nil || !is[i](*standing) {
				continue
			}
			if have[i]++; have[i] > voters/2 {
				return i, true
			}
		}
	}
	return 0, false
}

// proposals are the log of one session.
type proposals struct {
	group   *Group
	session *session
}

func (p proposals) Propose(entry []byte) replica.Ticket { return p.group.propose(entry) }

// Confirm asks a majority whether it knows of a later term: if not, no other node has been elected
// before the question. Raft's VerifyLeader does not do, because it takes the answer to an earlier
// heartbeat for one to its own. A leader that was paused may find such an answer when it goes on.
func (p proposals) Confirm() error {
	begun := time.Now()
	defer func() { p.group.Confirms.Observe(time.Since(begun).Seconds()) }()
	_, err := p.group.awaitMajority(p.session, func(s Standing) bool {
		return s.Term <= p.session.term
	})
	return err
}

func (g *Group) propose(entry []byte) ticket {
	return ticket{g, g.raft.Apply(entry, 0), time.Now()}
}

// A ticket is an entry on its way to the state.
type ticket struct {
	group  *Group
	future raft.ApplyFuture
	begun  time.Time
}

func (t ticket) Wait() error {
	if err := t.group.await(t.future); err != nil {
		return err
	}
	t.group.Commits.Observe(time.Since(t.begun).Seconds())
	if err, ok := t.future.Response().(error); ok {
		return err
	}
	return nil
}

// await is the error of a future. Raft leaves some unanswered when a broken node shuts it down.
func (g *Group) await(f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-g.down:
		return raft.ErrRaftShutdown
	}
}

// A machine is the group as Raft's state machine.
type machine Group

// Apply applies a committed entry to the state. Its result is the error for the proposer.
func (m *machine) Apply(l *raft.Log) any {
	g := (*Group)(m)
	if err := g.Err(); err != nil {
		return err
	}
	g.measure(l)
	v, next, e := judge(g.Position(), l.Index, l.Term, l.Data)
	switch v {
	case skipped:
		return nil
	case newer:
		_, err := replica.Decode(l.Data)
		g.cfg.Fatal(err)
		return err
	case mismatch:
		err := fmt.Errorf("%w: entry %d of the log, after commit %d", ErrMismatch, l.Index,
			next.Mark.Number)
		g.breakDown(err)
		return err
	}
	var writes []byte
	if v == applied {
		writes = e.Writes
	}
	if err := g.cfg.State.Apply(next, writes); err != nil {
		err = fmt.Errorf("%w: entry %d of the log: %w", ErrMismatch, l.Index, err)
		g.breakDown(err)
		return err
	}
	if v == fenced {
		g.fencings.Add(1)
		return kv.ErrLost
	}
	if v == applied {
		if l.Index > g.known {
			came := g.arrivals.of(l.Index)
			g.live.Store(&came)
		}
		if s := g.leading.Load(); s != nil && s.id == e.Session {
			s.store.Landed(e.Mark.Number)
		}
	}
	return nil
}
