package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A History is a Box that what was sent can be replayed from. It fixes what a replay is to send
// before the first row is written, and keeps the books about it. Packages pgoutbox and sqliteoutbox
// have one each; package outboxtest says what is asked of it.
type History interface {
	Box

	// Look counts what a source has, and returns the first few of it, in the order of a replay.
	// ErrSource says that its SQL does not work; so it does of StageReplay and Staged.
	Look(ctx context.Context, s Source, few int) (count int, first []Past, err error)

	// Walk calls each with everything that a source has, in the order of a replay, as it is at one
	// moment. An error of each ends it and is returned. While it runs, each must not use the box.
	Walk(ctx context.Context, s Source, each func(Past) error) error

	// BeginReplay writes a replay down, and returns it with its number, its first version and the
	// time. Numbers rise, and no two replays of an outbox ever have the same.
	BeginReplay(ctx context.Context, r Replay) (Replay, error)

	// StageReplay notes what is to be sent, as it is at one moment, and makes a replay that is
	// Preparing a Running one. That of what was sent is in the order of its streams, so far as it
	// is known: rows that are sent later are not part of it, and of rows that are swept later the
	// content is gone. What a query returned is kept as it was. Of a replay that is Running
	// already, or at its end, it changes nothing. Where two do it at once, one of them may hear
	// ErrMoved.
	StageReplay(ctx context.Context, number int64) (Replay, error)

	// Staged returns up to limit of what is to be sent behind a place, zero for the first ones. Of
	// a replay that there is not it returns nothing, or ErrNoReplay.
	Staged(ctx context.Context, number, place int64, limit int) ([]Staged, error)

	// StepReplay writes rows and what has become of the replay in one transaction, and returns the
	// replay as it is from then on: with the next version, the time, and Written raised by the
	// number of rows that are new. Rows whose ids are in the outbox already are left out. At the
	// end of a replay what was staged for it is removed. ErrMoved says that its version is not the
	// one that was given; then nothing is written.
	StepReplay(ctx context.Context, r Replay, rows []Message) (Replay, error)

	// Replay returns one replay, or ErrNoReplay; Replays returns the newest ones, up to limit.
	Replay(ctx context.Context, number int64) (Replay, error)
	Replays(ctx context.Context, limit int) ([]Replay, error)
}

// Errors of a History.
var (
	// ErrMoved: somebody else has written about the replay in the meantime.
	ErrMoved = errors.New("the replay is in other hands")

	// ErrSource: the condition or the query of a source does not work, or returns what is no
	// message.
	ErrSource = errors.New("the source of the replay has to be mended")

	// ErrNoReplay: there is none of that number.
	ErrNoReplay = errors.New("there is no replay of that number")
)

// A Source says what is to be replayed: messages that were sent, by when that was and what they
// are, or what a query makes up.
type Source struct {
	// From and To bound when messages were sent, by the clock of the database; To itself is not
	// within. Both are needed, but for a query, which has neither.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`

	// Queues, Types and Keys, if any are given, are the only ones wanted, as the rows name them.
	Queues []string `json:"queues,omitempty"`
	Types  []string `json:"types,omitempty"`
	Keys   []string `json:"keys,omitempty"`

	// Where is a condition in SQL on top of that, about the columns of the row, sent_at, sent_to
	// (the name of the queue) and message_id. It is run as it is: it must come from who may read
	// all of the database.
	Where string `json:"where,omitempty"`

	// Query is a SELECT in place of all that, for when rows of the outbox are gone or were never
	// written. Its columns have the names of those of an outbox: aggregatetype, aggregateid,
	// payload, and if they are wanted type, group_id, headers and generation; and dedup_id or, of a
	// row that was in the outbox, id, which name the work. The order is its own. It is run as it
	// is, like Where.
	Query string `json:"query,omitempty"`
}

// Check returns an error when a source is none.
func (s *Source) Check() error {
	others := !s.From.IsZero() || !s.To.IsZero() || len(s.Queues)+len(s.Types)+len(s.Keys) > 0 ||
		s.Where != ""
	switch {
	case s.Query != "" && others:
		return errors.New("a query stands for itself: it goes with no times, queues, types, keys and conditions")
	case s.Query != "":
		return nil
	case s.From.IsZero() || s.To.IsZero():
		return errors.New("say from when to when the messages were sent")
	case s.From.Year() < 1 || s.To.Year() > 9999:
		return errors.New("the times are not within the years 1 to 9999")
	case !s.From.Before(s.To):
		return fmt.Errorf("the time from %s to %s is none: the second is the later one",
			s.From.Format(time.RFC3339), s.To.Format(time.RFC3339))
	}
	return nil
}

// A Past is a message that was sent, or that a query makes up: then only the message is there.
type Past struct {
	Message
	SentAt            time.Time
	SentTo, MessageID string
}

// A Staged is a message that is to be sent by a replay.
type Staged struct {
	Message
	Place int64 // from 1 on, rising
	Gone  bool  // it has been removed since; only the ID is known
}

// A ReplayState is how far a replay is.
type ReplayState string

const (
	// Preparing: what is to be sent is being noted.
	Preparing ReplayState = "preparing"

	// Running: rows are being written, or would be if a process was at it.
	Running ReplayState = "running"

	// Done: all rows are written, or were left out.
	Done ReplayState = "done"

	// Cancelled: a person has ended it, or it could not be begun.
	Cancelled ReplayState = "cancelled"
)

// A Replay is what is known about one, while it is under way and for ever after.
type Replay struct {
	Number  int64       `json:"-"`
	Version int64       `json:"-"` // raised with every change
	State   ReplayState `json:"state"`
	Source  Source      `json:"source"`

	MissingOnly bool    `json:"missingOnly,omitempty"`
	Lane        string  `json:"lane,omitempty"`
	Rate        float64 `json:"rate"`  // messages per second at most
	Ahead       int     `json:"ahead"` // rows that may be due while it writes
	// of what is sent, once it is Running; 0 with MissingOnly
	Generation int `json:"generation,omitempty"`

	By     string `json:"by,omitempty"`     // who began it
	Note   string `json:"note,omitempty"`   // why
	Ended  string `json:"ended,omitempty"`  // who cancelled it, and why
	Runner string `json:"runner,omitempty"` // the process that is at it, or was the last one

	Created time.Time `json:"created,omitzero"` // by the clock of the database
	Updated time.Time `json:"updated,omitzero"`

	Found int `json:"found"` // rows of the source
	Tally

	Place int64 `json:"place"` // of the last one that was looked at
}

// A Tally counts rows of a source by what became of them in a replay, or would become of them.
type Tally struct {
	Read      int `json:"read"`    // looked at so far
	Written   int `json:"written"` // messages for relays to send
	Completed int `json:"completed"`
	Later     int `json:"later,omitempty"` // not sent: a later generation of the work has begun
	// not sent: the claim on the work is parked, so a person decides
	Parked int `json:"parked,omitempty"`
	Gone   int `json:"gone"` // removed from the outbox before it was their turn
}

// Same is how many rows were left out because another row of the source is about the same work.
func (t *Tally) Same() int {
	return t.Read - t.Written - t.Completed - t.Later - t.Parked - t.Gone
}

// AtEnd reports whether nothing will happen to a replay any more.
func (r *Replay) AtEnd() bool { return r.State == Done || r.State == Cancelled }

// Has reports whether a message is one that a source without conditions in SQL names.
func (s *Source) Has(p *Past) bool {
	in := func(values []string, value string) bool {
		return len(values) == 0 || slices.Contains(values, value)
	}
	return !p.SentAt.Before(s.From) && p.SentAt.Before(s.To) && in(s.Queues, p.Queue) &&
		in(s.Types, p.Type) && in(s.Keys, p.Key)
}
