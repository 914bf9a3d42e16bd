package cloudwatch

import (
	"reflect"
	"time"

	"tenaq/internal/api/wire"
)

// treeOf turns the struct of an answer into a tree. Members without a value are left out: nil
// pointers, nil slices, and empty strings but those that are required. A slice that is empty and
// not nil is an empty list.
func treeOf(v reflect.Value) wire.Tree {
	switch {
	case v.Type() == timeType:
		return v.Interface().(time.Time)
	case v.Kind() == reflect.Pointer:
		return treeOf(v.Elem())
	case v.Kind() == reflect.Struct:
		o := wire.Object{}
		for _, f := range fields(v.Type()) {
			if m := v.Field(f.index); f.required || !absent(m) {
				o = append(o, wire.Member{Name: f.name, Tree: treeOf(m)})
			}
		}
		return o
	case v.Kind() == reflect.Slice:
		l := make(wire.List, v.Len())
		for i := range l {
			l[i] = treeOf(v.Index(i))
		}
		return l
	case v.Kind() == reflect.String:
		return v.String()
	case v.Kind() == reflect.Int64:
		return v.Int()
	case v.Kind() == reflect.Float64:
		return v.Float()
	case v.Kind() == reflect.Bool:
		return v.Bool()
	}
	panic("a field of type " + v.Type().String())
}

func absent(v reflect.Value) bool {
	switch {
	case v.Type() == reflect.TypeFor[given]():
		return true
	case v.Kind() == reflect.Pointer, v.Kind() == reflect.Slice:
		return v.IsNil()
	case v.Kind() == reflect.String:
		return v.Len() == 0
	}
	return false
}
