package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/kv/pebblekv"
)

// watch notes who leads until ctx is done.
func (n *Node) watch(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { n.survey(ctx) })
	tick := time.NewTicker(n.cfg.Heartbeat / 4)
	defer tick.Stop()
	for leader := raft.ServerID(""); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now, id := time.Now(), n.leader()
		if id != "" {
			n.ledLast.Store(&now)
		}
		if id != leader {
			leader = id
			if id == "" {
				n.cfg.Logger.Warn("leader lost")
			} else {
				n.cfg.Logger.Info("leader elected", "node", id,
					"term", n.part.Load().group.Standing().Term)
			}
		}
	}
}

// lookForRemoval finds out whether this node is a member no more. It takes the word of any member
// for it that has a later committed list of them. The others hear where this node is.
func (n *Node) lookForRemoval(ctx context.Context) {
	p, m := n.part.Load(), *n.membership.Load()
	own := p.group.Members()
	if among(own.Servers, n.id) {
		m.index = max(m.index, own.Index)
	}
	removed := own.Index > m.index // by a list without this node
	for _, r := range n.exchangeWith(ctx, p.group.Servers()) {
		removed = removed || r.err == nil && r.card.MembersAt > m.index &&
			!among(r.card.Members, n.id)
	}
	if !removed {
		return
	}
	m.removed = true
	if err := m.save(n.store); err != nil {
		n.cfg.Logger.Error("removal not noted", "error", err)
		return
	}
	n.membership.Store(&m)
	p.group.Close() // and the links
	n.warnRemoved()
}

func (n *Node) warnRemoved() {
	n.cfg.Logger.Warn("this node was removed from the cluster", "reason", n.Trouble())
}

// Trouble is what is wrong with this node, with what to do; empty when it is well.
func (n *Node) Trouble() string {
	m, p := n.membership.Load(), n.part.Load()
	switch {
	case m.removed:
		return fmt.Sprintf("this node was removed from the cluster: stop it, or empty %s and start it again to have it admitted as a new node", n.cfg.Dir)
	case m.group == (pebblekv.ID{}):
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.problem
	case p != nil && p.group.Err() != nil:
		return fmt.Sprintf("%v: stop the node, empty %s, start it, and admit it with: tenaq cluster replace %s NEW", p.group.Err(), n.cfg.Dir, n.id)
	case n.cfg.Low():
		return fmt.Sprintf("free disk space is below the reserve: the cluster refuses sends until there is room on the disk of %s", n.cfg.Dir)
	}
	return ""
}
