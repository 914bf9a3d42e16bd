package pipe

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	outputMax = 64 << 10 // default of Command.OutputMax
	tailMax   = 768      // bytes of output in a reason; a dead letter carries 1 KiB
)

// An output keeps the beginning and the end of the output of a task, in bounded memory.
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
	p = p[max(0, len(p)-ring):] // the ring holds no more
	p = fill(&o.last, ring, p)
	for len(p) > 0 {
		copied := copy(o.last[o.oldest:], p)
		o.oldest = (o.oldest + copied) % ring
		p = p[copied:]
	}
	return n, nil
}

// fill appends what fits of p to b, which holds at most size bytes, and returns the rest.
func fill(b *[]byte, size int, p []byte) (rest []byte) {
	fits := min(size-len(*b), len(p))
	*b = append(*b, p[:fits]...)
	return p[fits:]
}

// String returns the kept output, safe to print.
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

// tail returns the end of a text, in at most tailMax bytes.
func tail(text string) string {
	text = strings.TrimRight(text, "\n\t ")
	if len(text) <= tailMax {
		return text
	}
	const mark = "…"
	return mark + string(trimStart([]byte(text[len(text)-tailMax+len(mark):])))
}

// head returns the beginning of a text, in at most tailMax bytes.
func head(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= tailMax {
		return text
	}
	const mark = "…"
	return string(trimEnd([]byte(text[:tailMax-len(mark)]))) + mark
}

// trimStart removes the rest of a character that was cut in two, and trimEnd removes its beginning.
func trimStart(b []byte) []byte {
	for i := range min(utf8.UTFMax, len(b)) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b // it is not text
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

// safe escapes characters that could control a terminal, break a line or reorder text, except those
// in keep, and bytes that are not UTF-8. The result goes into logs and dead letters.
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
			// a line end of other systems
		case r > 0xff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\x%02x`, r)
		}
		s = s[size:]
	}
	return b.String()
}
