// Package kv is the storage seam: one ordered set of rows, written in batches by a single writer
// and read by anyone.
//
// What a Store guarantees, and kvtest checks for every implementation:
//
//   - Rows are ordered by the bytes of their keys.
//
//   - A batch takes effect as a whole or not at all, even across a crash.
//
//   - Apply makes a batch visible to every reader before it returns. Visible is not durable: a
//     batch is durable, with every batch applied before it, when a wait function returned by Force
//     says so.
//
//   - After a crash the store holds a prefix of the applied batches, in the order they were
//     applied, and that prefix contains everything a wait function has confirmed.
//
//   - A wait function returns ErrLost when another machine has become the writer of these rows. The
//     store is dead from then on: every later wait function returns ErrLost too. The rows of the
//     new writer begin with a prefix of what was forced here, and that prefix contains everything a
//     wait function has confirmed. A store that only one machine writes never returns it.
//
// There is no other error result. A disk that fails, lies or is full leaves nothing sensible for a
// caller to do, so an implementation reports such a fault to the Fatal function it was opened with,
// and Fatal never returns. Errors while opening are returned by the implementation's Open.
//
// The package leaves the meaning of keys and values to its callers. A key is not empty. Keys whose
// first byte is zero belong to the implementation (its genesis record, its commit chain); no other
// code may write them, and Scan does not yield them. CheckKey panics on both.
package kv

import (
	"errors"
	"iter"
)

// ErrLost says that another machine has become the writer of the rows of a store. Whether what was
// forced and not confirmed is durable is unknown to this one.
var ErrLost = errors.New("another node has become the writer: the outcome is unknown")

// A Store is an ordered set of rows. Get and Scan may be called from any goroutine at any time.
// Batches are made, filled, applied and forced by one goroutine; only the wait function of Force
// may run on another.
type Store interface {
	// Get appends the value of key to dst and returns the result; ok is false, and dst is returned
	// unchanged, when there is no such row.
	Get(dst, key []byte) (value []byte, ok bool)

	// Scan yields the rows with lo <= key < hi in order of key, as they were when the iteration
	// began. Both slices are valid until the next step only. A nil hi means "to the last row".
	Scan(lo, hi []byte) iter.Seq2[[]byte, []byte]

	// NewBatch returns an empty batch.
	NewBatch() Batch

	// Close releases the store. Batches that were applied and not forced may be lost.
	Close() error
}

// A Batch collects writes that take effect together. Later writes win over earlier ones. The batch
// copies the keys and values it is given. A batch must not be used after Apply or Force.
type Batch interface {
	// Set writes a row, replacing the one with the same key.
	Set(key, value []byte)

	// SetJoined writes a row whose value is head followed by tail, so that a caller with a large
	// value in two parts need not join them first.
	SetJoined(key, head []byte, tail string)

	// Delete removes a row; a row that is not there is no mistake.
	Delete(key []byte)

	// DeleteOnce removes a row that was Set exactly once since it last did not exist, and never
	// again after this. It is much cheaper than Delete on a log-structured store, where the row and
	// its removal vanish together at their first meeting. Used on a row that was set twice it may
	// bring the older value back, so the memory store panics on such misuse.
	DeleteOnce(key []byte)

	// DeleteRange removes all rows with lo <= key < hi, at the price of one write. Both bounds are
	// keys; a range without keys is no mistake.
	DeleteRange(lo, hi []byte)

	// Len is the size of the batch in bytes, about; zero only when it is empty.
	Len() int

	// Apply makes the batch visible to readers. It becomes durable with the next Force. Applying an
	// empty batch does nothing.
	Apply()

	// Force applies the batch and begins to force it, and all batches applied before it, to disk.
	// The wait function returns nil when that is done, or ErrLost; it must be called, once, and
	// before Close. An empty batch may be forced; it then waits for the earlier ones.
	Force() (wait func() error)
}
