package node

import (
	"encoding/hex"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"tenaq/internal/cluster/raftlog"
	"tenaq/internal/kv/pebblekv"
)

var rewrite = flag.Bool("rewrite", false, "write what the tests compare with anew")

func openLog(t *testing.T, fs vfs.FS) *pebblekv.Log {
	t.Helper()
	log, err := pebblekv.OpenLog(pebblekv.Options{Dir: "/raft", FS: fs,
		Fatal: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// The encoding of the row does not change, and other encodings are refused.
func TestMembershipBytes(t *testing.T) {
	log := openLog(t, vfs.NewMem())
	defer log.Close()
	store := raftlog.Open(log, groupNumber)
	if m, err := readMembership(store); !reflect.DeepEqual(m, membership{}) || err != nil {
		t.Errorf("an empty log: %+v, %v", m, err)
	}
	want := membership{group: pebblekv.ID([]byte("a group of nodes")), removed: true,
		index: 0x0102030405060708, founders: []raft.Server{{ID: "n1", Address: "a:1"},
			{ID: "n2", Address: "b:2"}}}
	if err := want.save(store); err != nil {
		t.Fatal(err)
	}
	if got, err := readMembership(store); !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("read as %+v, %v, want %+v", got, err, want)
	}
	row, err := store.Get(membershipKey)
	if err != nil {
		t.Fatal(err)
	}
	const name = "testdata/membership.1.hex"
	if *rewrite {
		if err := os.WriteFile(name, []byte(hex.EncodeToString(row)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sample, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(row); got != strings.TrimSpace(string(sample)) {
		t.Errorf("%s, want %s", got, sample)
	}
	for _, bad := range [][]byte{{1}, row[:26], append([]byte{2}, row[1:]...)} {
		if err := store.Set(membershipKey, bad); err != nil {
			t.Fatal(err)
		}
		if _, err := readMembership(store); err == nil {
			t.Errorf("%x was read", bad)
		}
	}
}

// A log that was adopted once belongs to no other group.
func TestAdopt(t *testing.T) {
	fs := vfs.NewMem()
	log := openLog(t, fs)
	group := pebblekv.ID([]byte("a group of nodes"))
	if err := Adopt(log, group, "a:1"); err != nil {
		t.Fatal(err)
	}
	if err := Adopt(log, group, "b:1"); err != nil {
		t.Error(err)
	}
	if err := Adopt(log, pebblekv.ID([]byte("another group .....")), "a:1"); err == nil {
		t.Error("adopted by two groups")
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	log = openLog(t, fs)
	defer log.Close()
	m, err := readMembership(raftlog.Open(log, groupNumber))
	if err != nil || m.group != group || m.removed || len(m.founders) != 1 ||
		m.founders[0].ID != raft.ServerID(log.ID().String()) || m.founders[0].Address != "a:1" {
		t.Errorf("%+v, %v", m, err)
	}
}
