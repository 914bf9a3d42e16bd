package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A Reader is a store that was opened to be looked at. It writes nothing into its directory: not a
// witness that could be repaired, not a log that could be cleared away. It holds the lock of the
// store, so no other process writes either.
//
// Rows of a log that are not in a table yet are in memory while the Reader is open.
type Reader struct {
	store *Store
	fs    vfs.FS
	opts  *pebble.Options
	found []error
	state State // what is read of one
}

// OpenRead opens the store in o.Dir to look at it. Fatal is not needed. What is wrong with the
// witness or the commit chain, and does not keep the rows from being read, is no error but in
// Doubts. Errors are those of Open, and fs.ErrNotExist when there is no store.
func OpenRead(o Options) (*Reader, error) {
	return openRead(o, storeName, func(_ *Reader, o *opening) error { return o.confirm() })
}

// OpenReadLog opens the log in o.Dir to look at it, as OpenRead opens a store.
func OpenReadLog(o Options) (*Reader, error) {
	r, err := OpenRead(o)
	return r, ofNode(err)
}

// OpenReadState opens the state in o.Dir to look at it, as OpenRead opens a store. There is no
// witness of a state.
func OpenReadState(o Options) (*Reader, error) {
	r, err := openRead(o, stateName, func(r *Reader, o *opening) error {
		r.state.store = o.store
		return r.state.readPosition()
	})
	return r, ofNode(err)
}

// confirm holds the store against the witness, whatever loss is accepted.
func (o *opening) confirm() error {
	o.AcceptLoss = 0
	_, err := o.compare()
	return err
}

// openRead opens a folder, and checks what is particular to its kind.
func openRead(
	o Options, folder string, check func(*Reader, *opening) error,
) (*Reader, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	dir := o.FS.PathJoin(o.Dir, folder)
	if _, err := o.FS.Stat(dir); err != nil {
		if errors.Is(err, errNotExist) {
			return nil, fmt.Errorf("there is no store in %s: %w", o.Dir, errNotExist)
		}
		return nil, classify(dir, err)
	}
	r := &Reader{store: &Store{dir: dir, fatal: func(err error) {
		panic(readFault{err})
	}}, fs: o.FS}
	opening := &opening{Options: o, store: r.store, witnessPath: o.FS.PathJoin(o.Dir, witnessName)}
	var err error
	if fault := r.Try(func() { err = r.open(opening, check) }); fault != nil {
		err = fault
	}
	if err != nil {
		_ = r.Close()
		return nil, classify(dir, err)
	}
	return r, nil
}

func (r *Reader) open(o *opening, check func(*Reader, *opening) error) (err error) {
	lock, err := o.takeLockForReading()
	if err != nil {
		return err
	}
	r.store.lock = lock
	o.witnessed, o.hasWitness, o.whole, o.witnessErr = readWitness(o.FS, o.witnessPath)
	if o.witnessErr != nil && !errors.Is(o.witnessErr, ErrDamaged) {
		return o.witnessErr
	}
	if err := o.look(); err != nil {
		return err
	}
	r.opts = pebbleOptions(o.Options, logger{discard(o.Logger), r.store.fail})
	// A read returns damage as an error. Pebble's own listener would report it before that, in
	// hundreds of lines.
	r.opts.EventListener = &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}
	r.opts.FS = unwritable{o.FS}
	r.opts.ReadOnly = true
	r.opts.Lock = lock.Lock
	if err := guardOpen(func() (err error) {
		r.store.db, err = pebble.Open(r.store.dir, r.opts)
		return err
	}); err != nil {
		return err
	}
	if err := o.readGenesisOnly(); err != nil {
		r.found = append(r.found, err)
		return nil
	}
	if err := o.readChain(); err != nil {
		r.found = append(r.found, err)
		return nil
	}
	if err := check(r, o); err != nil {
		r.found = append(r.found, err)
	}
	return nil
}

// readGenesisOnly reads the genesis record, and misses it where Open would create a store.
func (o *opening) readGenesisOnly() error {
	value, closer, err := o.store.db.Get(genesisKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return damaged(o.store.dir, "its first record is missing")
	}
	if err != nil {
		return err
	}
	if o.store.id, err = decodeGenesis(value); err != nil {
		err = fmt.Errorf("genesis record: %w", err)
	}
	return errors.Join(err, closer.Close())
}

// A readingLock is the lock of a store, whose file goes with it when it was made for it.
type readingLock struct {
	*pebble.Lock
	remove func() error
}

func (l readingLock) Close() error { return errors.Join(l.Lock.Close(), l.remove()) }

func (o *opening) takeLockForReading() (readingLock, error) {
	name := o.FS.PathJoin(o.store.dir, "LOCK")
	remove := func() error { return nil }
	if _, err := o.FS.Stat(name); errors.Is(err, errNotExist) {
		remove = func() error { return o.FS.Remove(name) }
	}
	lock, err := o.takeLock()
	return readingLock{lock, remove}, err
}

// A readFault is a read that failed, on its way to Try.
type readFault struct{ err error }

// Try calls f, which reads from the store, and returns the fault of a read that has ended f, if one
// has.
func (r *Reader) Try(f func()) (fault error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case readFault:
			fault = v.err
		default:
			panic(v)
		}
	}()
	f()
	return nil
}

// Get is that of a kv.Store. It must be called within Try, as Scan must be.
func (r *Reader) Get(dst, key []byte) (value []byte, ok bool) { return r.store.Get(dst, key) }

// Scan is that of a kv.Store.
func (r *Reader) Scan(lo, hi []byte) iter.Seq2[[]byte, []byte] { return r.store.Scan(lo, hi) }

// Doubts are what is wrong with the witness or with the chain of commits.
func (r *Reader) Doubts() []error { return slices.Clone(r.found) }

// ID returns the identity that the store was created with.
func (r *Reader) ID() ID { return r.store.id }

// Index returns the entry of the log that a state has got to.
func (r *Reader) Index() uint64 {
	if p := r.state.position.Load(); p != nil {
		return p.Index
	}
	return 0
}

// CommitNumber returns the number of the last commit.
func (r *Reader) CommitNumber() uint64 { return r.store.CommitNumber() }

// CheckTables reads every block of every table and of every blob file, whether a row needs it or
// not, and compares its checksum. It tells found of each file that is not whole, and returns how
// many bytes the files have.
func (r *Reader) CheckTables(found func(table string, err error)) (bytes int64, err error) {
	levels, err := r.store.db.SSTables()
	if err != nil {
		return 0, classify(r.store.dir, err)
	}
	seen := make(map[string]bool)
	for _, level := range levels {
		for _, table := range level {
			name := table.BackingSSTNum.String() + ".sst"
			if seen[name] {
				continue
			}
			seen[name] = true
			n, err := r.checkTable(r.fs.PathJoin(r.store.dir, name))
			bytes += n
			if err != nil {
				found(name, err)
			}
		}
	}
	m, err := manifestOf(r.fs, r.store.dir)
	if err != nil {
		return bytes, classify(r.store.dir, err)
	}
	for _, b := range m.current() {
		name := blobName(b.number)
		bytes += int64(b.size)
		if err := r.checkBlob(r.fs.PathJoin(r.store.dir, name)); err != nil {
			found(name, err)
		}
	}
	return bytes, nil
}

func (r *Reader) checkBlob(path string) error {
	b, err := newBlobReader(r.fs, path, r.opts.MakeReaderOptions())
	if err == nil {
		err = errors.Join(b.checkAll(), b.Close())
	}
	if known, ok := errors.AsType[*blobError](err); ok {
		return errors.New(known.text)
	}
	return err
}

func (r *Reader) checkTable(path string) (size int64, err error) {
	f, err := r.fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return 0, err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return 0, errors.Join(err, f.Close())
	}
	err = guardOpen(func() error {
		t, err := sstable.NewReader(context.Background(), readable, r.opts.MakeReaderOptions())
		if err != nil {
			return errors.Join(err, readable.Close())
		}
		return errors.Join(t.ValidateBlockChecksums(), t.Close())
	})
	return readable.Size(), err
}

// Close releases the directory. Pebble may miss what a failed read has not given back, and says so
// by a panic; nothing was written, so nothing can be lost by it.
func (r *Reader) Close() error {
	var err error
	if db := r.store.db; db != nil {
		err = guardOpen(db.Close)
	}
	if r.store.lock != nil {
		err = errors.Join(err, r.store.lock.Close())
	}
	if err != nil {
		return fmt.Errorf("close store %s: %w", r.store.dir, err)
	}
	return nil
}

// An unwritable file system has no writer.
type unwritable struct{ vfs.FS }

func (unwritable) refuse(op, name string) error {
	return &os.PathError{Op: op, Path: name, Err: errors.New("the store is open for reading only")}
}

func (u unwritable) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, u.refuse("create", name)
}

// Open compares what is read of a blob file with its checksum, as a disk does.
func (u unwritable) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if !isBlob(name) {
		return u.FS.Open(name, opts...)
	}
	f, err := openBlob(u.FS, name, opts...)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (u unwritable) Link(_, name string) error { return u.refuse("link", name) }

func (u unwritable) OpenReadWrite(
	name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption,
) (vfs.File, error) {
	return nil, u.refuse("open", name)
}

func (u unwritable) Remove(name string) error    { return u.refuse("remove", name) }
func (u unwritable) RemoveAll(name string) error { return u.refuse("remove", name) }
func (u unwritable) Rename(_, name string) error { return u.refuse("rename", name) }

func (u unwritable) ReuseForWrite(_, name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, u.refuse("create", name)
}

func (u unwritable) MkdirAll(name string, _ os.FileMode) error { return u.refuse("make", name) }

func (u unwritable) Lock(name string) (io.Closer, error) { return nil, u.refuse("lock", name) }

func (u unwritable) Unwrap() vfs.FS { return u.FS }
