package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// resolveAlias returns the node that an alias stands for.
func resolveAlias(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// yamlToJSON writes a YAML value as JSON in the order of the file. A number that JSON would write
// differently, such as an account with leading zeros, becomes text.
func yamlToJSON(n *yaml.Node) ([]byte, error) {
	n = resolveAlias(n)
	switch n.Kind {
	case yaml.MappingNode:
		var b bytes.Buffer
		for i := 0; i < len(n.Content); i += 2 {
			key, err := json.Marshal(resolveAlias(n.Content[i]).Value)
			if err != nil {
				return nil, err
			}
			value, err := yamlToJSON(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			writeItem(&b, i, key, []byte(":"), value)
		}
		return wrap("{", b.Bytes(), "}"), nil
	case yaml.SequenceNode:
		var b bytes.Buffer
		for i, item := range n.Content {
			value, err := yamlToJSON(item)
			if err != nil {
				return nil, err
			}
			writeItem(&b, i, value)
		}
		return wrap("[", b.Bytes(), "]"), nil
	case yaml.ScalarNode:
		return scalarToJSON(n)
	}
	return nil, errors.New("cannot be written as JSON")
}

func scalarToJSON(n *yaml.Node) ([]byte, error) {
	switch n.ShortTag() {
	case "!!null":
		return []byte("null"), nil
	case "!!bool":
		var v bool
		if err := n.Decode(&v); err != nil {
			return nil, err
		}
		return strconv.AppendBool(nil, v), nil
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return []byte(n.Value), nil
		}
	}
	return json.Marshal(n.Value)
}

func writeItem(b *bytes.Buffer, i int, parts ...[]byte) {
	if i > 0 {
		b.WriteByte(',')
	}
	for _, p := range parts {
		b.Write(p)
	}
}

func wrap(open string, b []byte, end string) []byte {
	return append(append([]byte(open), b...), end...)
}
