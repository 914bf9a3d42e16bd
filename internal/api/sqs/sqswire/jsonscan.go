package sqswire

import (
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A scanner reads the tokens of one JSON text. Its first error stays, and from then on every method
// returns at once and every loop over next ends, so callers check err at the very end only.
type scanner struct {
	s     string // the text, valid UTF-8
	pos   int    // of the next byte
	depth int    // of open objects and lists
	items int    // names and elements seen
	first bool   // an object or list has just been opened
	err   *Error
}

// refuse records that a value has the wrong type.
func (d *scanner) refuse(message string) {
	if d.err == nil {
		d.err = &Error{MalformedInput, message}
	}
}

// syntax records that the text is not acceptable JSON. AWS says nothing in this case; a reason and
// a place help a person who wrote the request by hand.
func (d *scanner) syntax(reason string) {
	if d.err == nil {
		d.err = &Error{MalformedInput,
			fmt.Sprintf("The request body can not be read: %s, near byte %d.", reason, d.pos)}
	}
}

func (d *scanner) space() {
	for d.pos < len(d.s) {
		switch d.s[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// peek returns the first byte of the next token, zero at the end of the text.
func (d *scanner) peek() byte {
	d.space()
	if d.pos == len(d.s) {
		return 0
	}
	return d.s[d.pos]
}

// open begins an object or a list, whichever bracket says, and reports whether there is one. scalar
// is the refusal of a value that is neither.
func (d *scanner) open(bracket byte, scalar string) bool {
	if d.err != nil {
		return false
	}
	switch c := d.peek(); {
	case c == bracket:
		d.pos++
		d.first = true
		if d.depth++; d.depth > depthMax {
			d.syntax("it is nested too deeply")
		}
		return d.err == nil
	case c == '{':
		d.refuse(textObject)
	case c == '[':
		d.refuse(textList)
	default:
		d.skip()
		d.refuse(scalar)
	}
	return false
}

// next steps to the next name of an object or element of a list, and reports false at its end.
func (d *scanner) next(bracket byte) bool {
	if d.err != nil {
		return false
	}
	first := d.first
	d.first = false
	c := d.peek()
	switch {
	case c == bracket:
		d.pos++
		d.depth--
		return false
	case first:
	case c == ',':
		d.pos++
	default:
		d.syntax("expected a comma or the end of an object or list")
		return false
	}
	if d.items++; d.items > itemsMax {
		d.syntax("it has too many members")
	}
	return d.err == nil
}

func (d *scanner) name() string {
	if d.peek() != '"' {
		d.syntax("expected a name")
		return ""
	}
	name := d.quoted()
	if d.peek() != ':' {
		d.syntax("expected a colon")
		return ""
	}
	d.pos++
	return name
}

// null skips a null and reports whether there was one.
func (d *scanner) null() bool {
	if d.peek() != 'n' {
		return false
	}
	d.literal()
	return true
}

// literal reads true, false or null.
func (d *scanner) literal() string {
	d.space()
	for _, word := range [...]string{"true", "false", "null"} {
		if d.err == nil && strings.HasPrefix(d.s[d.pos:], word) {
			d.pos += len(word)
			return word
		}
	}
	d.syntax("expected a value")
	return ""
}

// number reads a number and returns it as it is written.
func (d *scanner) number() string {
	d.space()
	start := d.pos
	d.accept("-")
	if !d.accept("0") && !d.digits() {
		d.syntax("expected a value")
	}
	if d.accept(".") && !d.digits() {
		d.syntax("expected a digit")
	}
	if d.accept("eE") {
		d.accept("+-")
		if !d.digits() {
			d.syntax("expected a digit")
		}
	}
	return d.s[start:d.pos]
}

// accept skips one byte if it is one of set.
func (d *scanner) accept(set string) bool {
	if d.pos < len(d.s) && strings.IndexByte(set, d.s[d.pos]) >= 0 {
		d.pos++
		return true
	}
	return false
}

// digits skips digits and reports whether there were any.
func (d *scanner) digits() bool {
	start := d.pos
	for d.pos < len(d.s) && '0' <= d.s[d.pos] && d.s[d.pos] <= '9' {
		d.pos++
	}
	return d.pos > start
}

func (d *scanner) skip() {
	if d.err != nil {
		return
	}
	switch d.peek() {
	case '"':
		d.quoted()
	case '{':
		for ok := d.open('{', ""); ok && d.next('}'); {
			d.name()
			d.skip()
		}
	case '[':
		for ok := d.open('[', ""); ok && d.next(']'); {
			d.skip()
		}
	case 't', 'f', 'n':
		d.literal()
	default:
		d.number()
	}
}

// quoted reads a string, whose opening quote is next. Without escapes it is a part of the text.
func (d *scanner) quoted() string {
	if d.err != nil {
		return ""
	}
	d.pos++
	rest := d.s[d.pos:]
	n := plainPrefix(rest)
	if n < len(rest) && rest[n] == '"' {
		d.pos += n + 1
		return rest[:n]
	}
	return d.unescape(n)
}

// unescape reads the rest of a string of which the next n bytes are plain.
func (d *scanner) unescape(n int) string {
	var b strings.Builder
	b.Grow(d.rawLen(n))
	for d.err == nil {
		b.WriteString(d.s[d.pos : d.pos+n])
		d.pos += n
		switch {
		case d.pos == len(d.s):
			d.syntax("a string does not end")
		case d.s[d.pos] == '"':
			d.pos++
			return b.String()
		case d.s[d.pos] == '\\':
			d.pos++
			b.WriteRune(d.escape())
		default:
			d.syntax("a control character in a string must be escaped")
		}
		n = plainPrefix(d.s[d.pos:])
	}
	return ""
}

// rawLen returns the length of a string in the text, escapes and all, of which the next n bytes are
// plain. Unescaped it is never longer.
func (d *scanner) rawLen(n int) int {
	for i := d.pos + n; i < len(d.s); i++ {
		switch d.s[i] {
		case '"':
			return i - d.pos
		case '\\':
			i++
		}
	}
	return len(d.s) - d.pos
}

func (d *scanner) escape() rune {
	if d.pos == len(d.s) {
		d.syntax("a string does not end")
		return 0
	}
	c := d.s[d.pos]
	d.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c)
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'u':
		return d.escapedRune()
	}
	d.syntax("unknown escape sequence")
	return 0
}

// escapedRune reads the digits after \u, and the second half of a surrogate pair.
func (d *scanner) escapedRune() rune {
	r := d.hex4()
	if !utf16.IsSurrogate(r) {
		return r
	}
	if strings.HasPrefix(d.s[d.pos:], `\u`) {
		d.pos += 2
		if r = utf16.DecodeRune(r, d.hex4()); r != utf8.RuneError {
			return r
		}
	}
	d.syntax("a surrogate without its partner")
	return 0
}

func (d *scanner) hex4() rune {
	if len(d.s)-d.pos < 4 {
		d.syntax("expected four hexadecimal digits")
		return 0
	}
	var r rune
	for _, c := range []byte(d.s[d.pos : d.pos+4]) {
		v, ok := fromHex(c)
		if !ok {
			d.syntax("expected four hexadecimal digits")
			return 0
		}
		r = r<<4 | rune(v)
	}
	d.pos += 4
	return r
}

// plainPrefix returns how many bytes of s stand for themselves in a JSON string: all up to the
// first quote, backslash or control character.
//
// It looks at eight bytes at a time, because most of the time of this package is spent here. In
// x-lo&^x the top bit of a byte is set when the byte was less than the one in lo and below 0x80. A
// borrow may set the bit of later bytes wrongly, never of an earlier one, and only the first
// counts.
func plainPrefix(s string) int {
	const (
		ones = 0x0101010101010101
		tops = 0x8080808080808080
	)
	rest := s
	for ; len(rest) >= 8; rest = rest[8:] {
		x := uint64(rest[0]) | uint64(rest[1])<<8 | uint64(rest[2])<<16 | uint64(rest[3])<<24 |
			uint64(rest[4])<<32 | uint64(rest[5])<<40 | uint64(rest[6])<<48 | uint64(rest[7])<<56
		quote := x ^ ones*'"'
		slash := x ^ ones*'\\'
		hits := ((x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash) & tops
		if hits != 0 {
			return len(s) - len(rest) + bits.TrailingZeros64(hits)/8
		}
	}
	for i := range len(rest) {
		if c := rest[i]; c < ' ' || c == '"' || c == '\\' {
			return len(s) - len(rest) + i
		}
	}
	return len(s)
}
