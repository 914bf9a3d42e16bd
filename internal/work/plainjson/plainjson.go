// Package plainjson reads and writes JSON as programs write it, without reflection: no spaces, no
// escapes, ASCII only. Requests that carry many records take several times as long with
// encoding/json.
//
// A Scanner reads a small part of JSON, as encoding/json would, and reports that it cannot read the
// rest. Decode that with encoding/json, which also explains what is wrong with it. Append returns
// valid JSON for any value.
package plainjson

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// A Scanner reads a text from its start. After the first failure it reads nothing more.
type Scanner struct {
	rest   []byte
	failed bool
}

// New returns a Scanner of a text, which must not change meanwhile.
func New(text []byte) *Scanner { return &Scanner{rest: text} }

// Done reports whether everything was taken.
func (s *Scanner) Done() bool { return !s.failed && len(s.rest) == 0 }

// Fail notes that the caller cannot take what it has read.
func (s *Scanner) Fail() { s.failed = true }

// Skip skips a text if it comes next, and reports whether it does.
func (s *Scanner) Skip(text string) bool {
	if s.failed || len(s.rest) < len(text) || string(s.rest[:len(text)]) != text {
		return false
	}
	s.rest = s.rest[len(text):]
	return true
}

// Want is Skip of a text that must come next.
func (s *Scanner) Want(text string) {
	if !s.Skip(text) {
		s.failed = true
	}
}

// membersMax is how many members of an object are taken, more than any request or answer has that
// programs write without reflection.
const membersMax = 16

// Object calls member for each member of an object, with its name, which is a part of the text.
// Member takes the value. An object that has a member twice is not taken.
func (s *Scanner) Object(member func(name []byte)) {
	s.Want("{")
	if s.Skip("}") {
		return
	}
	var seen [membersMax][]byte
	for n := 0; !s.failed; n++ {
		name := s.quoted()
		for _, before := range seen[:min(n, membersMax)] {
			s.failed = s.failed || string(before) == string(name)
		}
		if s.failed = s.failed || n == membersMax; !s.failed {
			seen[n] = name
		}
		s.Want(":")
		if !s.failed {
			member(name)
		}
		if s.Skip("}") {
			return
		}
		s.Want(",")
	}
}

// List calls element for each element of a list, which takes it.
func (s *Scanner) List(element func()) {
	s.Want("[")
	if s.Skip("]") {
		return
	}
	for !s.failed {
		element()
		if s.Skip("]") {
			return
		}
		s.Want(",")
	}
}

// quoted takes a string, and returns a part of the text.
func (s *Scanner) quoted() []byte {
	s.Want(`"`)
	if s.failed {
		return nil
	}
	for i, c := range s.rest {
		switch {
		case c == '"':
			text := s.rest[:i]
			s.rest = s.rest[i+1:]
			return text
		case !plain(c):
			s.failed = true
			return nil
		}
	}
	s.failed = true
	return nil
}

// plain reports whether a byte stands for itself in a string.
func plain(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' }

// String takes a string.
func (s *Scanner) String() string { return string(s.quoted()) }

// Bytes takes bytes in base64.
func (s *Scanner) Bytes() []byte {
	text := s.quoted()
	decoded := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(decoded, text)
	if err != nil {
		s.failed = true
	}
	return decoded[:n]
}

// digitsMax is how many digits every uint64 and, without a sign, every int64 can have.
const digitsMax = 18

// Uint takes a whole number without a sign.
func (s *Scanner) Uint() (n uint64) {
	digits := 0
	for digits < len(s.rest) && s.rest[digits] >= '0' && s.rest[digits] <= '9' {
		n = 10*n + uint64(s.rest[digits]-'0')
		digits++
	}
	if s.failed || digits == 0 || digits > digitsMax || digits > 1 && s.rest[0] == '0' {
		s.failed = true
		return 0
	}
	s.rest = s.rest[digits:]
	return n
}

// Bool takes true or false.
func (s *Scanner) Bool() bool {
	if s.Skip("true") {
		return true
	}
	s.Want("false")
	return false
}

// AppendString appends a string.
func AppendString(dst []byte, text string) []byte {
	if strings.IndexFunc(text, func(r rune) bool { return r > 0x7f || !plain(byte(r)) }) >= 0 {
		quoted, _ := json.Marshal(text) // cannot fail
		return append(dst, quoted...)
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}

// AppendBytes appends bytes in base64.
func AppendBytes(dst, value []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, value)
	return append(dst, '"')
}
