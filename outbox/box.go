package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Box is the table of an outbox, with the state of its rows. Packages pgoutbox and sqliteoutbox
// implement it; package outboxtest checks an implementation. All times are by the clock of the
// database.
//
// A row is pending until it is sent or parked. Rows of one stream, which is a queue and a group,
// are in the order of their commits.
type Box interface {
	// Claim leases rows to a relay: pending rows that are due and not leased. Of each stream it
	// takes the oldest row and as many as follow it without a gap. Parked rows do not count for the
	// order. Next is the time until another pending row that is not leased is due: zero or less
	// when one is due now, NextMax when there is none.
	Claim(ctx context.Context, c Claim) (rows []Row, next time.Duration, err error)

	// Renew restarts the leases of all rows of a relay and returns their ids. A row that is not
	// among them is no longer leased to the relay.
	Renew(ctx context.Context, relay string, lease time.Duration) (ids []string, err error)

	// Settle ends leases, all of them or none. The outcome of a row that is leased to another relay
	// by now changes nothing.
	Settle(ctx context.Context, relay string, outcomes []Outcome) error

	// Wait returns when there may be new rows, and at the latest after most. It may return without
	// a reason.
	Wait(ctx context.Context, most time.Duration) error

	// Stats counts rows.
	Stats(ctx context.Context) (Stats, error)

	// Sweep removes up to limit rows that were sent longer ago than keep, the oldest first, and
	// returns their number.
	Sweep(ctx context.Context, keep time.Duration, limit int) (int, error)

	// Parked returns up to limit parked rows, the oldest first, after the row with the id after, or
	// from the first row if that is empty.
	Parked(ctx context.Context, after string, limit int) ([]ParkedRow, error)

	// Release makes parked rows pending again, at the end of their streams and with no attempts
	// used. Discard removes them. Both return the number of rows that they found.
	Release(ctx context.Context, ids ...string) (int, error)
	Discard(ctx context.Context, ids ...string) (int, error)
}

// NextMax is the longest time that Claim returns.
const NextMax = 24 * time.Hour

// A Claim says which rows a relay asks for.
type Claim struct {
	Relay string        // unique name of the relay
	Lease time.Duration // until the relay has to renew
	Rows  int           // maximum number of rows
	Bytes int           // maximum size of all bodies and headers; a single row may be larger

	// Stream is the maximum number of rows of one stream.
	Stream int

	// Except lists queues, as the rows name them, whose rows are not wanted now.
	Except []string
}

// A Row is a message that is leased to a relay.
type Row struct {
	Message
	Stream    string    // empty when it has no order to keep
	CreatedAt time.Time // when it was written
	Attempts  int       // how often the queue refused it
}

// A Fate is what became of a row.
type Fate int

const (
	// Sent: the queue stored it.
	Sent Fate = iota

	// Back: it was not sent, and the row is not the reason. It is due again after Outcome.After.
	Back

	// Failed: the queue refused it. That is an attempt; it is due again after Outcome.After.
	Failed

	// Parked: it is not tried again until an operator releases it.
	Parked
)

// An Outcome is the fate of a row.
type Outcome struct {
	ID    string
	Fate  Fate
	After time.Duration

	Reason string // of Failed and Parked; optional with Back

	// With Sent: the name of the queue that stored the message, and the message id there.
	SentTo, MessageID string
}

// Stats count the rows of a box.
type Stats struct {
	// committed and not sent, including rows that wait for their time or their turn
	Pending int
	Due     int           // rows among them that could be sent now
	Oldest  time.Duration // time since the oldest due row became due
	Parked  int
}

// A ParkedRow is a row that relays no longer try to send.
type ParkedRow struct {
	Row
	Reason string
	At     time.Time
}

// A ForeignTable is the error of Migrate if the table was created for something else. Migrate has
// changed nothing.
type ForeignTable struct {
	Table string // its name
	Why   string // what it lacks
}

// Error says what the table lacks.
func (f *ForeignTable) Error() string {
	return fmt.Sprintf("the table %s is not an outbox: %s; give the outbox another name (Options.Table), or rename that table", f.Table, f.Why)
}

// ErrSchema is the error of a Box whose tables are missing or have another version.
var ErrSchema = errors.New("the tables of the outbox do not match this program: run its Migrate, or \"tenaq outbox init\"")
