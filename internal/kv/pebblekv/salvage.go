package pebblekv

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A Salvage is what was read of a store that may be damaged, and what could not be read.
type Salvage struct {
	Damage []Damage
	Have   uint64 // the last commit of which something was found
}

// Damage is what could not be read of one file.
type Damage struct {
	File string `json:"file"` // relative to the data directory
	Text string `json:"text"`
}

// ReadDamaged reads every row that can be read of the store in o.Dir, however damaged it is, and
// hands the rows to row in the order of their keys. It writes nothing, and holds the lock of the
// store meanwhile.
//
// It does not rely on Pebble to open the store. It reads each table and blob file block by block
// and each log chunk by chunk, leaves out what does not match its checksum, and lets the newest
// version of a row win by the sequence numbers that Pebble gave to all writes. The manifest is
// asked which tables and logs count; if it cannot be read, all do. A version of a row that was lost
// may let an older one appear, and a row whose removal was lost may be back.
//
// A row whose value lies in a blob file that cannot be read is left out. Only the manifest and its
// copy say which blob file that is, so if both are lost, so are these rows.
//
// Errors are ErrLocked, ErrNewer, fs.ErrNotExist, what the operating system said about the
// directory, and what row returned.
func ReadDamaged(o Options, row func(key, value []byte) error) (*Salvage, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	dir := o.FS.PathJoin(o.Dir, storeName)
	names, err := o.FS.List(dir)
	switch {
	case errors.Is(err, errNotExist):
		return nil, fmt.Errorf("there is no store in %s: %w", o.Dir, errNotExist)
	case err != nil:
		return nil, errnoError(dir, err)
	}
	opening := &opening{Options: o, store: &Store{dir: dir}}
	lock, err := opening.takeLockForReading()
	switch {
	case err == nil:
		defer lock.Close()
	// On a file system that nothing can write to, no lock is needed.
	case !errors.Is(err, syscall.EROFS):
		return nil, classify(dir, err)
	}
	if err := newerFormat(names); err != nil {
		return nil, classify(dir, err)
	}
	s := &salvaging{fs: o.FS, dir: dir, names: names,
		opts: pebbleOptions(o, logger{log: discard(nil)})}
	s.opts.EventListener = nil
	s.opts.EnsureDefaults()
	s.readManifests()
	s.readWitness(o.FS.PathJoin(o.Dir, witnessName))
	if err := s.merge(s.sources(lock.Lock), row); err != nil {
		return nil, err
	}
	return &s.Salvage, nil
}

// A salvaging is a ReadDamaged under way.
type salvaging struct {
	Salvage
	fs    vfs.FS
	dir   string
	names []string // of the files in dir
	opts  *pebble.Options

	manifest  *manifest     // what is known of blob files
	blobs     blobSet       // those that rows have their values in
	opened    int           // of them
	unnamed   int           // rows whose blob file is not known
	confirmed mark          // by the witness
	ranges    []rangeDelete // all that were found
}

// A version is what one write says of a row.
type version struct {
	key   []byte
	seq   uint64
	set   bool // else the row was removed
	value []byte
	apart *apart // where the value lies, if it lies in a blob file
}

// A rangeDelete removes the rows from start up to end whose versions are older.
type rangeDelete struct {
	start, end []byte
	seq        uint64
}

// compareVersions orders by key, and the newest version of a row first.
func compareVersions(a, b version) int {
	return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(b.seq, a.seq))
}

func (s *salvaging) damaged(name, format string, args ...any) {
	s.Damage = append(s.Damage, Damage{name, fmt.Sprintf(format, args...)})
}

func (s *salvaging) inStore(name string) string { return "store/" + name }

func (s *salvaging) readWitness(path string) {
	newest, ok, _, err := readWitness(s.fs, path)
	switch {
	case err != nil:
		s.damaged("witness", "it cannot be read: %s", oneLine(err))
	case !ok:
		s.damaged("witness", "it is missing")
	default:
		s.confirmed = newest.mark
	}
}

// sources opens the tables and logs that count.
func (s *salvaging) sources(lock *pebble.Lock) []source {
	tables, logs := s.live(lock)
	var all []source
	for _, name := range tables {
		if t := s.openTable(name); t != nil {
			all = append(all, t)
		}
	}
	var writes []version
	for i, name := range logs {
		writes = s.readLog(name, writes, i == len(logs)-1)
	}
	slices.SortStableFunc(writes, compareVersions)
	return append(all, &writeList{rest: writes})
}

// live returns the names of the tables and of the logs that make up the store, from the manifest if
// it can be read. Pebble opens the store without a byte of its logs, and says which tables it has;
// which logs it would read is seen.
func (s *salvaging) live(lock *pebble.Lock) (tables, logs []string) {
	blind := &blindFS{unwritable: unwritable{s.fs}}
	opts := *s.opts
	opts.FS, opts.ReadOnly, opts.DisableConsistencyCheck, opts.Lock = blind, true, true, lock
	err := guardOpen(func() error {
		if desc, err := pebble.Peek(s.dir, blind); err != nil || !desc.Exists {
			return cmp.Or(err, errors.New("nothing names it"))
		}
		db, err := pebble.Open(s.dir, &opts)
		if err != nil {
			return err
		}
		levels, err := db.SSTables()
		for _, level := range levels {
			for _, t := range level {
				name := t.BackingSSTNum.String() + ".sst"
				tables = append(tables, name)
				s.checkSize(name, int64(t.Size))
			}
		}
		return errors.Join(err, db.Close())
	})
	if err != nil {
		s.damaged(s.inStore("MANIFEST"),
			"it cannot be read: %s; all tables and logs that are there were read, also those that were no longer needed", oneLine(err))
		return s.withSuffix(".sst"), s.withSuffix(".log")
	}
	slices.Sort(tables)
	// A manifest whose end is lost does not name the tables that were written last. Those of a
	// compaction that was cut off bring nothing new.
	newest := uint64(0)
	for _, name := range tables {
		newest = max(newest, fileNumber(name))
	}
	for _, name := range s.withSuffix(".sst") {
		if fileNumber(name) > newest {
			tables = append(tables, name)
		}
	}
	for _, name := range s.withSuffix(".log") {
		if len(blind.opened) > 0 && name >= slices.Min(blind.opened) {
			logs = append(logs, name)
		}
	}
	return slices.Compact(tables), logs
}

// checkSize notices a table that is not the one that the manifest names.
func (s *salvaging) checkSize(name string, want int64) {
	if info, err := s.fs.Stat(s.fs.PathJoin(s.dir, name)); err == nil && info.Size() != want {
		s.damaged(s.inStore(name), "it has %d bytes where it should have %d", info.Size(), want)
	}
}

// withSuffix lists files of the store, in the order of their numbers.
func (s *salvaging) withSuffix(suffix string) (names []string) {
	for _, name := range s.names {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Compare(fileNumber(a), fileNumber(b))
	})
	return names
}

func fileNumber(name string) uint64 {
	digits, _, _ := strings.Cut(name, ".")
	n, _ := strconv.ParseUint(digits, 10, 64)
	return n
}

// numbered is n in the type of like, which is one of Pebble's own.
func numbered[T ~uint64](like T, n uint64) T { return T(n) }

// A blindFS shows every log as empty, remembers which were opened, and hides the options of the
// last opening.
type blindFS struct {
	unwritable
	opened []string
}

// Lock is for a file system that nothing can write to: the store is locked already, or cannot be.
func (b *blindFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (b *blindFS) List(dir string) ([]string, error) {
	names, err := b.unwritable.List(dir)
	return slices.DeleteFunc(names, func(name string) bool {
		return strings.HasPrefix(name, "OPTIONS-")
	}), err
}

func (b *blindFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if !strings.HasSuffix(name, ".log") {
		return b.unwritable.Open(name, opts...)
	}
	b.opened = append(b.opened, filepath.Base(name))
	empty := vfs.NewMem()
	f, err := empty.Create("log", vfs.WriteCategoryUnspecified)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, err
	}
	return empty.Open("log")
}

// A source yields versions in order; ok is false at its end.
type source interface {
	next() (v version, ok bool)
}

// A front is a source with the version that it is at. Of two with the same version the later
// counts.
type front struct {
	version
	source
	order int
}

type fronts []front

func (f fronts) Len() int      { return len(f) }
func (f fronts) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f fronts) Less(i, j int) bool {
	return cmp.Or(compareVersions(f[i].version, f[j].version), f[j].order-f[i].order) < 0
}
func (f *fronts) Push(x any) { *f = append(*f, x.(front)) }
func (f *fronts) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// merge hands out the newest version of each row that was not removed.
func (s *salvaging) merge(all []source, row func(key, value []byte) error) error {
	var f fronts
	for i, src := range all {
		if v, ok := src.next(); ok {
			f = append(f, front{v, src, i})
		}
	}
	heap.Init(&f)
	slices.SortFunc(s.ranges, func(a, b rangeDelete) int { return bytes.Compare(a.start, b.start) })
	var open []rangeDelete // those that the present key may be in
	waiting := s.ranges
	var last []byte
	var marks []mark
	for first := true; len(f) > 0; first = false {
		v := f[0].version
		if next, ok := f[0].source.next(); ok {
			f[0].version = next
			heap.Fix(&f, 0)
		} else {
			heap.Pop(&f)
		}
		if !first && bytes.Equal(v.key, last) {
			continue // an older version
		}
		last = v.key
		for len(waiting) > 0 && bytes.Compare(waiting[0].start, v.key) <= 0 {
			open, waiting = append(open, waiting[0]), waiting[1:]
		}
		open = slices.DeleteFunc(open, func(r rangeDelete) bool {
			return bytes.Compare(r.end, v.key) <= 0
		})
		if !v.set || slices.ContainsFunc(open, func(r rangeDelete) bool { return r.seq > v.seq }) {
			continue
		}
		if bytes.HasPrefix(v.key, chainPrefix) {
			if m, err := decodeChain(v.key, v.value); err == nil {
				marks = append(marks, m)
			}
		}
		if bytes.Compare(v.key, firstKey) < 0 || v.apart != nil && !s.fetch(&v) {
			continue
		}
		if err := row(v.key, v.value); err != nil {
			return err
		}
	}
	s.closeBlobs()
	s.checkChain(marks)
	return nil
}

// checkChain says what the commit chain and the witness know of commits that were not found. A
// commit that is missing leaves the row of the one before it.
func (s *salvaging) checkChain(marks []mark) {
	slices.SortFunc(marks, func(a, b mark) int { return cmp.Compare(a.number, b.number) })
	for i, m := range marks {
		if i > 0 {
			s.damaged("store", "commits after commit %d and before commit %d are missing",
				marks[i-1].number, m.number)
		}
		s.Have = m.number
	}
	switch {
	case len(marks) == 0:
		s.damaged("store", "its last commits are missing, and which ones is not known")
	case s.Have < s.confirmed.number:
		s.damaged("store", "commits %d to %d were confirmed and are missing", s.Have+1,
			s.confirmed.number)
	case s.Have == s.confirmed.number && marks[len(marks)-1].hash != s.confirmed.hash:
		s.damaged("store", "its commit %d is not the commit that was confirmed under that number",
			s.Have)
	}
}
