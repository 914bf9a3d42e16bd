package outbox

import (
	"context"
	"time"
)

// A Finder is a Box that finds the rows of a piece of work. The boxes of packages pgoutbox and
// sqliteoutbox are Finders.
type Finder interface {
	// Find returns up to limit rows, the oldest first: those whose work has one of the names, which
	// is their Dedup or else their ID, and those that were sent with one of the message ids. These
	// names have no index, so Find may read the whole table. It changes nothing.
	Find(ctx context.Context, works, messages []string, limit int) ([]Found, error)
}

// A Found is a row with what became of it. It is pending if it has neither SentAt nor ParkedAt.
type Found struct {
	Row
	SentAt            time.Time
	SentTo, MessageID string
	ParkedAt          time.Time
	Reason            string // why it was parked, or why the queue refused it last
}
