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
		structureOf(resp).visit(&e)
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

func (e *xmlEncoder) optString(m *member, p *Opt[string]) {
	if p.Set {
		e.text(m.name, p.Value)
	}
}

func (e *xmlEncoder) optInt(m *member, p *Opt[int64]) {
	if p.Set {
		e.int(m, &p.Value)
	}
}

func (e *xmlEncoder) string(m *member, p *string) {
	if *p != "" {
		e.text(m.name, *p)
	}
}

func (e *xmlEncoder) int(m *member, p *int64) { e.text(m.name, strconv.FormatInt(*p, 10)) }
func (e *xmlEncoder) bool(m *member, p *bool) { e.text(m.name, strconv.FormatBool(*p)) }

func (e *xmlEncoder) blob(m *member, p *[]byte) {
	if *p != nil {
		e.open(m.name)
		e.dst = base64.StdEncoding.AppendEncode(e.dst, *p)
		e.close(m.name)
	}
}

// strings writes nothing for a list without elements, even if it is required.
func (e *xmlEncoder) strings(m *member, p *[]string) {
	for _, s := range *p {
		e.text(m.element, s)
	}
}

func (e *xmlEncoder) pairs(m *member, p *Pairs) {
	for _, pair := range sorted(*p, comparePairs) {
		e.open(m.element)
		e.text(m.key, pair.Name)
		e.text("Value", pair.Value)
		e.close(m.element)
	}
}

func (e *xmlEncoder) attributes(m *member, p *MessageAttributes) {
	all := sorted(*p, compareAttributes)
	for i := range all {
		e.open(m.element)
		e.text("Name", all[i].Name)
		e.open("Value")
		attributeOf(&all[i]).visit(e)
		e.close("Value")
		e.close(m.element)
	}
}

func (e *xmlEncoder) structs(m *member, l list) {
	for i := range l.len() {
		e.open(m.element)
		l.at(i).visit(e)
		e.close(m.element)
	}
}

// listGiven writes nothing, because the elements are not kept and no response has such a list.
func (e *xmlEncoder) listGiven(*member, *bool) {}

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
