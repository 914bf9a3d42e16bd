package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster/wire"
	"tenaq/internal/kv/pebblekv"
)

// enter finds out what an empty node belongs to: it founds a group when it is the first of the
// listed nodes and all are empty, or waits until it is a member of one. It is false when ctx is
// done before that.
func (n *Node) enter(ctx context.Context) (membership, bool) {
	for {
		if m, ok := n.look(ctx); ok {
			n.elsewhere.Store(nil)
			return m, ctx.Err() == nil
		}
		select {
		case <-time.After(n.cfg.Heartbeat / 4):
		case <-ctx.Done():
			return membership{}, false
		}
	}
}

// look exchanges cards once with all nodes that this one has heard of.
func (n *Node) look(ctx context.Context) (membership, bool) {
	own := n.cfg.Advertise
	fellows := map[string]raft.ServerID{own: n.id} // first nodes that can found a group
	var leader string
	var members []raft.Server
	var mistakes, silent []string
	addresses := n.others()
	replies := n.exchange(ctx, addresses)
	for range addresses {
		r := <-replies
		c := r.card
		switch {
		case r.err != nil:
			if errors.Is(r.err, wire.ErrRefused) { // which says what to do
				silent = append(silent, r.err.Error())
				continue
			}
			silent = append(silent, fmt.Sprintf("%v: start that node, or correct --cluster-peers",
				r.err))
		case c.ID == n.id:
			mistakes = append(mistakes, fmt.Sprintf("the list of the first nodes has this one as %s, and it advertises %s: write the same in both", r.address, own))
		case c.State == empty && slices.Contains(n.peers, r.address):
			if !slices.Equal(c.Peers, n.peers) {
				mistakes = append(mistakes, fmt.Sprintf("the lists of the first nodes differ: this node has %s, the one at %s has %s: pass the same --cluster-peers to all of them",
					strings.Join(n.peers, ","), r.address, strings.Join(c.Peers, ",")))
				continue
			}
			fellows[r.address] = c.ID
		case among(c.Members, n.id):
			group, err := hex.DecodeString(c.Group)
			if err != nil || len(group) != len(pebblekv.ID{}) {
				continue
			}
			n.cfg.Logger.Info("joined the cluster", "group", c.Group)
			return membership{group: pebblekv.ID(group), index: c.MembersAt}, true
		case c.State == member && len(c.Members) > 0:
			members = c.Members
			for _, s := range members {
				if c.Leads && s.ID == c.ID {
					leader = string(s.Address)
				}
			}
		}
	}
	slices.Sort(mistakes)
	slices.Sort(silent)
	problem := strings.Join(append(mistakes, silent...), "; ")
	if members != nil {
		problem = fmt.Sprintf("the cluster exists and this node, %s, is not a member: admit it with: tenaq cluster join %s, or in the place of another: tenaq cluster replace OLD %s", n.id, n.id, n.id)
	}
	first := len(n.peers) > 0 && n.peers[0] == own
	switch {
	case problem != "":
	case len(n.peers) == 0:
		problem = "the data directory is empty and --cluster-peers is not set: set it to the addresses of the first nodes, or of a cluster that exists"
	case !slices.Contains(n.peers, own):
		problem = "no member of a cluster answers at the addresses in --cluster-peers: start those nodes, or correct the list"
	case first && len(fellows) == len(n.peers):
		return n.found(fellows), true
	default:
		problem = fmt.Sprintf("the cluster is about to be founded by %s: start that node", n.peers[0])
	}
	if ctx.Err() == nil {
		n.noteOutside(leader, members, problem)
	}
	return membership{}, false
}

// others returns the addresses of the other nodes that an empty one has heard of.
func (n *Node) others() []string {
	addresses := slices.Clone(n.peers)
	n.mu.Lock()
	for _, s := range n.members {
		addresses = append(addresses, string(s.Address))
	}
	n.mu.Unlock()
	slices.Sort(addresses)
	return slices.DeleteFunc(slices.Compact(addresses),
		func(a string) bool { return a == n.cfg.Advertise })
}

// found returns the membership of a founder.
func (n *Node) found(fellows map[string]raft.ServerID) membership {
	m := membership{index: 1}
	rand.Read(m.group[:])
	for address, id := range fellows {
		m.founders = append(m.founders, raft.Server{ID: id, Address: raft.ServerAddress(address)})
	}
	slices.SortFunc(m.founders, func(a, b raft.Server) int {
		return cmp.Compare(a.Address, b.Address)
	})
	n.cfg.Logger.Info("cluster founded", "group", m.group.String(), "members", n.peers)
	return m
}

// noteOutside notes what an empty node knows of the cluster, and why it is not in it. Members that
// do not answer now stay known.
func (n *Node) noteOutside(leader string, members []raft.Server, problem string) {
	n.elsewhere.Store(nil)
	if leader != "" {
		n.elsewhere.Store(&leader)
		now := time.Now()
		n.ledLast.Store(&now)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if members != nil {
		n.members = members
	}
	if problem != n.problem {
		n.problem, n.problemFrom, n.problemSaid = problem, time.Now(), false
	}
	// Nodes that start at the same time find each other before anything is said.
	if !n.problemSaid && time.Since(n.problemFrom) >= n.cfg.Heartbeat {
		n.problemSaid = true
		n.cfg.Logger.Warn("this node is not in the cluster yet", "reason", problem)
	}
}
