package pebblekv

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"tenaq/internal/testing/proof"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// readerFixture writes files to a disk and opens a Reader of them.
func readerFixture(t *testing.T, files map[string][]byte) (*vfs.MemFS, *Reader, error) {
	disk := vfs.NewMem()
	if err := disk.MkdirAll("data/store", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		writeFile(t, disk, name, b)
	}
	o := small(disk, "data", nil)
	r, err := OpenRead(o)
	return disk, r, err
}

// readAllRows reads every row and every table.
func readAllRows(r *Reader) (rows int, faults []error) {
	faults = r.Doubts()
	if _, err := r.CheckTables(func(_ string, err error) { faults = append(faults, err) }); err != nil {
		faults = append(faults, err)
	}
	if err := r.Try(func() {
		for range r.Scan([]byte{1}, nil) {
			rows++
		}
	}); err != nil {
		faults = append(faults, err)
	}
	return rows, faults
}

// A Reader reads what the store held, after a crash too, and changes nothing. [DUR-29]
func TestReaderChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 30))
	for _, clean := range []bool{true, false} {
		files, h := damageFixture(t, rng, clean, 64<<10)
		for _, lack := range []string{"", "data/store/LOCK"} {
			delete(files, lack)
			disk, r, err := readerFixture(t, files)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Survived(r.store, h.Confirmed()); err != nil {
				t.Error(err)
			}
			rows, faults := readAllRows(r)
			if rows == 0 || len(faults) > 0 {
				t.Errorf("clean %v: %d rows, faults %v", clean, rows, faults)
			}
			if _, err := Open(small(disk, "data", mustNotFail(t))); !errors.Is(err, ErrLocked) {
				t.Errorf("opened beside a reader: %v, want %v", err, ErrLocked)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if after := readAll(t, disk, "data"); !maps.EqualFunc(files, after, func(a, b []byte) bool { return string(a) == string(b) }) {
				t.Errorf("clean %v, without %q: the files are not what they were", clean, lack)
			}
		}
	}
}

func TestReaderOfNothing(t *testing.T) {
	disk := vfs.NewMem()
	if _, err := OpenRead(Options{Dir: "data", FS: disk}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that there is none", err)
	}
	if names, _ := disk.List(""); len(names) > 0 {
		t.Errorf("there is %q now", names)
	}
}

func TestReaderOfStoreInUse(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, small(disk, "data", mustNotFail(t)))
	if _, err := OpenRead(small(disk, "data", nil)); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want %v", err, ErrLocked)
	}
	mustClose(t, s)
}

// Every file is damaged in many ways, and no damage may make rows vanish, or bring others, without
// a word. [DUR-29]
func TestReaderFindsDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 31))
	other := otherStore(t, rng)
	for _, f := range []fixture{{name: "clean", clean: true, memTable: 64 << 10}, {name: "logs", memTable: 64 << 10, unflushed: true}} {
		t.Run(f.name, func(t *testing.T) {
			s := f.build(t, rng)
			s.other = other
			all := s.mislay(rng)
			for i := range trials(250) {
				if name, ok := pick(rng, s.files, fileKinds[i%len(fileKinds)]); ok {
					all = append(all, damage(rng, s.files, name))
				}
			}
			count, found := map[string]int{}, map[string]int{}
			for _, d := range all {
				count[d.kind]++
				_, r, err := readerFixture(t, d.files)
				if err == nil {
					var faults []error
					if _, faults = readAllRows(r); len(faults) == 0 {
						if err := s.history.Survived(r.store, s.history.Confirmed()); err != nil {
							t.Errorf("%s: nothing was found, and %v", d.what, err)
						}
					}
					err = errors.Join(faults...)
					_ = r.Close() // Pebble complains about reads that have failed
				}
				if err != nil {
					found[d.kind]++
				}
			}
			t.Logf("damaged %v, found %v", count, found)
			if kind := ".sst bytes"; f.clean && found[kind] < count[kind]*9/10 {
				t.Errorf("of %d damaged tables %d were found", count[kind], found[kind])
			}
		})
	}
}

// The checksums of a table reveal a change of any byte, even where no row is read. [DUR-29]
func TestReaderChecksTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 32))
	files, _ := damageFixture(t, rng, true, 64<<10)
	for range trials(80) {
		name, ok := pick(rng, files, ".sst")
		if !ok {
			t.Fatal("there are no tables")
		}
		harmed := maps.Clone(files)
		harmed[name] = slices.Clone(files[name])
		at := rng.IntN(len(harmed[name]))
		harmed[name][at] ^= byte(1 + rng.IntN(255))
		_, r, err := readerFixture(t, harmed)
		if err != nil {
			continue // it does not even open
		}
		found := 0
		if _, err := r.CheckTables(func(string, error) { found++ }); err != nil || found != 1 {
			t.Errorf("byte %d of %d of %s was changed: found %d tables, %v", at, len(harmed[name]), name, found, err)
		}
		_ = r.Close()
	}
}
