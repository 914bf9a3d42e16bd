package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The JSON of policies: objects whose names are known, and texts that may stand alone or in a list.

// object reads a JSON object whose members must be among the known ones, if there are any; their
// case does not matter. One that stands there twice, or anything behind the object, is an error:
// another reader might take the other one.
func object(raw []byte, what string, known ...string) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("%s is not a JSON object", what)
	}
	members := make(map[string]json.RawMessage)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%s is not a JSON object", what)
		}
		name := t.(string) // the decoder lets nothing else be a name
		key := name
		if known != nil {
			key = ""
			for _, k := range known {
				if strings.EqualFold(k, name) {
					key = k
				}
			}
			if key == "" {
				return nil, unsupported("the element %q is not supported", name)
			}
		}
		if _, twice := members[key]; twice {
			return nil, fmt.Errorf("the element %q is given twice", name)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("%s is not a JSON object", what)
		}
		members[key] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("%s is not a JSON object", what)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is text after %s", what)
	}
	return members, nil
}

// items returns the elements of a list, or what stands there alone.
func items(raw json.RawMessage) (list []json.RawMessage, err error) {
	if raw == nil {
		return nil, errors.New("missing")
	}
	if raw[0] != '[' {
		return []json.RawMessage{raw}, nil
	}
	err = json.Unmarshal(raw, &list)
	return list, err
}

// texts returns strings, of which one may stand alone.
func texts(raw json.RawMessage) (list []string, err error) {
	values, err := items(raw)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		var s string
		if json.Unmarshal(v, &s) != nil || !isText(v) {
			return nil, errors.New("not a string")
		}
		list = append(list, s)
	}
	return list, nil
}

// scalars returns the values of a condition, in which booleans and numbers are often written
// without quotes.
func scalars(raw json.RawMessage) (list []string, err error) {
	values, err := items(raw)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		if text := string(v); text == "true" || text == "false" || numberPattern.MatchString(text) {
			list = append(list, text)
			continue
		}
		one, err := texts(v)
		if err != nil || len(one) != 1 {
			return nil, errors.New("not a string")
		}
		list = append(list, one...)
	}
	return list, nil
}

// hasVariable reports whether a text has something like ${aws:username} in it, for which AWS puts
// what it knows of a request.
func hasVariable(text string) bool { return strings.Contains(text, "${") }

func isText(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }
