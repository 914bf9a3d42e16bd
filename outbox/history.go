package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A History is a Box from which sent messages can be replayed. It fixes what a replay sends before
// the first row is written, and records the progress. Packages pgoutbox and sqliteoutbox implement
// it; package outboxtest checks an implementation.
type History interface {
	Box

	// Look counts the messages of a source, and returns the first few in the order of a replay.
	// Look, StageReplay and Staged return ErrSource if the SQL of the source does not work.
	Look(ctx context.Context, s Source, few int) (count int, first []Past, err error)

	// Walk calls each with all messages of a source, in the order of a replay, as of one moment. It
	// ends with the first error of each. While it runs, each must not use the box.
	Walk(ctx context.Context, s Source, each func(Past) error) error

	// BeginReplay stores a replay, and returns it with its number, its first version and the time.
	// Numbers rise, and no two replays of an outbox ever have the same.
	BeginReplay(ctx context.Context, r Replay) (Replay, error)

	// StageReplay fixes what a Preparing replay sends, as of one moment, and makes it Running. It
	// does nothing to a replay in another state. If two callers do it at once, one may get
	// ErrMoved.
	//
	// Messages that were sent are in the order of their streams, as far as that is known. Rows that
	// are sent later are not part of the replay, and the content of rows that are swept later is
	// gone. The result of a query is stored.
	StageReplay(ctx context.Context, number int64) (Replay, error)

	// Staged returns up to limit staged messages after a place; zero means from the first one. If
	// there is no such replay, it returns nothing or ErrNoReplay.
	Staged(ctx context.Context, number, place int64, limit int) ([]Staged, error)

	// StepReplay writes rows and the progress of the replay in one transaction. It returns the
	// replay with the next version, the time, and Written raised by the number of new rows. It
	// skips rows whose ids are in the outbox already. At the end of a replay it removes the staged
	// messages. If the replay has another version than r, it writes nothing and returns ErrMoved.
	StepReplay(ctx context.Context, r Replay, rows []Message) (Replay, error)

	// Replay returns one replay, or ErrNoReplay. Replays returns up to limit replays, the newest
	// first.
	Replay(ctx context.Context, number int64) (Replay, error)
	Replays(ctx context.Context, limit int) ([]Replay, error)
}

// Errors of a History.
var (
	// ErrMoved: another process has changed the replay.
	ErrMoved = errors.New("another process has taken over the replay")

	// ErrSource: the condition or the query of a source does not work, or does not return messages.
	ErrSource = errors.New("correct the source of the replay")

	// ErrNoReplay: there is no replay with that number.
	ErrNoReplay = errors.New("there is no replay with that number")
)

// A Source says what to replay: messages that were sent, selected by time and content, or the
// messages that a query returns.
type Source struct {
	// From and To bound the time of the send, by the clock of the database; To is excluded. Both
	// are required, except with Query, which allows neither.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`

	// Queues, Types and Keys restrict the source to these values of the rows; empty means all.
	Queues []string `json:"queues,omitempty"`
	Types  []string `json:"types,omitempty"`
	Keys   []string `json:"keys,omitempty"`

	// Where is a further condition in SQL. It can use the columns of the row, sent_at, sent_to (the
	// name of the queue) and message_id. It runs unchanged, so accept it only from users who may
	// read the whole database.
	Where string `json:"where,omitempty"`

	// Query is a SELECT that replaces all of these, for rows that are gone or were never written.
	// Its columns have the names of those of an outbox: aggregatetype, aggregateid and payload;
	// optionally type, group_id, headers and generation; and dedup_id, or the id of a row that was
	// in the outbox, to name the work. The replay keeps its order. It runs unchanged, like Where.
	Query string `json:"query,omitempty"`
}

// Check returns an error if a source is incomplete or contradicts itself.
func (s *Source) Check() error {
	others := !s.From.IsZero() || !s.To.IsZero() || len(s.Queues)+len(s.Types)+len(s.Keys) > 0 ||
		s.Where != ""
	switch {
	case s.Query != "" && others:
		return errors.New("a query cannot be combined with times, queues, types, keys or a condition")
	case s.Query != "":
		return nil
	case s.From.IsZero() || s.To.IsZero():
		return errors.New("the source needs the times between which the messages were sent: set From and To")
	case s.From.Year() < 1 || s.To.Year() > 9999:
		return errors.New("the times must be within the years 1 to 9999")
	case !s.From.Before(s.To):
		return fmt.Errorf("the time from %s to %s is empty: the second must be later",
			s.From.Format(time.RFC3339), s.To.Format(time.RFC3339))
	}
	return nil
}

// A Past is a message that was sent. One that a query returned has only the message.
type Past struct {
	Message
	SentAt            time.Time
	SentTo, MessageID string
}

// A Staged is a message that a replay sends.
type Staged struct {
	Message
	Place int64 // from 1, rising
	Gone  bool  // it has been removed since; only its ID is known
}

// A ReplayState is the state of a replay.
type ReplayState string

const (
	// Preparing: its messages are being staged.
	Preparing ReplayState = "preparing"

	// Running: its rows are being written, if a process runs it.
	Running ReplayState = "running"

	// Done: all rows are written or were left out.
	Done ReplayState = "done"

	// Cancelled: an operator ended it, or it could not begin.
	Cancelled ReplayState = "cancelled"
)

// A Replay is the record of a replay, which is kept forever.
type Replay struct {
	Number  int64       `json:"-"`
	Version int64       `json:"-"` // raised with every change
	State   ReplayState `json:"state"`
	Source  Source      `json:"source"`

	MissingOnly bool    `json:"missingOnly,omitempty"`
	Lane        string  `json:"lane,omitempty"`
	Rate        float64 `json:"rate"`  // maximum number of messages per second
	Ahead       int     `json:"ahead"` // maximum number of due rows while it writes
	// of its messages, once it is Running; 0 with MissingOnly
	Generation int `json:"generation,omitempty"`

	By     string `json:"by,omitempty"`     // who began it
	Note   string `json:"note,omitempty"`   // why
	Ended  string `json:"ended,omitempty"`  // who cancelled it, and why
	Runner string `json:"runner,omitempty"` // the process that runs it, or ran it last

	Created time.Time `json:"created,omitzero"` // by the clock of the database
	Updated time.Time `json:"updated,omitzero"`

	Found int `json:"found"` // rows of the source
	Tally

	Place int64 `json:"place"` // of the last message that was read
}

// A Tally counts the rows of a source by their outcome in a replay.
type Tally struct {
	Read      int `json:"read"`    // so far
	Written   int `json:"written"` // messages for relays to send
	Completed int `json:"completed"`
	// not sent: a later generation of the work has begun, or is in the source
	Later int `json:"later,omitempty"`
	// not sent: the claim on the work is parked, so a person decides
	Parked int `json:"parked,omitempty"`
	Gone   int `json:"gone"` // removed from the outbox before they were read
}

// Same returns the number of rows that were left out because another row is about the same work.
func (t *Tally) Same() int {
	return t.Read - t.Written - t.Completed - t.Later - t.Parked - t.Gone
}

// AtEnd reports whether a replay has ended.
func (r *Replay) AtEnd() bool { return r.State == Done || r.State == Cancelled }
