package sqswire

import (
	"slices"
	"strings"
)

// An Opt is a scalar member that knows whether it was given. Rules of SQS distinguish a missing
// member from an empty or zero one: MaxNumberOfMessages=0 is refused while its absence means 1.
//
// Members that are lists or maps need no Opt: nil means absent and a list of length zero means
// given empty.
type Opt[T any] struct {
	Value T
	Set   bool
}

// Some returns v as a member that is given.
func Some[T any](v T) Opt[T] { return Opt[T]{Value: v, Set: true} }

// Or returns the value of the member, or def when it was not given.
func (o Opt[T]) Or(def T) T {
	if o.Set {
		return o.Value
	}
	return def
}

// Pairs is a map from string to string on the wire: queue attributes, tags, or the system
// attributes of a received message. Decoders yield it sorted by name, each name once.
type Pairs []Pair

// A Pair is one entry of Pairs: an attribute and its value, or the key and the value of a tag.
type Pair struct {
	Name, Value string
}

// Get returns the value of name; ok is false when there is none.
func (p Pairs) Get(name string) (value string, ok bool) {
	for i := range p {
		if p[i].Name == name {
			return p[i].Value, true
		}
	}
	return "", false
}

// MessageAttributes is a map from names to message attributes, of the user or of the system.
// Decoders yield it sorted by name, each name once.
type MessageAttributes []MessageAttribute

// A MessageAttribute is a name with a typed value. Which of the members may or must be given is not
// this package's business.
type MessageAttribute struct {
	Name        string `wire:"-"`
	DataType    Opt[string]
	StringValue Opt[string]
	BinaryValue []byte // nil when absent

	// HasStringList and HasBinaryList tell that StringListValues or BinaryListValues holds at least
	// one element. SQS has never supported list values and refuses them, so the elements are not
	// kept. An empty list counts as absent, because some clients send one for a member their user
	// never set.
	HasStringList bool `wire:"StringListValues,StringListValue,,given"`
	HasBinaryList bool `wire:"BinaryListValues,BinaryListValue,,given"`
}

func (a *MessageAttribute) show(members []member, v visitor) {
	v.optString(&members[0], &a.DataType)
	v.optString(&members[1], &a.StringValue)
	v.blob(&members[2], &a.BinaryValue)
	v.listGiven(&members[3], &a.HasStringList)
	v.listGiven(&members[4], &a.HasBinaryList)
}

func comparePairs(a, b Pair) int                  { return strings.Compare(a.Name, b.Name) }
func compareAttributes(a, b MessageAttribute) int { return strings.Compare(a.Name, b.Name) }

// sorted returns s in order. When it is not, the result is a copy: the caller of an encoder keeps
// its order.
func sorted[S ~[]E, E any](s S, compare func(a, b E) int) S {
	if slices.IsSortedFunc(s, compare) {
		return s
	}
	s = slices.Clone(s)
	slices.SortFunc(s, compare)
	return s
}
