package node

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tenaq/internal/cluster"
	"tenaq/internal/kv/pebblekv"
)

// A node whose rows are not those of the others stops, and says what to do. The others continue.
func TestWrongRows(t *testing.T) {
	r := running(t, 3)
	m := r.voter()
	m.kill()
	state, err := pebblekv.OpenState(pebblekv.Options{Dir: GroupDir(m.dir), Fatal: m.fatal},
		r.leader().node.state.ID())
	if err != nil {
		t.Fatal(err)
	}
	at := state.Position()
	at.Mark.Hash++
	if err := state.Apply(at, nil); err != nil {
		t.Fatal(err)
	}
	state.Flush()()
	if err := state.Close(); err != nil {
		t.Fatal(err)
	}
	m.start()
	r.write()
	r.await("it has stopped", func() bool {
		r.write()
		member, ok := r.leader().member(m.id())
		return ok && member.Role == cluster.Stopped &&
			strings.Contains(member.Trouble, "tenaq cluster replace "+string(m.id()))
	})
	r.await("it is reported", func() bool {
		for _, trouble := range r.leader().node.Troubles() {
			if trouble.Name == replicaStopped {
				return true
			}
		}
		return false
	})
	if m.node.Leads() || m.node.LeaderSeen() == 0 {
		t.Error("a node with wrong rows takes part")
	}
}

// A leader whose disk hangs ends, before which it confirms nothing.
func TestHangingDisk(t *testing.T) {
	r := newRig(t, 3)
	var hangs atomic.Pointer[chan struct{}]
	fatal := make(chan error, 1)
	m := r.machines[0]
	m.change = func(cfg *Config) {
		cfg.Fatal = func(err error) { fatal <- err }
		cfg.store = func(o *pebblekv.Options) {
			o.FS = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if until := hangs.Load(); until != nil && op.Kind.ReadOrWrite() != errorfs.OpIsRead &&
					strings.HasPrefix(op.Path, LogDir(m.dir)) {
					<-*until
				}
				return nil
			}))
		}
	}
	r.start(r.machines...)
	r.settle(r.machines...)
	r.change(func(n *Node) error { return n.Transfer(t.Context(), string(m.id())) }, r.leads(m))
	until := make(chan struct{})
	hangs.Store(&until)
	wrote := make(chan error, 1)
	go func() { wrote <- m.write("never") }()
	if err := <-fatal; !strings.Contains(err.Error(), "storage hangs") {
		t.Errorf("got %v", err)
	}
	select {
	case err := <-wrote:
		if err == nil {
			t.Error("a write was confirmed by a disk that hangs")
		}
	default:
	}
	hangs.Store(nil)
	close(until)
	<-wrote
	r.write()
}
