package pipe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tenaq/internal/cli"
	"tenaq/worker"
)

func parseKey(where string) (func(*worker.Message) (string, error), error) {
	if name, ok := strings.CutPrefix(where, "attribute:"); ok && name != "" {
		return func(m *worker.Message) (string, error) { return attributeKey(m, name) }, nil
	}
	path := strings.Split(where, ".")
	for _, step := range path {
		if path[0] != "body" || len(path) < 2 || step == "" {
			return nil, cli.Usagef("--key: %q is neither body.PATH, such as body.order.id, nor attribute:NAME", where)
		}
	}
	return func(m *worker.Message) (string, error) {
		key, err := bodyKey(m.Body, path[1:])
		if err != nil {
			return "", fmt.Errorf("no key at %s: %w", where, err)
		}
		return key, nil
	}, nil
}

func attributeKey(m *worker.Message, name string) (string, error) {
	a, ok := m.Attributes[name]
	switch {
	case !ok:
		return "", fmt.Errorf("the message has no attribute %q for its key", name)
	case a.StringValue == nil || *a.StringValue == "":
		return "", fmt.Errorf("the attribute %q for the key is not a non-empty string", name)
	}
	return *a.StringValue, nil
}

// bodyKey follows a path into a JSON document, through members of objects and indexes of lists. The
// value must be a string or an integer: others have several spellings.
func bodyKey(body string, path []string) (string, error) {
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", fmt.Errorf("the body is not valid JSON: %w", err)
	}
	if d.More() {
		return "", errors.New("the body is more than one JSON document")
	}
	for _, step := range path {
		var ok bool
		switch in := v.(type) {
		case map[string]any:
			v, ok = in[step]
		case []any:
			i, err := strconv.Atoi(step)
			if ok = err == nil && i >= 0 && i < len(in); ok {
				v = in[i]
			}
		}
		if !ok {
			return "", fmt.Errorf("there is no %q", step)
		}
	}
	switch v := v.(type) {
	case string:
		if v != "" {
			return v, nil
		}
		return "", errors.New("it is empty")
	case json.Number:
		if strings.Trim(v.String(), "-0123456789") == "" {
			return v.String(), nil
		}
	}
	return "", errors.New("it is neither a string nor a whole number")
}
