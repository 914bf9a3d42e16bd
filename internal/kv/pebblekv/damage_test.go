package pebblekv

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tenaq/internal/kv/kvtest"
	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/testing/proof"
)

// trials is how many faults to try: n, an eighth with little effort, forty times as many with much.
func trials(n int) int { return proof.Count(n/8, n, n, 40*n) }

// Every file of a store is damaged in many ways: in its bytes, and as a whole. Each time the store
// must be refused, when it is opened or when it is read, with one sentence that says what to do, or
// hold exactly what it held. It must never open and hold less, or something else. [DUR-12, DUR-16]
//
// One damage is done at a time. Two can agree with each other: nothing in a store that was put back
// to an earlier moment together with its witness tells it from one that never continued.
func TestDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 10))
	other := otherStore(t, rng)
	for _, f := range []fixture{
		{name: "clean", clean: true, memTable: 64 << 10},
		{name: "crash", memTable: 64 << 10},
		{name: "log", memTable: 4 << 20}, // nearly everything is in the log
		{name: "logs", memTable: 64 << 10, unflushed: true},
	} {
		t.Run(f.name, func(t *testing.T) {
			s := f.build(t, rng)
			s.other = other
			if end, err := openDamaged(t, s.files, s.history); end != noEffect {
				t.Fatalf("without damage: %v", err)
			}
			tally := newTally()
			for i := range trials(200) {
				if name, ok := pick(rng, s.files, fileKinds[i%len(fileKinds)]); ok {
					tally.try(t, s, damage(rng, s.files, name))
				}
			}
			for _, d := range s.mislay(rng) {
				tally.try(t, s, d)
			}
			tally.report(t)
			for _, kind := range fileKinds {
				if tally.count(kind+" bytes") == 0 && (kind != ".blob" || f.memTable < 4<<20) {
					t.Errorf("no file of kind %s was damaged", kind)
				}
			}
		})
	}
}

// A damaging is one thing that happened to the files of a store.
type damaging struct {
	kind  string // of the file, and what is counted together
	what  string
	files map[string][]byte // all that are there afterwards
}

// A tally counts how damaged stores end.
type tally map[string]*[ends]int

func newTally() tally { return make(tally) }

func (y tally) count(kind string) (n int) {
	if y[kind] != nil {
		for _, k := range y[kind] {
			n += k
		}
	}
	return n
}

// try opens a store that was damaged.
func (y tally) try(t *testing.T, s *site, d damaging) {
	t.Helper()
	end, err := openDamaged(t, d.files, s.history)
	if y[d.kind] == nil {
		y[d.kind] = new([ends]int)
	}
	y[d.kind][end]++
	var lie *survivalError
	switch {
	case errors.As(err, &lie):
		t.Errorf("%s: %v", d.what, err)
	case err != nil && strings.Contains(err.Error(), "\n"):
		t.Errorf("%s: more than a line: %q", d.what, err)
	case errors.Is(err, ErrDamaged) && (strings.Count(err.Error(), "damaged") != 1 || !strings.HasSuffix(err.Error(), salvageCommand)):
		t.Errorf("%s: %q does not say once that it is damaged and name %q", d.what, err, salvageCommand) // [DUR-37]
	case err != nil && !saysWhatToDo(err):
		t.Errorf("%s: %q does not say what to do", d.what, err)
	}
}

// saysWhatToDo tells whether the sentence of an error ends with what to do.
func saysWhatToDo(err error) bool {
	text := err.Error()
	_, text, found := strings.Cut(text, ": ")
	return found && slices.ContainsFunc([]string{
		"restore a backup", "put back the file", "start once with", "run the version", "start again", "stop the process",
	}, func(advice string) bool { return strings.Contains(text[max(0, len(text)-300):], advice) })
}

func (y tally) report(t *testing.T) {
	all := 0
	for kind := range y {
		all += y.count(kind)
	}
	t.Logf("%d stores damaged", all)
	for _, kind := range slices.Sorted(maps.Keys(y)) {
		n := y[kind]
		t.Logf("%-28s %4d tried, %4d refused at open, %4d refused at read, %4d without effect",
			kind, y.count(kind), n[refusedAtOpen], n[refusedAtRead], n[noEffect])
	}
}

// fileKinds tell the files of a store apart by what their names contain.
var fileKinds = []string{".log", ".sst", ".blob", "MANIFEST-", "OPTIONS-", "witness"}

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

// damage changes the bytes of one file.
func damage(rng *rand.Rand, files map[string][]byte, name string) damaging {
	bad, what := spoil(rng, files[name])
	return damaging{kindOf(name) + " bytes", name + ": " + what, with(files, name, bad)}
}

// kindOf is the kind of a file, by its name.
func kindOf(name string) string {
	for _, kind := range slices.Concat([]string{"marker.manifest", "marker.format"}, fileKinds) {
		if strings.Contains(path.Base(name), kind) {
			return kind
		}
	}
	return path.Base(name)
}

// with returns files with one of them replaced; without content, with that one gone.
func with(files map[string][]byte, name string, content []byte) map[string][]byte {
	files = maps.Clone(files)
	if content == nil {
		delete(files, name)
	} else {
		files[name] = content
	}
	return files
}

// spoil returns a damaged copy of b.
func spoil(rng *rand.Rand, b []byte) (bad []byte, what string) {
	at := rng.IntN(len(b))
	switch rng.IntN(6) {
	case 0:
		return slices.Clone(b[:at:at]), fmt.Sprintf("cut to %d of %d bytes", at, len(b))
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

// A site is a store that the test damages, and the history that it must come back with.
type site struct {
	files   map[string][]byte
	earlier []map[string][]byte // the files as they were at moments before
	other   map[string][]byte   // those of another store, which may have been there before this one
	history *kvtest.History
}

// A fixture says how the store of a site came to its end.
type fixture struct {
	name      string
	clean     bool // stopped in order, not by a crash
	memTable  uint64
	unflushed bool // nothing could be flushed in the end, so that there are several logs
}

// damageFixture returns the files of a store with tables, a log and a witness that is up to date,
// and the history that it must come back with.
func damageFixture(t *testing.T, rng *rand.Rand, clean bool, memTable uint64) (files map[string][]byte, h *kvtest.History) {
	s := fixture{clean: clean, memTable: memTable}.build(t, rng)
	return s.files, s.history
}

func (f fixture) build(t *testing.T, rng *rand.Rand) *site {
	s := &site{history: kvtest.NewHistory()}
	synctest.Test(t, func(t *testing.T) {
		disk := crashdisk.New()
		var stuck atomic.Bool
		release := make(chan struct{})
		o := small(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") && stuck.Load() {
				<-release
			}
			return nil
		})), "data", mustNotFail(t))
		o.MemTableBytes = f.memTable
		db := mustOpen(t, o)
		write := func(n int) {
			for range n {
				if wait := s.history.Write(rng, db); wait != nil {
					wait()
				}
			}
			db.NewBatch().Force()()
			time.Sleep(2 * witnessPause) // the witness is behind by one at most
		}
		for range 4 {
			write(100)
			s.earlier = append(s.earlier, readAll(t, disk, "data"))
		}
		if f.unflushed {
			stuck.Store(true)
			for logs := 0; logs < 3; {
				write(10)
				s.earlier = append(s.earlier, readAll(t, disk, "data"))
				logs = 0
				for name := range s.earlier[len(s.earlier)-1] {
					if strings.HasSuffix(name, ".log") {
						logs++
					}
				}
			}
		}
		crashed := disk.CrashClone(vfs.CrashCloneCfg{})
		close(release)
		mustClose(t, db)
		if f.clean {
			crashed = disk
		}
		s.files = readAll(t, crashed, "data")
	})
	return s
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

// The ends that a damaged store can come to.
const (
	noEffect = iota
	refusedAtOpen
	refusedAtRead
	lied
	ends
)

// openDamaged opens the store whose files these are, and says how it was refused, or what is wrong
// with it.
func openDamaged(t *testing.T, files map[string][]byte, h *kvtest.History) (end int, err error) {
	disk := vfs.NewMem()
	if err := disk.MkdirAll("data/store", 0o755); err != nil {
		t.Fatal(err)
	}
	for k, b := range files {
		writeFile(t, disk, k, b)
	}
	var opened atomic.Bool
	err = untilFatal(func(fatal func(error)) error {
		o := small(disk, "data", fatal)
		s, err := Open(o)
		if err != nil {
			return err
		}
		opened.Store(true)
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
	var lie *survivalError
	switch {
	case err == nil:
		return noEffect, nil
	case errors.As(err, &lie):
		return lied, err
	case opened.Load():
		return refusedAtRead, err
	}
	return refusedAtOpen, err
}

// untilFatal calls f, with a Fatal that ends the matter: like a process that exits, it lets nothing
// that f or Pebble does afterwards count. It returns the error of f or the fatal sentence.
func untilFatal(f func(fatal func(error)) error) error {
	outcome := make(chan error, 100)
	go func() {
		outcome <- f(func(err error) {
			select {
			case outcome <- err:
			default:
			}
			// Neither the caller nor a goroutine of Pebble's may continue; both may hold locks.
			select {}
		})
	}()
	return <-outcome
}
