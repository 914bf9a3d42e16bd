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
	e := encoder{dst: dst}
	e.structure(structureOf(resp))
	return e.dst
}

// AppendQueryJSON appends the response of an operation to a request in the Query protocol that
// asked for JSON. It is the document of AppendXML as an object: under the names of the operation,
// with maps as lists of pairs, and with null for what is absent. [XML-26, XML-33]
func AppendQueryJSON(dst []byte, op Operation, resp Shape, requestID string) []byte {
	dst = append(append(append(dst, `{"`...), op.Name...), `Response":{`...)
	if !op.Void {
		dst = append(append(append(dst, '"'), op.Name...), `Result":`...)
		e := encoder{dst, true}
		e.structure(structureOf(resp))
		dst = append(e.dst, ',')
	}
	dst = append(append(dst, `"ResponseMetadata":{"RequestId":"`...), requestID...)
	return append(dst, `"}}}`...)
}

// An encoder is the visitor that writes JSON: of the JSON protocol, or of the Query protocol.
type encoder struct {
	dst   []byte
	query bool
}

func (e *encoder) structure(s structure) {
	e.dst = append(e.dst, '{')
	s.visit(e)
	e.dst = append(e.dst, '}')
}

// begin writes the name of a member, if its value follows. The Query protocol has null for a value
// that is not given.
func (e *encoder) begin(m *member, given bool) bool {
	switch {
	case e.query:
		e.name(m.listed)
		if !given {
			e.dst = append(e.dst, "null"...)
		}
	case given:
		e.name(m.name)
	}
	return given
}

// name writes a name that needs no escaping. The comma depends on the byte before: no value ends
// with an opening brace.
func (e *encoder) name(name string) {
	e.comma('{')
	e.dst = append(append(append(e.dst, '"'), name...), '"', ':')
}

func (e *encoder) comma(open byte) {
	if e.dst[len(e.dst)-1] != open {
		e.dst = append(e.dst, ',')
	}
}

func (e *encoder) optString(m *member, p *Opt[string]) {
	if e.begin(m, p.Set) {
		e.dst = appendQuoted(e.dst, p.Value)
	}
}

func (e *encoder) optInt(m *member, p *Opt[int64]) {
	if e.begin(m, p.Set) {
		e.dst = strconv.AppendInt(e.dst, p.Value, 10)
	}
}

func (e *encoder) string(m *member, p *string) {
	if e.begin(m, *p != "") {
		e.dst = appendQuoted(e.dst, *p)
	}
}

func (e *encoder) int(m *member, p *int64) {
	e.begin(m, true)
	e.dst = strconv.AppendInt(e.dst, *p, 10)
}

func (e *encoder) bool(m *member, p *bool) {
	e.begin(m, true)
	e.dst = strconv.AppendBool(e.dst, *p)
}

func (e *encoder) blob(m *member, p *[]byte) {
	if e.begin(m, *p != nil) {
		e.dst = base64.StdEncoding.AppendEncode(append(e.dst, '"'), *p)
		e.dst = append(e.dst, '"')
	}
}

func (e *encoder) strings(m *member, p *[]string) {
	if !e.begin(m, len(*p) > 0 || m.required && !e.query) {
		return
	}
	e.dst = append(e.dst, '[')
	for _, s := range *p {
		e.comma('[')
		e.dst = appendQuoted(e.dst, s)
	}
	e.dst = append(e.dst, ']')
}

func (e *encoder) pairs(m *member, p *Pairs) {
	if !e.begin(m, len(*p) > 0) {
		return
	}
	e.open()
	for _, pair := range sorted(*p, comparePairs) {
		e.entry(m.key, pair.Name)
		e.dst = appendQuoted(e.dst, pair.Value)
		e.endEntry()
	}
	e.close()
}

func (e *encoder) attributes(m *member, p *MessageAttributes) {
	if !e.begin(m, len(*p) > 0) {
		return
	}
	e.open()
	all := sorted(*p, compareAttributes)
	for i := range all {
		e.entry("Name", all[i].Name)
		e.structure(attributeOf(&all[i]))
		e.endEntry()
	}
	e.close()
}

// A map is an object, and in the Query protocol a list of objects with the key and the Value.

func (e *encoder) open()  { e.dst = append(e.dst, e.bracket('{', '[')) }
func (e *encoder) close() { e.dst = append(e.dst, e.bracket('}', ']')) }

// entry begins an entry of a map. Its value follows.
func (e *encoder) entry(key, name string) {
	e.comma(e.bracket('{', '['))
	if !e.query {
		e.dst = append(appendQuoted(e.dst, name), ':')
		return
	}
	e.dst = append(e.dst, '{')
	e.string(&member{listed: key}, &name)
	e.name("Value")
}

func (e *encoder) endEntry() {
	if e.query {
		e.dst = append(e.dst, '}')
	}
}

func (e *encoder) bracket(json, query byte) byte {
	if e.query {
		return query
	}
	return json
}

func (e *encoder) structs(m *member, l list) {
	if !e.begin(m, l.len() > 0) {
		return
	}
	e.dst = append(e.dst, '[')
	for i := range l.len() {
		e.comma('[')
		e.structure(l.at(i))
	}
	e.dst = append(e.dst, ']')
}

// listGiven writes no elements, because they are not kept and no response has such a list.
func (e *encoder) listGiven(m *member, _ *bool) { e.begin(m, false) }

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
