package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// isTerminal tells whether stream, one of the app's three, is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// complain prints err on standard error as one line.
func (a *app) complain(err error) {
	fmt.Fprintf(a.stderr, "tenaq: %s\n", oneLine(err.Error()))
}

// note tells a person something that is not part of the result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, format+"\n", args...)
}

// printJSON prints the one document that is the result of a command.
func (a *app) printJSON(v any) error {
	return encodeJSON(a.stdout, v, "  ")
}

// printJSONLine prints one of a stream of documents.
func (a *app) printJSONLine(v any) error {
	return encodeJSON(a.stdout, v, "")
}

func encodeJSON(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // bodies and URLs are for people and jq, not for web pages
	e.SetIndent("", indent)
	return e.Encode(v)
}

// result prints v with --json and the line otherwise.
func (a *app) result(v any, format string, args ...any) error {
	if a.json {
		return a.printJSON(v)
	}
	_, err := fmt.Fprintf(a.stdout, format+"\n", args...)
	return err
}

// A table is printed with aligned columns; a row may be shorter than the head.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// printTable prints t: the same text on a terminal and elsewhere, but for the bold head.
func (a *app) printTable(t table) error {
	widths := make([]int, len(t.head))
	rows := [][]string{t.head}
	for _, row := range t.rows {
		for len(row) > 0 && row[len(row)-1] == "" {
			row = row[:len(row)-1]
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		// The last cell of a row has nothing to its right, so it may run on: one long policy does not push
		// a column away from all others.
		for i := range len(row) - 1 {
			widths[i] = max(widths[i], utf8.RuneCountInString(oneLine(row[i])))
		}
	}
	var b strings.Builder
	on, off := a.bold()
	for i, row := range rows {
		if i == 0 {
			b.WriteString(on + alignRow(row, widths) + off + "\n")
			continue
		}
		b.WriteString(alignRow(row, widths) + "\n")
	}
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

func alignRow(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		cell = oneLine(cell)
		b.WriteString(cell)
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
	}
	return b.String()
}

// bold returns what switches bold text on and off: nothing unless standard output is a terminal that may
// be coloured.
func (a *app) bold() (on, off string) {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !isTerminal(a.stdout) {
		return "", ""
	}
	return "\x1b[1m", "\x1b[0m"
}

// oneLine makes control characters visible, so that foreign text can neither break a line or a table nor
// drive the terminal.
func oneLine(s string) string { return escapeControls(s, "") }

// body returns the text of a message as it may be shown: untouched when it goes to a file or a pipe; on a
// terminal control characters are made visible, for a message is written by a stranger.
func (a *app) body(s string) string {
	if !isTerminal(a.stdout) {
		return s
	}
	return escapeControls(s, "\n\t")
}

func escapeControls(s, keep string) string {
	isControl := func(r rune) bool {
		return (r < 0x20 || r >= 0x7f && r < 0xa0) && !strings.ContainsRune(keep, r)
	}
	if strings.IndexFunc(s, isControl) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !isControl(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		default:
			fmt.Fprintf(&b, `\x%02x`, r)
		}
	}
	return b.String()
}
