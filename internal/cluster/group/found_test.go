package group

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster/raftlog"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/testing/proof"
)

// found makes the node the only one of a group whose rows are older.
func (n *node) found() error {
	fatal := func(err error) { panic(err) }
	log, err := pebblekv.OpenLog(pebblekv.Options{Dir: "/raft", FS: n.disk, Fatal: fatal})
	if err != nil {
		return err
	}
	state, err := pebblekv.OpenState(pebblekv.Options{Dir: "/groups/1", FS: n.disk, Fatal: fatal},
		groupID)
	if err != nil {
		return err
	}
	for i := range 100 {
		w := state.NewWrites()
		w.Set([]byte{0xF0, byte(i)}, []byte("older"))
		p := Founded
		p.Mark = state.Mark().Next(w.Bytes())
		err = errors.Join(err, state.Apply(p, w.Bytes()))
	}
	state.Flush()()
	return errors.Join(err, Found(raftlog.Open(log, 1), raft.Server{ID: n.id,
		Address: raft.ServerAddress(n.id)}), state.Close(), log.Close())
}

// A node whose rows are older than its group leads it alone, even after a power cut. Nodes that
// join get its rows, although the log has not been cut.
func TestFoundWithRows(t *testing.T) {
	seed := proof.Random(t).Uint64()
	synctest.Test(t, func(t *testing.T) {
		r := newMachines(t, rand.New(rand.NewPCG(seed, 1)), 2)
		defer r.close()
		r.voters = 1
		first := r.nodes[0]
		if err := first.found(); err != nil {
			t.Fatal(err)
		}
		first.start()
		if got := first.group.Position().Mark.Number; got != 100 {
			t.Fatalf("the rows begin at commit %d, want 100", got)
		}
		r.create()
		r.send("s", sent.Add(1))
		first.cutPower()
		first.start()
		r.send("s", sent.Add(1))
		for i, n := range r.nodes[1:3] {
			n.start()
			if err := r.leader().group.raft.AddVoter(n.id, raft.ServerAddress(n.id), 0,
				0).Error(); err != nil {
				t.Fatal(err)
			}
			r.send("s", sent.Add(1))
			r.settle()
			if got := n.group.copies.Load(); got != 1 {
				t.Errorf("joined as node %d with %d copies, want 1", i+2, got)
			}
			if v, ok := n.state.Get(nil, []byte{0xF0, 99}); !ok || string(v) != "older" {
				t.Errorf("node %d has %q, %v", i+2, v, ok)
			}
		}
		first.cutPower()
		r.send("s", sent.Add(1))
		first.start()
		r.settle()
	})
}
