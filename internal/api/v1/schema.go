package v1

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// A schema is a JSON Schema, or another object of an OpenAPI document.
type schema = map[string]any

// schemas writes the types of inputs and answers as JSON Schemas. Each struct with a name becomes a
// component that others refer to.
type schemas struct {
	components schema
	names      map[reflect.Type]string
}

func newSchemas() *schemas {
	return &schemas{components: schema{}, names: make(map[reflect.Type]string)}
}

// of returns the schema of a type.
func (s *schemas) of(t reflect.Type) schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return schema{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return schema{}
	case t.Kind() != reflect.Pointer && t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return schema{"type": "string"}
	case t.Kind() != reflect.Pointer && t.Implements(reflect.TypeFor[json.Marshaler]()):
		panic(fmt.Sprintf("%v writes its own JSON, so its schema is not known", t))
	}
	switch t.Kind() {
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float64, reflect.Float32:
		return schema{"type": "number"}
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint32, reflect.Uint64, reflect.Uint8:
		return schema{"type": "integer"}
	case reflect.Pointer:
		return schema{"anyOf": []schema{s.of(t.Elem()), {"type": "null"}}}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return schema{"type": "string", "contentEncoding": "base64"}
		}
		return schema{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Interface:
		return schema{}
	case reflect.Struct:
		if t.Name() == "" || t == reflect.TypeFor[none]() {
			return s.object(t)
		}
		return schema{"$ref": "#/components/schemas/" + s.component(t)}
	}
	panic(fmt.Sprintf("no schema for %v", t))
}

// component enters a struct under its name, and under a longer one if another package has it too.
func (s *schemas) component(t reflect.Type) string {
	if name, ok := s.names[t]; ok {
		return name
	}
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if _, taken := s.components[name]; taken {
		pkg, _, _ := strings.Cut(t.String(), ".")
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	s.names[t] = name
	s.components[name] = schema{} // a type may contain itself
	s.components[name] = s.object(t)
	return name
}

// object returns the schema of a struct: the fields that encoding/json writes.
func (s *schemas) object(t reflect.Type) schema {
	properties, required := schema{}, []string{}
	s.addFields(t, properties, &required)
	object := schema{"type": "object"}
	if len(properties) > 0 {
		object["properties"] = properties
	}
	if len(required) > 0 {
		object["required"] = required
	}
	return object
}

func (s *schemas) addFields(t reflect.Type, properties schema, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			s.addFields(f.Type, properties, required)
			continue
		case !f.IsExported(), name == "-", f.Tag.Get("path") != "", f.Tag.Get("query") != "":
			continue
		case name == "":
			name = f.Name
		}
		typ, optional := f.Type, strings.Contains(options, "omit")
		if optional && typ.Kind() == reflect.Pointer {
			typ = typ.Elem() // it is absent instead of null
		}
		properties[name] = described(s.of(typ), f.Tag.Get("doc"))
		if enum := f.Tag.Get("enum"); enum != "" {
			properties[name].(schema)["enum"] = strings.Split(enum, ",")
		}
		if !optional {
			*required = append(*required, name)
		}
	}
}

// described adds a description.
func described(s schema, text string) schema {
	if text != "" {
		s["description"] = text
	}
	return s
}
