package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"time"
)

// depthMax bounds the nesting of JSON and CBOR. Requests of CloudWatch are at most ten deep.
const depthMax = 32

// ReadJSON reads the body of a request in AWS JSON. An empty body is an empty object.
func ReadJSON(body []byte) (Value, error) {
	if len(body) == 0 {
		return value{map[string]any{}}, nil
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
	return value{v}, nil
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
