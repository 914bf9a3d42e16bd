package sqswire

import (
	"slices"
	"strings"

	"tenaq/internal/work/sqslimits"
)

// A Shape is a struct with wire members: a request, a response, or a part of one. All shapes are
// pointers to structs of this package.
type Shape interface {
	// members shows every member to v, in the order in which a response sends them.
	members(v visitor)
}

// A visitor is one direction of one codec. Each method is for one kind of member; name is the
// member's name in the SQS model, which is its name in JSON. A decoder fills *m, an encoder reads
// it.
//
// The Query protocol has the same names for scalars. A list or a map has a second one there, query,
// which is the name of each of its elements: AttributeNames are AttributeName.1, AttributeName.2
// and so on. In an element of a map, key is the name of the key; the value is called Value.
//
// The first group is for members that may be absent, the second for members of responses.
type visitor interface {
	optString(name string, m *Opt[string])
	optInt(name string, m *Opt[int64])
	blob(name string, m *[]byte)
	strings(name, query string, m *[]string)
	pairs(name, query, key string, m *Pairs)
	attributes(name, query string, m *MessageAttributes)
	structs(name, query string, m list)
	listGiven(name, query string, m *bool)

	string(name string, m *string)
	int(name string, m *int64)
	bool(name string, m *bool)
	requiredStrings(name, query string, m *[]string)
}

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

// OnQueue is the queue that a request is about, part of most requests.
type OnQueue struct{ QueueURL Opt[string] }

// Queue returns the URL of the queue. Requests without this method are about no single queue, or
// name it in another way.
func (q *OnQueue) Queue() Opt[string] { return q.QueueURL }

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
	Name        string
	DataType    Opt[string]
	StringValue Opt[string]
	BinaryValue []byte // nil when absent

	// HasStringList and HasBinaryList tell that StringListValues or BinaryListValues holds at least
	// one element. SQS has never supported list values and refuses them, so the elements are not
	// kept. An empty list counts as absent, because some clients send one for a member their user
	// never set.
	HasStringList, HasBinaryList bool
}

func (a *MessageAttribute) members(v visitor) {
	v.optString("DataType", &a.DataType)
	v.optString("StringValue", &a.StringValue)
	v.blob("BinaryValue", &a.BinaryValue)
	v.listGiven("StringListValues", "StringListValue", &a.HasStringList)
	v.listGiven("BinaryListValues", "BinaryListValue", &a.HasBinaryList)
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

// A list is a slice of shapes without its type.
type list interface {
	len() int
	at(i int) Shape
	clear()     // makes the list empty but not absent
	add() Shape // appends a zero element
}

type sliceOf[E any, P interface {
	*E
	Shape
}] struct{ s *[]E }

func listOf[E any, P interface {
	*E
	Shape
}](s *[]E) list {
	return sliceOf[E, P]{s}
}

func (l sliceOf[E, P]) len() int       { return len(*l.s) }
func (l sliceOf[E, P]) at(i int) Shape { return P(&(*l.s)[i]) }
func (l sliceOf[E, P]) clear()         { *l.s = []E{} }

func (l sliceOf[E, P]) add() Shape {
	if len(*l.s) == 0 {
		*l.s = make([]E, 0, sqslimits.BatchMax) // a legal list never grows
	}
	var zero E
	*l.s = append(*l.s, zero)
	return P(&(*l.s)[len(*l.s)-1])
}
