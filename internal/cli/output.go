package cli

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

// IsTerminal tells whether stream, one of the app's three, is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Complain prints err on standard error as one line.
func (a *App) Complain(err error) {
	fmt.Fprintf(a.Stderr, "tenaq: %s\n", OneLine(err.Error()))
}

// Note tells a person something that is not part of the result.
func (a *App) Note(format string, args ...any) {
	fmt.Fprintln(a.Stderr, Shown(a.Stderr, fmt.Sprintf(format, args...)))
}

// PrintJSON prints the one document that is the result of a command.
func (a *App) PrintJSON(v any) error {
	return printJSON(a.Stdout, v, "  ", IsTerminal(a.Stdout))
}

// PrintJSONLine prints one of a stream of documents.
func (a *App) PrintJSONLine(v any) error {
	return printJSON(a.Stdout, v, "", IsTerminal(a.Stdout))
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

// Result prints v with --json and the line otherwise.
func (a *App) Result(v any, format string, args ...any) error {
	if a.JSON {
		return a.PrintJSON(v)
	}
	return a.PrintText(fmt.Sprintf(format, args...) + "\n")
}

// PrintText prints text that holds no escape sequences of our own on standard output.
func (a *App) PrintText(text string) error {
	_, err := io.WriteString(a.Stdout, Shown(a.Stdout, text))
	return err
}

// A Table is printed with aligned columns; a row may be shorter than the head.
type Table struct {
	Head []string
	Rows [][]string
}

func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// PrintTable prints t: the same text on a terminal and elsewhere, but for the bold head.
func (a *App) PrintTable(t Table) error {
	widths := make([]int, len(t.Head))
	rows := [][]string{t.Head}
	for _, row := range t.Rows {
		for len(row) > 0 && row[len(row)-1] == "" {
			row = row[:len(row)-1]
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		// The last cell of a row has nothing to its right, so it may run on: one long policy does
		// not push a column away from all others.
		for i := range len(row) - 1 {
			widths[i] = max(widths[i], utf8.RuneCountInString(OneLine(row[i])))
		}
	}
	var b strings.Builder
	on, off := a.Bold()
	for i, row := range rows {
		if i == 0 {
			b.WriteString(on + alignRow(row, widths) + off + "\n")
			continue
		}
		b.WriteString(alignRow(row, widths) + "\n")
	}
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}

func alignRow(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		cell = OneLine(cell)
		b.WriteString(cell)
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
	}
	return b.String()
}

// Bold returns what switches bold text on and off: nothing unless standard output is a terminal
// that may be coloured.
func (a *App) Bold() (on, off string) {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !IsTerminal(a.Stdout) {
		return "", ""
	}
	return "\x1b[1m", "\x1b[0m"
}

// A Colour is one that Painted shows.
type Colour string

// The colours in use.
const (
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Red    Colour = "\x1b[1;31m"
	Dim    Colour = "\x1b[2m"
)

// Painted returns text in a colour, where standard output may be coloured.
func (a *App) Painted(c Colour, text string) string {
	if on, off := a.Bold(); on != "" {
		return string(c) + text + off
	}
	return text
}
