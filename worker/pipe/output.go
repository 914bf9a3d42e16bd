package pipe

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	outputMax = 64 << 10 // kept of what a task prints, unless told
	tailMax   = 768      // of that in the reason of a failure: a dead letter carries 1 KiB
)

// An output keeps what a task prints, in bounded memory: how it begins and how it ends.
type output struct {
	max     int
	first   []byte
	last    []byte // a ring once it is full
	oldest  int    // where in the ring its first byte is
	written int64
}

// Write keeps p. It never fails.
func (o *output) Write(p []byte) (int, error) {
	n := len(p)
	o.written += int64(n)
	p = fill(&o.first, o.max-o.max/2, p)
	ring := o.max / 2
	p = p[max(0, len(p)-ring):] // no more than that can be left of it
	p = fill(&o.last, ring, p)
	for len(p) > 0 {
		copied := copy(o.last[o.oldest:], p)
		o.oldest = (o.oldest + copied) % ring
		p = p[copied:]
	}
	return n, nil
}

// fill moves what fits from p to the end of b, which is to hold size bytes at most, and returns the
// rest.
func fill(b *[]byte, size int, p []byte) (rest []byte) {
	fits := min(size-len(*b), len(p))
	*b = append(*b, p[:fits]...)
	return p[fits:]
}

// String is what was kept, safe to print.
func (o *output) String() string {
	first, last := o.first, slices.Concat(o.last[o.oldest:], o.last[:o.oldest])
	if o.written == int64(len(first)+len(last)) {
		return safe(string(first)+string(last), "\n\t")
	}
	first, last = trimEnd(first), trimStart(last)
	left := o.written - int64(len(first)+len(last))
	return fmt.Sprintf("%s\n… %d bytes left out …\n%s", safe(string(first), "\n\t"), left,
		safe(string(last), "\n\t"))
}

// tail is the end of a text that is safe to print, in at most tailMax bytes.
func tail(text string) string {
	text = strings.TrimRight(text, "\n\t ")
	if len(text) <= tailMax {
		return text
	}
	const mark = "…"
	return mark + string(trimStart([]byte(text[len(text)-tailMax+len(mark):])))
}

// head is the beginning of it.
func head(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= tailMax {
		return text
	}
	const mark = "…"
	return string(trimEnd([]byte(text[:tailMax-len(mark)]))) + mark
}

// trimStart takes away the rest of a character that was cut in two, and trimEnd its beginning.
func trimStart(b []byte) []byte {
	for i := range min(utf8.UTFMax, len(b)) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b // it is no text
}

func trimEnd(b []byte) []byte {
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax); i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// safe makes visible what could drive a terminal, break a line or reorder the text around it,
// except for what is in keep, and whatever is not UTF-8: foreign text goes into logs and dead
// letters.
func safe(s, keep string) string {
	plain := func(r rune) bool {
		driving := r == utf8.RuneError ||
			unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
		return !driving || strings.ContainsRune(keep, r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == utf8.RuneError || plain(r):
			b.WriteRune(r)
		case r == '\r' && strings.HasPrefix(s, "\r\n") && strings.ContainsRune(keep, '\n'):
			// The end of a line on other systems.
		case r > 0xff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\x%02x`, r)
		}
		s = s[size:]
	}
	return b.String()
}
