package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text from messages, names, reasons and errors is foreign: a terminal would carry out what is
// hidden in it. Everything that a command prints of it goes through one of the functions in this
// file.

// drives reports whether r can drive a terminal, break a line, or reorder the text around it:
// control characters (C0, DEL and C1), line and paragraph separators, and the marks, embeddings,
// overrides and isolates of bidirectional text.
func drives(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// OneLine makes such characters visible wherever the text goes, so that foreign text can neither
// break a line or a table nor drive the terminal.
func OneLine(s string) string { return escape(s, "") }

// Shown returns text as it may be printed to w: untouched for a file or a pipe, and on a terminal
// with such characters made visible, except line breaks and tabs.
func Shown(w io.Writer, text string) string {
	if !IsTerminal(w) {
		return text
	}
	return escape(text, "\n\t")
}

// escape replaces the characters that drive a terminal, except those in keep, and all bytes that
// are not UTF-8: a terminal that does not read UTF-8 takes the byte 0x9b for the beginning of a
// command.
func escape(s, keep string) string {
	hidden := func(r rune) bool { return drives(r) && !strings.ContainsRune(keep, r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case !hidden(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[size:]
	}
	return b.String()
}

// escapeJSON writes such characters of a JSON document as \uXXXX, which leaves its meaning as it
// is: they occur only in its strings, and the line breaks between its tokens stay.
func escapeJSON(document string) string {
	hidden := func(r rune) bool { return drives(r) && r != '\n' }
	if strings.IndexFunc(document, hidden) < 0 {
		return document
	}
	var b strings.Builder
	for _, r := range document {
		if hidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// terminalLog is where a log in JSON goes that may be read on a terminal. package slog escapes only
// what JSON asks for; its text format quotes all that is not printable.
func terminalLog(w io.Writer) io.Writer {
	if !IsTerminal(w) {
		return w
	}
	return jsonEscaper{w}
}

type jsonEscaper struct{ w io.Writer }

func (e jsonEscaper) Write(document []byte) (int, error) {
	if _, err := io.WriteString(e.w, escapeJSON(string(document))); err != nil {
		return 0, err
	}
	return len(document), nil
}
