package node

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// A heard is a node that waits to be admitted, and when it was last heard of.
type heard struct {
	card card
	at   time.Time
}

// How many waiting nodes are remembered, and for how long after they were heard of.
const (
	waitingMax = 100
	waitingFor = 10 * time.Second
)

// met takes the card of another node.
func (n *Node) met(c card) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget()
	maps.DeleteFunc(n.waiting, func(id raft.ServerID, h heard) bool {
		return h.card.Address == c.Address && (id != c.ID || c.State != empty)
	})
	if c.State == member && c.Group == n.membership.Load().group.String() {
		n.moved[c.ID] = raft.ServerAddress(c.Address)
	}
	if c.State != empty {
		return
	}
	if _, known := n.waiting[c.ID]; known || len(n.waiting) < waitingMax {
		n.waiting[c.ID] = heard{c, time.Now()}
	}
}

// forget forgets the nodes that wait no more.
func (n *Node) forget() {
	maps.DeleteFunc(n.waiting, func(_ raft.ServerID, h heard) bool {
		return time.Since(h.at) > waitingFor
	})
}

// waitingNow returns the nodes that wait to be admitted.
func (n *Node) waitingNow() (cards []card) {
	var servers []raft.Server
	if p := n.part.Load(); p != nil {
		servers = p.group.Servers()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget()
	for id, h := range n.waiting {
		if !among(servers, id) { // one that was admitted may not know it yet
			cards = append(cards, h.card)
		}
	}
	slices.SortFunc(cards, func(a, b card) int { return cmp.Compare(a.ID, b.ID) })
	return cards
}
