// Package cluster runs three nodes of the real program and breaks what three nodes must survive:
// processes, the network between them, disks, and the membership itself. Meanwhile clients send,
// receive and delete through all nodes, and package audit judges what they saw.
//
// Network and disks under single writes are broken in simulation, in internal/cluster/group. Here
// the whole program takes part, and real time.
package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"tenaq/internal/child"
	"tenaq/internal/testing/audit"
	"tenaq/internal/testing/proof"
)

// kills is how many leaders TestKill kills, in all its clusters together.
func kills() int { return proof.Count(4, 12, 40, 1_000) }

// Acknowledged messages survive the death of any node, however often leaders die, and in the end
// all nodes have the same rows.
func TestKill(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*rig, uint64){"standard": (*rig).standard, "FIFO": (*rig).fifo} {
		for i := range 2 {
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				seed := proof.Seed(t)
				r := newRig(t, false)
				prepare(r, seed)
				n := (kills() + 3) / 4
				report := r.judge(func(ctx context.Context) error { return r.killLeaders(ctx, seed, n) })
				if report.Acknowledged < 10*n || report.Repeated < n {
					t.Errorf("got %d orders and %d repeated deliveries in %d kills, too few to mean anything",
						report.Acknowledged, report.Repeated, n)
				}
				r.equal(3)
			})
		}
	}
}

// killLeaders kills the leader n times, and does other things to nodes in between.
func (r *rig) killLeaders(ctx context.Context, seed uint64, n int) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	for r.kills.Load() < int64(n) {
		wait(ctx, rng, 600*time.Millisecond)
		leader, err := r.Leader(ctx)
		if err != nil {
			return err
		}
		switch rng.IntN(8) {
		case 0:
			err = r.killAndStart(ctx, "the death of a follower", r.follower(leader, rng))
		case 1:
			err = r.pauseLeader(ctx, leader, rng)
		case 2:
			err = r.restart(ctx, leader)
		case 3: // without a majority, until both are back
			r.kills.Add(1)
			err = r.killBoth(ctx, leader, r.follower(leader, rng))
		default:
			r.kills.Add(1)
			err = r.killAndStart(ctx, "the death of the leader", leader)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// follower returns a node that does not lead.
func (r *rig) follower(leader *child.Node, rng *rand.Rand) *child.Node {
	for {
		if n := r.Nodes[rng.IntN(len(r.Nodes))]; n != leader {
			return n
		}
	}
}

func (r *rig) killAndStart(ctx context.Context, what string, n *child.Node) error {
	if err := n.Kill(); err != nil {
		return err
	}
	if err := r.answered(ctx, what); err != nil {
		return err
	}
	_, err := n.Start(ctx)
	return err
}

// killBoth leaves one node, which must not serve alone.
func (r *rig) killBoth(ctx context.Context, leader, follower *child.Node) error {
	for _, n := range []*child.Node{leader, follower} {
		if err := n.Kill(); err != nil {
			return err
		}
	}
	if err := r.Start(ctx); err != nil {
		return err
	}
	return r.answered(ctx, "the death of two nodes and their start")
}

// pauseLeader stops the leader where it is, until another one serves. Half of them find out
// afterwards, the others die.
func (r *rig) pauseLeader(ctx context.Context, leader *child.Node, rng *rand.Rand) error {
	if err := leader.Pause(); err != nil {
		return err
	}
	if err := r.answered(ctx, "a pause of the leader"); err != nil {
		return err
	}
	if rng.IntN(2) == 0 {
		return leader.Resume()
	}
	if err := leader.Kill(); err != nil {
		return err
	}
	_, err := leader.Start(ctx)
	return err
}

// restart stops a node in order and starts it again.
func (r *rig) restart(ctx context.Context, n *child.Node) error {
	if err := n.Stop(); err != nil {
		return err
	}
	if err := r.answered(ctx, "the end of the leader in order"); err != nil {
		return err
	}
	_, err := n.Start(ctx)
	return err
}

// Every node is restarted in turn, as in an upgrade, the leader last.
func TestRollingRestart(t *testing.T) {
	seed := proof.Seed(t)
	r := newRig(t, false)
	r.fifo(seed)
	r.judge(func(ctx context.Context) error {
		for range proof.Count(1, 1, 2, 50) {
			leader, err := r.Leader(ctx)
			if err != nil {
				return err
			}
			for _, n := range r.Nodes {
				if n == leader {
					continue
				}
				if err := n.Stop(); err != nil {
					return err
				}
				if _, err := n.Start(ctx); err != nil {
					return err
				}
			}
			if err := r.restart(ctx, leader); err != nil {
				return err
			}
		}
		return nil
	})
	r.equal(3)
}

// Links between nodes fail in both directions and in one, are slow, and come back.
func TestNetwork(t *testing.T) {
	seed := proof.Seed(t)
	r := newRig(t, true)
	r.fifo(seed)
	r.judge(func(ctx context.Context) error {
		rng := rand.New(rand.NewPCG(seed, 0))
		for range proof.Count(1, 1, 2, 60) {
			for _, what := range rng.Perm(5) {
				leader, err := r.Leader(ctx)
				if err != nil {
					return err
				}
				if err := r.disturbLinks(ctx, what, leader, rng); err != nil {
					return err
				}
				r.net.heal()
				wait(ctx, rng, time.Second)
			}
		}
		return nil
	})
	r.equal(3)
}

// disturbLinks makes some links bad, until a message is acknowledged all the same.
func (r *rig) disturbLinks(ctx context.Context, what int, leader *child.Node, rng *rand.Rand) error {
	cut, follower := link{cut: true}, r.follower(leader, rng)
	switch what {
	case 0:
		r.net.set(leader.Address, "", cut)
		r.net.set("", leader.Address, cut)
		return r.answered(ctx, "a leader that is cut off")
	case 1:
		r.net.set(leader.Address, "", cut)
		return r.answered(ctx, "a leader that others do not hear")
	case 2:
		r.net.set("", leader.Address, cut)
		return r.answered(ctx, "a leader that does not hear others")
	case 3:
		r.net.set(follower.Address, "", cut)
		r.net.set("", follower.Address, cut)
		wait(ctx, rng, 4*time.Second)
		return r.answered(ctx, "a follower that is cut off")
	default:
		r.net.set("", "", link{delay: time.Duration(5+rng.IntN(40)) * time.Millisecond})
		r.net.set(leader.Address, follower.Address, link{rate: 64 << 10})
		wait(ctx, rng, 4*time.Second)
		return r.answered(ctx, "links that are slow")
	}
}

// The judge can find something: two of three disks go back to an earlier state, which no
// replication survives.
func TestRollbackIsNoticed(t *testing.T) {
	seed := proof.Seed(t)
	r := newRig(t, false)
	r.standard(seed)
	err := r.load.Run(t.Context(), func(ctx context.Context) error {
		for _, n := range r.Nodes[:2] {
			if err := n.Stop(); err != nil {
				return err
			}
			if err := os.CopyFS(n.DataDir()+".earlier", os.DirFS(n.DataDir())); err != nil {
				return err
			}
			if _, err := n.Start(ctx); err != nil {
				return err
			}
		}
		for had := r.load.Progress().Acknowledged; r.load.Progress().Acknowledged < had+100; {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
		r.Close()
		for _, n := range r.Nodes[:2] {
			if err := os.RemoveAll(n.DataDir()); err != nil {
				return err
			}
			if err := os.Rename(n.DataDir()+".earlier", n.DataDir()); err != nil {
				return err
			}
		}
		r.Nodes = r.Nodes[:2]
		return r.Start(ctx)
	})
	r.must(err)
	report := audit.Check(r.load.History(), audit.Options{})
	if report.Count(audit.Lost) == 0 {
		t.Errorf("got no lost message in %d violations, want some", len(report.Violations))
	}
}
