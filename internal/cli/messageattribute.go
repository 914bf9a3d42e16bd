package cli

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// ParseMessageAttributes reads the attributes of a message as a flag has them: name=text,
// name:Number=3, name:Binary=@file, name:Binary=base64. A type may carry a label of the user, as in
// Number.float.
func ParseMessageAttributes(
	flag string, args []string,
) (map[string]types.MessageAttributeValue, error) {
	if len(args) == 0 {
		return nil, nil
	}
	attributes := make(map[string]types.MessageAttributeValue, len(args))
	for _, arg := range args {
		name, value, err := parseMessageAttribute(arg)
		if err != nil {
			return nil, Usagef("%s: %v", flag, err)
		}
		if _, double := attributes[name]; double {
			return nil, Usagef("%s: %s is given twice", flag, name)
		}
		attributes[name] = value
	}
	return attributes, nil
}

func parseMessageAttribute(arg string) (name string, value types.MessageAttributeValue, err error) {
	left, text, ok := strings.Cut(arg, "=")
	name, dataType, typed := strings.Cut(left, ":") // a colon cannot be part of a name
	if !typed {
		dataType = "String"
	}
	if !ok || name == "" {
		return "", value, fmt.Errorf("%q is not of the form NAME=VALUE or NAME:TYPE=VALUE", arg)
	}
	value.DataType = &dataType
	kind, _, _ := strings.Cut(dataType, ".")
	switch kind {
	case "String", "Number":
		if !utf8.ValidString(text) {
			return "", value, fmt.Errorf("%s: the value is not valid UTF-8; send it as %s:Binary=@FILE", name, name)
		}
		value.StringValue = &text
	case "Binary":
		value.BinaryValue, err = readBinary(text)
	default:
		err = fmt.Errorf("type %q is not one of String, Number, Binary", dataType)
	}
	if err != nil {
		return "", value, fmt.Errorf("%s: %w", name, err)
	}
	return name, value, nil
}

func readBinary(text string) ([]byte, error) {
	if path, ok := strings.CutPrefix(text, "@"); ok {
		return os.ReadFile(path)
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%q is neither @FILE nor base64", text)
	}
	return b, nil
}

// AttributesSize counts what the attributes add to the size of a message: names, types and values.
func AttributesSize(attributes map[string]types.MessageAttributeValue) int {
	n := 0
	for name, v := range attributes {
		n += len(name) + len(*v.DataType) + len(v.BinaryValue)
		if v.StringValue != nil {
			n += len(*v.StringValue)
		}
	}
	return n
}

type MessageAttribute struct {
	Type   string  `json:"type"`
	String *string `json:"string,omitempty"`
	Binary []byte  `json:"binary,omitempty"`
}

// MessageAttributes returns the attributes of a message for --json, and for a card with one field
// for each, sorted by name.
func MessageAttributes(
	attributes map[string]types.MessageAttributeValue,
) (all map[string]MessageAttribute, fields [][2]string) {
	all = make(map[string]MessageAttribute, len(attributes))
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		v := attributes[name]
		all[name] = MessageAttribute{aws.ToString(v.DataType), v.StringValue, v.BinaryValue}
		text := name + ":" + aws.ToString(v.DataType) + "="
		if v.StringValue == nil {
			text += base64.StdEncoding.EncodeToString(v.BinaryValue)
		} else {
			text += *v.StringValue
		}
		fields = append(fields, [2]string{"attribute", text})
	}
	return all, fields
}
