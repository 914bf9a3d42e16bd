package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Box is a table of an outbox with what the relays keep about its rows. Packages pgoutbox and sqliteoutbox have
// one each; package outboxtest says what is asked of it. All times are by the clock of the database.
//
// A row is pending until it is sent or parked. Rows of one stream, which is a queue and a group, are in the order
// of their commits.
type Box interface {
	// Claim leases rows to a relay: pending ones that are due and leased to nobody else, of each stream the
	// oldest and as many as follow it without a gap. Rows that are parked do not count for the order. Next is
	// how long it is until another pending row, leased to nobody, is due; zero or less when one is now, and
	// NextMax when there is none.
	Claim(ctx context.Context, c Claim) (rows []Row, next time.Duration, err error)

	// Renew makes the leases of all rows that a relay has begin again, and returns their ids. What is not among
	// them is no longer the relay's.
	Renew(ctx context.Context, relay string, lease time.Duration) (ids []string, err error)

	// Settle ends leases, all of them or none. An outcome of a row that another relay has by now changes
	// nothing.
	Settle(ctx context.Context, relay string, outcomes []Outcome) error

	// Wait returns when there may be new rows, and after so long at most. It may return for nothing.
	Wait(ctx context.Context, most time.Duration) error

	// Stats counts rows.
	Stats(ctx context.Context) (Stats, error)

	// Sweep removes up to limit rows that were sent longer ago than keep, the oldest first, and returns how many it
	// removed.
	Sweep(ctx context.Context, keep time.Duration, limit int) (int, error)

	// Parked returns up to limit parked rows, the oldest first, behind the row with the id after; from the
	// first one when that is empty.
	Parked(ctx context.Context, after string, limit int) ([]ParkedRow, error)

	// Release makes parked rows pending again, with all their attempts before them, at the end of their
	// streams; Discard removes them. Both return how many they found.
	Release(ctx context.Context, ids ...string) (int, error)
	Discard(ctx context.Context, ids ...string) (int, error)
}

// NextMax is longer than anybody waits.
const NextMax = 24 * time.Hour

// A Claim says how much a relay wants.
type Claim struct {
	Relay string        // who asks: a name that no other relay ever has
	Lease time.Duration // until it has to renew
	Rows  int           // at most
	Bytes int           // of bodies and headers in all, at most; a single row may have more

	// Stream is how many rows of one stream at most.
	Stream int

	// Except are queues, as the rows name them, of which nothing is wanted now.
	Except []string
}

// A Row is a message in the hands of a relay.
type Row struct {
	Message
	Stream    string    // empty when it has no order to keep
	CreatedAt time.Time // when it was written
	Attempts  int       // how often it failed before
}

// A Fate is what has become of a row.
type Fate int

const (
	// Sent: the queue has it.
	Sent Fate = iota

	// Back: it was not sent, for no reason of its own. It is due again after Outcome.After.
	Back

	// Failed: the queue refused it. That is an attempt; it is due again after Outcome.After.
	Failed

	// Parked: it is not tried again, until a person releases it.
	Parked
)

// An Outcome is the fate of a row.
type Outcome struct {
	ID    string
	Fate  Fate
	After time.Duration

	Reason string // of Failed and Parked; of Back, for whoever looks

	// Of what was sent: the name of the queue that has it, and the message id there.
	SentTo, MessageID string
}

// Stats are how many rows there are.
type Stats struct {
	Pending int           // committed and not sent, waiting for their time or their turn included
	Due     int           // of those, how many could be sent now
	Oldest  time.Duration // since the oldest of those that are due was due
	Parked  int
}

// A ParkedRow is a row that relays have given up.
type ParkedRow struct {
	Row
	Reason string
	At     time.Time
}

// A ForeignTable is the error of Migrate when a table of the outbox's name exists and was made for something else.
// Nothing is changed then.
type ForeignTable struct {
	Table string // its name
	Why   string // what it lacks
}

// Error says what the table lacks.
func (f *ForeignTable) Error() string {
	return fmt.Sprintf("the table %s is not an outbox: %s; give the outbox another name (Options.Table), or rename that table", f.Table, f.Why)
}

// ErrSchema is what a Box answers when its tables are not there, or of another version.
var ErrSchema = errors.New("the tables of the outbox are not as this program needs them: run its Migrate, or \"tenaq outbox init\"")
