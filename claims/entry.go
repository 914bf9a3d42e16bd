package claims

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"tenaq/records"
)

// A State is what the ledger says about a key.
type State string

// The states of a key that has an entry.
const (
	// Held: a holder has the claim, or had it and died.
	Held State = "held"

	// Completed: the work is done. It is never done again under this key.
	Completed State = "completed"

	// Failed: the last holder said that it did not succeed. The next one may try.
	Failed State = "failed"

	// Exhausted: the last holder said that it did not succeed and that its message has had its
	// attempts. Another message, by which a redrive brings the work back, may claim the key, and
	// the attempts begin at one.
	Exhausted State = "exhausted"

	// Released: the last holder gave the claim back without having begun. The next one may try.
	Released State = "released"

	// Parked: a holder was lost, and the policy says that a person has to find out how far it came.
	Parked State = "parked"

	// Unreadable: the record is no entry, or one of a later version. Only List says so, with the
	// reason and nothing else about it; every other method returns an error. Nothing is stored with
	// this state.
	Unreadable State = "unreadable"
)

// An Entry is what the ledger knows about a key.
type Entry struct {
	Key      string
	State    State
	Owner    string // the last holder, or the person that reopened or settled it
	Fence    uint64 // of that claim, or of that word of a person
	Attempts int    // how often a holder has begun, released claims not counted
	Lease    time.Duration
	Result   []byte // of completed work
	// why it failed, was parked, reopened or settled, or cannot be read; of a claim, why the one
	// before did
	Reason  string
	Message string // Note.Message of the last claim
	Memo    []byte // Note.Memo of the first claim

	// Age is how long ago the entry was written last, which a holder does with every renewal;
	// records.AgeUnknown when the store has no clock.
	Age time.Duration

	// Version is that of the record.
	Version records.Version
}

// Remaining is how long the lease of a held entry still runs; zero when it is over. Known is false
// when the store has no clock.
func (e *Entry) Remaining() (left time.Duration, known bool) {
	if e.State != Held {
		return 0, true
	}
	if e.Age == records.AgeUnknown {
		return e.Lease, false
	}
	return max(0, e.Lease-e.Age), true
}

// Stranded reports whether no holder works on the key and none has brought it to an end: it was
// released, has failed, or has a lease that is known to be over. Usually the next delivery of the
// message goes on.
func (e *Entry) Stranded() bool {
	switch e.State {
	case Released, Failed:
		return true
	case Held:
		left, known := e.Remaining()
		return known && left == 0
	}
	return false
}

// entryVersion is the version of the form of an entry. Entries of other versions are refused, never
// guessed at.
const entryVersion = 1

// stored is the form of an entry in a record: JSON, so that people and other programs can read it.
type stored struct {
	Version int    `json:"v"`
	State   State  `json:"state"`
	Owner   string `json:"owner,omitempty"`
	Nonce   string `json:"nonce,omitempty"` // of the write, by which its author knows it again
	// absent in a write that takes a new one: its own version is it
	Fence    uint64 `json:"fence,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	LeaseMS  int64  `json:"lease_ms,omitempty"`
	Result   []byte `json:"result,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	Memo     []byte `json:"memo,omitempty"`
	// an earlier holder was lost, and it is unknown how far it came
	Unknown bool `json:"unknown,omitempty"`
}

func (s *stored) encode() []byte {
	s.Version = entryVersion
	b, _ := json.Marshal(s) // nothing in it can fail to be encoded
	return b
}

// decode reads the entry of a record.
func decode(r records.Record) (stored, error) {
	var s stored
	if err := json.Unmarshal(r.Value, &s); err != nil {
		return s, fmt.Errorf("the record %q is no claim: %w: keep claims under a prefix of their own", r.Key, err)
	}
	if s.Version != entryVersion {
		return s, fmt.Errorf("the claim %q has form %d, this program knows %d: use the version of the program that wrote it",
			r.Key, s.Version, entryVersion)
	}
	switch s.State {
	case Held, Completed, Failed, Exhausted, Released, Parked:
	default:
		return s, fmt.Errorf("the claim %q is in state %q, which this program does not know: use the version of the program that wrote it",
			r.Key, s.State)
	}
	if s.Fence == 0 {
		s.Fence = uint64(r.Version)
	}
	return s, nil
}

// sameEnd reports whether two entries of one claim end it alike.
func (s *stored) sameEnd(t *stored) bool {
	return s.State != Held && s.State == t.State && bytes.Equal(s.Result, t.Result) &&
		s.Reason == t.Reason
}

func (l *Ledger) entryOf(r records.Record, s *stored) Entry {
	return Entry{
		Key:      r.Key[len(l.cfg.Prefix):],
		State:    s.State,
		Owner:    s.Owner,
		Fence:    s.Fence,
		Attempts: s.Attempts,
		Lease:    time.Duration(s.LeaseMS) * time.Millisecond,
		Result:   s.Result,
		Reason:   s.Reason,
		Message:  s.Message,
		Memo:     s.Memo,
		Age:      r.Age,
		Version:  r.Version,
	}
}

// EffectKey is the key under which an effect happens once: the idempotency key for a payment
// provider, the name of a file, the key of a claim. Generation is 0 for all work but an intended
// replay of completed work, which is to happen again and so needs another key. A redrive of failed
// work keeps its generation: a card that was charged before the crash is not charged again after
// it.
//
// The key of a generation is the key, a # and the number, so keys of other work must not end like
// that.
func EffectKey(key string, generation int) string {
	if generation == 0 {
		return key
	}
	return key + "#" + strconv.Itoa(generation)
}
