// Package records is a small store of records with compare-and-swap and expiry, in which processes
// share what they must remember: claims, circuit breakers, redrives, registered sends.
//
// This package holds only the contract. The backends are separate packages: sqliterecords for one
// machine, serverrecords for a tenaq server, pgrecords for PostgreSQL, dynamorecords for DynamoDB.
// All pass the suite in recordstest. For a program, they differ in one thing: whether the backend
// has a clock (Record.Age).
//
// What a Store guarantees:
//
//   - A write is conditional on the version of the record, in one atomic step of the backend. If
//     several writers name the same version, one of them succeeds. The others get the current
//     record in their error, without another read.
//   - The versions of a key always rise: across deletes, expiry, restarts of the backend and new
//     records under the same key. So a version is a fencing token: a system that has seen a larger
//     one can refuse a smaller one. A version is close to the time of the backend in microseconds.
//   - An answered write is durable. A call that returned an error other than ErrNotFound or
//     *Conflict may have taken effect, or may still do so; to find out, read the record.
//   - An expired record does not exist: it is not returned, not listed, and a write may replace it.
//     Sweep, or the backend itself, frees its space.
//
// It leaves to others: the content of values, leases, retries after errors.
package records

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limits of every backend, so that a program that works with one works with all of them.
const (
	// KeyMax is the maximum size of a key, in bytes of UTF-8. The minimum is one byte.
	KeyMax = 1024

	// ValueMax is the maximum size of a value, in bytes. DynamoDB allows 400 KB for a whole item.
	ValueMax = 256 << 10

	// ListMax is the maximum number of records that one List returns.
	ListMax = 1000
)

// A Version identifies one write of one record. Larger is later. Zero is the version of a record
// that does not exist.
type Version uint64

// A Record is a record as it was read or written.
type Record struct {
	Key     string
	Value   []byte
	Version Version

	// Age is the time since the record was written, by the clock of the backend, so it does not
	// depend on the clocks of processes. It is AgeUnknown if the backend has no clock.
	Age time.Duration

	// TTL is the time until the record expires, or zero if it does not. It is by the clock of the
	// backend, or by that of the process if the backend has none.
	TTL time.Duration
}

// AgeUnknown is the Age of records in a backend without a clock.
const AgeUnknown time.Duration = -1

// A Write is a conditional write of a record.
type Write struct {
	Key   string
	Value []byte // empty and nil are the same

	// If is the version that the record must have. Zero means that there must be no record.
	If Version

	// TTL is the lifetime of the record; zero means forever. It is rounded up to the resolution of
	// the backend, at most a second.
	TTL time.Duration

	// Labels describe the value to people and to queries. DynamoDB stores them as attributes beside
	// the value, without empty ones; other backends ignore them. Each write replaces all labels. No
	// Store returns them.
	Labels map[string]string

	// Due is the time at which the record needs attention unless it is written again, by the clock
	// of the writer; zero for never. A DueLister finds the record then; other stores ignore Due.
	Due time.Time
}

// A Store is a backend. It is safe for use by any number of goroutines, and by any number of
// processes over the same backend. A call whose context has ended does nothing. If the context ends
// during a call, the call gives up soon, or has succeeded.
type Store interface {
	// Get returns a record, or ErrNotFound. It sees every write that was answered before the call.
	Get(ctx context.Context, key string) (Record, error)

	// Put writes a record if the current one has the version w.If, and returns the new one.
	// Otherwise it writes nothing and returns a *Conflict with the current record.
	Put(ctx context.Context, w Write) (Record, error)

	// Delete removes a record if it has the version. Otherwise it removes nothing and returns a
	// *Conflict with the current record, if there is one. Version zero is always a conflict.
	Delete(ctx context.Context, key string, version Version) error

	// List returns up to limit records whose keys begin with prefix and come after the key after,
	// in the order of the bytes of their keys; fewer only if there are no more. Prefix and after
	// are empty or possible keys. It may miss concurrent writes. A limit below one or above ListMax
	// means ListMax.
	List(ctx context.Context, prefix, after string, limit int) ([]Record, error)

	// Sweep removes up to limit expired records and returns their number. A backend that removes
	// them by itself returns zero.
	Sweep(ctx context.Context, limit int) (int, error)

	// Close ends the use of the store.
	Close() error
}

// An Unlabeled is a Store that ignores Write.Labels and Write.Due, so its callers need not make
// them.
type Unlabeled interface{ Unlabeled() }

// ErrNotFound is the error of Get if there is no such record.
var ErrNotFound = errors.New("no such record")

// A Conflict is the error of Put and Delete if the record has another version. It holds the current
// record, or one with Version zero if there is none.
type Conflict struct{ Current Record }

// Error describes the current record.
func (c *Conflict) Error() string {
	if c.Current.Version == 0 {
		return "the record no longer exists"
	}
	return fmt.Sprintf("the record %q now has version %d", c.Current.Key, c.Current.Version)
}

// Check returns an error if w exceeds the limits of this package. Every backend calls it first.
func (w *Write) Check() error {
	if err := CheckKey(w.Key); err != nil {
		return err
	}
	switch {
	case len(w.Value) > ValueMax:
		return fmt.Errorf("the value of record %q has %d bytes, and %d are allowed: store the value elsewhere and its name here",
			w.Key, len(w.Value), ValueMax)
	case w.TTL < 0:
		return fmt.Errorf("record %q has a lifetime of %v: delete it instead", w.Key, w.TTL)
	}
	return w.checkLabels()
}
