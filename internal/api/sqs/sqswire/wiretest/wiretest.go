// Package wiretest translates a request of the JSON protocol into the Query protocol, and an answer
// of the Query protocol into the JSON protocol, so that tests can compare the two. It has a list of
// the names in the protocol of its own, independent of package sqswire, which it checks.
package wiretest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A flat is a list or a map as the Query protocol has it: the name of its elements, and in a map
// that of their keys.
type flat struct{ element, key string }

var flats = map[string]flat{
	"AWSAccountIds":               {"AWSAccountId", ""},
	"Actions":                     {"ActionName", ""},
	"AttributeNames":              {"AttributeName", ""},
	"Attributes":                  {"Attribute", "Name"},
	"BinaryListValues":            {"BinaryListValue", ""},
	"Failed":                      {"BatchResultErrorEntry", ""},
	"MessageAttributeNames":       {"MessageAttributeName", ""},
	"MessageAttributes":           {"MessageAttribute", "Name"},
	"MessageSystemAttributeNames": {"MessageSystemAttributeName", ""},
	"MessageSystemAttributes":     {"MessageSystemAttribute", "Name"},
	"Messages":                    {"Message", ""},
	"QueueUrls":                   {"QueueUrl", ""},
	"Results":                     {"ListMessageMoveTasksResultEntry", ""},
	"StringListValues":            {"StringListValue", ""},
	"TagKeys":                     {"TagKey", ""},
	"Tags":                        {"Tag", "Key"},
	"queueUrls":                   {"QueueUrl", ""},
	"tags":                        {"Tag", "Key"},
}

func flatOf(action, name string) (flat, bool) {
	switch name {
	case "Entries":
		return flat{action + "RequestEntry", ""}, true
	case "Successful":
		return flat{action + "ResultEntry", ""}, true
	}
	f, ok := flats[name]
	return f, ok
}

// Form returns the parameters that say what the body of a JSON request says, as a form. Empty lists
// are written like clients do, by the name of the member; empty maps cannot be.
func Form(action string, body []byte) (string, error) {
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&members); err != nil {
		return "", err
	}
	f := &form{action: action}
	f.add("Action", action)
	f.structure("", members)
	f.add("Version", "2012-11-05")
	return f.b.String(), f.err
}

type form struct {
	action string
	b      strings.Builder
	err    error
}

func (f *form) add(name, value string) {
	if f.b.Len() > 0 {
		f.b.WriteByte('&')
	}
	f.b.WriteString(url.QueryEscape(name) + "=" + url.QueryEscape(value))
}

func (f *form) structure(prefix string, members map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		f.member(prefix, name, members[name])
	}
}

func (f *form) member(prefix, name string, value any) {
	flat, isFlat := flatOf(f.action, name)
	switch value := value.(type) {
	case nil:
	case string:
		f.add(prefix+name, value)
	case json.Number:
		f.add(prefix+name, value.String())
	case bool:
		f.add(prefix+name, strconv.FormatBool(value))
	case []any:
		if !isFlat || flat.key != "" {
			f.err = fmt.Errorf("%s is no list", name)
			return
		}
		if len(value) == 0 {
			f.add(prefix+name, "")
		}
		for i, element := range value {
			at := prefix + flat.element + "." + strconv.Itoa(i+1)
			switch members, ok := element.(map[string]any); {
			case ok && len(members) > 0:
				f.structure(at+".", members)
			case ok:
				f.add(at, "")
			default:
				f.member("", at, element)
			}
		}
	case map[string]any:
		if !isFlat || flat.key == "" {
			f.err = fmt.Errorf("%s is no map", name)
			return
		}
		n := 0
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if value[key] == nil {
				continue
			}
			n++
			at := prefix + flat.element + "." + strconv.Itoa(n) + "."
			f.add(at+flat.key, key)
			if members, ok := value[key].(map[string]any); ok {
				f.structure(at+"Value.", members)
			} else {
				f.member(at, "Value", value[key])
			}
		}
	}
}

// An Answer is what an answer says, in either protocol.
type Answer struct {
	// Members are those of the result, with every scalar as its text.
	Members map[string]any

	// Code, Message and Fault are of an error. The code is the one of the Query protocol.
	Code, Message, Fault string

	RequestID string // of an XML document
}

// FromJSON reads the body of an answer of the JSON protocol. Query is the header
// x-amzn-query-error.
func FromJSON(body []byte, query string) (Answer, error) {
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&members); err != nil {
		return Answer{}, err
	}
	if query != "" {
		a := Answer{}
		a.Code, a.Fault, _ = strings.Cut(query, ";")
		a.Message, _ = members["message"].(string)
		return a, nil
	}
	return Answer{Members: texts(members).(map[string]any)}, nil
}

// texts turns scalars into their texts, and drops what is empty: a flat list without elements is
// not there.
func texts(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if list, ok := value.([]any); ok && len(list) == 0 {
				delete(v, name)
				continue
			}
			v[name] = texts(value)
		}
		return v
	case []any:
		for i := range v {
			v[i] = texts(v[i])
		}
		return v
	}
	return fmt.Sprint(v)
}

// A node is an element of XML with its children in order.
type node struct {
	name     string
	text     string
	children []*node
}

func (n *node) child(name string) *node {
	for _, c := range n.children {
		if c.name == name {
			return c
		}
	}
	return &node{}
}

func parse(body []byte) (*node, error) {
	d := xml.NewDecoder(bytes.NewReader(body))
	root := &node{}
	open := []*node{root}
	for {
		token, err := d.Token()
		switch token := token.(type) {
		case xml.StartElement:
			n := &node{name: token.Name.Local}
			if token.Name.Space != "http://queue.amazonaws.com/doc/2012-11-05/" {
				return nil, fmt.Errorf("element %s in namespace %q", n.name, token.Name.Space)
			}
			top := open[len(open)-1]
			top.children = append(top.children, n)
			open = append(open, n)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			open[len(open)-1].text += string(token)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if len(root.children) != 1 {
		return nil, errors.New("not one element")
	}
	return root.children[0], nil
}

// FromXML reads the body of an answer of the Query protocol.
func FromXML(action string, body []byte) (Answer, error) {
	root, err := parse(body)
	if err != nil {
		return Answer{}, err
	}
	switch root.name {
	case "ErrorResponse":
		e := root.child("Error")
		return Answer{
			Code:      e.child("Code").text,
			Message:   e.child("Message").text,
			Fault:     e.child("Type").text,
			RequestID: root.child("RequestId").text,
		}, nil
	case action + "Response":
		return Answer{
			Members:   structure(action, root.child(action+"Result")),
			RequestID: root.child("ResponseMetadata").child("RequestId").text,
		}, nil
	}
	return Answer{}, fmt.Errorf("the document is a %s", root.name)
}

// structure puts the lists of n together again.
func structure(action string, n *node) map[string]any {
	members := map[string]any{}
	for _, c := range n.children {
		name, f := memberOf(action, n.name, c.name)
		switch {
		case f.key != "":
			m, _ := members[name].(map[string]any)
			if m == nil {
				m = map[string]any{}
				members[name] = m
			}
			m[c.child(f.key).text] = value(action, c.child("Value"))
		case f.element != "":
			list, _ := members[name].([]any)
			members[name] = append(list, value(action, c))
		default:
			members[c.name] = value(action, c)
		}
	}
	return members
}

func value(action string, n *node) any {
	if len(n.children) > 0 {
		return structure(action, n)
	}
	return n.text
}

// memberOf finds the member that an element in a parent belongs to.
func memberOf(action, parent, element string) (string, flat) {
	switch {
	case element == "QueueUrl" && action == "ListQueues":
		return "QueueUrls", flats["QueueUrls"]
	case element == "QueueUrl" && action == "ListDeadLetterSourceQueues":
		return "queueUrls", flats["queueUrls"]
	case element == "QueueUrl" || element == "Message" && parent == "BatchResultErrorEntry":
		return "", flat{}
	case element == "Tag":
		return "Tags", flats["Tags"]
	case element == action+"ResultEntry" && element != flats["Results"].element:
		return "Successful", flat{element, ""}
	}
	for name, f := range flats { // no other element has two members
		if f.element == element {
			return name, f
		}
	}
	return "", flat{}
}
