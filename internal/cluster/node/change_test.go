package node

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster"
)

// add starts a machine that has the list of the others and is not on it.
func (r *rig) add() *machine {
	r.t.Helper()
	m := r.newMachine()
	r.machines = append(r.machines, m)
	m.start()
	r.await("the leader knows that "+m.name+" waits", func() bool {
		return slices.ContainsFunc(r.leader().node.waitingNow(), func(c card) bool {
			return c.ID == m.id()
		})
	})
	return m
}

// running starts a cluster and waits until all nodes have the same rows.
func running(t *testing.T, machines int) *rig {
	r := newRig(t, machines)
	r.start(r.machines...)
	r.settle(r.machines...)
	return r
}

func (r *rig) awaitRole(m *machine, voter bool) {
	r.t.Helper()
	r.await(m.name+" is a member", func() bool {
		member, ok := r.leader().member(m.id())
		return ok && member.Voter == voter && member.Role != cluster.Unreachable
	})
}

// voter returns a voter that does not lead.
func (r *rig) voter() *machine {
	leader := r.leader()
	i := slices.IndexFunc(r.machines, func(m *machine) bool { return m != leader && m.node != nil })
	return r.machines[i]
}

// change makes a change at the leader, whichever it is, until the members are such. The lead may be
// lost meanwhile, so that the outcome of one try is unknown.
func (r *rig) change(f func(n *Node) error, is func(members []raft.Server) bool) {
	r.t.Helper()
	r.await("the change is made", func() bool {
		n := r.leader().node
		if is(n.part.Load().group.Servers()) {
			return true
		}
		if err := f(n); err != nil {
			r.t.Logf("not changed: %v", err)
		}
		return false
	})
}

// leads reports whether a node leads, for change.
func (r *rig) leads(m *machine) func([]raft.Server) bool {
	return func([]raft.Server) bool { return r.leader() == m }
}

func (r *rig) join(m *machine, by string) {
	r.t.Helper()
	r.change(func(n *Node) error { return n.Join(r.t.Context(), by) },
		func(members []raft.Server) bool { return among(members, m.id()) })
}

func (r *rig) remove(id raft.ServerID, by string) {
	r.t.Helper()
	r.change(func(n *Node) error { return n.Remove(r.t.Context(), by) },
		func(members []raft.Server) bool { return !among(members, id) })
}

// A node that waits is admitted, gets the rows, and after a while a vote that counts.
func TestJoin(t *testing.T) {
	r := running(t, 1)
	for range 2 {
		m := r.add()
		s := r.leader().node.Status(t.Context())
		if len(s.Waiting) != 1 || s.Waiting[0].Address != m.address {
			t.Errorf("status %+v", s)
		}
		r.await("the waiting node says what to do", func() bool {
			own := m.node.Status(t.Context())
			return len(own.Members) > 0 && len(own.Waiting) == 1 &&
				strings.Contains(own.Waiting[0].Trouble, "tenaq cluster join "+string(m.id()))
		})
		r.join(m, string(m.id()[:8]))
		r.awaitRole(m, true)
		r.settle(r.machines...)
	}
	r.leader().kill()
	r.write()
}

// A change of leader does not stop a promotion.
func TestPromotionGoesOn(t *testing.T) {
	r := newRig(t, 3)
	long := true
	for _, m := range r.machines {
		m.change = func(cfg *Config) {
			if long {
				cfg.steady = time.Hour
			}
		}
	}
	r.start(r.machines...)
	r.settle(r.machines...)
	m := r.add()
	r.join(m, m.address)
	r.settle(r.machines...)
	r.awaitRole(m, false)
	long = false
	for _, o := range r.machines[:3] {
		o.kill()
		o.start()
	}
	r.awaitRole(m, true)
}

// refused makes a change at the leader, whichever it is, and wants it to be refused.
func (r *rig) refused(kind error, text string, f func(n *Node) error) {
	r.t.Helper()
	var err error
	r.await("the change is refused", func() bool {
		err = f(r.leader().node)
		return !errors.Is(err, cluster.ErrNotLeader)
	})
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		r.t.Errorf("got %v, want %v with %q", err, kind, text)
	}
}

func TestRefusedChanges(t *testing.T) {
	r := running(t, 3)
	ctx, member := t.Context(), string(r.machines[0].id())
	for _, tt := range []struct {
		text   string
		change func(n *Node) error
	}{
		{"there is no waiting node", func(n *Node) error { return n.Join(ctx, "abc") }},
		{"there is no waiting node", func(n *Node) error { return n.Replace(ctx, member, "x") }},
		{r.machines[0].address, func(n *Node) error { return n.Remove(ctx, "x") }},
		{"no member", func(n *Node) error { return n.Remove(ctx, "") }},
		{"no member", func(n *Node) error { return n.Transfer(ctx, "x") }},
	} {
		r.refused(cluster.ErrUnknownNode, tt.text, tt.change)
	}
	r.await("a node that does not lead refuses", func() bool {
		voter := r.voter().node
		return errors.Is(voter.Remove(ctx, "x"), cluster.ErrNotLeader) &&
			errors.Is(voter.Join(ctx, "x"), cluster.ErrNotLeader)
	})
}

// A node is not removed when the rest has no majority.
func TestRemoveKeepsMajority(t *testing.T) {
	r := running(t, 3)
	dead := r.voter()
	id := dead.id()
	dead.kill()
	r.refused(cluster.ErrRefused, "1 of 2 voters", func(n *Node) error {
		return n.Remove(t.Context(), string(r.voter().id()))
	})
	r.remove(id, string(id))
	if s := r.leader().node.Status(t.Context()); len(s.Members) != 2 {
		t.Errorf("status %+v", s)
	}
	r.write()
}

// A removed node stops, says so, and stays out after a restart. So does a leader, after its lead.
func TestRemove(t *testing.T) {
	for name, pick := range map[string]func(r *rig) *machine{
		"follower": (*rig).voter, "leader": (*rig).leader,
	} {
		t.Run(name, func(t *testing.T) {
			r := running(t, 3)
			m := pick(r)
			r.remove(m.id(), m.address)
			r.awaitLog(m, "this node was removed from the cluster")
			for range 2 {
				r.write()
				if s := m.node.Trouble(); !strings.Contains(s, "was removed") {
					t.Errorf("trouble %q", s)
				}
				if _, known := m.node.Leader(); known || m.node.Leads() {
					t.Error("a removed node takes part")
				}
				m.kill()
				m.log.mu.Lock()
				m.log.text.Reset()
				m.log.mu.Unlock()
				m.start()
				r.awaitLog(m, "start it again to have it admitted")
			}
			if s := r.leader().node.Status(t.Context()); len(s.Members) != 2 {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// A node that was removed while it was away finds out when it comes back.
func TestRemovedWhileAway(t *testing.T) {
	r := running(t, 3)
	m := r.voter()
	id := m.id()
	m.kill()
	r.remove(id, string(id))
	m.start()
	r.awaitLog(m, "this node was removed from the cluster")
	r.write()
}

// The last voter stays.
func TestRemoveOfLastVoter(t *testing.T) {
	r := running(t, 1)
	r.refused(cluster.ErrRefused, "only voter", func(n *Node) error {
		return n.Remove(t.Context(), r.machines[0].address)
	})
	r.write()
}

// A node with a new directory takes the place of the one it was, under the same address.
func TestReplace(t *testing.T) {
	r := running(t, 3)
	lost := r.voter()
	old := lost.id()
	lost.kill()
	lost.wipe()
	lost.start()
	r.await("the leader knows that it waits", func() bool {
		return len(r.leader().node.waitingNow()) == 1
	})
	r.refused(cluster.ErrRefused, "tenaq cluster replace "+string(old), func(n *Node) error {
		return n.Join(t.Context(), string(lost.id()))
	})
	r.change(func(n *Node) error {
		err := n.Replace(t.Context(), string(old), lost.address)
		if errors.Is(err, cluster.ErrUnknownNode) { // a try before may have removed the old one
			err = n.Join(t.Context(), lost.address)
		}
		return err
	}, func(members []raft.Server) bool {
		return among(members, lost.id()) && !among(members, old)
	})
	r.awaitRole(lost, true)
	r.settle(r.machines...)
	if s := r.leader().node.Status(t.Context()); len(s.Members) != 3 || len(s.Waiting) != 0 {
		t.Errorf("status %+v", s)
	}
	for _, m := range r.machines {
		if m != lost && m != r.leader() {
			m.kill()
			break
		}
	}
	r.write()
}

// A member that is started at another address is found there, also a leader.
func TestMove(t *testing.T) {
	r := running(t, 3)
	for _, pick := range []func(*rig) *machine{(*rig).voter, (*rig).leader} {
		m := pick(r)
		m.kill()
		m.listen = freeAddress(t)
		m.address = m.listen
		m.start()
		r.await("the leader knows where it is", func() bool {
			member, ok := r.leader().member(m.id())
			return ok && member.Address == m.address && member.Role != cluster.Unreachable
		})
		r.settle(r.machines...)
	}
}

func TestTransfer(t *testing.T) {
	r := running(t, 3)
	for _, m := range r.machines {
		r.change(func(n *Node) error { return n.Transfer(t.Context(), string(m.id())) },
			r.leads(m))
	}
	r.write()
}

// A node that lost its log and is back as a learner, reached at the old address by another name,
// confirms nothing and votes for no node as the node that it was.
func TestEmptyNodeNeverVotes(t *testing.T) {
	r := newRig(t, 3)
	for _, m := range r.machines {
		m.change = func(cfg *Config) { cfg.steady = time.Hour }
	}
	lost := r.machines[0]
	r.start(r.machines...)
	r.settle(r.machines...)
	r.await("another node leads", func() bool {
		return r.leader() != lost || lost.node.HandOver(t.Context()) == nil && r.leader() != lost
	})
	lost.kill()
	lost.wipe()
	lost.address = "[::ffff:" + strings.Replace(lost.listen, ":", "]:", 1) // the same port
	lost.start()
	r.await("the leader knows that it waits", func() bool {
		return len(r.leader().node.waitingNow()) == 1
	})
	r.join(lost, string(lost.id()))
	r.settle(r.machines...)
	last := r.leader() // followed by one voter, and by the name of the node that lost its log
	for _, m := range r.machines {
		if m != lost && m != last {
			m.kill()
		}
	}
	if err := last.write("without a majority"); err == nil {
		t.Fatal("a write was confirmed by one voter of three")
	}
	r.await("no node leads", func() bool { return !last.node.Leads() })
	time.Sleep(10 * beat)
	if last.node.Leads() || lost.node.Leads() {
		t.Error("a node leads with one voter of three")
	}
}
