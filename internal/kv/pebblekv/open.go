package pebblekv

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Open opens the store in o.Dir, or creates one if the directory holds nothing of a store. An error
// is one of ErrNewer, ErrDamaged, ErrLocked, ErrFull, a *LostError, or what the operating system
// said; it is one sentence that ends with what to do. A disk that fails while Pebble is writing to
// it ends in Fatal, as it does later.
func Open(o Options) (*Store, error) { return open(o, false) }

func open(o Options, ofNode bool) (*Store, error) {
	if o.Dir == "" || o.Fatal == nil {
		panic("pebblekv: Options without Dir or Fatal")
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	opening := &opening{
		Options:     o,
		store:       &Store{dir: o.FS.PathJoin(o.Dir, storeName), fatal: o.Fatal, ofNode: ofNode},
		witnessPath: o.FS.PathJoin(o.Dir, witnessName),
	}
	if err := opening.run(); err != nil {
		opening.undo()
		return nil, classify(opening.store.dir, err)
	}
	return opening.store, nil
}

// An opening is an Open under way.
type opening struct {
	Options
	store       *Store
	witnessPath string
	witnessed   slot // what the witness says
	hasWitness  bool
	whole       bool // both slots of the witness are good
	witnessErr  error
	disk        *disk
	noLog       bool // as a State has none
}

func (o *opening) undo() {
	s := o.store
	if s.db != nil {
		_ = s.db.Close()
	}
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

func (o *opening) run() error {
	if err := makeDir(o.FS, o.store.dir); err != nil {
		return errnoError(o.store.dir, err)
	}
	lock, err := o.takeLock()
	if err != nil {
		return err
	}
	o.store.lock = lock
	o.witnessed, o.hasWitness, o.whole, o.witnessErr = readWitness(o.FS, o.witnessPath)
	if o.witnessErr != nil && !errors.Is(o.witnessErr, ErrDamaged) {
		return o.witnessErr
	}
	if err := o.look(); err != nil {
		return err
	}
	if err := o.openPebble(lock); err != nil {
		return err
	}
	if err := o.readGenesis(); err != nil {
		return err
	}
	if err := o.readChain(); err != nil {
		return err
	}
	rebuild, err := o.compare()
	if err != nil {
		return err
	}
	return o.start(rebuild)
}

func (o *opening) takeLock() (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(o.store.dir, o.FS)
	if err == nil {
		return lock, nil
	}
	if isLocked(err) {
		return nil, &LockedError{Dir: o.Dir, PID: o.holder(err)}
	}
	return nil, err
}

// look refuses what Pebble must not be let loose on: it would take a directory that lost the file
// that names its manifest for a new one, and clear it.
func (o *opening) look() error {
	names, err := o.FS.List(o.store.dir)
	if err != nil {
		return err
	}
	if err := newerFormat(names); err != nil {
		return err
	}
	desc, err := pebble.Peek(o.store.dir, o.FS)
	if err != nil {
		return err
	}
	if desc.Exists {
		return checkBlobs(o.FS, o.store.dir)
	}
	if o.hasWitness {
		return damaged(o.store.dir, "it is empty and commit %d was confirmed", o.witnessed.number)
	}
	if o.witnessErr != nil {
		return o.witnessErr
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log") ||
			isBlob(name) {
			return damaged(o.store.dir, "it has the file %s and no manifest", name)
		}
	}
	return nil
}

// newerFormat refuses files of a format that is newer than this program.
func newerFormat(names []string) error {
	for _, name := range names {
		if v, ok := formatOf(name); ok && v > uint64(formatVersion) {
			return &newerError{"the file " + name, v, uint64(formatVersion)}
		}
	}
	return nil
}

// formatOf returns the format that a format marker states in its name.
func formatOf(name string) (uint64, bool) {
	rest, ok := strings.CutPrefix(name, "marker.format-version.")
	if !ok {
		return 0, false
	}
	_, version, ok := strings.Cut(rest, ".")
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseUint(version, 10, 64)
	return v, err == nil
}

func (o *opening) openPebble(lock *pebble.Lock) error {
	o.disk = &disk{FS: o.FS, fail: o.store.fail}
	o.store.aside = aside{o.disk, o.FS, o.FS.PathJoin(o.Dir, checkpointName)}
	log := logger{discard(o.Logger), o.store.fail}
	opts := pebbleOptions(o.Options, log)
	opts.FS = o.store.aside
	opts.EventListener.FlushEnd = func(pebble.FlushInfo) { o.disk.pace.flush() }
	opts.Lock = lock
	opts.DisableWAL = o.noLog
	return guardOpen(func() (err error) {
		o.store.db, err = pebble.Open(o.store.dir, opts)
		return err
	})
}

// readGenesis reads the genesis record, or writes it into a store that has no row at all, with the
// ID that the store has been given, if it has.
func (o *opening) readGenesis() error {
	s := o.store
	value, closer, err := s.db.Get(genesisKey)
	switch {
	case err == nil:
		given := s.id
		if s.id, err = decodeGenesis(value); err != nil {
			err = fmt.Errorf("genesis record: %w", err)
		} else if given != (ID{}) && given != s.id {
			err = damaged(s.dir, "it belongs to %v and not to %v", s.id, given)
		}
		return errors.Join(err, closer.Close())
	case err != pebble.ErrNotFound:
		return err
	}
	empty, err := isEmpty(s.db)
	if err != nil {
		return err
	}
	if !empty || o.hasWitness || o.witnessErr != nil {
		return damaged(s.dir, "its first record is missing")
	}
	return o.create()
}

// create makes the first commit. It is flushed, so that from now on a store without it has lost a
// table and not merely the end of a log.
func (o *opening) create() error {
	s := o.store
	if s.id == (ID{}) {
		if _, err := io.ReadFull(rand.Reader, s.id[:]); err != nil {
			return err
		}
	}
	genesis := encodeGenesis(s.id)
	m := genesisMark(genesis)
	b := s.db.NewBatch()
	err := errors.Join(
		b.Set(genesisKey, genesis, nil),
		b.Set(appendChainKey(nil, m), chainValue, nil),
		s.db.Apply(b, &pebble.WriteOptions{Sync: !o.noLog}),
	)
	return errors.Join(err, b.Close(), s.db.Flush())
}

func isEmpty(db *pebble.DB) (bool, error) {
	it, err := db.NewIter(nil)
	if err != nil {
		return false, err
	}
	empty := !it.First()
	return empty, it.Close()
}

// readChain finds the commit that the store ends with. Every commit removes the row of the one
// before, so one row is left. If a commit in the middle is gone, so is its removal of the row
// before, and there are two; as there are if a log of another store stands behind the logs of this
// one.
func (o *opening) readChain() error {
	s := o.store
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: chainPrefix, UpperBound: chainEnd})
	if err != nil {
		return err
	}
	var marks []mark
	for ok := it.First(); ok && len(marks) < 2; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			var m mark
			m, err = decodeChain(it.Key(), value)
			marks = append(marks, m)
			s.chain.row = bytes.Clone(it.Key())
		}
		if err != nil {
			return errors.Join(fmt.Errorf("commit chain: %w", err), it.Close())
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	switch len(marks) {
	case 0:
		return damaged(s.dir, "its commit chain is missing")
	case 2:
		if marks[1].number <= marks[0].number+1 {
			return damaged(s.dir, "its commit %d does not follow its commit %d, as if a file of another store were among its own", marks[1].number, marks[0].number)
		}
		return damaged(s.dir, "commits after commit %d and before commit %d are missing",
			marks[0].number, marks[1].number)
	}
	s.chain.mark = marks[0]
	s.number.Store(marks[0].number)
	return nil
}

// compare holds the store against the witness. rebuild says that the witness must be written anew.
func (o *opening) compare() (rebuild bool, err error) {
	s, have, want := o.store, o.store.chain.mark, o.witnessed.mark
	switch {
	case !o.hasWitness && o.witnessErr == nil && have.number == 0:
		return true, nil // the creation was interrupted before it wrote the witness
	case !o.hasWitness && o.AcceptLoss > 0:
		discard(o.Logger).Warn("the store has no witness and is trusted as it is", "have",
			have.number)
		return true, nil
	case !o.hasWitness:
		cause := o.witnessErr
		if cause == nil {
			cause = fmt.Errorf("its witness is missing")
		}
		return false, &openError{kind: ErrDamaged, cause: cause, dir: s.dir,
			advice: fmt.Sprintf("put back the file %s that belongs to it, start once with --accept-loss=1 to trust the store as it is, or copy what is intact into a new directory with: %s", o.witnessPath, salvageCommand)}
	case o.witnessed.id != s.id:
		return false, &openError{kind: ErrDamaged, dir: s.dir,
			cause: fmt.Errorf("it is store %v and the witness is of store %v", s.id,
				o.witnessed.id),
			advice: fmt.Sprintf("put back the file %s that belongs to it, remove that file and start once with --accept-loss=1 to trust the store as it is, or copy what is intact into a new directory with: %s", o.witnessPath, salvageCommand)}
	case have.number < want.number && want.number-have.number > o.AcceptLoss:
		return false, &LostError{Dir: s.dir, Have: have.number, Want: want.number}
	case have.number == want.number && have.hash != want.hash:
		return false, damaged(s.dir, "its commit %d is not the commit %d that was confirmed",
			have.number, want.number)
	}
	if have.number < want.number {
		discard(o.Logger).Warn("confirmed commits are lost and the loss is accepted", "have",
			have.number, "want", want.number)
	}
	return !o.whole, nil
}

// start brings the witness up to date, and sets the store going. What Pebble has read from its logs
// it has also flushed, so the state that was found is durable.
func (o *opening) start(rebuild bool) error {
	s := o.store
	now := slot{id: s.id, turn: o.witnessed.turn + 1, mark: s.chain.mark}
	if rebuild || o.witnessed.mark != s.chain.mark {
		if err := createWitness(o.FS, o.witnessPath, now); err != nil {
			return err
		}
		now.turn++
	} else {
		now.turn = o.witnessed.turn
	}
	var err error
	if s.witness, err = openWitness(o.FS, o.witnessPath, now, s.fail); err != nil {
		return err
	}
	go s.witness.run()
	o.disk.release(s.dir)
	_ = o.FS.RemoveAll(s.aside.dir) // what a backup has left that was cut short
	return nil
}
