package cloudwatch

import (
	"reflect"
	"time"
)

// A tree is what an answer holds, before it is in one of the protocols: a string, an int64, a float64, a bool, a
// time.Time, a list or an object.
type tree any

type (
	list   []tree
	object []member
	member struct {
		name string
		tree
	}
)

// treeOf turns the struct of an answer into a tree. Members without a value are left out: nil pointers, nil slices, and
// empty strings but those that are required. A slice that is empty and not nil is an empty list.
func treeOf(v reflect.Value) tree {
	switch {
	case v.Type() == timeType:
		return v.Interface().(time.Time)
	case v.Kind() == reflect.Pointer:
		return treeOf(v.Elem())
	case v.Kind() == reflect.Struct:
		o := object{}
		for _, f := range fields(v.Type()) {
			if m := v.Field(f.index); f.required || !absent(m) {
				o = append(o, member{f.name, treeOf(m)})
			}
		}
		return o
	case v.Kind() == reflect.Slice:
		l := make(list, v.Len())
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
