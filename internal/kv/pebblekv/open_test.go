package pebblekv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tenaq/internal/kv/kvtest/crashdisk"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// refuse opens a store that must be refused with an error of kind, whose text has all of words.
func refuse(t *testing.T, o Options, kind error, words ...string) error {
	t.Helper()
	s, err := Open(o)
	if err == nil {
		t.Errorf("opened at commit %d, want %v", s.CommitNumber(), kind)
		mustClose(t, s)
		return nil
	}
	if !errors.Is(err, kind) {
		t.Errorf("error %q, want %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q is more than a line", err)
	}
	return err
}

// withCommits returns the options of a closed store in which keys were set, one commit each.
func withCommits(t *testing.T, keys ...string) Options {
	o := small(vfs.NewMem(), "data", mustNotFail(t))
	s := mustOpen(t, o)
	for _, k := range keys {
		set(s, k)
	}
	mustClose(t, s)
	return o
}

// copyDisk returns a copy of the files of o.
func copyDisk(t *testing.T, o Options) vfs.FS {
	t.Helper()
	to := vfs.NewMem()
	if ok, err := vfs.Clone(o.FS, to, o.Dir, o.Dir); err != nil || !ok {
		t.Fatalf("copy: %v, %v", ok, err)
	}
	return to
}

func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 0 {
		// Under the race detector the file system in memory scribbles over what it was given.
		if _, err := f.Write(slices.Clone(b)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// alter changes the store of o with plain Pebble, as some other program would.
func alter(t *testing.T, o Options, change func(b *pebble.Batch)) {
	t.Helper()
	db, err := pebble.Open("data/store", &pebble.Options{FS: o.FS, FormatMajorVersion: formatVersion, Logger: logger{log: discard(nil)}})
	if err != nil {
		t.Fatal(err)
	}
	b := db.NewBatch()
	change(b)
	if err := b.Commit(pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// [DUR-19]
func TestRefuseLocked(t *testing.T) {
	for _, test := range []struct {
		o      Options
		holder string
	}{
		{small(vfs.NewMem(), "data", mustNotFail(t)), "a process that this one cannot see"},
		{small(nil, t.TempDir(), mustNotFail(t)), fmt.Sprintf("process %d", os.Getpid())},
	} {
		o := test.o
		s := mustOpen(t, o)
		refuse(t, o, ErrLocked, "the data directory "+o.Dir+" is in use by "+test.holder, "Stop that process")
		set(s, "a")
		mustClose(t, s)
		s = mustOpen(t, o)
		mustClose(t, s)
	}
}

// [DUR-18]
func TestRefuseNewer(t *testing.T) {
	t.Run("Pebble", func(t *testing.T) {
		for _, version := range []int{int(formatVersion) + 1, 999} {
			o := withCommits(t, "a")
			writeFile(t, o.FS, fmt.Sprintf("data/store/marker.format-version.000999.%03d", version), nil)
			refuse(t, o, ErrNewer, fmt.Sprint(version), fmt.Sprint(int(formatVersion)), "run the version that wrote it")
		}
	})
	t.Run("Rows", func(t *testing.T) {
		o := withCommits(t, "a")
		genesis := append([]byte{rowFormat + 1}, genesisMagic+"whatever comes then"...)
		alter(t, o, func(b *pebble.Batch) { _ = b.Set(genesisKey, seal(genesis), nil) })
		refuse(t, o, ErrNewer, "genesis", "run the version that wrote it")
	})
	t.Run("Chain", func(t *testing.T) {
		o := withCommits(t, "a")
		alter(t, o, func(b *pebble.Batch) { _ = b.Set(appendChainKey(nil, mark{number: 1}), []byte{chainFormat + 1}, nil) })
		refuse(t, o, ErrNewer, "commit chain", "run the version that wrote it")
	})
	t.Run("Witness", func(t *testing.T) {
		o := withCommits(t, "a")
		b := readFile(t, o.FS, "data/witness")
		b[slotStride+len(witnessMagic)] = witnessFormat + 1
		copy(b[slotStride:], seal(b[slotStride:slotStride+slotSize-4]))
		writeFile(t, o.FS, "data/witness", b)
		refuse(t, o, ErrNewer, "witness", "run the version that wrote it")
	})
}

// A store that came back with less than it had confirmed is refused, and stays so, until the loss
// is accepted. [DUR-16, DUR-17]
func TestRefuseLost(t *testing.T) {
	o := withCommits(t, "a", "b", "c")
	before := copyDisk(t, o)
	s := mustOpen(t, o)
	set(s, "d")
	set(s, "e")
	mustClose(t, s)
	writeFile(t, before, "data/witness", readFile(t, o.FS, "data/witness"))
	o.FS = before

	for _, accept := range []uint64{0, 1, 0} {
		o.AcceptLoss = accept
		err := refuse(t, o, ErrDamaged, "ends at commit 3", "commit 5 was confirmed", "--accept-loss=2")
		var lost *LostError
		if !errors.As(err, &lost) || lost.Have != 3 || lost.Want != 5 {
			t.Errorf("error %#v, want a LostError with 3 and 5", err)
		}
	}
	o.AcceptLoss = 2
	s = mustOpen(t, o)
	if got, want := keys(s), "a b c"; got != want {
		t.Errorf("keys %q, want %q", got, want)
	}
	o.AcceptLoss = 0
	mustClose(t, s)
	s = mustOpen(t, o) // the loss is accepted once
	set(s, "f")
	mustClose(t, s)
	s = mustOpen(t, o)
	if got, want := keys(s), "a b c f"; got != want {
		t.Errorf("keys %q, want %q", got, want)
	}
	mustClose(t, s)
}

// Two copies of a store that each continued are two stores with the same commit numbers.
func TestRefuseFork(t *testing.T) {
	o := withCommits(t, "a")
	other := o
	other.FS = copyDisk(t, o)
	for i, o := range []Options{o, other} {
		s := mustOpen(t, o)
		set(s, fmt.Sprint("b", i))
		mustClose(t, s)
	}
	writeFile(t, o.FS, "data/witness", readFile(t, other.FS, "data/witness"))
	refuse(t, o, ErrDamaged, "commit 2 is not the commit 2 that was confirmed", "restore a backup")
}

func TestRefuseWitness(t *testing.T) {
	t.Run("Missing", func(t *testing.T) {
		o := withCommits(t, "a")
		if err := o.FS.Remove("data/witness"); err != nil {
			t.Fatal(err)
		}
		refuse(t, o, ErrDamaged, "witness is missing", "--accept-loss=1")
		o.AcceptLoss = 1
		mustClose(t, mustOpen(t, o))
		o.AcceptLoss = 0
		s := mustOpen(t, o)
		if got, want := keys(s), "a"; got != want {
			t.Errorf("keys %q, want %q", got, want)
		}
		mustClose(t, s)
	})
	t.Run("MissingOfUnusedStore", func(t *testing.T) {
		o := withCommits(t)
		if err := o.FS.Remove("data/witness"); err != nil {
			t.Fatal(err)
		}
		mustClose(t, mustOpen(t, o)) // as after a crash in the middle of the creation
	})
	t.Run("Bad", func(t *testing.T) {
		for _, b := range [][]byte{nil, []byte("x"), make([]byte, witnessLength)} {
			o := withCommits(t, "a")
			writeFile(t, o.FS, "data/witness", b)
			refuse(t, o, ErrDamaged, "both slots", "--accept-loss=1")
			o.AcceptLoss = 1
			mustClose(t, mustOpen(t, o))
			o.AcceptLoss = 0
			mustClose(t, mustOpen(t, o))
		}
	})
	t.Run("OneSlotBad", func(t *testing.T) {
		o := withCommits(t, "a", "b")
		for _, at := range []int{10, slotStride + 10} {
			b := readFile(t, o.FS, "data/witness")
			b[at] ^= 1
			writeFile(t, o.FS, "data/witness", b)
			mustClose(t, mustOpen(t, o))
			if _, _, whole, err := readWitness(o.FS, "data/witness"); err != nil || !whole {
				t.Errorf("slot at %d is not repaired: %v", at, err)
			}
		}
	})
	t.Run("OfAnotherStore", func(t *testing.T) {
		o, other := withCommits(t, "a"), withCommits(t, "a")
		writeFile(t, o.FS, "data/witness", readFile(t, other.FS, "data/witness"))
		o.AcceptLoss = 100
		refuse(t, o, ErrDamaged, "the witness is of store", "remove that file")
	})
}

// Open refuses a directory that Pebble would consider new, and clear, and does not change it.
func TestRefuseHollow(t *testing.T) {
	remove := func(t *testing.T, o Options, prefix string) {
		names, err := o.FS.List("data/store")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				if err := o.FS.RemoveAll("data/store/" + name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, tt := range []struct {
		name, prefix  string
		withWitness   bool
		wantedInError string
	}{
		{"Everything", "", true, "commit 2 was confirmed"},
		{"ManifestMarker", "marker.manifest", true, "commit 2 was confirmed"},
		{"ManifestMarkerAndWitness", "marker.manifest", false, "no manifest"},
		{"Manifest", "MANIFEST", true, ""},
		{"FormatMarker", "marker.format", true, ""},
		{"Options", "OPTIONS", true, "nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := withCommits(t, "a", "b")
			remove(t, o, tt.prefix)
			if !tt.withWitness {
				if err := o.FS.Remove("data/witness"); err != nil {
					t.Fatal(err)
				}
			}
			if tt.wantedInError == "nothing" { // Pebble can do without
				mustClose(t, mustOpen(t, o))
				return
			}
			before, _ := o.FS.List("data/store")
			refuse(t, o, ErrDamaged, tt.wantedInError, "restore a backup")
			refuse(t, o, ErrDamaged, tt.wantedInError, "restore a backup")
			after, _ := o.FS.List("data/store")
			for _, name := range before {
				if (strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log")) && !strings.Contains(strings.Join(after, " "), name) {
					t.Errorf("the refusal removed %s", name)
				}
			}
		})
	}
}

// A log that is gone from the middle leaves later commits without the ones before them.
func TestRefuseHole(t *testing.T) {
	disk := vfs.NewMem()
	release := make(chan struct{})
	// No table can be created, so nothing is flushed and the logs pile up.
	fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			<-release
		}
		return nil
	}))
	healthy := small(disk, "data", mustNotFail(t))
	mustClose(t, mustOpen(t, healthy))

	o := healthy
	o.FS = fs
	s := mustOpen(t, o)
	value := make([]byte, 8<<10)
	logs := func(fs vfs.FS) (logs []string) {
		names, _ := fs.List("data/store")
		for _, name := range names {
			if strings.HasSuffix(name, ".log") {
				logs = append(logs, name)
			}
		}
		slices.Sort(logs)
		return logs
	}
	for i := 0; len(logs(disk)) < 4; i++ {
		b := s.NewBatch()
		b.Set(fmt.Appendf(nil, "k%03d", i), value)
		b.Force()()
	}
	healthy.FS = disk
	crashed := copyDisk(t, healthy)
	close(release)
	mustClose(t, s)

	healthy.FS = crashed
	all := logs(crashed)
	if err := crashed.Remove("data/store/" + all[1]); err != nil {
		t.Fatal(err)
	}
	refuse(t, healthy, ErrDamaged, "commits after commit", "are missing", "restore a backup")
	if got := logs(crashed); len(got) < len(all)-1 {
		t.Errorf("the refusal left the logs %v of %v", got, all)
	}
	refuse(t, healthy, ErrDamaged, "commits after commit")
}

// An error of the operating system is not damage, whether it is returned before Pebble begins or
// reported later.
func TestRefuseErrno(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EACCES} {
		for _, kind := range []errorfs.OpKind{errorfs.OpMkdirAll, errorfs.OpLock, errorfs.OpList, errorfs.OpCreate} {
			disk := vfs.NewMem()
			o := small(nil, "data", nil)
			o.FS = errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind == kind {
					return &os.PathError{Op: "do", Path: op.Path, Err: errno}
				}
				return nil
			}))
			err := untilFatal(func(fatal func(error)) error {
				o.Fatal = fatal
				_, err := Open(o)
				return err
			})
			if err == nil || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "data/store") || !strings.Contains(err.Error(), "start again") {
				t.Errorf("operation %d, %v: %v", kind, errno, err)
				continue
			}
			if got, want := strings.Contains(err.Error(), "full"), errno == syscall.ENOSPC; got != want {
				t.Errorf("operation %d, %v: %v", kind, errno, err)
			}
			if kind != errorfs.OpCreate && (!errors.Is(err, errno) || errors.Is(err, ErrFull) != (errno == syscall.ENOSPC)) {
				t.Errorf("operation %d, %v: kind of %v", kind, errno, err)
			}
		}
	}
}

func TestOpenMakesDirectories(t *testing.T) {
	disk := crashdisk.New()
	o := small(disk, "/a/b/c", mustNotFail(t))
	s := mustOpen(t, o)
	set(s, "a")
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	o.FS = crashed
	s = mustOpen(t, o)
	if got := keys(s); got != "a" {
		t.Errorf("keys %q, want a: a directory was not synced", got)
	}
	mustClose(t, s)
}
