package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// depthMax bounds the nesting of JSON and CBOR. Requests of CloudWatch are at most ten deep.
const depthMax = 32

// A jsonValue is what package json has made of a body: a map, a slice, a string, a json.Number, a
// bool.
type jsonValue struct{ v any }

// ReadJSON reads the body of a request in AWS JSON. An empty body is an empty object.
func ReadJSON(body []byte) (Value, error) {
	if len(body) == 0 {
		return jsonValue{map[string]any{}}, nil
	}
	if jsonDepth(body) > depthMax {
		return nil, Malformed("The body is nested deeper than %d.", depthMax)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, Malformed("The body is not JSON: %v.", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, Malformed("There is more in the body than one JSON object.")
	}
	return jsonValue{v}, nil
}

// jsonDepth returns how deep a text is nested, if it is JSON.
func jsonDepth(body []byte) (deepest int) {
	depth, inText := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

func (j jsonValue) Member(name string) (Value, error) {
	m, ok := j.v.(map[string]any)
	if !ok {
		return nil, Malformed("There is %s where an object should be.", j.kind())
	}
	if v := m[name]; v != nil {
		return jsonValue{v}, nil
	}
	return nil, nil
}

func (j jsonValue) List(limit int) ([]Value, error) {
	l, ok := j.v.([]any)
	if !ok {
		return nil, fmt.Errorf("there is %s where a list should be", j.kind())
	}
	var values []Value
	for _, v := range l[:min(len(l), limit+1)] {
		if v == nil {
			values = append(values, nil)
			continue
		}
		values = append(values, jsonValue{v})
	}
	return values, nil
}

// kind names what is there, for a sentence.
func (j jsonValue) kind() string {
	switch j.v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a text"
	case json.Number:
		return "a number"
	}
	return "true or false"
}

func (j jsonValue) Text() (string, error) {
	s, ok := j.v.(string)
	if !ok {
		return "", errors.New("it is not a text")
	}
	return s, nil
}

func (j jsonValue) Integer() (int64, error) {
	n, _ := j.v.(json.Number)
	i, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil {
		return 0, errors.New("it is not a whole number")
	}
	return i, nil
}

// number takes the words for numbers that are not finite, which JSON has no numbers for.
func (j jsonValue) Number() (float64, error) {
	switch v := j.v.(type) {
	case json.Number:
		return ParseNumber(string(v))
	case string:
		if v == "NaN" || v == "Infinity" || v == "-Infinity" {
			return ParseNumber(v)
		}
	}
	return 0, errors.New("it is not a number")
}

func (j jsonValue) Boolean() (bool, error) {
	yes, ok := j.v.(bool)
	if !ok {
		return false, errors.New("it is neither true nor false")
	}
	return yes, nil
}

func (j jsonValue) Time() (time.Time, error) {
	switch v := j.v.(type) {
	case json.Number:
		seconds, err := ParseNumber(string(v))
		if err != nil {
			return time.Time{}, err
		}
		return timeOf(seconds)
	case string:
		return parseTime(v)
	}
	return time.Time{}, errors.New("it is not a time")
}

// AppendJSON appends a tree as JSON. Times are seconds since 1970.
func AppendJSON(b []byte, t Tree) []byte {
	switch t := t.(type) {
	case Object:
		b = append(b, '{')
		for i, m := range t {
			if i > 0 {
				b = append(b, ',')
			}
			b = AppendJSON(b, m.Name)
			b = append(b, ':')
			b = AppendJSON(b, m.Tree)
		}
		return append(b, '}')
	case List:
		b = append(b, '[')
		for i, e := range t {
			if i > 0 {
				b = append(b, ',')
			}
			b = AppendJSON(b, e)
		}
		return append(b, ']')
	case string:
		text, _ := json.Marshal(t)
		return append(b, text...)
	case int64:
		return strconv.AppendInt(b, t, 10)
	case float64:
		if math.IsNaN(t) || math.IsInf(t, 0) {
			return AppendJSON(b, FormatNumber(t))
		}
		return append(b, FormatNumber(t)...)
	case bool:
		return strconv.AppendBool(b, t)
	case time.Time:
		return strconv.AppendFloat(b, float64(t.UnixMilli())/1000, 'f', -1, 64)
	}
	return b
}
