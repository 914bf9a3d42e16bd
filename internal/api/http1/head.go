package http1

import (
	"bytes"
	"net/http"
	"strings"
)

// A head is the first line and the headers of the last request of a connection. Clients send nearly
// the same head with each request. A line that equals the one in its place in the head before is
// neither checked nor copied again.
type head struct {
	line   string // with its end
	path   string // in it
	fields []*field
	header http.Header
	host   string
	length int64
}

// fieldsMax is how many headers a common request has at most.
const fieldsMax = 40

// A field is one line of a head, which was checked.
type field struct {
	line  string // with its end
	name  string // as a Header has it
	value string
	kind  kind
	n     int64     // of a Content-Length
	one   [1]string // is where the value is in the Header
}

// A kind is what the loop must know about a field.
type kind int

const (
	plain kind = iota
	host
	length
)

// A verdict is what a head turned out to be.
type verdict int

const (
	more   verdict = iota // its end is missing, and so far nothing is wrong
	common                // a request for the loop
	other                 // one for net/http
)

// parse reads the head at the beginning of b and returns its length, if it is a common one.
func (h *head) parse(b []byte) (n int, v verdict) {
	for i := -1; ; i++ {
		end := bytes.IndexByte(b[n:], '\n')
		if end < 0 {
			return 0, more
		}
		line := b[n : n+end+1]
		n += len(line)
		switch {
		case i < 0:
			if !h.first(line) {
				return 0, other
			}
		case string(line) == "\r\n":
			return n, h.complete(i)
		case i == fieldsMax || !h.take(i, line):
			return 0, other
		}
	}
}

// first takes the first line.
func (h *head) first(line []byte) bool {
	if string(line) == h.line {
		return true
	}
	const before, after = "POST ", " HTTP/1.1\r\n"
	path, isPost := bytes.CutPrefix(line, []byte(before))
	path, is11 := bytes.CutSuffix(path, []byte(after))
	if !isPost || !is11 || !bytes.HasPrefix(path, []byte("/")) ||
		bytes.HasPrefix(path, []byte("//")) || !consists(path, inPath) {
		return false
	}
	h.line = string(line)
	h.path = h.line[len(before) : len(before)+len(path)]
	return true
}

// take takes the line of the i-th field.
func (h *head) take(i int, line []byte) bool {
	if i < len(h.fields) && string(line) == h.fields[i].line {
		return true
	}
	name, value, found := bytes.Cut(line, []byte(":"))
	value, ended := bytes.CutSuffix(value, []byte("\r\n"))
	value = bytes.TrimLeft(value, " ")
	if !found || !ended || len(name) == 0 || !consists(name, inName) || !consists(value, inValue) ||
		bytes.HasSuffix(value, []byte(" ")) {
		return false
	}
	f := &field{line: string(line)}
	f.name = http.CanonicalHeaderKey(f.line[:len(name)])
	f.value = f.line[len(line)-len("\r\n")-len(value) : len(line)-len("\r\n")]
	if !f.classify() {
		return false
	}
	if i == len(h.fields) {
		h.fields = append(h.fields, nil)
	}
	h.fields[i] = f
	return true
}

// classify reports whether a field can be one of a common request.
func (f *field) classify() bool {
	switch f.name {
	case "Host":
		f.kind = host
		return f.value != "" && consists(f.value, inHost)
	case "Content-Length":
		f.kind = length
		if f.value == "" || len(f.value) > 9 || f.value[0] == '0' && f.value != "0" {
			return false
		}
		for _, digit := range []byte(f.value) {
			if digit < '0' || digit > '9' {
				return false
			}
			f.n = 10*f.n + int64(digit-'0')
		}
	case "Connection":
		return strings.EqualFold(f.value, "keep-alive")
	case "Expect", "Http2-Settings", "Pragma", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return false
	}
	return true
}

// complete makes the Header of the first n fields.
func (h *head) complete(n int) verdict {
	h.fields = h.fields[:n]
	clear(h.header)
	hosts, lengths := 0, 0
	for _, f := range h.fields {
		switch f.kind {
		case host:
			hosts, h.host = hosts+1, f.value
			continue // net/http does not put it into the Header either
		case length:
			lengths, h.length = lengths+1, f.n
		}
		if before, ok := h.header[f.name]; ok {
			h.header[f.name] = append(before, f.value)
		} else {
			f.one[0] = f.value
			h.header[f.name] = f.one[:1:1]
		}
	}
	if hosts != 1 || lengths != 1 {
		return other
	}
	return common
}

// A class is a set of bytes, one bit of classes.
type class byte

const (
	inName class = 1 << iota
	inPath
	inHost
	inValue
)

// classes are the sets that a byte is in. None has a byte that net/http refuses there.
var classes = func() (t [256]class) {
	for b := range t {
		if b >= ' ' && b <= '~' {
			t[b] = inValue
		}
		if b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || b == '-' {
			t[b] |= inName | inPath | inHost
		}
	}
	for _, b := range []byte("!#$%&'*+.^_`|~") {
		t[b] |= inName
	}
	for _, b := range []byte("/._") {
		t[b] |= inPath
	}
	for _, b := range []byte(".:[]_") {
		t[b] |= inHost
	}
	return t
}()

// consists reports whether all bytes of a text are in a class.
func consists[T string | []byte](text T, in class) bool {
	for i := range len(text) {
		if classes[text[i]]&in == 0 {
			return false
		}
	}
	return true
}
