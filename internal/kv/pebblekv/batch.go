package pebblekv

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"tenaq/internal/kv"
)

// A batch is a plain batch of Pebble's, never an indexed one: indexing every write costs more than
// the write.
type batch struct {
	store *Store
	b     *pebble.Batch
}

func (s *Store) NewBatch() kv.Batch { return &batch{store: s, b: s.db.NewBatch()} }

func (b *batch) Set(key, value []byte) {
	kv.CheckKey(key)
	b.check(b.b.Set(key, value, nil))
}

func (b *batch) SetJoined(key, head []byte, tail string) {
	kv.CheckKey(key)
	row := b.b.SetDeferred(len(key), len(head)+len(tail))
	copy(row.Key, key)
	copy(row.Value[copy(row.Value, head):], tail)
	b.check(row.Finish())
}

func (b *batch) Delete(key []byte) {
	kv.CheckKey(key)
	b.check(b.b.Delete(key, nil))
}

func (b *batch) DeleteOnce(key []byte) {
	kv.CheckKey(key)
	b.check(b.b.SingleDelete(key, nil))
}

func (b *batch) DeleteRange(lo, hi []byte) {
	kv.CheckKey(lo)
	kv.CheckKey(hi)
	if bytes.Compare(lo, hi) < 0 { // Pebble takes no empty range
		b.check(b.b.DeleteRange(lo, hi, nil))
	}
}

func (b *batch) Len() int { return b.b.Len() - batchrepr.HeaderLen }

func (b *batch) check(err error) {
	if err != nil {
		b.store.fail("fill a batch", err)
	}
}

func (b *batch) Apply() {
	if b.b.Empty() {
		b.close()
		return
	}
	b.commit(func(p *pebble.Batch) error { return b.store.db.Apply(p, pebble.NoSync) })
	b.close()
}

func (b *batch) Force() (wait func() error) {
	m := b.commit(func(p *pebble.Batch) error { return b.store.db.ApplyNoSyncWait(p, pebble.Sync) })
	return func() error {
		if err := b.b.SyncWait(); err != nil {
			b.store.fail("force a commit to disk", err)
		}
		b.store.witness.confirm(m)
		b.close()
		return nil
	}
}

// commit gives the batch its place in the chain and applies it.
func (b *batch) commit(apply func(*pebble.Batch) error) mark {
	s := b.store
	m := s.chain.next(b.b.Repr()[batchrepr.HeaderLen:])
	b.check(b.b.SingleDelete(s.chain.row, nil))
	s.chain.row = appendChainKey(s.chain.row[:0], m)
	b.check(b.b.Set(s.chain.row, chainValue, nil))
	if err := guard(func() error { return apply(b.b) }); err != nil {
		s.fail("write a commit to the log", err)
	}
	s.chain.mark = m
	s.number.Store(m.number)
	return m
}

// close gives the batch back to Pebble and makes later use of it a crash.
func (b *batch) close() {
	if err := b.b.Close(); err != nil {
		b.store.fail("release a batch", err)
	}
	b.b = nil
}

// guard returns the error that Pebble panics with when its log is broken.
func guard(f func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case error:
			err = r
		default:
			panic(r)
		}
	}()
	return f()
}

// guardOpen returns what Pebble panics with when a file says what no file may say.
func guardOpen(f func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case error:
			err = r
		default:
			err = fmt.Errorf("unexpected contents: %v", r)
		}
	}()
	return f()
}
