package group

import (
	"context"

	"github.com/hashicorp/raft"
)

// Members are the nodes of a group by a committed entry of the log.
type Members struct {
	Index   uint64 // of that entry; 0 while there is none
	Servers []raft.Server
}

// Members returns the latest members that this node knows to be committed. The first ones, which
// the founder of the group has chosen, need no commit.
func (g *Group) Members() Members { return *g.members.Load() }

// Servers returns the members that Raft goes by on this node, committed or not.
func (g *Group) Servers() []raft.Server { return g.raft.GetConfiguration().Configuration().Servers }

// readMembers reads the members as of the start of the log.
func (g *Group) readMembers() error {
	m, err := g.snapshot()
	if err != nil {
		return err
	}
	var first raft.Log
	if m != nil {
		g.members.Store(&Members{m.ConfigurationIndex, m.Configuration.Servers})
	} else if g.cfg.Log.GetLog(1, &first) == nil && first.Type == raft.LogConfiguration {
		g.members.Store(&Members{1, raft.DecodeConfiguration(first.Data).Servers})
	} else {
		g.members.Store(new(Members))
	}
	return nil
}

// StoreConfiguration takes a committed entry about members.
func (m *machine) StoreConfiguration(index uint64, c raft.Configuration) {
	m.members.Store(&Members{index, c.Servers})
}

// Add makes a server a member. One that is a member gets the vote, or the address, that s has. The
// error is raft.ErrNotLeader where another node leads.
func (g *Group) Add(ctx context.Context, s raft.Server) error {
	if s.Suffrage == raft.Voter {
		return g.awaitWithin(ctx, g.raft.AddVoter(s.ID, s.Address, 0, 0))
	}
	return g.awaitWithin(ctx, g.raft.AddNonvoter(s.ID, s.Address, 0, 0))
}

// Remove removes a member. This node ends its lead in order before it removes itself.
func (g *Group) Remove(ctx context.Context, id raft.ServerID) error {
	remove := func() error { return g.awaitWithin(ctx, g.raft.RemoveServer(id, 0, 0)) }
	if id != g.cfg.Node {
		return remove()
	}
	err := g.yield(ctx, remove)
	if err == errNotLeading {
		return raft.ErrNotLeader
	}
	return err
}

// awaitWithin is the error of a future, or of a context that ends first.
func (g *Group) awaitWithin(ctx context.Context, f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- g.await(f) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
