package engine

import (
	"net/url"
	"strconv"
	"strings"

	"tenaq/internal/engine/row"
)

// Workers and redrivers send a message again as a new one: into a dead-letter queue, out of it, or
// into a parking lot. One attribute, which internal/work/trail documents, carries what they know of
// the work. The engine reads when the work was first sent [METRIC-24]; for tasks that select by it,
// why the message failed; and for a history the key of the work [HIST-7].

const (
	trailAttribute = "tenaq"
	trailVersion   = "v=1"
	trailFirstSent = "first-sent="
	trailKey       = "key="
)

// firstSentMost bounds how long before its own send a message may claim that its work was first
// sent, in milliseconds.
const firstSentMost = 365 * 24 * 3600 * 1000

// firstSentOf returns when the work of a message was first sent, in Unix milliseconds, as its
// attributes claim; zero if they do not. Drafts call it, so the writer never parses an attribute.
func firstSentOf(attributes []Attribute) int64 {
	at, err := strconv.ParseInt(trailField(attributes, trailFirstSent), 10, 64)
	if err != nil {
		return 0
	}
	return max(at, 0)
}

// trailField returns a field of the attribute, as it is written there; empty if it has none.
func trailField(attributes []Attribute, name string) string {
	for i := range attributes {
		a := &attributes[i]
		if a.Name != trailAttribute || row.IsBinary(a.Type) {
			continue
		}
		fields, ok := strings.CutPrefix(a.String, trailVersion+"&")
		if !ok {
			return "" // another version may mean something else
		}
		for field := range strings.SplitSeq(fields, "&") {
			if text, ok := strings.CutPrefix(field, name); ok {
				return text
			}
		}
		return ""
	}
	return ""
}

// firstSent is when the work of a message that is sent now was first sent. Clients write the
// attribute, so its claim is bounded: not later than now, and at most a year ago.
func (d *Draft) firstSent(now int64) int64 {
	if d.claimedSent == 0 {
		return now
	}
	return min(max(d.claimedSent, now-firstSentMost, 0), now)
}

// written returns a field of a dead letter, such as its reason or its source, as it was written by
// the worker that sent the message to its dead-letter queue.
func written(attributes []Attribute, field string) string {
	for i := range attributes {
		if a := &attributes[i]; a.Name == trailAttribute && !row.IsBinary(a.Type) {
			fields, err := url.ParseQuery(a.String)
			if err == nil && fields.Get("v") == "1" {
				return fields.Get(field)
			}
			return ""
		}
	}
	return ""
}
