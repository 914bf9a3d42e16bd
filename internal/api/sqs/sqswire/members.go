package sqswire

import (
	"cmp"
	"reflect"
	"strings"

	"tenaq/internal/work/sqslimits"
)

// A Shape is a pointer to a struct of this package: a request, a response, or nil for a response
// without members. Its fields are its members on the wire, in the order in which a response sends
// them. The tag wire says what the field does not:
//
//	wire:"NAME,ELEMENT,KEY,OPTION"
//
// NAME is the member's name in the SQS model, which is its name in JSON; by default it is the name
// of the field. The Query protocol has the same names for scalars. A list or a map has a second one
// there, ELEMENT, which names each of its elements: AttributeNames are AttributeName.1,
// AttributeName.2 and so on. In an element of a map, KEY names the key, and the value is called
// Value. The options are:
//
//   - required: a response sends the list also when it is empty
//   - given: the field is a bool that says whether the list has elements
//
// A field with the tag "-" is not on the wire.
type Shape any

// A member is a field of a shape.
type member struct {
	name    string
	listed  string // its name in the JSON of the Query protocol
	element string
	key     string

	required, given bool
	direct          bool // its struct is a direct shape

	index    []int    // of the field, through embedded structs
	elements []member // of a list of structs
}

// A visitor is one direction of one codec. Each method is for one type of field. A decoder fills
// *p, and an encoder reads it.
type visitor interface {
	optString(m *member, p *Opt[string])
	optInt(m *member, p *Opt[int64])
	string(m *member, p *string)
	int(m *member, p *int64)
	bool(m *member, p *bool)
	blob(m *member, p *[]byte)
	strings(m *member, p *[]string)
	pairs(m *member, p *Pairs)
	attributes(m *member, p *MessageAttributes)
	structs(m *member, l list)
	listGiven(m *member, p *bool)
}

// A structure is a struct with its members.
type structure struct {
	value   reflect.Value
	members []member
}

// structureOf returns the struct of a shape. That of nil has no members.
func structureOf(s Shape) structure {
	if s == nil {
		return structure{}
	}
	v := reflect.ValueOf(s).Elem()
	return structure{v, membersOf(v.Type())}
}

var attributeMembers = findMembers(reflect.TypeFor[MessageAttribute]())

func attributeOf(a *MessageAttribute) structure {
	return structure{reflect.ValueOf(a).Elem(), attributeMembers}
}

// A direct shape shows its members itself, because finding each through package reflect would take
// longer than writing it. The structs of received messages do.
type direct interface {
	show(members []member, v visitor)
}

func (s structure) visit(v visitor) {
	if len(s.members) > 0 && s.members[0].direct {
		s.value.Addr().Interface().(direct).show(s.members, v)
		return
	}
	for i := range s.members {
		s.show(&s.members[i], v)
	}
}

func (s structure) show(m *member, v visitor) {
	field := s.value
	for _, i := range m.index {
		field = field.Field(i)
	}
	switch p := field.Addr().Interface().(type) {
	case *Opt[string]:
		v.optString(m, p)
	case *Opt[int64]:
		v.optInt(m, p)
	case *string:
		v.string(m, p)
	case *ErrorCode:
		v.string(m, (*string)(p))
	case *int64:
		v.int(m, p)
	case *bool:
		if m.given {
			v.listGiven(m, p)
		} else {
			v.bool(m, p)
		}
	case *[]byte:
		v.blob(m, p)
	case *[]string:
		v.strings(m, p)
	case *Pairs:
		v.pairs(m, p)
	case *MessageAttributes:
		v.attributes(m, p)
	default:
		v.structs(m, list{field, m.elements})
	}
}

// known has the members of the shapes of frequent requests. Those of others are found each time.
var known = func() map[reflect.Type][]member {
	all := make(map[reflect.Type][]member)
	for _, s := range []Shape{
		SendMessageRequest{}, SendMessageResponse{},
		SendMessageBatchRequest{}, SendMessageBatchResponse{},
		ReceiveMessageRequest{}, ReceiveMessageResponse{},
		DeleteMessageRequest{}, DeleteMessageBatchRequest{}, DeleteMessageBatchResponse{},
		ChangeMessageVisibilityRequest{}, ChangeMessageVisibilityBatchRequest{},
		ChangeMessageVisibilityBatchResponse{}, Empty{},
	} {
		t := reflect.TypeOf(s)
		all[t] = findMembers(t)
	}
	return all
}()

func membersOf(t reflect.Type) []member {
	if found, ok := known[t]; ok {
		return found
	}
	return findMembers(t)
}

// findMembers returns the members of a type of struct, those of embedded structs in their place.
func findMembers(t reflect.Type) (all []member) {
	_, isDirect := reflect.Zero(reflect.PointerTo(t)).Interface().(direct)
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			for _, m := range findMembers(f.Type) {
				m.index = append([]int{i}, m.index...)
				all = append(all, m)
			}
		} else if tag := f.Tag.Get("wire"); tag != "-" {
			m := memberOf(f, strings.Split(tag+",,,", ","))
			m.direct = isDirect
			all = append(all, m)
		}
	}
	return all
}

func memberOf(f reflect.StructField, tag []string) member {
	m := member{name: cmp.Or(tag[0], f.Name), element: tag[1], key: tag[2],
		required: tag[3] == "required", given: tag[3] == "given", index: f.Index}
	m.listed = m.name
	if t := f.Type; t.Kind() == reflect.Slice && t.Name() == "" { // a list, and not a map
		if t.Elem().Kind() == reflect.Struct {
			m.elements = findMembers(t.Elem())
		}
		// One that is named after its elements begins in lower case there, as the messages of a
		// receive and the queueUrls of a listing do.
		if m.name == m.element+"s" {
			m.listed = strings.ToLower(m.name[:1]) + m.name[1:]
		}
	}
	return m
}

// A list is a slice of structs without its type.
type list struct {
	slice    reflect.Value
	elements []member
}

func (l list) len() int           { return l.slice.Len() }
func (l list) at(i int) structure { return structure{l.slice.Index(i), l.elements} }

// clear makes the list empty but not absent.
func (l list) clear() { l.slice.Set(reflect.MakeSlice(l.slice.Type(), 0, 0)) }

func (l list) add() structure {
	n := l.len()
	if n == 0 {
		// a legal list never grows
		l.slice.Set(reflect.MakeSlice(l.slice.Type(), 0, sqslimits.BatchMax))
	}
	l.slice.Grow(1)
	l.slice.SetLen(n + 1)
	return l.at(n)
}
