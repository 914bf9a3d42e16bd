package pebblekv

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tenaq/internal/kv/kvtest"
)

var long = flag.Bool("long", false, "try forty times as many faults")

// trials is how many faults to try: n, fewer with -short, more with -long.
func trials(n int) int {
	switch {
	case *long:
		return 40 * n
	case testing.Short():
		return n / 4
	}
	return n
}

// Every file of a store is damaged in many ways. Each time the store must be refused, when it is opened
// or when it is read, or hold exactly what it held. What it must never do is open and hold less.
// [DUR-12, DUR-16]
func TestDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(kvtest.Seed(t), 10))
	for _, tt := range []struct {
		name     string
		clean    bool // stopped in order, not by a crash
		memTable uint64
	}{
		{"clean", true, 64 << 10},
		{"crash", false, 64 << 10},
		{"log", false, 4 << 20}, // nearly everything is in the log
	} {
		t.Run(tt.name, func(t *testing.T) {
			files, h := damageFixture(t, rng, tt.clean, tt.memTable)
			if err := openDamaged(t, files, "", nil, h); err != nil {
				t.Fatalf("without damage: %v", err)
			}
			count := map[string]int{}
			refused := map[string]int{}
			for range trials(130) {
				kind := rng.IntN(len(fileKinds))
				name, ok := pick(rng, files, fileKinds[kind])
				if !ok {
					continue
				}
				bad, what := damage(rng, files[name])
				err := openDamaged(t, files, name, bad, h)
				count[fileKinds[kind]]++
				var lie *survivalError
				if errors.As(err, &lie) {
					t.Errorf("%s, %s: %v", name, what, err)
				}
				if err != nil {
					refused[fileKinds[kind]]++
					if strings.Contains(err.Error(), "\n") {
						t.Errorf("%s, %s: more than a line: %q", name, what, err)
					}
				}
			}
			t.Logf("trials %v, refused %v", count, refused)
			for _, kind := range fileKinds {
				if count[kind] == 0 {
					t.Errorf("no file of kind %s was damaged", kind)
				}
			}
		})
	}
}

// fileKinds tell the files of a store apart by what their names contain.
var fileKinds = []string{".log", ".sst", "MANIFEST-", "OPTIONS-", "witness"}

func pick(rng *rand.Rand, files map[string][]byte, kind string) (string, bool) {
	var names []string
	for name, b := range files {
		if strings.Contains(path.Base(name), kind) && len(b) > 0 && !strings.Contains(name, "marker") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", false
	}
	slices.Sort(names)
	if rng.IntN(2) == 0 {
		return names[len(names)-1], true // older ones are often not needed any more
	}
	return names[rng.IntN(len(names))], true
}

// damage returns a damaged copy of b.
func damage(rng *rand.Rand, b []byte) (bad []byte, what string) {
	at := rng.IntN(len(b))
	switch rng.IntN(6) {
	case 0:
		return b[:at], fmt.Sprintf("cut to %d of %d bytes", at, len(b))
	case 1: // a page that was never written
		bad = slices.Clone(b)
		from := at &^ 511
		clear(bad[from:min(from+512, len(b))])
		return bad, fmt.Sprintf("512 bytes from %d of %d zeroed", from, len(b))
	}
	bad = slices.Clone(b)
	bit := rng.IntN(8)
	bad[at] ^= 1 << bit
	return bad, fmt.Sprintf("bit %d of byte %d of %d flipped", bit, at, len(b))
}

// damageFixture returns the files of a store with tables, a log and a witness that is up to date, and
// the history that it must come back with.
func damageFixture(t *testing.T, rng *rand.Rand, clean bool, memTable uint64) (files map[string][]byte, h *kvtest.History) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashableMem()
		o := small(disk, "data", mustNotFail(t))
		o.MemTableBytes = memTable
		s := mustOpen(t, o)
		h = kvtest.NewHistory()
		for range 400 {
			if wait := h.Write(rng, s); wait != nil {
				wait()
			}
		}
		s.NewBatch().Force()()
		time.Sleep(2 * witnessPause) // it is behind by one at most
		crashed := disk.CrashClone(vfs.CrashCloneCfg{})
		mustClose(t, s)
		if clean {
			crashed = disk
		}
		files = readAll(t, crashed, "data")
	})
	return files, h
}

func readAll(t *testing.T, fs vfs.FS, dir string) map[string][]byte {
	files := map[string][]byte{}
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name = fs.PathJoin(dir, name)
		info, err := fs.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			for k, v := range readAll(t, fs, name) {
				files[k] = v
			}
		} else {
			files[name] = readFile(t, fs, name)
		}
	}
	return files
}

// A survivalError is the one outcome that is forbidden: the store opened and had lost something.
type survivalError struct{ error }

// openDamaged opens the store whose files these are, except for one, and says how it was refused, or
// what is wrong with it.
func openDamaged(t *testing.T, files map[string][]byte, name string, bad []byte, h *kvtest.History) error {
	disk := vfs.NewMem()
	if err := disk.MkdirAll("data/store", 0o755); err != nil {
		t.Fatal(err)
	}
	for k, b := range files {
		if k == name {
			b = bad
		}
		writeFile(t, disk, k, b)
	}
	return untilFatal(func(fatal func(error)) error {
		o := small(disk, "data", fatal)
		s, err := Open(o)
		if err != nil {
			return err
		}
		if err := h.Survived(s, h.Confirmed()); err != nil {
			return &survivalError{err}
		}
		set(s, "later")
		if err := s.Close(); err != nil {
			return err
		}
		if s, err = Open(o); err != nil {
			return err
		}
		if _, ok := s.Get(nil, []byte("later")); !ok {
			return &survivalError{errors.New("a row written after the damage is gone")}
		}
		return s.Close()
	})
}

// untilFatal calls f, with a Fatal that ends the matter: like a process that exits, it lets nothing that
// f or Pebble does afterwards count. It returns the error of f or the fatal sentence.
func untilFatal(f func(fatal func(error)) error) error {
	outcome := make(chan error, 100)
	go func() {
		outcome <- f(func(err error) {
			select {
			case outcome <- err:
			default:
			}
			// Neither the caller nor a goroutine of Pebble's may go on; both may hold locks.
			select {}
		})
	}()
	return <-outcome
}
