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

func (o *oracle) shape(v any, s structure) {
	outer := o.tree
	o.tree = typed[map[string]any](o, v)
	s.visit(o)
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

func (o *oracle) optString(m *member, p *Opt[string]) {
	var want Opt[string]
	if v := o.tree[m.name]; v != nil {
		want = Some(o.text(v))
	}
	o.same(m.name, *p, want)
}

func (o *oracle) optInt(m *member, p *Opt[int64]) {
	var want Opt[int64]
	if v := o.tree[m.name]; v != nil {
		number := typed[json.Number](o, v)
		n, err := number.Int64()
		if err != nil {
			f, err := number.Float64()
			o.mistyped = o.mistyped || err != nil || f != math.Floor(f) || math.Abs(f) > 1<<63 || f == 1<<63
			n = int64(f)
		}
		want = Some(n)
	}
	o.same(m.name, *p, want)
}

func (o *oracle) blob(m *member, p *[]byte) {
	var want []byte
	if v := o.tree[m.name]; v != nil {
		text := typed[string](o, v)
		want, _ = base64.StdEncoding.DecodeString(text)
		o.mistyped = o.mistyped || base64.StdEncoding.EncodeToString(want) != text
	}
	o.same(m.name, *p, want)
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

func (o *oracle) strings(m *member, p *[]string) {
	var want []string
	if list := o.list(m.name); list != nil {
		want = []string{}
		for _, v := range list {
			want = append(want, o.text(v))
		}
	}
	o.same(m.name, *p, want)
}

func (o *oracle) pairs(m *member, p *Pairs) {
	var want Pairs
	if object, names := o.object(m.name); names != nil {
		want = Pairs{}
		for _, name := range names {
			want = append(want, Pair{name, o.text(object[name])})
		}
	}
	o.same(m.name, *p, want)
}

func (o *oracle) attributes(m *member, p *MessageAttributes) {
	object, names := o.object(m.name)
	o.same(m.name+" absent", *p == nil, names == nil)
	o.same(m.name+" length", len(*p), len(names))
	for i, name := range names {
		a := new(MessageAttribute)
		if !o.blind {
			a = &(*p)[i]
		}
		o.same("name", a.Name, name)
		o.shape(object[name], attributeOf(a))
	}
}

func (o *oracle) structs(m *member, l list) {
	list := o.list(m.name)
	o.same(m.name+" length", l.len(), len(list))
	for i, v := range list {
		if o.blind {
			l.add()
		}
		o.shape(v, l.at(i))
	}
}

func (o *oracle) listGiven(m *member, p *bool) {
	o.same(m.name, *p, len(o.list(m.name)) > 0)
}

func (o *oracle) string(m *member, _ *string) { panic(m.name + " is not in a request") }
func (o *oracle) int(m *member, _ *int64)     { panic(m.name + " is not in a request") }
func (o *oracle) bool(m *member, _ *bool)     { panic(m.name + " is not in a request") }
