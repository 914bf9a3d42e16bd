package v1

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/api/sqs/sqswire"
)

// An input says how the input of a route is read: a struct whose fields are tagged with where they
// come from.
//
//	Queue  string    `path:"queue"`
//	State  string    `query:"state" enum:"visible,blocked"`
//	Limit  int       `query:"limit" range:"1,100" default:"20" doc:"messages of a page"`
//	From   time.Time `query:"from"`
//	Reason string    `json:"reason,omitempty"`
//
// A parameter is a string, a bool (0, 1, false or true), a number, a duration such as 90s, or
// anything that reads itself from a text, such as a time. An absent one has its default. The fields
// tagged json are the body. An enum and a range are checked wherever a field comes from.
type input struct {
	typ    reflect.Type
	fields []field
	body   bool // it has fields that come from a body
}

// A field is a field of an input.
type field struct {
	index    int
	name     string
	in       string // path, query or json
	fallback string
	enum     []string
	low      int64 // of a range
	high     int64
	ranged   bool
	doc      string
}

// inputOf reads the tags of a type. A mistake in them is one in the table of routes.
func inputOf(t reflect.Type) *input {
	found := &input{typ: t}
	for i := range t.NumField() {
		f := field{index: i}
		tag := t.Field(i).Tag
		for _, f.in = range []string{"path", "query", "json"} {
			if f.name, _, _ = strings.Cut(tag.Get(f.in), ","); f.name != "" {
				break
			}
		}
		if f.name == "" {
			panic(fmt.Sprintf("%v.%s is not tagged path, query or json", t, t.Field(i).Name))
		}
		found.body = found.body || f.in == "json"
		f.fallback, f.doc = tag.Get("default"), tag.Get("doc")
		if enum := tag.Get("enum"); enum != "" {
			f.enum = strings.Split(enum, ",")
		}
		if bounds := tag.Get("range"); bounds != "" {
			if _, err := fmt.Sscanf(bounds, "%d,%d", &f.low, &f.high); err != nil {
				panic(fmt.Sprintf("%v.%s: range %q: %v", t, t.Field(i).Name, bounds, err))
			}
			f.ranged = true
		}
		found.fields = append(found.fields, f)
	}
	return found
}

// read fills an input from a request. It refuses parameters and members that it does not know,
// because a misspelt one would otherwise be ignored silently.
func (in *input) read(c *call, into reflect.Value) error {
	query, err := url.ParseQuery(c.request.URL.RawQuery)
	if err != nil { // a parameter that cannot be read would be ignored
		return sqswire.Errorf(sqswire.InvalidParameterValue,
			"The query of the URL cannot be read: %v.", err)
	}
	for name, values := range query { // order does not matter: any of them refuses the request
		if strings.HasPrefix(name, "X-Amz-") && c.principal.Signed() {
			continue // of the signature, which has been verified
		}
		known := slices.ContainsFunc(in.fields, func(f field) bool {
			return f.in == "query" && f.name == name
		})
		if !known || len(values) > 1 {
			return sqswire.Errorf(sqswire.InvalidParameterValue,
				"The parameter %s is unknown, or given more than once.", name)
		}
	}
	if in.body {
		if err := c.decode(into.Addr().Interface()); err != nil {
			return err
		}
	}
	for _, f := range in.fields {
		v := into.Field(f.index)
		text := c.path[f.name]
		switch {
		case f.in == "json":
			if err := f.check(v); err != nil {
				return err
			}
			continue
		case f.in == "query":
			text = query.Get(f.name)
		}
		if text == "" {
			text = f.fallback
		}
		if text == "" {
			continue
		}
		if want := parse(text, v); want != "" {
			return errValue(f.name, text, f.wanted(want))
		}
		if err := f.check(v); err != nil {
			return err
		}
	}
	return nil
}

// check refuses a value that is outside of the enum or the range of a field. A string of an enum
// may be empty, which is to say absent, and a pointer nil.
func (f *field) check(v reflect.Value) error {
	if f.enum == nil && !f.ranged {
		return nil // a body can be large
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	text := fmt.Sprint(v.Interface())
	if f.enum != nil && text != "" && !slices.Contains(f.enum, text) ||
		f.ranged && (v.Int() < f.low || v.Int() > f.high) {
		return errValue(f.name, text, f.wanted(""))
	}
	return nil
}

// wanted says what a field takes; otherwise is what its type takes.
func (f *field) wanted(otherwise string) string {
	switch {
	case f.ranged:
		return fmt.Sprintf("a number from %d to %d", f.low, f.high)
	case f.enum != nil:
		return alternatives(f.enum)
	}
	return otherwise
}

// alternatives lists what can be chosen: a, b or c.
func alternatives(list []string) string {
	last := len(list) - 1
	if last < 1 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:last], ", ") + " or " + list[last]
}

var durationType = reflect.TypeFor[time.Duration]()

// parse reads the text of a parameter. It returns what the type takes when the text is not that.
func parse(text string, v reflect.Value) (want string) {
	if own, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if own.UnmarshalText([]byte(text)) == nil {
			return ""
		}
		if v.Type() == reflect.TypeFor[time.Time]() {
			return "a time such as 2026-01-31T12:00:00Z"
		}
		return "a " + strings.ToLower(v.Type().Name())
	}
	if v.Type() == durationType {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return "a duration such as 90s or 2h"
		}
		v.SetInt(int64(d))
		return ""
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		on, err := strconv.ParseBool(text)
		if err != nil {
			return "1 or 0"
		}
		v.SetBool(on)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "a whole number"
		}
		v.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n != n {
			return "a number"
		}
		v.SetFloat(n)
	default:
		panic(fmt.Sprintf("no parameter can be a %v", v.Type()))
	}
	return ""
}

// isJSON refuses a body that is not declared as JSON. A browser does not let a web page of another
// origin send this content type without asking the server first. [V1-5]
func (c *call) isJSON() error {
	kind, _, _ := mime.ParseMediaType(c.request.Header.Get("Content-Type"))
	if kind != "application/json" {
		return sqswire.Errorf(sqswire.InvalidParameterValue,
			"The body must be JSON, with Content-Type: application/json.")
	}
	return nil
}

// A plainReader decodes bodies that are plain JSON, in a fraction of the time of encoding/json. It
// takes what it knows, and nothing that is to be refused. Otherwise it changes nothing.
type plainReader interface{ readPlain(body []byte) bool }

// decode decodes the body of a request.
func (c *call) decode(into any) error {
	if err := c.isJSON(); err != nil {
		return err
	}
	if len(c.body) > intake.Small && !c.route.large {
		return &Error{http.StatusRequestEntityTooLarge, "MalformedInput",
			"The body is larger than 64 KiB."}
	}
	if plain, ok := into.(plainReader); ok && plain.readPlain(c.body) {
		return nil
	}
	if values(c.body) > valuesMax {
		return sqswire.Errorf(sqswire.InvalidParameterValue,
			"The body has too many values: all objects and lists together may have %d.", valuesMax)
	}
	d := json.NewDecoder(bytes.NewReader(c.body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("there is text after the object")
		}
	}
	if err == nil {
		return checkMembers(c.body, reflect.TypeOf(into))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return errMember(strings.Trim(name, `"`))
	}
	return sqswire.Errorf(sqswire.InvalidParameterValue,
		"The body does not have the expected JSON: %s.", faultOf(err))
}

// valuesMax bounds the values of a body. The request with the most, 32 writes of records, has less
// than 200. A value of two bytes can take a hundred once it is decoded.
const valuesMax = 1000

// values returns how many values a body of JSON has, give or take the last one of each list and
// object, without decoding it.
func values(body []byte) (n int) {
	quoted := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// errMember refuses a member of a body that the route does not have.
func errMember(name string) error {
	return sqswire.Errorf(sqswire.InvalidParameterValue,
		"The member %s is unknown: see /v1/openapi.json for those of this path.", name)
}

// faultOf returns the text of an error of encoding/json, without names of Go types.
func faultOf(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends early"
	case !ok:
		return err.Error()
	case wrong.Field == "":
		return "it must be an object, not " + wrong.Value
	}
	kind := wrong.Type.Kind().String()
	switch {
	case kind == "slice" && wrong.Type.Elem().Kind() == reflect.Uint8:
		kind = "string" // base64
	case kind == "slice":
		kind = "list"
	}
	return wrong.Field + " must be a " + kind + ", not " + wrong.Value
}

// timeText is a time in Unix milliseconds as /v1 shows it; nil for never.
func timeText(ms int64) *string {
	if ms == 0 {
		return nil
	}
	text := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
	return &text
}
