package claims

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"tenaq/internal/work/plainjson"
	"tenaq/records"
)

// A State is what the ledger says about a key.
type State string

// The states of a key that has an entry.
const (
	// Held: a holder has the claim, or died with it.
	Held State = "held"

	// Completed: the work is done, and is not done again under this key.
	Completed State = "completed"

	// Failed: the last holder failed. The next one may try.
	Failed State = "failed"

	// Exhausted: the last holder failed, and its message has used up its attempts. Another message,
	// with which a redrive brings the work back, may claim the key. Its attempts start at one.
	Exhausted State = "exhausted"

	// Released: the last holder gave the claim back before it began. The next one may try.
	Released State = "released"

	// Parked: a holder was lost, and the policy lets a person find out how far it came.
	Parked State = "parked"

	// Unreadable: the record is not an entry, or one of a later version. Only List and Due return
	// it, with the reason; other methods return an error. No entry is stored in this state.
	Unreadable State = "unreadable"
)

// An Entry is what the ledger knows about a key.
type Entry struct {
	Key      string
	State    State
	Owner    string // the last holder, or the person who reopened or settled the key
	Fence    uint64 // of that claim or that decision
	Attempts int    // how often a holder has begun, not counting released claims
	Lease    time.Duration
	Result   []byte // of completed work
	// why it failed, was parked, reopened or settled, or cannot be read; of a held claim, why the
	// previous one ended
	Reason  string
	Message string // Note.Message of the last claim
	Memo    []byte // Note.Memo of the first claim

	// Age is the time since the last write, which includes renewals; records.AgeUnknown if the
	// store has no clock.
	Age time.Duration

	Version records.Version // of the record

	// Undoable says that the entry is a decision of a person that Ledger.Undo can take back.
	Undoable bool
}

// Remaining returns the rest of the lease of a held entry, zero if it has expired. Known is false
// if the store has no clock.
func (e *Entry) Remaining() (left time.Duration, known bool) {
	if e.State != Held {
		return 0, true
	}
	if e.Age == records.AgeUnknown {
		return e.Lease, false
	}
	return max(0, e.Lease-e.Age), true
}

// Stranded reports whether no holder works on the key although the work has not ended: it was
// released, has failed, or has a lease that is known to have expired. Usually the next delivery of
// the message continues the work.
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

// entryVersion is the version of the format of entries. Entries of other versions are refused.
const entryVersion = 1

// stored is the format of an entry in a record: JSON, so that people and other programs can read
// it.
type stored struct {
	Version int    `json:"v"`
	State   State  `json:"state"`
	Owner   string `json:"owner,omitempty"`
	Nonce   string `json:"nonce,omitempty"` // of the write, by which its author recognizes it
	// absent in a write that takes a new fence: the fence is then the version of the record
	Fence    uint64 `json:"fence,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	LeaseMS  int64  `json:"lease_ms,omitempty"`
	Result   []byte `json:"result,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	Memo     []byte `json:"memo,omitempty"`
	// an earlier holder was lost; how far it came is unknown
	Unknown bool `json:"unknown,omitempty"`
	// what a person has decided about, for Ledger.Undo; absent if that is impossible
	Before *before `json:"before,omitempty"`
}

// before is what a decision changes in an entry.
type before struct {
	State    State  `json:"state"`
	Owner    string `json:"owner,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	Result   []byte `json:"result,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Unknown  bool   `json:"unknown,omitempty"`
}

// encode returns the entry as encoding/json would, in a fraction of its time.
func (s *stored) encode() []byte {
	s.Version = entryVersion
	size := len(s.Owner) + len(s.Reason) + len(s.Message) +
		base64.StdEncoding.EncodedLen(len(s.Result)+len(s.Memo)+3)
	b := strconv.AppendInt(append(make([]byte, 0, size+200), `{"v":`...), entryVersion, 10)
	text := func(name, value string) {
		if value != "" {
			b = plainjson.AppendString(append(b, name...), value)
		}
	}
	number := func(name string, value uint64) {
		if value != 0 {
			b = strconv.AppendUint(append(b, name...), value, 10)
		}
	}
	data := func(name string, value []byte) {
		if len(value) > 0 {
			b = plainjson.AppendBytes(append(b, name...), value)
		}
	}
	b = plainjson.AppendString(append(b, `,"state":`...), string(s.State))
	text(`,"owner":`, s.Owner)
	text(`,"nonce":`, s.Nonce)
	number(`,"fence":`, s.Fence)
	number(`,"attempts":`, uint64(s.Attempts))
	number(`,"lease_ms":`, uint64(s.LeaseMS))
	data(`,"result":`, s.Result)
	text(`,"reason":`, s.Reason)
	text(`,"message":`, s.Message)
	data(`,"memo":`, s.Memo)
	if s.Unknown {
		b = append(b, `,"unknown":true`...)
	}
	if s.Before != nil { // seldom
		text, _ := json.Marshal(s.Before) // which has nothing that cannot be written
		b = append(append(b, `,"before":`...), text...)
	}
	return append(b, '}')
}

// decode reads the entry of a record. Its error is ErrUnreadable.
func decode(r records.Record) (stored, error) {
	var s stored
	if err := json.Unmarshal(r.Value, &s); err != nil {
		return s, unreadable{fmt.Errorf("the record %q is not a claim: %w: keep claims under a prefix of their own", r.Key, err)}
	}
	if s.Version != entryVersion {
		return s, unreadable{fmt.Errorf("the claim %q has format %d and this program knows %d: use the version of the program that wrote it",
			r.Key, s.Version, entryVersion)}
	}
	switch s.State {
	case Held, Completed, Failed, Exhausted, Released, Parked:
	default:
		return s, unreadable{fmt.Errorf("the claim %q is in state %q, which this program does not know: use the version of the program that wrote it",
			r.Key, s.State)}
	}
	if s.Fence == 0 {
		s.Fence = uint64(r.Version)
	}
	return s, nil
}

// sameEnd reports whether two entries of one claim end it in the same way.
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
		Undoable: s.Before != nil,
	}
}

// EffectKey returns the key under which an effect happens once: the idempotency key for a payment
// provider, the name of a file, the key of a claim. Generation is 0, except in a deliberate replay
// of completed work, which needs another key because it is to happen again. A redrive of failed
// work keeps its generation, so a card that was charged before a crash is not charged again after
// it.
//
// A later generation appends # and its number to the key, so keys of other work must not end like
// that.
func EffectKey(key string, generation int) string {
	if generation == 0 {
		return key
	}
	return key + "#" + strconv.Itoa(generation)
}
