package v1

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"tenaq/internal/api/sqs/sqswire"
)

// checkMembers refuses an object with a member that its type does not have under exactly this name,
// and one that has a member twice. Encoding/json takes Queue for queue and the last of two, so that
// a proxy or a person that reads the body would see another request. The body is valid JSON. [V1-3]
func checkMembers(body []byte, t reflect.Type) error {
	r := memberReader{rest: body}
	r.value(t)
	return r.err
}

// A memberReader reads the names of members in valid JSON. After an error it reads nothing more.
type memberReader struct {
	rest []byte
	err  error
}

// next skips white space and what separates values, and returns the next byte; 0 at the end.
func (r *memberReader) next() byte {
	r.rest = bytes.TrimLeft(r.rest, " \t\r\n,:")
	if len(r.rest) == 0 || r.err != nil {
		return 0
	}
	return r.rest[0]
}

// value reads a value of a type; nil for any.
func (r *memberReader) value(t reflect.Type) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch r.next() {
	case '{':
		r.object(t)
	case '[':
		if r.rest = r.rest[1:]; t != nil {
			t = elementOf(t, reflect.Slice, reflect.Array)
		}
		for c := r.next(); c != ']' && c != 0; c = r.next() {
			r.value(t)
		}
		r.skip()
	case '"':
		r.quoted()
	default: // a number, true, false or null
		end := bytes.IndexAny(r.rest, ",]} \t\r\n")
		if end < 0 {
			end = len(r.rest)
		}
		r.rest = r.rest[end:]
	}
}

func (r *memberReader) skip() { r.rest = r.rest[min(1, len(r.rest)):] }

// quoted reads a string, and returns it with its quotes.
func (r *memberReader) quoted() []byte {
	for i := 1; i < len(r.rest); i++ {
		switch r.rest[i] {
		case '\\':
			i++
		case '"':
			text := r.rest[:i+1]
			r.rest = r.rest[i+1:]
			return text
		}
	}
	r.rest = nil
	return nil
}

// object reads an object. A type without names, such as that of a map, has any.
func (r *memberReader) object(t reflect.Type) {
	var known map[string]reflect.Type
	var element reflect.Type
	if t != nil {
		known, element = namesOf(t), elementOf(t, reflect.Map)
	}
	seen := make(map[string]bool)
	r.skip()
	for c := r.next(); c != '}' && c != 0; c = r.next() {
		var name string
		_ = json.Unmarshal(r.quoted(), &name) // it is valid
		of, ok := known[name]
		switch {
		case known != nil && !ok:
			r.err = errMember(name)
		case seen[name]:
			r.err = sqswire.Errorf(sqswire.InvalidParameterValue,
				"The member %s is given more than once.", name)
		case known == nil:
			of = element
		}
		seen[name] = true
		r.value(of)
	}
	r.skip()
}

// elementOf is the type of the elements of a type, if that is of one of some kinds; else nil.
func elementOf(t reflect.Type, kinds ...reflect.Kind) reflect.Type {
	for _, kind := range kinds {
		if t.Kind() == kind {
			return t.Elem()
		}
	}
	return nil
}

var names sync.Map // of reflect.Type to map[string]reflect.Type

// namesOf returns the members of a struct with their types; nil for another type, and for one that
// reads itself.
func namesOf(t reflect.Type) map[string]reflect.Type {
	if t.Kind() != reflect.Struct || reads[json.Unmarshaler](t) ||
		reads[encoding.TextUnmarshaler](t) {
		return nil
	}
	if known, ok := names.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	known := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" { // every member has a tag
			known[name] = f.Type
		}
	}
	names.Store(t, known)
	return known
}

func reads[I any](t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[I]())
}
