package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster"
)

// Status asks all members how they are, for at most 2 seconds.
func (n *Node) Status(ctx context.Context) cluster.Status {
	own := n.card()
	s := cluster.Status{Group: own.Group, Node: string(n.id), Leader: string(own.Leader),
		Term: own.Term, Members: []cluster.Member{}}
	for _, c := range n.waitingNow() {
		s.Waiting = append(s.Waiting, cluster.Waiting{ID: string(c.ID), Address: c.Address,
			Version: c.Version})
	}
	n.mu.Lock()
	servers := n.members
	n.mu.Unlock()
	if p := n.part.Load(); p != nil {
		servers = p.group.Servers()
	} else if own.State == empty {
		s.Waiting = append(s.Waiting, cluster.Waiting{ID: string(own.ID), Address: own.Address,
			Version: own.Version, Trouble: own.Trouble})
	}
	cards := n.exchangeWith(ctx, servers)
	cards[n.id] = reply{card: own}
	for _, server := range servers {
		s.Members = append(s.Members, n.memberOf(server, cards[server.ID]))
		if c := cards[server.ID].card; s.Leader == "" && c.Leads {
			s.Leader = string(c.ID)
		}
	}
	var front uint64
	for _, m := range s.Members {
		if m.ID == s.Leader {
			front = m.Applied
		}
	}
	for i := range s.Members {
		m := &s.Members[i]
		if m.Role != cluster.Unreachable && m.Applied < front {
			m.Lag = front - m.Applied
		}
	}
	return s
}

// memberOf is what a member has said of itself.
func (n *Node) memberOf(s raft.Server, r reply) cluster.Member {
	m := cluster.Member{ID: string(s.ID), Address: string(s.Address),
		Voter: s.Suffrage == raft.Voter}
	if errors.Is(r.err, errOtherNode) && r.card.ID == s.ID && r.card.Group == "" && !m.Voter {
		m.Role, m.Version, m.FreeBytes = cluster.Learner, r.card.Version, r.card.Free
		return m // it has been admitted and does not know it yet
	}
	if r.err != nil {
		m.Role = cluster.Unreachable
		do := "start it, or replace it with"
		if errors.Is(r.err, errOtherNode) {
			do = "if the data of this one is lost, put that node in its place"
		}
		m.Trouble = fmt.Sprintf("%v: %s: tenaq cluster replace %s NEW", r.err, do,
			cluster.Short(string(s.ID)))
		return m
	}
	c := r.card
	switch {
	case c.State == stopped:
		m.Role = cluster.Stopped
	case c.Leads:
		m.Role = cluster.Leader
	case s.Suffrage == raft.Voter:
		m.Role = cluster.Follower
	default:
		m.Role = cluster.Learner
	}
	at := c.Position
	m.Applied, m.Commit = at.Index, at.Mark.Number
	m.Hash = fmt.Sprintf("%016x", at.Mark.Hash)
	if s.ID != n.id {
		m.Clock = r.ahead.Seconds()
	}
	m.Version, m.FreeBytes, m.Trouble = c.Version, c.Free, c.Trouble
	return m
}
