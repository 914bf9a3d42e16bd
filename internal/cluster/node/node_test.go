package node

import (
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster"
	"tenaq/internal/cluster/wire"
)

// Nodes found one group once all are running, in whatever order they start.
func TestFound(t *testing.T) {
	for name, order := range map[string][]int{
		"founder first": {0, 1, 2}, "founder last": {2, 1, 0}, "five": {3, 1, 4, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, len(order))
			slices.SortFunc(r.machines, func(a, b *machine) int {
				return strings.Compare(a.address, b.address)
			})
			late := r.machines[order[len(order)-1]]
			for _, i := range order[:len(order)-1] {
				r.machines[i].start()
			}
			r.awaitLog(r.machines[order[0]], late.address)
			for _, m := range r.machines {
				if m != late && m.node.part.Load() != nil {
					t.Errorf("%s has a part before all nodes are there", m.name)
				}
			}
			late.start()
			r.settle(r.machines...)
			s := r.leader().node.Status(t.Context())
			if len(s.Members) != len(order) || s.Leader != string(r.leader().id()) ||
				len(s.Waiting) > 0 {
				t.Errorf("status %+v", s)
			}
			for _, m := range s.Members {
				if !m.Voter || m.Trouble != "" || m.Version != "test" || m.FreeBytes != 1<<40 ||
					m.Commit == 0 || m.Role != cluster.Leader && m.Role != cluster.Follower {
					t.Errorf("member %+v", m)
				}
			}
		})
	}
}

// A list with one address founds a cluster of one.
func TestOneNode(t *testing.T) {
	r := newRig(t, 1)
	m := r.machines[0]
	r.start(m)
	r.write()
	if address, known := m.node.Leader(); !known || address != m.address {
		t.Errorf("the leader is at %s, %v, want %s", address, known, m.address)
	}
	if seen := m.node.LeaderSeen(); seen != 0 {
		t.Errorf("no leader for %v", seen)
	}
	m.kill()
	m.start()
	r.write()
}

// Confirmed writes survive a restart of every node, and the loss of leaders.
func TestRestart(t *testing.T) {
	r := newRig(t, 3)
	r.start(r.machines...)
	r.settle(r.machines...)
	group := r.leader().node.Status(t.Context()).Group
	for range 3 {
		lost := r.leader()
		lost.kill()
		r.write()
		lost.start()
		r.settle(r.machines...)
	}
	commit := r.leader().node.part.Load().group.Position().Mark.Number
	for _, m := range r.machines {
		m.kill()
	}
	r.start(r.machines...)
	r.settle(r.machines...)
	s := r.leader().node.Status(t.Context())
	if s.Group != group || s.Members[0].Commit <= commit {
		t.Errorf("group %s, want %s; commit %d, want more than %d", s.Group, group,
			s.Members[0].Commit, commit)
	}
}

// A leader hands over and another node leads. There is nothing to do for one that does not lead.
func TestHandOver(t *testing.T) {
	r := newRig(t, 3)
	r.start(r.machines...)
	r.settle(r.machines...)
	for range 3 {
		var before *machine
		r.await("a node hands over", func() bool { // the others may be too busy to answer in time
			before = r.leader()
			return before.node.HandOver(t.Context()) == nil
		})
		if before.node.Leads() {
			t.Error("a node that has handed over still leads")
		}
		r.write()
		r.await("another node has nothing to do", func() bool {
			return r.voter().node.HandOver(t.Context()) == nil
		})
	}
}

// A leader that no other node can follow leads on.
func TestHandOverToNone(t *testing.T) {
	r := newRig(t, 1)
	r.start(r.machines...)
	r.write()
	m := r.machines[0]
	if err := m.node.HandOver(t.Context()); err == nil {
		t.Error("no error")
	}
	r.write()
}

// Nodes with certificates accept each other.
func TestCertificates(t *testing.T) {
	r := newRig(t, 3)
	ca := t.TempDir()
	if err := wire.NewAuthority(ca); err != nil {
		t.Fatal(err)
	}
	for _, m := range r.machines {
		dir := t.TempDir()
		if err := wire.NewCertificate(ca, dir); err != nil {
			t.Fatal(err)
		}
		var err error
		if m.identity, err = wire.OpenIdentity(dir); err != nil {
			t.Fatal(err)
		}
		m.token = ""
	}
	r.start(r.machines...)
	r.settle(r.machines...)
}

// A node with another token founds nothing, and does not keep other nodes from founding a group
// without it.
func TestWrongToken(t *testing.T) {
	r := newRig(t, 2)
	r.machines[1].token = "other"
	r.start(r.machines...)
	r.awaitLog(r.machines[0], "refused")
	r.awaitLog(r.machines[1], "refused")
	for _, m := range r.machines {
		r.await(m.name+" says what to do", func() bool {
			s := m.node.Status(t.Context())
			return s.Group == "" && len(s.Waiting) == 1 &&
				strings.Contains(s.Waiting[0].Trouble, "compare tokens")
		})
		if m.node.part.Load() != nil {
			t.Errorf("%s has a part", m.name)
		}
	}
}

// Nodes with different lists found nothing until the lists are the same.
func TestListsDiffer(t *testing.T) {
	r := newRig(t, 3)
	r.machines[2].peers = r.peers[1:]
	r.start(r.machines...)
	for _, m := range r.machines {
		r.awaitLog(m, "lists of the first nodes differ")
		if m.node.part.Load() != nil {
			t.Errorf("%s has a part", m.name)
		}
	}
	if s := r.machines[0].node.Status(t.Context()); len(s.Waiting) == 0 ||
		!slices.ContainsFunc(s.Waiting, func(w cluster.Waiting) bool {
			return strings.Contains(w.Trouble, "pass the same --cluster-peers")
		}) {
		t.Errorf("status %+v", s)
	}
	r.machines[2].kill()
	r.machines[2].peers = nil
	r.machines[2].start()
	r.settle(r.machines...)
}

// A member that does not answer is shown as such, and costs the status no more than 2 s.
func TestStatusOfDeadMember(t *testing.T) {
	r := newRig(t, 3)
	r.start(r.machines...)
	r.settle(r.machines...)
	dead := r.leader()
	id := dead.id()
	dead.kill()
	r.write()
	m, ok := r.leader().member(id)
	if !ok || m.Role != cluster.Unreachable || m.Trouble == "" || m.Applied != 0 {
		t.Errorf("dead member %+v", m)
	}
}

// A node knows where the leader is, itself included, reaches it there, and knows for how long there
// has been none.
func TestLeader(t *testing.T) {
	r := newRig(t, 3)
	r.start(r.machines...)
	r.settle(r.machines...)
	var leader *machine
	r.await("all know the same leader", func() bool {
		leader = r.leader()
		return !slices.ContainsFunc(r.machines, func(m *machine) bool {
			address, known := m.node.Leader()
			return !known || address != leader.address
		})
	})
	rest := r.voter()
	conn, err := rest.node.Dial(t.Context(), leader.address)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	for _, m := range r.machines {
		if m != rest {
			m.kill()
		}
	}
	r.await("no leader is known for a while", func() bool {
		_, known := rest.node.Leader()
		return !known && rest.node.LeaderSeen() > 3*beat
	})
}

// An empty node under the address of one that lost its directory has no vote.
func TestEmptyNodeWaits(t *testing.T) {
	r := newRig(t, 3)
	r.start(r.machines...)
	r.settle(r.machines...)
	lost := r.voter()
	lost.kill()
	lost.wipe()
	lost.start()
	r.awaitLog(lost, "is not a member")
	r.await("the node knows the leader", func() bool {
		_, known := lost.node.Leader()
		return known
	})
	r.await("the leader shows it as waiting", func() bool {
		s := r.leader().node.Status(t.Context())
		return len(s.Waiting) == 1 && s.Waiting[0].ID == string(lost.id())
	})
	i := slices.IndexFunc(r.machines, func(m *machine) bool { return m != lost })
	r.machines[i].kill()
	for _, m := range r.machines {
		if m.node != nil {
			r.await("no node leads", func() bool { return !m.node.Leads() })
		}
	}
	time.Sleep(10 * beat)
	for _, m := range r.machines {
		if m.node != nil && m.node.Leads() {
			t.Error("an empty node has voted")
		}
	}
	if lost.node.part.Load() != nil {
		t.Error("an empty node takes part")
	}
}

// Open gives back what it has taken.
func TestClose(t *testing.T) {
	r := newRig(t, 1)
	m := r.machines[0]
	for range 3 {
		if err := m.open(); err != nil {
			t.Fatal(err)
		}
		if err := m.node.Close(); err != nil {
			t.Error(err)
		}
	}
	m.node = nil
}

// A peer that accepts connections and says nothing costs few of them, and a heartbeat of time.
func TestHangingPeer(t *testing.T) {
	r := newRig(t, 1)
	m := r.machines[0]
	if err := m.open(); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	var accepted atomic.Int32
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			defer conn.Close()
		}
	})
	hanging := raft.Server{ID: "x", Address: raft.ServerAddress(silent.Addr().String())}
	var asked sync.WaitGroup
	begun := time.Now()
	for range 200 {
		asked.Go(func() {
			if _, err := m.node.askStanding(hanging); err == nil {
				t.Error("an answer")
			}
		})
	}
	asked.Wait()
	took := time.Since(begun)
	if took > 20*beat {
		t.Errorf("took %v", took)
	}
	// Those that ask after a beat, because the machine paused, have connections of their own.
	if n := accepted.Load(); n == 0 || n > (askMax+4)*int32(1+took/(2*beat)) {
		t.Errorf("%d connections", n)
	}
	if err := errors.Join(m.node.Close(), silent.Close()); err != nil {
		t.Error(err)
	}
	m.node = nil
	ended.Wait()
}

// An empty node without peers says which setting it needs.
func TestNoPeers(t *testing.T) {
	r := newRig(t, 1)
	r.machines[0].peers = []string{}
	r.start(r.machines[0])
	r.awaitLog(r.machines[0], "--cluster-peers is not set")
}
