package main

import (
	"bytes"
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
	fmt.Fprintln(a.stderr, shown(a.stderr, fmt.Sprintf(format, args...)))
}

// printJSON prints the one document that is the result of a command.
func (a *app) printJSON(v any) error {
	return printJSON(a.stdout, v, "  ", isTerminal(a.stdout))
}

// printJSONLine prints one of a stream of documents.
func (a *app) printJSONLine(v any) error {
	return printJSON(a.stdout, v, "", isTerminal(a.stdout))
}

func printJSON(w io.Writer, v any, indent string, terminal bool) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // bodies and URLs are for people and jq, not for web pages
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	text := b.String()
	if terminal {
		text = escapeJSON(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// result prints v with --json and the line otherwise.
func (a *app) result(v any, format string, args ...any) error {
	if a.json {
		return a.printJSON(v)
	}
	return a.printText(fmt.Sprintf(format, args...) + "\n")
}

// printText prints text that holds no escape sequences of our own on standard output.
func (a *app) printText(text string) error {
	_, err := io.WriteString(a.stdout, shown(a.stdout, text))
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
