package pebblekv

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/block/blockkind"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
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
// It does not rely on Pebble to open the store. It reads each table block by block and each log
// chunk by chunk, leaves out what does not match its checksum, and lets the newest version of a row
// win by the sequence numbers that Pebble gave to all writes. The manifest is asked which tables
// and logs count; if it cannot be read, all do. A version of a row that was lost may let an older
// one appear, and a row whose removal was lost may be back.
//
// Errors are ErrLocked, ErrNewer, fs.ErrNotExist, what the operating system said about the
// directory, and what row returned.
func ReadDamaged(o Options, row func(key, value []byte) error) (*Salvage, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	dir := o.FS.PathJoin(o.Dir, "store")
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
	s.readWitness(o.FS.PathJoin(o.Dir, "witness"))
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

	confirmed mark          // by the witness
	ranges    []rangeDelete // all that were found
}

// A version is what one write says of a row.
type version struct {
	key   []byte
	seq   uint64
	set   bool // else the row was removed
	value []byte
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

// A writeList is what was read from logs.
type writeList struct{ rest []version }

func (l *writeList) next() (v version, ok bool) {
	if len(l.rest) == 0 {
		return v, false
	}
	v, l.rest = l.rest[0], l.rest[1:]
	return v, true
}

// logBlock is the size of the blocks of a log. Each begins with a chunk of its own.
const logBlock = 32 << 10

// readLog reads the batches of a log. Behind a chunk that is damaged it goes on with the next
// block.
//
// The last log ends in the middle of a commit after a crash, or in what an earlier use of the file
// has left. The log alone does not tell that from damage, but the witness does.
func (s *salvaging) readLog(name string, writes []version, last bool) []version {
	content, unread, err := readBlocks(s.fs, s.fs.PathJoin(s.dir, name))
	if err != nil {
		s.damaged(s.inStore(name), "it cannot be read: %s", oneLine(err))
		return writes
	}
	if unread != nil {
		s.damaged(s.inStore(name), "parts of it cannot be read: %s", oneLine(unread))
	}
	damagedAt := int64(-1) // where what cannot be read begins
	ended := false         // there the log says that it ends, which a flipped bit can make it say
	for at := int64(0); at < int64(len(content)); {
		r := record.NewReader(bytes.NewReader(content[at:]),
			numbered(pebble.SSTableInfo{}.BackingSSTNum, fileNumber(name)))
		for {
			begin := r.Offset()
			batch, err := r.Next()
			var repr []byte
			if err == nil {
				repr, err = io.ReadAll(batch)
			}
			if err != nil {
				if damagedAt < 0 {
					damagedAt, ended = at+begin, err == io.EOF
				}
				at += (begin/logBlock + 1) * logBlock
				break
			}
			if damagedAt >= 0 {
				s.damaged(s.inStore(name),
					"commits are missing from byte %d on, up to one before byte %d", damagedAt, at+
						r.Offset())
				damagedAt = -1
			}
			b, err := readBatch(repr)
			if err != nil {
				s.damaged(s.inStore(name), "the commit at byte %d cannot be read: %s", at+begin,
					oneLine(err))
				continue
			}
			writes, s.ranges = append(writes, b.rows...), append(s.ranges, b.ranges...)
		}
	}
	if damagedAt >= 0 && !ended && !last {
		s.damaged(s.inStore(name), "commits are missing from byte %d on, up to its end", damagedAt)
	}
	return writes
}

// readBlocks reads a log block by block. Blocks that the disk does not give are zero, and unread is
// why.
func readBlocks(fs vfs.FS, path string) (content []byte, unread, err error) {
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	content = make([]byte, info.Size())
	for at := 0; at < len(content); at += logBlock {
		part := content[at:min(at+logBlock, len(content))]
		if _, err := f.ReadAt(part, int64(at)); err != nil && err != io.EOF {
			clear(part)
			unread = err
		}
	}
	return content, unread, nil
}

// A writeBatch is what one batch writes.
type writeBatch struct {
	rows   []version
	ranges []rangeDelete
}

// readBatch reads a batch, all of it or nothing.
func readBatch(repr []byte) (b writeBatch, err error) {
	h, ok := batchrepr.ReadHeader(repr)
	if !ok || h.SeqNum == 0 {
		return b, errMalformed
	}
	err = guardOpen(func() error {
		seq := uint64(h.SeqNum)
		for r := batchrepr.Read(repr); ; {
			kind, key, value, ok, err := r.Next()
			switch {
			case err != nil:
				return err
			case !ok && seq != uint64(h.SeqNum)+uint64(h.Count):
				return errMalformed
			case !ok:
				return nil
			}
			switch kind {
			case pebble.InternalKeyKindLogData:
				continue // takes no number
			case pebble.InternalKeyKindRangeDelete:
				b.ranges = append(b.ranges, rangeDelete{key, value, seq})
			case pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete,
				pebble.InternalKeyKindSingleDelete:
				b.rows = append(b.rows, version{key, seq, kind == pebble.InternalKeyKindSet, value})
			default:
				return errMalformed
			}
			seq++
		}
	})
	return b, err
}

// A damagedTable is a table of which some blocks may not be readable.
type damagedTable struct {
	s      *salvaging
	name   string
	reader *sstable.Reader
	schema *colblk.KeySchema
	blocks []block.HandleWithProperties

	rows []version // of the block that was read last
	lost int       // blocks
}

// openTable opens a table. Without its index nothing of it is read.
func (s *salvaging) openTable(name string) *damagedTable {
	t := &damagedTable{s: s, name: name}
	if err := guardOpen(func() error { return t.open(s.fs.PathJoin(s.dir, name)) }); err != nil {
		s.damaged(s.inStore(name), "nothing in it can be read: %s", oneLine(err))
		return nil
	}
	if err := guardOpen(t.readRanges); err != nil {
		s.damaged(s.inStore(name), "removals of whole ranges, as by a purge, cannot be read: %s",
			oneLine(err))
	}
	return t
}

func (t *damagedTable) open(path string) error {
	f, err := t.s.fs.Open(path, vfs.RandomReadsOption)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	options := t.s.opts.MakeReaderOptions()
	t.schema = options.KeySchemas[t.s.opts.KeySchema]
	if t.reader, err = sstable.NewReader(context.Background(), readable, options); err != nil {
		return errors.Join(err, readable.Close())
	}
	layout, err := t.reader.Layout()
	if err == nil && !layout.Format.BlockColumnar() {
		err = fmt.Errorf("it has the format %v", layout.Format)
	}
	if err != nil {
		return errors.Join(err, t.reader.Close())
	}
	t.blocks = layout.Data
	return nil
}

func (t *damagedTable) readRanges() error {
	it, err := t.reader.NewRawRangeDelIter(context.Background(), sstable.NoFragmentTransforms,
		sstable.NoReadEnv)
	if err != nil || it == nil {
		return err
	}
	defer it.Close()
	span, err := it.First()
	for ; span != nil && err == nil; span, err = it.Next() {
		for _, k := range span.Keys {
			t.s.ranges = append(t.s.ranges,
				rangeDelete{bytes.Clone(span.Start), bytes.Clone(span.End), uint64(k.SeqNum())})
		}
	}
	return err
}

func (t *damagedTable) next() (v version, ok bool) {
	for len(t.rows) == 0 {
		if len(t.blocks) == 0 {
			if t.lost > 0 {
				t.s.damaged(t.s.inStore(t.name), "blocks that cannot be read: %d", t.lost)
				t.lost = 0
			}
			if t.reader != nil {
				_ = t.reader.Close()
				t.reader = nil
			}
			return v, false
		}
		if err := guardOpen(t.readBlock); err != nil {
			t.rows, t.lost = nil, t.lost+1
		}
		t.blocks = t.blocks[1:]
	}
	v, t.rows = t.rows[0], t.rows[1:]
	return v, true
}

// readBlock reads the next block, after its checksum was compared.
func (t *damagedTable) readBlock() error {
	h, err := t.reader.BlockReader().Read(context.Background(), block.NoReadEnv, nil,
		t.blocks[0].Handle, blockkind.SSTableData,
		func(m *block.Metadata, data []byte) error {
			return colblk.InitDataBlockMetadata(t.schema, m, data)
		})
	if err != nil {
		return err
	}
	defer h.Release()
	var decoder colblk.DataBlockDecoder
	decoder.Init(t.schema, h.BlockData())
	var it colblk.DataBlockIter
	it.InitOnce(t.schema, t.s.opts.Comparer, nil)
	if err := it.Init(&decoder, block.IterTransforms{}); err != nil {
		return err
	}
	defer it.Close()
	for kv := it.First(); kv != nil; kv = it.Next() {
		kind := kv.K.Kind()
		t.rows = append(t.rows, version{
			key: bytes.Clone(kv.K.UserKey), seq: uint64(kv.K.SeqNum()),
			set:   kind == pebble.InternalKeyKindSet || kind == pebble.InternalKeyKindSetWithDelete,
			value: bytes.Clone(kv.InPlaceValue()),
		})
	}
	return nil
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
		if bytes.Compare(v.key, firstKey) < 0 {
			continue
		}
		if err := row(v.key, v.value); err != nil {
			return err
		}
	}
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
