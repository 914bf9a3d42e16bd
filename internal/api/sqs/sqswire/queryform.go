package sqswire

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// paramsMax is how many parameters a request may have. The largest legal one, ten messages with ten
// attributes each, has about four hundred.
const paramsMax = 4096

// textTopList is how AWS refuses a parameter without a name before its number.
const textTopList = "Top level element may not be treated as a list"

// A Form is the parameters of a request in the Query protocol.
type Form struct {
	params []param // sorted by name, each name once
}

type param struct{ name, value string }

// ParseForm reads the parameters of a request, which are those of its query string and those of its
// body together. The body must be empty unless it is a form.
//
// It refuses, with the code MalformedInput, what is no legal escape sequence or not UTF-8, more
// than 4096 parameters, and a parameter that is given twice: two readers of the same request could
// otherwise disagree on what it asks. The number is found by counting separators, before anything
// is kept. [XML-31] [XML-32]
//
// It copies the body once, and what is read from the form is a part of that copy, or of query,
// unless it was escaped.
func ParseForm(query string, body []byte) (Form, error) {
	n := strings.Count(query, "&") + bytes.Count(body, []byte("&")) + 2
	if n > paramsMax+1 {
		return Form{}, errForm("there are more than %d of them", paramsMax)
	}
	f := Form{params: make([]param, 0, n)}
	for _, text := range [...]string{query, string(body)} {
		if err := f.add(text); err != nil {
			return Form{}, err
		}
	}
	slices.SortFunc(f.params, func(a, b param) int { return strings.Compare(a.name, b.name) })
	for i, p := range f.params {
		switch {
		case i > 0 && p.name == f.params[i-1].name:
			return Form{}, errForm("%s is given twice", shown(p.name))
		case p.name[0] == '.', isNumber(firstPart(p.name)):
			return Form{}, &Error{MalformedInput, textTopList}
		}
	}
	return f, nil
}

func (f *Form) add(text string) error {
	for text != "" {
		var pair string
		pair, text, _ = strings.Cut(text, "&")
		name, value, _ := strings.Cut(pair, "=")
		name, ok := unescapeForm(name)
		if ok {
			value, ok = unescapeForm(value)
		}
		switch {
		case !ok:
			return errForm("a percent sign must be followed by two hexadecimal digits")
		case !utf8.ValidString(name), !utf8.ValidString(value):
			return errForm("%s is not valid UTF-8", shown(name))
		case name != "":
			f.params = append(f.params, param{name, value})
		}
	}
	return nil
}

// Get returns the value of a parameter; ok is false when it is not given.
func (f Form) Get(name string) (value string, ok bool) {
	d := queryDecoder{params: f.params}
	return d.find(name)
}

// SetDefault adds a parameter unless it is given.
func (f *Form) SetDefault(name, value string) {
	i, found := slices.BinarySearchFunc(f.params, name, func(p param, name string) int {
		return strings.Compare(p.name, name)
	})
	if !found {
		f.params = slices.Insert(f.params, i, param{name, value})
	}
}

// errForm refuses parameters that cannot be read.
func errForm(format string, args ...any) *Error {
	return Errorf(MalformedInput, "The request parameters can not be read: "+format+".", args...)
}

// shown returns a name as an error may repeat it.
func shown(name string) string {
	const most = 100
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "..."
	}
	return fmt.Sprintf("%q", name)
}

// unescapeForm undoes the escaping of forms, where a plus stands for a space. ok is false when an
// escape sequence is not one.
func unescapeForm(s string) (text string, ok bool) {
	percents := strings.Count(s, "%")
	if percents == 0 && strings.IndexByte(s, '+') < 0 {
		return s, true
	}
	if 3*percents > len(s) {
		return "", false
	}
	var b strings.Builder
	b.Grow(len(s) - 2*percents)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '+':
			b.WriteByte(' ')
		case '%':
			if len(s)-i < 3 {
				return "", false
			}
			high, ok1 := fromHex(s[i+1])
			low, ok2 := fromHex(s[i+2])
			if !ok1 || !ok2 {
				return "", false
			}
			b.WriteByte(high<<4 | low)
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

func fromHex(c byte) (v byte, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// firstPart returns a name up to its first dot.
func firstPart(name string) string {
	part, _, _ := strings.Cut(name, ".")
	return part
}

// isNumber reports whether a part of a name is the number of an element: decimal digits, as few as
// there can be.
func isNumber(part string) bool {
	if part == "" || len(part) > 9 || part[0] == '0' && len(part) > 1 {
		return false
	}
	for _, c := range []byte(part) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
