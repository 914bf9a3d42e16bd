package pebblekv

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tenaq/internal/kv/kvtest"
	"tenaq/internal/kv/kvtest/crashdisk"
)

// mislay does to files, one at a time, what happens to files as a whole: they are gone, have
// another's place or name, are what they were at an earlier moment, have something behind their
// end, or stand beside those of another store.
func (s *site) mislay(rng *rand.Rand) (all []damaging) {
	names := slices.Sorted(maps.Keys(s.files))
	add := func(kind, what string, files map[string][]byte) {
		if !maps.EqualFunc(files, s.files, bytes.Equal) {
			all = append(all, damaging{kind, what, files})
		}
	}
	for _, name := range names {
		b, kind := s.files[name], kindOf(name)
		add(kind+" gone", name+" is gone", with(s.files, name, nil))
		add(kind+" empty", name+" is empty", with(s.files, name, []byte{}))
		for _, to := range otherNames(name, s.files) {
			add(kind+" renamed", name+" is now "+to, with(with(s.files, name, nil), to, b))
			add(kind+" twice", name+" is there as "+to+" too", with(s.files, to, b))
		}
		for i, was := range s.earlier {
			if b, ok := was[name]; ok {
				add(kind+" of earlier", fmt.Sprintf("%s is what it was at moment %d", name, i), with(s.files, name, b))
			}
		}
		for _, more := range behind(rng, b) {
			add(kind+" longer", fmt.Sprintf("%s has %s behind it", name, more.what), with(s.files, name, slices.Concat(b, more.bytes)))
		}
	}
	for i, was := range s.earlier { // what was removed since
		for _, name := range slices.Sorted(maps.Keys(was)) {
			if b := was[name]; s.files[name] == nil {
				add(kindOf(name)+" left", fmt.Sprintf("%s of moment %d is there again", name, i), with(s.files, name, b))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.other)) {
		b := s.other[name]
		if s.files[name] == nil {
			add(kindOf(name)+" of another left", name+" of another store is there", with(s.files, name, b))
		} else {
			add(kindOf(name)+" of another", name+" is that of another store", with(s.files, name, b))
		}
	}
	for range trials(60) {
		one, two := names[rng.IntN(len(names))], names[rng.IntN(len(names))]
		if rng.IntN(2) == 0 {
			two = oneOf(rng, names, kindOf(one))
		}
		// Two tables of one length can be told apart by what is in them only, and nothing reads all
		// of that.
		if kindOf(one) == ".sst" && kindOf(two) == ".sst" && len(s.files[one]) == len(s.files[two]) {
			continue
		}
		add(kindOf(one)+" swapped", one+" is in the place of "+two+", and the other way round",
			with(with(s.files, one, s.files[two]), two, s.files[one]))
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), trials(len(all)))]
}

func oneOf(rng *rand.Rand, names []string, kind string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return kindOf(name) != kind })
	return names[rng.IntN(len(names))]
}

// otherNames are names of the kind of name that no file has.
func otherNames(name string, files map[string][]byte) (others []string) {
	dir, base := path.Split(name)
	for _, swap := range [][2]string{{"0000", "0009"}, {"00000", "00001"}, {"MANIFEST-0000", "MANIFEST-0009"}, {".0", ".9"}} {
		i := strings.LastIndex(base, swap[0])
		if i < 0 {
			continue
		}
		other := dir + base[:i] + swap[1] + base[i+len(swap[0]):]
		if files[other] == nil && !slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		others = append(others, name+".bak")
	}
	return others
}

// A tail is what stands behind the end of a file.
type tail struct {
	what  string
	bytes []byte
}

func behind(rng *rand.Rand, b []byte) []tail {
	noise := make([]byte, 1+rng.IntN(5000))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	return []tail{
		{"zeros", make([]byte, 1+rng.IntN(40_000))},
		{"noise", noise},
		{"its own end", b[len(b)-min(len(b), 1+rng.IntN(3000)):]},
		{"itself", b},
	}
}

// otherStore returns the files of a store whose last log has a larger number than those of a site,
// and commits that have the numbers of its commits.
func otherStore(t *testing.T, rng *rand.Rand) map[string][]byte {
	disk := crashdisk.New()
	o := small(disk, "data", mustNotFail(t))
	o.MemTableBytes = 4 << 20
	h := kvtest.NewHistory()
	for i := range 12 {
		s := mustOpen(t, o)
		b := s.NewBatch() // so that its writes count as later ones
		for k := range 500 {
			b.Set(fmt.Appendf(nil, "x%03d", k), nil)
		}
		b.Apply()
		n := 25
		if i == 11 {
			n = 300
		}
		for range n {
			if wait := h.Write(rng, s); wait != nil {
				wait()
			}
		}
		s.NewBatch().Force()()
		if i == 11 {
			disk = disk.CrashClone(vfs.CrashCloneCfg{})
		}
		mustClose(t, s)
	}
	return readAll(t, disk, "data")
}

// A log of another store, or of another life of the same one, that begins where this one ends is
// not read as its continuation: the chain of commits distinguishes them by their hashes. [DUR-16]
func TestRefuseForeignLog(t *testing.T) {
	lives := func(from vfs.FS, last string) (o Options, log string) {
		o = small(from, "data", mustNotFail(t))
		for range 6 { // so that its logs have larger numbers
			mustClose(t, mustOpen(t, o))
		}
		s := mustOpen(t, o)
		set(s, last)
		names, _ := from.List("data/store")
		for _, name := range names {
			if strings.HasSuffix(name, ".log") {
				log = max(log, name)
			}
		}
		o.FS = copyDisk(t, o) // as after a crash
		mustClose(t, s)
		return o, log
	}
	base := withCommits(t, "a")
	fork := copyDisk(t, base)
	for fs, key := range map[vfs.FS]string{base.FS: "b", fork: "c"} {
		s := mustOpen(t, small(fs, "data", mustNotFail(t)))
		set(s, key)
		mustClose(t, s)
	}
	for name, from := range map[string]vfs.FS{"of another store": withCommits(t, "c", "d").FS, "of another life": fork} {
		foreign, log := lives(from, "foreign")
		for _, read := range []bool{false, true} {
			o := base
			o.FS = copyDisk(t, base)
			writeFile(t, o.FS, "data/store/"+log, readFile(t, foreign.FS, "data/store/"+log))
			if !read {
				refuse(t, o, ErrDamaged, "restore a backup")
				continue
			}
			r, err := OpenRead(o)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Doubts()) == 0 {
				t.Errorf("a reader of a store with a log %s has no doubts", name)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
