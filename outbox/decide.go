package outbox

import (
	"context"
	"time"
)

// A Decider is a Box that carries out what a person has decided about parked rows earlier. The
// boxes of packages pgoutbox and sqliteoutbox are Deciders.
type Decider interface {
	// ReleaseSeen and DiscardSeen are Release and Discard of rows as a person has seen them. A row
	// that was released since and parked again is another case: it stays, because the person has
	// not seen why. So a decision that arrives late, or twice, does nothing.
	ReleaseSeen(ctx context.Context, rows ...Seen) (int, error)
	DiscardSeen(ctx context.Context, rows ...Seen) (int, error)
}

// A Seen is a parked row as a person has seen it.
type Seen struct {
	ID string
	At time.Time // when it was parked, exactly as Parked returned it
}

// Seen returns what a decision about the row needs.
func (r *ParkedRow) Seen() Seen { return Seen{ID: r.ID, At: r.At} }
