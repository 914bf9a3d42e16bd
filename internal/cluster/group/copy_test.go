package group

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/raft"

	"tenaq/internal/cluster/raftlog"
	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/testing/proof"
)

// copies reports whether the node is receiving a copy, or has since it started.
func (n *node) copies() bool {
	u := &n.group.use
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.now&copying != 0 || n.group.copies.Load() > 0
}

// inRig runs a test in a rig with a queue.
func inRig(t *testing.T, f func(r *rig)) {
	bubble(t, proof.Random(t).Uint64(), func(_ *testing.T, r *rig) { f(r) })
}

// follower returns a voter that does not lead.
func (r *rig) follower() *node {
	leader := r.leader()
	for _, n := range r.nodes[:r.voters] {
		if n != leader {
			return n
		}
	}
	panic("no follower")
}

var sent atomic.Int64

// fill sends so much that no log reaches back to where it was, except on nodes that are away.
func (r *rig) fill() {
	r.t.Helper()
	last := r.leader().group.raft.LastIndex()
	for range 3000 {
		cut := true
		for _, n := range r.nodes[:r.voters] {
			if n.running.Load() && n.linked.Load() {
				first, _ := n.group.cfg.Log.FirstIndex()
				cut = cut && first > last+1
			}
		}
		if cut {
			time.Sleep(time.Second) // what was read of the log before is under way no more
			return
		}
		r.send("s", sent.Add(1))
	}
	r.t.Fatalf("the log still begins before entry %d", last)
}

// A log is cut on every node, and the rows on disk contain the entries that were cut off.
func TestLogIsCut(t *testing.T) {
	inRig(t, func(r *rig) {
		r.fill()
		r.settle()
		time.Sleep(5 * time.Second)
		for _, n := range r.nodes[:r.voters] {
			first, _ := n.group.cfg.Log.FirstIndex()
			last, _ := n.group.cfg.Log.LastIndex()
			if first == 1 || last-first < 2*25-1 || last-first > 4*25 {
				t.Errorf("%s has the entries %d to %d", n.id, first, last)
			}
		}
		for _, n := range r.nodes[:r.voters] {
			n.cutPower()
		}
		for _, n := range r.nodes[:r.voters] {
			n.start()
		}
		r.send("s", sent.Add(1))
		r.settle()
	})
}

// While the rows take long to reach the disk, the log that they would need stays.
func TestLogWaitsForRows(t *testing.T) {
	inRig(t, func(r *rig) {
		f := r.follower()
		slow := func(op errorfs.Op) {
			if op.Kind == errorfs.OpCreate && strings.HasPrefix(op.Path, "/groups/1/state/") &&
				strings.HasSuffix(op.Path, ".sst") {
				time.Sleep(time.Minute)
			}
		}
		f.hook.Store(&slow)
		for range 150 {
			r.send("s", sent.Add(1))
		}
		time.Sleep(time.Second)
		if first, _ := f.group.cfg.Log.FirstIndex(); first != 1 {
			t.Errorf("the log begins at %d before a row is on disk", first)
		}
		f.unplug()
		cut := f.disk.CrashClone(vfs.CrashCloneCfg{})
		f.close()
		f.hook.Store(nil)
		f.disk = cut
		f.start()
		r.send("s", sent.Add(1))
		r.settle()
	})
}

// Rows that lack cut entries are refused: an operator has removed them, or restored older ones.
func TestOlderRows(t *testing.T) {
	for name, older := range map[string]bool{"older": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				f := r.follower()
				r.settle()
				f.stop()
				before := f.disk.CrashClone(vfs.CrashCloneCfg{})
				f.start()
				r.fill()
				r.settle()
				f.stop()
				if err := f.disk.RemoveAll("/groups/1/state"); err != nil {
					t.Fatal(err)
				}
				if older {
					if _, err := vfs.Clone(before, f.disk, "/groups/1/state", "/groups/1/state",
						vfs.CloneSync); err != nil {
						t.Fatal(err)
					}
				}
				err := f.open()
				if !errors.Is(err, pebblekv.ErrDamaged) || !strings.Contains(err.Error(), "tenaq cluster replace") {
					t.Errorf("error %v, want ErrDamaged that says what to do", err)
				}
				if err == nil {
					f.stop()
				}
			})
		})
	}
}

// A follower that was away for longer than the log gets a copy, continues from there, and counts
// for a majority. It needs no other copy after a power cut.
func TestAwayForLongerThanLog(t *testing.T) {
	inRig(t, func(r *rig) {
		f := r.follower()
		f.disconnect()
		r.fill()
		f.connect()
		r.settle()
		if n := f.group.copies.Load(); n != 1 {
			t.Errorf("%d copies, want 1", n)
		}
		r.send("s", sent.Add(1))
		r.settle()
		f.cutPower()
		f.start()
		r.settle()
		if n := f.group.copies.Load(); n != 0 {
			t.Errorf("%d copies after a power cut, want none", n)
		}
		for _, n := range r.nodes[:r.voters] {
			if n != f && n != r.leader() {
				n.stop()
				break
			}
		}
		r.fill()
		r.settle()
	})
}

// A copy that arrives late, when the log continues from it already, is refused: with it the entries
// would be lost that this node has promised to keep. The entry after the copy can be sent again.
func TestLateCopy(t *testing.T) {
	inRig(t, func(r *rig) {
		f, leader := r.follower(), r.leader()
		f.disconnect()
		r.fill()
		f.connect()
		r.settle()
		time.Sleep(time.Second) // the leader has heard that the copy arrived
		meta, in, err := (*snapshots)(leader.group).Open(rowsID)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err := errors.Join(err, in.Close()); err != nil {
			t.Fatal(err)
		}
		r.send("s", sent.Add(1))
		r.settle()
		first, _ := f.group.cfg.Log.FirstIndex()
		if n := f.group.copies.Load(); n != 1 || first <= meta.Index {
			t.Fatalf("%d copies and a log from %d on, want 1 and a later entry than %d", n, first, meta.Index)
		}
		header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader.id),
			Addr: []byte(leader.id)}
		again := func(request any, data io.Reader) (any, error) {
			return leader.port.Load().rpc(f.id, request, data, time.Minute)
		}
		_, err = again(&raft.InstallSnapshotRequest{RPCHeader: header,
			SnapshotVersion: raft.SnapshotVersionMax, Term: leader.group.raft.CurrentTerm(),
			LastLogIndex: meta.Index, LastLogTerm: meta.Term,
			Configuration:      raft.EncodeConfiguration(meta.Configuration),
			ConfigurationIndex: meta.ConfigurationIndex, Size: int64(len(data))}, bytes.NewReader(data))
		if !errors.Is(err, errNotNeeded) {
			t.Fatalf("a late copy: error %v, want %v", err, errNotNeeded)
		}
		var entry raft.Log
		if err := leader.group.cfg.Log.GetLog(meta.Index+1, &entry); err != nil {
			t.Fatal(err)
		}
		answer, err := again(&raft.AppendEntriesRequest{RPCHeader: header,
			Term: leader.group.raft.CurrentTerm(), PrevLogEntry: meta.Index, PrevLogTerm: meta.Term,
			Entries: []*raft.Log{&entry}}, nil)
		if err != nil || !answer.(*raft.AppendEntriesResponse).Success {
			t.Errorf("the entry after the copy, sent again: %+v, %v", answer, err)
		}
		r.send("s", sent.Add(1))
		r.settle()
		f.cutPower()
		f.start()
		r.settle()
	})
}

// A copy while commits continue holds more than the snapshot says.
func TestCopyUnderLoad(t *testing.T) {
	inRig(t, func(r *rig) {
		f := r.follower()
		f.stop()
		r.fill()
		slow := func(op errorfs.Op) {
			if op.Kind == errorfs.OpCreate && strings.HasPrefix(op.Path, "/groups/1/state.new/") {
				time.Sleep(20 * time.Millisecond)
			}
		}
		f.hook.Store(&slow)
		f.start()
		for range 60 {
			r.send("s", sent.Add(1))
		}
		r.settle()
		if n := f.group.copies.Load(); n == 0 {
			t.Error("no copy")
		}
	})
}

// An empty node that joins gets a copy.
func TestEmptyNodeJoins(t *testing.T) {
	inRig(t, func(r *rig) {
		r.fill()
		n := r.nodes[r.voters]
		n.start()
		if err := r.leader().group.raft.AddNonvoter(n.id, raft.ServerAddress(n.id), 0,
			0).Error(); err != nil {
			t.Fatal(err)
		}
		r.settle()
		if got := n.group.copies.Load(); got != 1 {
			t.Errorf("%d copies, want 1", got)
		}
		r.send("s", sent.Add(1))
		r.settle()
		n.cutPower()
		n.start()
		r.settle()
	})
}

// Whenever the power fails while a copy is received and takes the place of the rows, the node comes
// back, and ends with the rows of the others.
func TestPowerCutsDuringCopy(t *testing.T) {
	rng, cuts := proof.Random(t), 0
	stride := proof.Count(8, 2, 1, 1)
	for at := int64(1); ; at += 1 + rng.Int64N(int64(stride)) {
		cut := false
		inRig(t, func(r *rig) { cut = r.cutPowerDuringCopy(at) })
		if t.Failed() {
			t.Fatalf("after the cut at operation %d", at)
		}
		if !cut {
			break
		}
		cuts++
	}
	t.Logf("%d power cuts", cuts)
	if cuts < 40/stride {
		t.Errorf("%d power cuts: too few for a proof", cuts)
	}
}

// cutPowerDuringCopy cuts the power of a follower before the given operation of its disk since the
// copy began, the first being 1. It reports false when the copy was in its place by then.
func (r *rig) cutPowerDuringCopy(at int64) bool {
	f := r.follower()
	f.stop()
	r.fill()
	f.start()
	var begun, cut atomic.Bool
	var ops, rest atomic.Int64 // since the copy began, and since it is in its place
	var after *crashdisk.Disk
	cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: r.rng.IntN(3) * 50,
		RNG: rand.New(rand.NewPCG(r.rng.Uint64(), 3))}
	hook := func(op errorfs.Op) {
		if strings.Contains(op.Path, "state.new") {
			begun.Store(true)
		}
		if op.Kind.ReadOrWrite() == errorfs.OpIsRead || !begun.Load() ||
			f.group.copies.Load() > 0 && rest.Add(1) > 10 {
			return
		}
		if ops.Add(1) == at {
			f.unplug()
			after = f.disk.CrashClone(cfg)
			cut.Store(true)
		}
	}
	f.hook.Store(&hook)
	for range 400 { // Raft may wait 10 s before it tries again to reach a node
		if cut.Load() || f.group.copies.Load() > 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	f.hook.Store(nil)
	if cut.Load() {
		f.close()
		f.disk = after
		f.start()
		for _, name := range []string{"state.new", "state.old"} {
			_, err := f.disk.Stat("/groups/1/" + name)
			if err == nil && !f.copies() {
				r.t.Errorf("%s was left", name)
			}
		}
	} else if f.group.copies.Load() == 0 {
		r.t.Errorf("no copy: at %+v, error %v", f.group.Position(), f.group.Err())
	}
	r.send("s", sent.Add(1))
	r.settle()
	return cut.Load()
}

// A copy in which one bit has changed is refused, and the next one is taken.
func TestFlippedBit(t *testing.T) {
	inRig(t, func(r *rig) {
		f := r.follower()
		for range 8 {
			f.stop()
			r.fill()
			before := r.network.flips.Load()
			r.network.flip.Store(1 + r.rng.Int64N(1<<40))
			f.start()
			for range 4000 {
				if r.network.flips.Load() > before {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(time.Second)
			if r.network.flips.Load() == before || f.group.copies.Load() != 0 {
				t.Fatalf("%d bits flipped and %d copies taken", r.network.flips.Load()-before,
					f.group.copies.Load())
			}
			r.network.flip.Store(0)
			r.settle()
			if n := f.group.copies.Load(); n != 1 {
				t.Fatalf("%d copies, want 1", n)
			}
		}
	})
}

// A node without room takes no copy until it has some.
func TestNoRoomForCopy(t *testing.T) {
	inRig(t, func(r *rig) {
		f := r.follower()
		f.stop()
		r.fill()
		f.free.Store(copyRoom - 1)
		f.start()
		before := f.group.Position()
		time.Sleep(time.Minute)
		if got := f.group.Position(); f.group.copies.Load() != 0 || got != before {
			t.Errorf("a copy was taken without room: at %+v, was %+v", got, before)
		}
		f.free.Store(copyRoom)
		r.settle()
	})
}

// While a broker has the rows in memory, or a snapshot is taken, no copy replaces them.
func TestUses(t *testing.T) {
	var u uses
	for i, c := range []struct {
		begin use
		ok    bool
		end   use
	}{
		{begin: leading, ok: true}, {begin: cutting, ok: true}, {begin: copying},
		{begin: copying, end: leading}, {begin: copying, ok: true, end: cutting},
		{begin: leading}, {begin: cutting}, {begin: copying},
		{begin: leading, ok: true, end: copying},
	} {
		u.end(c.end)
		if ok := u.begin(c.begin); ok != c.ok {
			t.Errorf("step %d: %v, want %v", i, ok, c.ok)
		}
	}
}

// The encoding of the row does not change, and other encodings are refused.
func TestSnapshotBytes(t *testing.T) {
	log, err := pebblekv.OpenLog(pebblekv.Options{Dir: "/raft", FS: vfs.NewMem(),
		Fatal: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	g := &Group{cfg: Config{Log: raftlog.Open(log, 1)}}
	m := raft.SnapshotMeta{Index: 0x0102030405060708, Term: 9, ConfigurationIndex: 7,
		Configuration: raft.Configuration{Servers: []raft.Server{
			{ID: "n1", Address: "a:1"}, {Suffrage: raft.Nonvoter, ID: "n2", Address: "b:2"}}}}
	if err := g.saveSnapshot(m); err != nil {
		t.Fatal(err)
	}
	row, err := g.cfg.Log.Get(snapshotKey)
	if err != nil {
		t.Fatal(err)
	}
	const name = "testdata/snapshot.1.hex"
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(row); got != strings.TrimSpace(string(want)) {
		t.Errorf("%s, want %s", got, want)
	}
	got, err := g.snapshot()
	if err != nil || got.Index != m.Index || got.Term != m.Term || got.ConfigurationIndex != 7 ||
		len(got.Configuration.Servers) != 2 ||
		got.Configuration.Servers[1] != m.Configuration.Servers[1] {
		t.Errorf("read as %+v, %v", got, err)
	}
	for _, bad := range [][]byte{{1}, append([]byte{2}, row[1:]...)} {
		if err := g.cfg.Log.Set(snapshotKey, bad); err != nil {
			t.Fatal(err)
		}
		if _, err := g.snapshot(); err == nil {
			t.Errorf("%x was read", bad)
		}
	}
}
