package sqswire

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"testing"
)

// An oracle is a visitor that holds what encoding/json made of the same body, and compares every
// member of a shape with it. It knows the rules on types, too: mistyped tells that the body breaks
// one.
type oracle struct {
	t        *testing.T
	tree     map[string]any // the object of the shape being visited
	blind    bool           // look for the wrong types only, the shape is empty
	mistyped bool
}

func (o *oracle) shape(v any, s Shape) {
	outer := o.tree
	o.tree = typed[map[string]any](o, v)
	s.members(o)
	o.tree = outer
}

// typed returns v as a T, or notes that it is none.
func typed[T any](o *oracle, v any) T {
	typed, ok := v.(T)
	if !ok {
		o.mistyped = true
	}
	return typed
}

func (o *oracle) same(name string, got, want any) {
	if !o.blind && !reflect.DeepEqual(got, want) {
		o.t.Fatalf("%s: got %#v, want %#v", name, got, want)
	}
}

func (o *oracle) text(v any) string {
	switch v := v.(type) {
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return typed[string](o, v)
}

func (o *oracle) optString(name string, m *Opt[string]) {
	var want Opt[string]
	if v := o.tree[name]; v != nil {
		want = Some(o.text(v))
	}
	o.same(name, *m, want)
}

func (o *oracle) optInt(name string, m *Opt[int64]) {
	var want Opt[int64]
	if v := o.tree[name]; v != nil {
		number := typed[json.Number](o, v)
		n, err := number.Int64()
		if err != nil {
			f, err := number.Float64()
			o.mistyped = o.mistyped || err != nil || f != math.Floor(f) || math.Abs(f) > 1<<63 || f == 1<<63
			n = int64(f)
		}
		want = Some(n)
	}
	o.same(name, *m, want)
}

func (o *oracle) blob(name string, m *[]byte) {
	var want []byte
	if v := o.tree[name]; v != nil {
		text := typed[string](o, v)
		want, _ = base64.StdEncoding.DecodeString(text)
		o.mistyped = o.mistyped || base64.StdEncoding.EncodeToString(want) != text
	}
	o.same(name, *m, want)
}

// list returns the elements of a list that are not null; it is nil only when the list itself is.
func (o *oracle) list(name string) []any {
	if o.tree[name] == nil {
		return nil
	}
	list := []any{}
	for _, v := range typed[[]any](o, o.tree[name]) {
		if v != nil {
			list = append(list, v)
		}
	}
	return list
}

// object returns an object and the sorted names in it whose values are not null; they are nil only
// when the object itself is.
func (o *oracle) object(name string) (map[string]any, []string) {
	if o.tree[name] == nil {
		return nil, nil
	}
	object, names := typed[map[string]any](o, o.tree[name]), []string{}
	for name, v := range object {
		if v != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return object, names
}

func (o *oracle) strings(name, _ string, m *[]string) {
	var want []string
	if list := o.list(name); list != nil {
		want = []string{}
		for _, v := range list {
			want = append(want, o.text(v))
		}
	}
	o.same(name, *m, want)
}

func (o *oracle) pairs(name, _, _ string, m *Pairs) {
	var want Pairs
	if object, names := o.object(name); names != nil {
		want = Pairs{}
		for _, name := range names {
			want = append(want, Pair{name, o.text(object[name])})
		}
	}
	o.same(name, *m, want)
}

func (o *oracle) attributes(name, _ string, m *MessageAttributes) {
	object, names := o.object(name)
	o.same(name+" absent", *m == nil, names == nil)
	o.same(name+" length", len(*m), len(names))
	for i, name := range names {
		a := new(MessageAttribute)
		if !o.blind {
			a = &(*m)[i]
		}
		o.same("name", a.Name, name)
		o.shape(object[name], a)
	}
}

func (o *oracle) structs(name, _ string, m list) {
	list := o.list(name)
	o.same(name+" length", m.len(), len(list))
	for i, v := range list {
		if o.blind {
			m.add()
		}
		o.shape(v, m.at(i))
	}
}

func (o *oracle) listGiven(name, _ string, m *bool) {
	o.same(name, *m, len(o.list(name)) > 0)
}

func (o *oracle) string(name string, m *string)               { panic(name + " is not in a request") }
func (o *oracle) int(name string, m *int64)                   { panic(name + " is not in a request") }
func (o *oracle) bool(name string, m *bool)                   { panic(name + " is not in a request") }
func (o *oracle) requiredStrings(name, _ string, m *[]string) { panic(name + " is not in a request") }
