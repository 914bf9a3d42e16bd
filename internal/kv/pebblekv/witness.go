package pebblekv

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// witnessPause is the least time between two writes of the witness while commits flow, and so the
// longest time for which a confirmed commit is known to the store alone.
const witnessPause = 100 * time.Millisecond

// A witness keeps, outside the store, the newest commit that the store has confirmed as durable. It
// is what notices that a store came back from a crash with less than it had promised, which Pebble
// cannot tell from a log whose end was never written.
//
// A commit is confirmed first and witnessed soon after, on the witness's own goroutine, so no
// answer ever waits for the witness.
type witness struct {
	fs   vfs.FS
	path string
	file vfs.File
	fail func(what string, err error)

	kick chan struct{} // holds one when confirmed is ahead of written
	stop chan struct{}
	done chan struct{}

	mu        sync.Mutex
	confirmed mark

	written slot // by the goroutine, and by others while it does not run
}

// readWitness returns the newest slot of the witness at path. There is none if ok is false; err is
// then nil if there is no such file either. whole says that both slots are good.
func readWitness(fs vfs.FS, path string) (newest slot, ok, whole bool, err error) {
	f, err := fs.Open(path)
	if errors.Is(err, errNotExist) {
		return slot{}, false, false, nil
	}
	if err != nil {
		return slot{}, false, false, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, witnessLength))
	if err != nil {
		return slot{}, false, false, err
	}
	b = append(b, make([]byte, witnessLength-len(b))...)
	s0, err0 := decodeSlot(b[:slotSize])
	s1, err1 := decodeSlot(b[slotStride:])
	var newer *newerError
	switch err := errors.Join(err0, err1); {
	case errors.As(err, &newer):
		return slot{}, false, false, newer
	case err0 != nil && err1 != nil:
		return slot{}, false, false, fmt.Errorf("%w: both slots of the witness: %w", ErrDamaged,
			err0)
	case err0 != nil:
		return s1, true, false, nil
	case err1 != nil:
		return s0, true, false, nil
	case s0.id != s1.id:
		return slot{}, false, false, fmt.Errorf("%w: the slots of the witness are of two stores",
			ErrDamaged)
	case s0.turn > s1.turn:
		return s0, true, true, nil
	}
	return s1, true, true, nil
}

// createWitness replaces the witness at path by a new one that states s in both slots.
func createWitness(fs vfs.FS, path string, s slot) (err error) {
	tmp := path + ".new"
	f, err := fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(witnessBytes(s))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(fs, fs.PathDir(path))
}

// witnessBytes is a witness that states s in both slots.
func witnessBytes(s slot) []byte {
	b := make([]byte, witnessLength)
	copy(b[int64(s.turn&1)*slotStride:], encodeSlot(s))
	s.turn++
	copy(b[int64(s.turn&1)*slotStride:], encodeSlot(s))
	return b
}

// openWitness opens the witness at path, in which last is the newest slot, for writing.
func openWitness(fs vfs.FS, path string, last slot, fail func(string, error)) (*witness, error) {
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return &witness{
		fs: fs, path: path, file: f, fail: fail,
		kick: make(chan struct{}, 1),
		stop: make(chan struct{}),
		done: make(chan struct{}),

		confirmed: last.mark,
		written:   last,
	}, nil
}

// confirm notes that the commit m is durable. It does not block.
func (w *witness) confirm(m mark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.number <= w.confirmed.number {
		return // a later one was confirmed before, and it covers this one
	}
	w.confirmed = m
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// run writes down what is confirmed until close stops it. It sleeps while nothing is.
func (w *witness) run() {
	defer close(w.done)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-pause.C:
		}
		select {
		case <-w.stop:
			return
		case <-w.kick:
		}
		if err := w.write(); err != nil {
			w.fail("write the witness", err)
		}
		pause.Reset(witnessPause)
	}
}

// write states the newest confirmed commit in the older slot, and forces it to disk.
func (w *witness) write() error {
	w.mu.Lock()
	next := slot{id: w.written.id, turn: w.written.turn + 1, mark: w.confirmed}
	w.mu.Unlock()
	if next.mark == w.written.mark {
		return nil
	}
	if _, err := w.file.WriteAt(encodeSlot(next), int64(next.turn&1)*slotStride); err != nil {
		return err
	}
	// the slots are there since the file was created, so only their bytes change
	if err := w.file.SyncData(); err != nil {
		return err
	}
	w.written = next
	return nil
}

// close stops the goroutine and writes down what is left.
func (w *witness) close() error {
	close(w.stop)
	<-w.done
	return errors.Join(w.write(), w.file.Close())
}
