package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"
)

// A value is a part of a body in AWS JSON or CBOR, as the decoder of the format returns it.
type value struct{ v any }

// valueOf returns nil for what is absent, null or undefined.
func valueOf(v any) Value {
	switch v.(type) {
	case nil, *cbor.Nil, *cbor.Undefined:
		return nil
	}
	return value{v}
}

func (p value) Member(name string) (Value, error) {
	switch m := p.v.(type) {
	case map[string]any:
		return valueOf(m[name]), nil
	case cbor.Map:
		return valueOf(m[name]), nil
	}
	return nil, Malformed("There is %s where an object should be.", p.kind())
}

func (p value) List(limit int) (values []Value, err error) {
	switch l := p.v.(type) {
	case []any:
		for _, v := range l[:min(len(l), limit+1)] {
			values = append(values, valueOf(v))
		}
	case cbor.List:
		for _, v := range l[:min(len(l), limit+1)] {
			values = append(values, valueOf(v))
		}
	default:
		err = fmt.Errorf("there is %s where a list should be", p.kind())
	}
	return values, err
}

// kind names the type of the value in an error.
func (p value) kind() string {
	switch p.v.(type) {
	case map[string]any, cbor.Map:
		return "an object"
	case []any, cbor.List:
		return "a list"
	case string, cbor.String:
		return "a text"
	case json.Number:
		return "a number"
	case bool, cbor.Bool:
		return "true or false"
	}
	return "something else"
}

func (p value) Text() (string, error) {
	switch v := p.v.(type) {
	case string:
		return v, nil
	case cbor.String:
		return string(v), nil
	}
	return "", errors.New("it is not a text")
}

func (p value) Integer() (i int64, err error) {
	switch v := p.v.(type) {
	case json.Number:
		i, err = strconv.ParseInt(string(v), 10, 64)
	case cbor.Value:
		i, err = cbor.AsInt64(v)
	default:
		err = strconv.ErrSyntax
	}
	if err != nil {
		return 0, errors.New("it is not a whole number")
	}
	return i, nil
}

// Number accepts the words for numbers that are not finite, because JSON has no numbers for them.
func (p value) Number() (float64, error) {
	switch v := p.v.(type) {
	case json.Number:
		return ParseNumber(string(v))
	case string:
		if v == "NaN" || v == "Infinity" || v == "-Infinity" {
			return ParseNumber(v)
		}
	case cbor.Value:
		if n, err := cbor.AsFloat64(v); err == nil {
			return n, nil
		}
	}
	return 0, errors.New("it is not a number")
}

func (p value) Boolean() (bool, error) {
	switch v := p.v.(type) {
	case bool:
		return v, nil
	case cbor.Bool:
		return bool(v), nil
	}
	return false, errors.New("it is neither true nor false")
}

func (p value) Time() (time.Time, error) {
	switch v := p.v.(type) {
	case string:
		return parseTime(v)
	case json.Number:
		seconds, err := ParseNumber(string(v))
		if err != nil {
			return time.Time{}, err
		}
		return timeOf(seconds)
	case *cbor.Tag:
		if seconds, err := cbor.AsFloat64(v.Value); err == nil && v.ID == epochTag {
			return timeOf(seconds)
		}
	}
	return time.Time{}, errors.New("it is not a time")
}
