package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster"
	"tenaq/internal/cluster/group"
)

// leading returns the group, if this node leads it.
func (n *Node) leading() (*group.Group, error) {
	if p := n.part.Load(); p != nil && n.Leads() {
		return p.group, nil
	}
	return nil, cluster.ErrNotLeader
}

// Join admits a node that waits, given by its id, an unambiguous prefix of it, or its address. The
// node gets a copy of the rows, and its vote once it has kept up for 10 seconds.
func (n *Node) Join(ctx context.Context, node string) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	g, err := n.leading()
	if err != nil {
		return err
	}
	c, err := n.findWaiting(node)
	if err != nil {
		return err
	}
	for _, s := range g.Servers() {
		if string(s.Address) == c.Address {
			return fmt.Errorf("%w: %s is the address of the member %s, which has another directory: run: tenaq cluster replace %s %s", cluster.ErrRefused, c.Address, s.ID, s.ID, c.ID)
		}
	}
	return n.admit(ctx, g, c)
}

func (n *Node) admit(ctx context.Context, g *group.Group, c card) error {
	err := g.Add(ctx, raft.Server{Suffrage: raft.Nonvoter, ID: c.ID,
		Address: raft.ServerAddress(c.Address)})
	if err != nil {
		return refusal(err)
	}
	n.cfg.Logger.Info("member added", "node", c.ID, "address", c.Address)
	return nil
}

// Remove removes a member. It refuses what would leave no majority of voters that answer. A leader
// ends its lead in order before it removes itself.
func (n *Node) Remove(ctx context.Context, node string) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	g, err := n.leading()
	if err != nil {
		return err
	}
	s, err := findMember(g, node)
	if err != nil {
		return err
	}
	return n.expel(ctx, g, s)
}

func (n *Node) expel(ctx context.Context, g *group.Group, s raft.Server) error {
	if s.Suffrage == raft.Voter {
		voters, answer := 0, 0
		cards := n.exchangeWith(ctx, g.Servers())
		for _, other := range g.Servers() {
			if other.ID == s.ID || other.Suffrage != raft.Voter {
				continue
			}
			voters++
			r := cards[other.ID]
			if other.ID == n.id || r.err == nil && r.card.State == member {
				answer++
			}
		}
		if voters == 0 {
			return fmt.Errorf("%w: %s is the only voter: admit another node first", cluster.ErrRefused, s.ID)
		}
		if answer <= voters/2 {
			return fmt.Errorf("%w: without %s, %d of %d voters would answer, which is no majority: start the others first", cluster.ErrRefused, s.ID, answer, voters)
		}
	}
	if err := g.Remove(ctx, s.ID); err != nil {
		return refusal(err)
	}
	n.cfg.Logger.Info("member removed", "node", s.ID, "address", s.Address)
	return nil
}

// Replace removes a member and admits a node that waits, which may have the same address.
func (n *Node) Replace(ctx context.Context, old, new string) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	g, err := n.leading()
	if err != nil {
		return err
	}
	c, err := n.findWaiting(new)
	if err != nil {
		return err
	}
	s, err := findMember(g, old)
	if err != nil {
		return err
	}
	if s.ID == n.id {
		return fmt.Errorf("%w: %s leads: run tenaq cluster transfer first", cluster.ErrRefused, s.ID)
	}
	for _, other := range g.Servers() {
		if string(other.Address) == c.Address && other.ID != s.ID {
			return fmt.Errorf("%w: %s is the address of the member %s: start the new node at another address",
				cluster.ErrRefused, c.Address, other.ID)
		}
	}
	if err := n.expel(ctx, g, s); err != nil {
		return err
	}
	if err := n.admit(ctx, g, c); err != nil {
		return fmt.Errorf("%s was removed, but %s was not admitted: %w: run: tenaq cluster join %s",
			s.ID, c.ID, err, c.ID)
	}
	return nil
}

// Transfer hands the lead over to a voter, or to the one that has got furthest when node is empty.
// Lead must not wait for the caller to return.
func (n *Node) Transfer(ctx context.Context, node string) error {
	g, err := n.leading()
	if err != nil {
		return err
	}
	if node == "" {
		if !slices.ContainsFunc(g.Servers(), func(s raft.Server) bool {
			return s.ID != n.id && s.Suffrage == raft.Voter
		}) {
			return fmt.Errorf("%w: %s is the only voter: admit another node first",
				cluster.ErrRefused, n.id)
		}
		return g.HandOver(ctx, "")
	}
	s, err := findMember(g, node)
	switch {
	case err != nil || s.ID == n.id:
		return err
	case s.Suffrage != raft.Voter:
		return fmt.Errorf("%w: %s has no vote yet: wait until it has caught up", cluster.ErrRefused,
			s.ID)
	}
	if err := g.HandOver(ctx, s.ID); err != nil {
		return fmt.Errorf("cannot hand leadership over: %w: see tenaq cluster status, and try again", err)
	}
	return nil
}

// refusal is an error of Raft as an operator sees it.
func refusal(err error) error {
	if errors.Is(err, raft.ErrNotLeader) {
		return cluster.ErrNotLeader
	}
	return fmt.Errorf("the outcome of the change is unknown: %w: see tenaq cluster status",
		err)
}

func findMember(g *group.Group, name string) (raft.Server, error) {
	return find(name, g.Servers(), "member",
		func(s raft.Server) (id, address string) { return string(s.ID), string(s.Address) })
}

func (n *Node) findWaiting(name string) (card, error) {
	return find(name, n.waitingNow(), "waiting node",
		func(c card) (id, address string) { return string(c.ID), c.Address })
}

// find returns the one of some nodes that has the given address, or an id that begins so.
func find[T any](
	name string, nodes []T, what string, of func(T) (id, address string),
) (one T, err error) {
	var matches, all []string
	for _, node := range nodes {
		id, address := of(node)
		all = append(all, id+" at "+address)
		if name != "" && (address == name || strings.HasPrefix(id, name)) {
			matches, one = append(matches, id), node
		}
	}
	switch {
	case len(matches) == 1:
		return one, nil
	case len(matches) > 1:
		err = fmt.Errorf("%w: %q is the beginning of %s: write more of the id",
			cluster.ErrUnknownNode, name, strings.Join(matches, " and "))
	case len(all) == 0:
		err = fmt.Errorf("%w: there is no %s: start the node with an empty directory and the addresses of this cluster in --cluster-peers", cluster.ErrUnknownNode, what)
	default:
		err = fmt.Errorf("%w: no %s is called %q: name one of %s", cluster.ErrUnknownNode, what,
			name, strings.Join(all, ", "))
	}
	return *new(T), err
}
