package sqswire

import (
	"encoding/base64"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	xmlProlog    = `<?xml version="1.0"?>`
	xmlNamespace = ` xmlns="http://queue.amazonaws.com/doc/2012-11-05/"`
)

// UnknownOperationXML is the body of the answer to a request in the Query protocol that names no
// action. Its status is 404, and it stays XML when the client accepts JSON only. [XML-25]
const UnknownOperationXML = `<UnknownOperationException/>`

// AppendXML appends the response of an operation in the Query protocol to dst and returns the
// result. Lists are flat: their elements stand side by side under the name of an element. Maps are
// written in the order of their names. [XML-13 to XML-16]
//
// Text comes back from a parser byte for byte, also with carriage returns, quotes, tabs and what
// looks like markup. What XML cannot hold at all becomes U+FFFD; of messages that is nothing, as
// SQS refuses such bodies. [XML-17, XML-18]
func AppendXML(dst []byte, op Operation, resp Shape, requestID string) []byte {
	dst = append(append(append(dst, xmlProlog+"<"...), op.Name...), "Response"+xmlNamespace+">"...)
	if !op.Void {
		dst = append(append(append(dst, '<'), op.Name...), "Result>"...)
		from := len(dst)
		e := xmlEncoder{dst}
		if resp != nil {
			resp.members(&e)
		}
		dst = e.dst
		if len(dst) == from { // nothing inside
			dst = append(dst[:from-1], "/>"...)
		} else {
			dst = append(append(append(dst, "</"...), op.Name...), "Result>"...)
		}
	}
	dst = append(append(append(dst, "<ResponseMetadata><RequestId>"...), requestID...),
		"</RequestId></ResponseMetadata></"...)
	return append(append(dst, op.Name...), "Response>"...)
}

// AppendErrorXML appends the body of an error response in the Query protocol. [XML-21 to XML-23]
func AppendErrorXML(dst []byte, e *Error, requestID string) []byte {
	code, info := e.lookup()
	dst = append(append(dst, xmlProlog+"<ErrorResponse"+xmlNamespace+"><Error><Type>"...), info.Fault...)
	dst = append(append(dst, "</Type><Code>"...), code...)
	dst = appendXMLText(append(dst, "</Code><Message>"...), e.queryText())
	dst = append(append(dst, "</Message><Detail/></Error><RequestId>"...), requestID...)
	return append(dst, "</RequestId></ErrorResponse>"...)
}

// An xmlEncoder is the visitor that writes XML.
type xmlEncoder struct{ dst []byte }

func (e *xmlEncoder) open(name string) {
	e.dst = append(append(append(e.dst, '<'), name...), '>')
}

func (e *xmlEncoder) close(name string) {
	e.dst = append(append(append(e.dst, '<', '/'), name...), '>')
}

func (e *xmlEncoder) text(name, s string) {
	e.open(name)
	e.dst = appendXMLText(e.dst, s)
	e.close(name)
}

func (e *xmlEncoder) optString(name string, m *Opt[string]) {
	if m.Set {
		e.text(name, m.Value)
	}
}

func (e *xmlEncoder) optInt(name string, m *Opt[int64]) {
	if m.Set {
		e.int(name, &m.Value)
	}
}

func (e *xmlEncoder) blob(name string, m *[]byte) {
	if *m != nil {
		e.open(name)
		e.dst = base64.StdEncoding.AppendEncode(e.dst, *m)
		e.close(name)
	}
}

func (e *xmlEncoder) strings(_, query string, m *[]string) {
	for _, s := range *m {
		e.text(query, s)
	}
}

// requiredStrings is the same: a flat list without elements is nothing.
func (e *xmlEncoder) requiredStrings(name, query string, m *[]string) { e.strings(name, query, m) }

func (e *xmlEncoder) pairs(_, query, key string, m *Pairs) {
	for _, p := range sorted(*m, comparePairs) {
		e.open(query)
		e.text(key, p.Name)
		e.text("Value", p.Value)
		e.close(query)
	}
}

func (e *xmlEncoder) attributes(_, query string, m *MessageAttributes) {
	list := sorted(*m, compareAttributes)
	for i := range list {
		e.open(query)
		e.text("Name", list[i].Name)
		e.open("Value")
		list[i].members(e)
		e.close("Value")
		e.close(query)
	}
}

func (e *xmlEncoder) structs(_, query string, m list) {
	for i := range m.len() {
		e.open(query)
		m.at(i).members(e)
		e.close(query)
	}
}

// listGiven writes nothing: the elements are not kept, and no response has such a list.
func (e *xmlEncoder) listGiven(_, _ string, _ *bool) {}

func (e *xmlEncoder) string(name string, m *string) {
	if *m != "" {
		e.text(name, *m)
	}
}

func (e *xmlEncoder) int(name string, m *int64) {
	e.open(name)
	e.dst = strconv.AppendInt(e.dst, *m, 10)
	e.close(name)
}

func (e *xmlEncoder) bool(name string, m *bool) {
	e.open(name)
	e.dst = strconv.AppendBool(e.dst, *m)
	e.close(name)
}

// appendXMLText appends s as the text of an element.
func appendXMLText(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	for {
		n := plainXML(s)
		dst = append(dst, s[:n]...)
		if s = s[n:]; s == "" {
			return dst
		}
		size := 1
		switch c := s[0]; {
		case c == '\t' || c == '\n':
			dst = append(dst, c)
		case c == '"':
			dst = append(dst, "&quot;"...)
		case c == '&':
			dst = append(dst, "&amp;"...)
		case c == '<':
			dst = append(dst, "&lt;"...)
		case c == '>': // or "]]>" would not be text
			dst = append(dst, "&gt;"...)
		case c == '\r': // a parser makes a line feed of a raw one
			dst = append(dst, "&#xD;"...)
		case c < ' ':
			dst = append(dst, "\uFFFD"...)
		default:
			if size = 3; s[:3] == "\uFFFE" || s[:3] == "\uFFFF" {
				dst = append(dst, "\uFFFD"...)
			} else {
				dst = append(dst, s[:3]...)
			}
		}
		s = s[size:]
	}
}

// plainXML returns how many bytes of s, which is valid UTF-8, are text as they stand: all up to the
// first of the four characters of markup, a control character, or the first byte of U+F000 to
// U+FFFF, of which two are forbidden. See plainPrefix for how it looks at eight bytes at a time.
// Here a quote differs from an ampersand in one bit, and so does a less-than sign from a
// greater-than.
func plainXML(s string) int {
	const (
		ones = 0x0101010101010101
		tops = 0x8080808080808080
	)
	rest := s
	for ; len(rest) >= 8; rest = rest[8:] {
		x := uint64(rest[0]) | uint64(rest[1])<<8 | uint64(rest[2])<<16 | uint64(rest[3])<<24 |
			uint64(rest[4])<<32 | uint64(rest[5])<<40 | uint64(rest[6])<<48 | uint64(rest[7])<<56
		quote := (x | ones*('"'^'&')) ^ ones*('"'|'&')
		angle := (x | ones*('<'^'>')) ^ ones*('<'|'>')
		last := x ^ ones*0xEF
		hits := ((x-ones*' ')&^x | (quote-ones)&^quote |
			(angle-ones)&^angle | (last-ones)&^last) & tops
		if hits != 0 {
			return len(s) - len(rest) + bits.TrailingZeros64(hits)/8
		}
	}
	for i := range len(rest) {
		if c := rest[i]; c < ' ' || c|('"'^'&') == '"'|'&' || c|('<'^'>') == '<'|'>' || c == 0xEF {
			return len(s) - len(rest) + i
		}
	}
	return len(s)
}
