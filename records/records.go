// Package records is a small store of records with compare-and-swap and expiry, shared by
// everything that has to remember something between two processes: claims, circuit breakers,
// redrive counts, sends that were registered.
//
// It holds the contract only. Backends are packages of their own: sqliterecords for one machine,
// pgrecords for PostgreSQL, dynamorecords for DynamoDB. All of them pass the suite in recordstest,
// and what a program sees of them differs in one thing: whether the backend has a clock
// (Record.Age).
//
// What a Store guarantees:
//
//   - A write is conditional on the version of the record, in one atomic step of the backend. Of
//     any number of writers that name the same version one succeeds, and every other is told what
//     is there now, without reading again.
//   - Versions of a key rise for ever: over deletes, expiry, restarts of the backend and new
//     records under the same key. That makes a version a fencing token: who has seen a larger one
//     can refuse a smaller one without asking. A version is about the backend's time in
//     microseconds.
//   - What was answered is durable. A call that returned an error other than ErrNotFound or
//     *Conflict may have taken effect or not, and may still take effect after the error; a caller
//     who has to know reads the record.
//   - A record that has expired does not exist: it is not returned, not listed, and a write may
//     take its place. Its room is given back by Sweep, or by the backend itself.
//
// It leaves to others: what is in a value, leases, retries after errors.
package records

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limits of every backend, so that a program that works with one works with all.
const (
	// KeyMax is how long a key may be, in bytes of UTF-8. The shortest has one byte.
	KeyMax = 1024

	// ValueMax is how long a value may be, in bytes. DynamoDB allows 400 KB for a whole item.
	ValueMax = 256 << 10

	// ListMax is how many records one List returns at most.
	ListMax = 1000
)

// A Version identifies one write of one record. Larger is later. Zero is the version of a record
// that does not exist.
type Version uint64

// A Record is one record as it was read or written.
type Record struct {
	Key     string
	Value   []byte
	Version Version

	// Age is how long ago the record was written, by the clock of the backend and so the same for
	// every process, however wrong their own clocks are. It is AgeUnknown when the backend has no
	// clock: then only who watches a version stay the same knows for how long it has.
	Age time.Duration

	// TTL is how long the record still has before it expires, by the same clock; zero for ever.
	// Backends without a clock go by that of the process.
	TTL time.Duration
}

// AgeUnknown is the Age of records in a backend without a clock.
const AgeUnknown time.Duration = -1

// A Write is what Put is asked to do.
type Write struct {
	Key   string
	Value []byte // empty and nil are the same

	// If is the version the record must have. Zero says that there must be none.
	If Version

	// TTL is how long the record is to exist; zero for ever. It is rounded up to what the backend
	// can express, at most a second.
	TTL time.Duration

	// Labels describe the value to people and to queries. DynamoDB keeps them as attributes beside
	// the value, without empty ones; other backends ignore them. Each write replaces all labels,
	// and no Store returns them.
	Labels map[string]string

	// Due is when the record needs a look unless it is written again before, by the clock of the
	// writer; zero for never. A Store with an index finds it then (DueLister); others ignore it.
	Due time.Time
}

// A Store is a backend. Its methods may be called from any goroutine and by any number of processes
// over the same backend. A call whose context has ended by the time it begins does nothing, and one
// whose context ends meanwhile gives up soon, or has succeeded.
type Store interface {
	// Get returns a record, or ErrNotFound. It sees every write that was answered before it was
	// called.
	Get(ctx context.Context, key string) (Record, error)

	// Put writes a record if it has the version that w names, and returns it as it is then.
	// Otherwise nothing is written and the error is a *Conflict that says what is there.
	Put(ctx context.Context, w Write) (Record, error)

	// Delete removes a record if it has the version. Otherwise nothing is removed and the error is
	// a *Conflict that says what is there, which may be nothing. No record has version zero, so
	// that is always a conflict.
	Delete(ctx context.Context, key string, version Version) error

	// List returns up to limit records whose keys begin with prefix and come behind after, in order
	// of the bytes of their keys; fewer only when there are no more. Prefix and after are empty or
	// could be keys. It may miss what is written while it runs. A limit below one, or above
	// ListMax, is ListMax.
	List(ctx context.Context, prefix, after string, limit int) ([]Record, error)

	// Sweep gives back the room of up to limit expired records and returns how many there were. A
	// backend that does so by itself returns zero.
	Sweep(ctx context.Context, limit int) (int, error)

	// Close ends the use of the store.
	Close() error
}

// ErrNotFound is what Get answers when there is no such record.
var ErrNotFound = errors.New("no such record")

// A Conflict is what Put and Delete answer when the record has another version than they were told.
// It holds the record as it is, or an empty one, whose Version is zero, when there is none.
type Conflict struct{ Current Record }

// Error says what is there.
func (c *Conflict) Error() string {
	if c.Current.Version == 0 {
		return "the record no longer exists"
	}
	return fmt.Sprintf("the record %q has version %d by now", c.Current.Key, c.Current.Version)
}

// Check returns an error when w is beyond the limits of this package. Every backend calls it first.
func (w *Write) Check() error {
	if err := CheckKey(w.Key); err != nil {
		return err
	}
	switch {
	case len(w.Value) > ValueMax:
		return fmt.Errorf("the value of record %q has %d bytes, %d are allowed: keep large things elsewhere and their name here",
			w.Key, len(w.Value), ValueMax)
	case w.TTL < 0:
		return fmt.Errorf("record %q is to exist for %v: delete it instead", w.Key, w.TTL)
	}
	return w.checkLabels()
}
