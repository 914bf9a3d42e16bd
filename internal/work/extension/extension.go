// Package extension is the list of what a queue can have that SQS does not have. A tag of the queue
// switches each on, because every SDK, the AWS command line and Terraform can set a tag.
//
// It guarantees that there is one list. The server checks tags with it, and tables, the command
// line and the HTTP API explain tags with it. What the server does about a tag is left to package
// engine.
package extension

import (
	"strconv"
	"strings"
)

// Prefix begins the keys of these tags. SQS gives no meaning to any key. [TAG-10]
const Prefix = "tenaq:"

// The keys.
const (
	History = Prefix + "history"
)

// An Extension is what one tag switches on.
type Extension struct {
	Tag      string
	Values   string // what a value may be, for tables
	Example  string
	Does     string // what it switches on, for tables: a sentence
	Rules    string // of docs/semantics, for tables
	FIFOOnly bool   // standard queues cannot have it, for the reason that the table gives

	must string // what a value must be, for a refusal
	read func(value string, s *Set) bool
	says func(s *Set) string // what a valid value switches on, in a few words
}

// All are the extensions there are, in order of their tags.
var All = []Extension{
	{
		Tag: History, Example: "7d/1GiB",
		Values: "an age from `1m` to `3650d`, a size from `1MiB` to `1024TiB`, or both",
		Does:   "Messages that have ended are kept, with how they ended.",
		Rules:  "HIST-1 to HIST-6",
		must: "Must be an age from 1m to 3650d, such as 7d, a size from 1MiB to 1024TiB, " +
			"such as 1GiB, or both, such as 7d/1GiB.",
		read: readHistory, says: sayHistory,
	},
}

// A Set is what the tags of a queue switch on. Zero values are off.
type Set struct {
	History Bounds
}

// find returns the extension that a tag switches on.
func find(tag string) (x *Extension, ok bool) {
	for i := range All {
		if All[i].Tag == tag {
			return &All[i], true
		}
	}
	return nil, false
}

// Check returns why a queue cannot have a tag whose key has the prefix; empty if it can.
// OfValue says whether the value is the reason. [TAG-10]
func Check(tag, value string, fifo bool) (reason string, ofValue bool) {
	x, ok := find(tag)
	switch {
	case !ok:
		return "This server has no extension named by the tag " + tag + "; leave the tag out.", false
	case !x.read(value, new(Set)):
		return x.must, true
	case x.FIFOOnly && !fifo:
		return "The tag " + tag + " is for FIFO queues; leave the tag out.", false
	}
	return "", false
}

// Add adds what a tag switches on. Other tags, and what Check refuses, switch nothing on.
func (s *Set) Add(tag, value string) {
	if !strings.HasPrefix(tag, Prefix) {
		return
	}
	if x, ok := find(tag); ok {
		with := *s
		if x.read(value, &with) {
			*s = with
		}
	}
}

// Explain says in a few words what a tag switches on; empty for a tag that switches nothing on.
func Explain(tag, value string) string {
	x, ok := find(tag)
	if !ok {
		return ""
	}
	var s Set
	if !x.read(value, &s) {
		return ""
	}
	return x.says(&s)
}

// measure reads a whole number with a unit; zero and false if it is none, or not within its bounds.
func measure(text string, units []unit, least, most int64) (int64, bool) {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	n, err := strconv.ParseInt(digits, 10, 64)
	for _, u := range units {
		if u.name == text[len(digits):] && err == nil && n >= 0 && n <= most/u.size &&
			n*u.size >= least {
			return n * u.size, true
		}
	}
	return 0, false
}

// A unit of a value, the largest first.
type unit struct {
	name string
	size int64
}

// inUnits writes a number with the largest unit that leaves nothing over.
func inUnits(n int64, units []unit) string {
	for _, u := range units {
		if n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
