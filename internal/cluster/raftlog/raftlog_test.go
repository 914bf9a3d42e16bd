package raftlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
	raftbench "github.com/hashicorp/raft/bench"

	"tenaq/internal/kv"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/testing/proof"
)

func openLog(t testing.TB, fs vfs.FS) *pebblekv.Log {
	t.Helper()
	l, err := pebblekv.OpenLog(pebblekv.Options{Dir: "/node/raft", FS: fs, Fatal: func(err error) {
		panic(err)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func closeLog(t testing.TB, l *pebblekv.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// For any use of its log by Raft, each group of a node finds what raft.InmemStore finds, also after
// a restart.
func TestAgainstInmem(t *testing.T) {
	rng := proof.Random(t)
	fs := vfs.NewMem()
	log := openLog(t, fs)
	defer func() { closeLog(t, log) }()
	groups := []uint32{0, 1, 1<<32 - 1}
	stores, models := make([]*Store, len(groups)), make([]*raft.InmemStore, len(groups))
	open := func() {
		for i, g := range groups {
			stores[i] = Open(log, g)
		}
	}
	open()
	for i := range groups {
		models[i] = raft.NewInmemStore()
	}
	for range 600 {
		i := rng.IntN(len(groups))
		s, m := stores[i], models[i]
		first, _ := m.FirstIndex()
		last, _ := m.LastIndex()
		switch p := rng.IntN(20); {
		case p < 12:
			next := last + 1
			if last == 0 && rng.IntN(2) == 0 {
				next = 1 + rng.Uint64N(1000) // as after a snapshot
			}
			var entries []*raft.Log
			for j := range 1 + rng.Uint64N(5) {
				entries = append(entries, &raft.Log{Index: next + j, Term: rng.Uint64N(9),
					Type: raft.LogType(rng.IntN(3)), Data: []byte(fmt.Sprint(rng.Uint64()))})
			}
			mustBoth(t, s.StoreLogs(entries), m.StoreLogs(entries))
		case p < 15 && last > 0: // the oldest ones, after a snapshot
			to := first + rng.Uint64N(last-first+1)
			mustBoth(t, s.DeleteRange(first, to), m.DeleteRange(first, to))
		case p < 18 && last > 0: // the newest ones, because another leader has others
			from := first + rng.Uint64N(last-first+1)
			mustBoth(t, s.DeleteRange(from, last), m.DeleteRange(from, last))
		case p < 18: // as Raft does after a copy
			mustBoth(t, s.DeleteRange(0, 1+rng.Uint64N(1000)), nil)
		case p == 18:
			closeLog(t, log)
			log = openLog(t, fs)
			open()
		}
		for i := range groups {
			compare(t, stores[i], models[i])
		}
	}
}

func mustBoth(t *testing.T, err, model error) {
	t.Helper()
	if err != nil || model != nil {
		t.Fatal(err, model)
	}
}

func compare(t *testing.T, s *Store, m *raft.InmemStore) {
	t.Helper()
	first, _ := s.FirstIndex()
	last, _ := s.LastIndex()
	wantFirst, _ := m.FirstIndex()
	wantLast, _ := m.LastIndex()
	if wantLast == 0 || wantFirst > wantLast {
		wantFirst, wantLast = 0, 0 // InmemStore forgets one of them
	}
	if first != wantFirst || last != wantLast {
		t.Fatalf("entries %d to %d, want %d to %d", first, last, wantFirst, wantLast)
	}
	for index := max(first, 1) - 1; index <= last+1; index++ {
		var got, want raft.Log
		err, wantErr := s.GetLog(index, &got), m.GetLog(index, &want)
		if err != wantErr || err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("entry %d: %+v, %v, want %+v, %v", index, got, err, want, wantErr)
		}
	}
}

// Votes and terms of one group are not those of another, and survive a restart.
func TestStable(t *testing.T) {
	fs := vfs.NewMem()
	log := openLog(t, fs)
	a, b := Open(log, 1), Open(log, 2)
	if n, err := a.GetUint64([]byte("term")); n != 0 || err != nil {
		t.Errorf("a number that was never set is %d, %v", n, err)
	}
	if v, err := a.Get([]byte("vote")); len(v) != 0 || err != nil {
		t.Errorf("a value that was never set is %q, %v", v, err)
	}
	for _, err := range []error{a.SetUint64([]byte("term"), 7), a.Set([]byte("vote"), []byte("n1")),
		b.SetUint64([]byte("term"), 9), b.Set([]byte("vote"), nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	closeLog(t, log)
	log = openLog(t, fs)
	defer closeLog(t, log)
	a, b = Open(log, 1), Open(log, 2)
	for s, want := range map[*Store]struct {
		term uint64
		vote string
	}{a: {7, "n1"}, b: {9, ""}} {
		term, err := s.GetUint64([]byte("term"))
		vote, err2 := s.Get([]byte("vote"))
		if term != want.term || string(vote) != want.vote || err != nil || err2 != nil {
			t.Errorf("group %d: term %d, vote %q, errors %v, %v, want %+v", s.group, term, vote,
				err, err2, want)
		}
	}
	if _, err := a.GetUint64([]byte("vote")); !errors.Is(err, ErrMalformed) {
		t.Errorf("a value that is no number: error %v", err)
	}
}

// Groups write at the same time.
func TestGroupsTogether(t *testing.T) {
	log := openLog(t, vfs.NewMem())
	defer closeLog(t, log)
	var groups sync.WaitGroup
	for g := range uint32(4) {
		groups.Go(func() {
			s := Open(log, g)
			for i := range uint64(50) {
				if err := s.StoreLog(&raft.Log{Index: i + 1, Data: []byte{byte(g)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	groups.Wait()
	for g := range uint32(4) {
		var l raft.Log
		if err := Open(log, g).GetLog(50, &l); err != nil || !bytes.Equal(l.Data, []byte{byte(g)}) {
			t.Errorf("group %d: %+v, %v", g, l, err)
		}
	}
}

// An entry that cannot be read or stored is an error, and never another entry.
func TestMalformed(t *testing.T) {
	log := openLog(t, vfs.NewMem())
	defer closeLog(t, log)
	s := Open(log, 1)
	if err := s.StoreLog(&raft.Log{Index: 1, Extensions: []byte{1}}); err == nil {
		t.Error("an entry with extensions was stored without them")
	}
	for name, value := range map[string][]byte{
		"empty": nil, "short": {1, 0, 0, 0, 0, 0, 0, 0, 0}, "newer": make([]byte, 20),
	} {
		if name == "newer" {
			value[0] = 2
		}
		log.Write(func(b kv.Batch) { b.Set(s.entryKey(1), value) })
		if err := s.GetLog(1, new(raft.Log)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// The encoding of rows does not change.
func TestRowBytes(t *testing.T) {
	log := openLog(t, vfs.NewMem())
	defer closeLog(t, log)
	s := Open(log, 0x01020304)
	if err := s.StoreLog(&raft.Log{Index: 0x1112131415161718, Term: 0x2122, Type: raft.LogCommand,
		Data: []byte("data")}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetUint64([]byte("CurrentTerm"), 0x2122); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for k, v := range log.Scan(nil, nil) {
		fmt.Fprintf(&got, "%s %s\n", hex.EncodeToString(k), hex.EncodeToString(v))
	}
	want, err := os.ReadFile("testdata/rows.1.hex")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("rows\n%swant\n%s", &got, want)
	}
}

func BenchmarkStore(b *testing.B) {
	for name, f := range map[string]func(*testing.B, raft.LogStore){
		"FirstIndex": raftbench.FirstIndex, "LastIndex": raftbench.LastIndex,
		"GetLog":   raftbench.GetLog,
		"StoreLog": raftbench.StoreLog, "StoreLogs": raftbench.StoreLogs,
		"DeleteRange": raftbench.DeleteRange,
	} {
		b.Run(name, func(b *testing.B) {
			log, err := pebblekv.OpenLog(pebblekv.Options{Dir: b.TempDir(), Fatal: func(err error) {
				panic(err)
			}})
			if err != nil {
				b.Fatal(err)
			}
			f(b, Open(log, 1))
			closeLog(b, log)
		})
	}
}
