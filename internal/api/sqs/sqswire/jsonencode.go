package sqswire

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AppendJSON appends a response to dst as one JSON object and returns the result; a nil response is
// an empty object, which is what a void operation answers. Maps are written in the order of their
// names.
//
// Strings should be valid UTF-8, as everything DecodeJSON yields is; bytes that are not become
// U+FFFD, since JSON cannot carry them.
func AppendJSON(dst []byte, resp Shape) []byte {
	e := encoder{dst}
	e.shape(resp)
	return e.dst
}

// An encoder is the visitor that writes JSON.
type encoder struct{ dst []byte }

func (e *encoder) shape(s Shape) {
	e.dst = append(e.dst, '{')
	if s != nil {
		s.members(e)
	}
	e.dst = append(e.dst, '}')
}

// name begins a member whose name needs no escaping. The comma depends on the byte before: no value
// ends with an opening brace.
func (e *encoder) name(name string) {
	e.comma('{')
	e.dst = append(e.dst, '"')
	e.dst = append(e.dst, name...)
	e.dst = append(e.dst, '"', ':')
}

func (e *encoder) comma(open byte) {
	if e.dst[len(e.dst)-1] != open {
		e.dst = append(e.dst, ',')
	}
}

func (e *encoder) optString(name string, m *Opt[string]) {
	if m.Set {
		e.name(name)
		e.dst = appendQuoted(e.dst, m.Value)
	}
}

func (e *encoder) optInt(name string, m *Opt[int64]) {
	if m.Set {
		e.int(name, &m.Value)
	}
}

func (e *encoder) blob(name string, m *[]byte) {
	if *m != nil {
		e.name(name)
		e.dst = append(e.dst, '"')
		e.dst = base64.StdEncoding.AppendEncode(e.dst, *m)
		e.dst = append(e.dst, '"')
	}
}

func (e *encoder) strings(name, _ string, m *[]string) {
	if len(*m) > 0 {
		e.requiredStrings(name, "", m)
	}
}

func (e *encoder) requiredStrings(name, _ string, m *[]string) {
	e.name(name)
	e.dst = append(e.dst, '[')
	for _, s := range *m {
		e.comma('[')
		e.dst = appendQuoted(e.dst, s)
	}
	e.dst = append(e.dst, ']')
}

func (e *encoder) pairs(name, _, _ string, m *Pairs) {
	if len(*m) == 0 {
		return
	}
	e.name(name)
	e.dst = append(e.dst, '{')
	for _, p := range sorted(*m, comparePairs) {
		e.comma('{')
		e.dst = appendQuoted(e.dst, p.Name)
		e.dst = append(e.dst, ':')
		e.dst = appendQuoted(e.dst, p.Value)
	}
	e.dst = append(e.dst, '}')
}

func (e *encoder) attributes(name, _ string, m *MessageAttributes) {
	if len(*m) == 0 {
		return
	}
	e.name(name)
	e.dst = append(e.dst, '{')
	list := sorted(*m, compareAttributes)
	for i := range list {
		e.comma('{')
		e.dst = appendQuoted(e.dst, list[i].Name)
		e.dst = append(e.dst, ':')
		e.shape(&list[i])
	}
	e.dst = append(e.dst, '}')
}

func (e *encoder) structs(name, _ string, m list) {
	if m.len() == 0 {
		return
	}
	e.name(name)
	e.dst = append(e.dst, '[')
	for i := range m.len() {
		e.comma('[')
		e.shape(m.at(i))
	}
	e.dst = append(e.dst, ']')
}

// listGiven writes nothing: the elements are not kept, and no response has such a list.
func (e *encoder) listGiven(_, _ string, _ *bool) {}

func (e *encoder) string(name string, m *string) {
	if *m != "" {
		e.name(name)
		e.dst = appendQuoted(e.dst, *m)
	}
}

func (e *encoder) int(name string, m *int64) {
	e.name(name)
	e.dst = strconv.AppendInt(e.dst, *m, 10)
}

func (e *encoder) bool(name string, m *bool) {
	e.name(name)
	e.dst = strconv.AppendBool(e.dst, *m)
}

// appendQuoted appends s as a JSON string. Only what JSON demands is escaped: the quote, the
// backslash and the control characters below the space.
func appendQuoted(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	dst = append(dst, '"')
	for {
		n := plainPrefix(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		dst = appendEscaped(dst, s[n])
		s = s[n+1:]
	}
}

func appendEscaped(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
