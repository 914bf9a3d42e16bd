package pebblekv

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
)

// readDamaged reads what it can of a store whose files these are.
func readDamaged(t *testing.T, files map[string][]byte) (map[string]string, *Salvage, error) {
	disk := vfs.NewMem()
	if err := disk.MkdirAll("data/store", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		writeFile(t, disk, name, b)
	}
	rows := map[string]string{}
	s, err := ReadDamaged(small(disk, "data", nil), func(key, value []byte) error {
		rows[string(key)] = string(value)
		return nil
	})
	after := readAll(t, disk, "data")
	for name, b := range files {
		if kindOf(name) == "LOCK" {
			after[name] = b
		}
	}
	if !maps.EqualFunc(files, after, func(a, b []byte) bool { return string(a) == string(b) }) {
		t.Error("the files are not what they were")
	}
	return rows, s, err
}

// rowsOf reads all rows of a store that is sound.
func rowsOf(t *testing.T, files map[string][]byte) map[string]string {
	_, r, err := readerFixture(t, files)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	if err := r.Try(func() {
		for k, v := range r.Scan(nil, nil) {
			rows[string(k)] = string(v)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// From an intact store, stopped or crashed, exactly its rows are read. [DUR-36]
func TestReadDamagedSound(t *testing.T) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 40))
	for _, f := range []fixture{
		{name: "clean", clean: true, memTable: 64 << 10},
		{name: "crash", memTable: 64 << 10},
		{name: "log", memTable: 4 << 20},
		{name: "logs", memTable: 64 << 10, unflushed: true},
	} {
		t.Run(f.name, func(t *testing.T) {
			s := f.build(t, rng)
			for name := range s.files {
				if kindOf(name) == "LOCK" {
					delete(s.files, name) // a Reader removes the one that it had to make
				}
			}
			want := rowsOf(t, s.files)
			got, read, err := readDamaged(t, s.files)
			if err != nil || len(read.Damage) > 0 {
				t.Fatalf("%+v, %v", read, err)
			}
			if len(want) == 0 || !maps.Equal(got, want) {
				t.Errorf("%d rows, want the %d of the store", len(got), len(want))
			}
		})
	}
}

// However a file is damaged, the rows read are versions that were written, everything outside of
// the reported damage is there, and if Open refuses a store for missing rows, some are reported as
// missing. [DUR-36]
func TestReadDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 41))
	for _, f := range []fixture{
		{name: "clean", clean: true, memTable: 64 << 10},
		{name: "crash", memTable: 64 << 10},
		{name: "log", memTable: 4 << 20},
		{name: "logs", memTable: 64 << 10, unflushed: true},
	} {
		t.Run(f.name, func(t *testing.T) {
			s := f.build(t, rng)
			want := rowsOf(t, s.files)
			all := s.mislay(rng)
			for i := range trials(200) {
				if name, ok := pick(rng, s.files, fileKinds[i%len(fileKinds)]); ok {
					all = append(all, damage(rng, s.files, name))
				}
			}
			kept, tried := map[string]int{}, map[string]int{}
			for _, d := range all {
				got, read, err := readDamaged(t, d.files)
				if err != nil {
					if !errors.Is(err, ErrNewer) {
						t.Errorf("%s: %v", d.what, err)
					}
					continue
				}
				same := 0
				for k, v := range want {
					if got[k] == v {
						same++
					}
				}
				tried[d.kind]++
				kept[d.kind] += same * 100 / len(want)
				lacks := same < len(want) || len(got) > len(want)
				if lacks && len(read.Damage) == 0 {
					t.Errorf("%s: %d of %d rows, and nothing is said to be damaged", d.what, same, len(want))
				}
			}
			for kind, n := range tried {
				t.Logf("%-20s %3d tried, %3d %% of the rows kept", kind, n, kept[kind]/n)
			}
			for _, kind := range []string{"witness bytes", "OPTIONS- bytes"} {
				if n := tried[kind]; kept[kind] < n*100 {
					t.Errorf("%s: %d %% of the rows are kept, want all", kind, kept[kind]/n)
				}
			}
		})
	}
}

// A flipped bit in a block of a table or of a blob file costs the rows of that block, and in a log
// the commits of that block of the log. The rows before and after are read. [DUR-36]
func TestReadDamagedLosesOneBlock(t *testing.T) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 42))
	const rows, size = 4000, 100
	write := func(separate int) (crashed, flushed map[string][]byte) {
		disk := vfs.NewMem()
		o := small(disk, "data", mustNotFail(t))
		o.MemTableBytes, o.SeparateBytes = 4<<20, separate
		s := mustOpen(t, o)
		value := make([]byte, size)
		for i := range rows {
			b := s.NewBatch()
			for j := range value {
				value[j] = byte(rng.Uint32())
			}
			b.Set([]byte{1, byte(i >> 8), byte(i)}, value)
			b.Apply()
		}
		var wait kv.Batch = s.NewBatch()
		wait.Force()()
		crashed = readAll(t, disk, "data") // all of it is in the log
		mustClose(t, s)
		if err := func() error {
			s := mustOpen(t, o)
			defer mustClose(t, s)
			return s.db.Flush()
		}(); err != nil {
			t.Fatal(err)
		}
		return crashed, readAll(t, disk, "data") // all of it is in one table
	}
	crashed, flushed := write(1 << 20)
	_, apart := write(32)
	for kind, test := range map[string]struct {
		files map[string][]byte
		lost  int
	}{
		".log":  {crashed, 2 * logBlock / size},
		".sst":  {flushed, 2 * 4096 / size},
		".blob": {apart, 2 * 4096 / size},
	} {
		for range trials(20) {
			name := largest(test.files, kind)
			bad := append([]byte{}, test.files[name]...)
			at := rng.IntN(min(len(bad), rows*size)) // not in the index after the rows
			bad[at] ^= 1 << rng.IntN(8)
			got, read, err := readDamaged(t, with(test.files, name, bad))
			if err != nil || len(got) < rows-test.lost {
				t.Errorf("%s, bit in byte %d of %d: %d of %d rows, damage %v, %v", name, at, len(bad), len(got), rows, read, err)
			}
		}
	}
}

// A disk that does not give parts of files costs the rows in these parts, and a file system that
// cannot be written to does not keep a store from being read. [DUR-36]
func TestReadDamagedDisk(t *testing.T) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 43))
	for _, f := range []fixture{{name: "clean", clean: true, memTable: 64 << 10}, {name: "log", memTable: 4 << 20}} {
		s := f.build(t, rng)
		want := rowsOf(t, s.files)
		for _, kind := range []string{".log", ".sst", "LOCK"} {
			name := largest(s.files, kind)
			if len(s.files[name]) == 0 && kind != "LOCK" {
				continue
			}
			disk := vfs.NewMem()
			if err := disk.MkdirAll("data/store", 0o755); err != nil {
				t.Fatal(err)
			}
			for name, b := range s.files {
				writeFile(t, disk, name, b)
			}
			failed := 0
			o := small(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
				switch {
				case kind == "LOCK" && op.Kind == errorfs.OpLock:
					failed++
					return &os.PathError{Op: "open", Path: op.Path, Err: syscall.EROFS}
				case op.Kind == errorfs.OpFileReadAt && op.Path == name && op.Offset == 0:
					failed++
					return &os.PathError{Op: "read", Path: op.Path, Err: syscall.EIO}
				}
				return nil
			})), "data", nil)
			same := 0
			read, err := ReadDamaged(o, func(key, value []byte) error {
				if want[string(key)] == string(value) {
					same++
				}
				return nil
			})
			if err == nil && failed == 0 && kind == ".log" && f.clean {
				continue // a stop in order may leave nothing in the log
			}
			if err != nil || failed == 0 {
				t.Fatalf("%s, %s: %d operations have failed, %v", f.name, name, failed, err)
			}
			if whole := kind == "LOCK"; same == 0 || whole && same < len(want) || whole != (len(read.Damage) == 0) {
				t.Errorf("%s, %s: %d of %d rows, damage %v", f.name, name, same, len(want), read.Damage)
			}
		}
	}
}

// largest is the largest file of a kind.
func largest(files map[string][]byte, kind string) (name string) {
	for n, b := range files {
		if kindOf(n) == kind && (name == "" || len(b) > len(files[name])) {
			name = n
		}
	}
	return name
}
