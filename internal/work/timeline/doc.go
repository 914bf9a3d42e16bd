// Package timeline assembles the life of a piece of work from the known facts: the stays of its
// messages in queues, the claims on its key, and the registrations of its producers.
//
// What it guarantees:
//
//   - Every event comes from something that was stored. What is not known, such as the times of
//     receives that no consumer ended with a reason, is an event without a time. [TRACE-5]
//   - The same facts give the same events, in the same order, in whichever order they were found.
//   - What is known twice, such as a move that both queues remember, is one event.
//
// It leaves reading queues and histories, and the rights to see them, to others.
package timeline

import (
	"slices"
	"time"
)

// What happened to a message, beside the outcomes of its history. [HIST-2]
const (
	Sent      = "sent"
	Received  = "received"
	Returned  = "returned" // given back by its consumer, with a verdict
	Dead      = "dead_lettered"
	Moved     = "moved"
	Parked    = "parked"
	Arrived   = "arrived" // as a dead letter, or parked: which of the two is not known
	Replayed  = "replayed"
	Abandoned = "lease_over" // of a claim: its holder has not renewed it
)

// An Event is something that happened to a piece of work.
type Event struct {
	At     *time.Time `json:"at" doc:"null if it is not known"`
	After  *time.Time `json:"after,omitempty" doc:"it was not before this, where at is not known"`
	Before *time.Time `json:"before,omitempty" doc:"it was not after this, where at is not known"`

	Clock string `json:"clock,omitempty" enum:"client,version" doc:"where at comes from, if not from the server: a client wrote it; or the version of a record says when that was written"`

	What string `json:"what" enum:"registered,send_failed,sent,received,returned,dead_lettered,arrived,moved,parked,replaced,replayed,removed,deleted,expired,claimed,completed,failed,exhausted,released,awaiting_decision,lease_over"`

	Queue      string `json:"queue,omitempty" doc:"where it happened; absent if it is not known"`
	To         string `json:"to,omitempty" doc:"the queue to which a message moved"`
	Message    string `json:"messageId,omitempty"`
	New        string `json:"newMessageId,omitempty" doc:"of the message that it became"`
	Lineage    string `json:"lineageId,omitempty"`
	Generation uint64 `json:"generation"`
	Fence      uint64 `json:"fence,omitempty" doc:"of the delivery, or of the claim"`

	Receive uint32 `json:"receive,omitempty" doc:"receive count of the message"`
	Count   uint64 `json:"count,omitempty" doc:"how many receives, where their times are not known"`
	Verdict string `json:"verdict,omitempty" enum:"retry,poison,release,returned"`
	Class   string `json:"class,omitempty"`
	Text    string `json:"text,omitempty" doc:"why"`

	// Of a message that a client sent on, as it wrote into the attribute tenaq.
	From     string `json:"from,omitempty" doc:"queue of which it is a dead letter, or was one"`
	Of       string `json:"ofMessageId,omitempty" doc:"the first message of the work"`
	Redrives int    `json:"redrives,omitempty"`

	Key      string `json:"key,omitempty" doc:"of the claim or the registration"`
	Ledger   string `json:"ledger,omitempty"`
	Owner    string `json:"owner,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
}

// when is the time by which an event is in its place: its own, or the earliest possible one.
func (e *Event) when() (at time.Time, known bool) {
	switch {
	case e.At != nil:
		return *e.At, true
	case e.After != nil:
		return *e.After, false
	}
	return time.Time{}, false
}

// Merge puts events in the order of time, and drops those that are there twice. An event without a
// time comes after what it is known to have come after. What happened in the same millisecond stays
// in the order that it has.
func Merge(events []Event) []Event {
	slices.SortStableFunc(events, func(x, y Event) int {
		a, known := x.when()
		b, knownToo := y.when()
		switch {
		case a.Equal(b) && known != knownToo && known:
			return -1
		case a.Equal(b) && known != knownToo:
			return 1
		}
		return a.Compare(b)
	})
	sent := make(map[string]bool) // known from a message
	for i := range events {
		if e := &events[i]; e.What == Sent && e.Clock == "" {
			sent[e.Message] = true
		}
	}
	met := make(map[identity]bool)
	return slices.DeleteFunc(events, func(e Event) bool {
		i := e.identity()
		again := met[i] || e.What == Sent && e.Clock != "" && sent[e.Message]
		met[i] = true
		return again
	})
}

// An identity is an event as it can be compared.
type identity struct {
	Event
	at, after, before time.Time
}

func (e *Event) identity() identity {
	i := identity{*e, timeOf(e.At), timeOf(e.After), timeOf(e.Before)}
	i.At, i.After, i.Before = nil, nil, nil
	return i
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// at is a time in Unix milliseconds; nil for never.
func at(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}
