// Package cli holds what the commands of tenaq share: the streams and flags of one run (App), exit
// codes, tables and JSON, units, the endpoint and its clients, stores of records, progress bars and
// metrics of a command.
//
// It guarantees that all commands report errors and exit codes in one way, and that text from
// messages, servers and configuration reaches a terminal with its control characters escaped. What
// a command does is left to the packages under cmd/tenaq; what a server does, to package server.
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

// An App is one run of the program: its streams and the flags that every command has.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	JSON bool
}

func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *App) Complain(err error) {
	fmt.Fprintf(a.Stderr, "tenaq: %s\n", OneLine(err.Error()))
}

// Note prints something on standard error that is not part of the result.
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

// Result prints v with --json, and the line otherwise.
func (a *App) Result(v any, format string, args ...any) error {
	if a.JSON {
		return a.PrintJSON(v)
	}
	return a.PrintText(fmt.Sprintf(format, args...) + "\n")
}

// PrintText prints text on standard output. Its control characters are escaped on a terminal.
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

// A Column is a column of a table of things.
type Column[T any] struct {
	head   string
	always bool // and not only when some thing has it
	cell   func(*T) string
}

// Always returns a column that every table has.
func Always[T any](head string, cell func(*T) string) Column[T] {
	return Column[T]{head, true, cell}
}

// IfAny returns a column that is left out when it is empty for all things.
func IfAny[T any](head string, cell func(*T) string) Column[T] {
	return Column[T]{head, false, cell}
}

// TableOf returns a table with a row for each of some things.
func TableOf[T any](things []T, columns []Column[T]) Table {
	t := Table{Rows: make([][]string, len(things))}
	for _, c := range columns {
		cells, says := make([]string, len(things)), c.always
		for i := range things {
			cells[i] = c.cell(&things[i])
			says = says || cells[i] != ""
		}
		if !says {
			continue
		}
		t.Head = append(t.Head, c.head)
		for i, cell := range cells {
			t.Rows[i] = append(t.Rows[i], cell)
		}
	}
	return t
}

// PrintTable prints t. On a terminal, the head is bold.
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
		// The last cell of a row may be long: it moves no other column.
		for i := range len(row) - 1 {
			widths[i] = max(widths[i], utf8.RuneCountInString(OneLine(row[i])))
		}
	}
	var b strings.Builder
	on, off := a.Bold()
	for i, row := range rows {
		if i > 0 {
			on, off = "", ""
		}
		b.WriteString(on + alignRow(row, widths) + off + "\n")
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

// PrintList prints rows as a table, or with --json as the member name of one document. none is the
// note for an empty list.
func PrintList[T any](
	a *App, name string, rows []T, none string, head []string, cells func(*T) []string,
) error {
	switch {
	case a.JSON:
		return a.PrintJSON(map[string]any{name: append([]T{}, rows...)})
	case len(rows) == 0:
		a.Note("%s", none)
		return nil
	}
	t := Table{Head: head}
	for i := range rows {
		t.Add(cells(&rows[i])...)
	}
	return a.PrintTable(t)
}

// PrintCard prints one thing: its document with --json, otherwise a line for each field that has a
// value, the first line in bold, and the body.
func (a *App) PrintCard(document any, body string, fields ...[2]string) error {
	if a.JSON {
		return a.PrintJSON(document)
	}
	var b strings.Builder
	on, off := a.Bold()
	for i, f := range fields {
		switch line := fmt.Sprintf("%-10s %s", f[0], OneLine(f[1])); {
		case i == 0:
			b.WriteString(on + line + off + "\n")
		case f[1] != "":
			b.WriteString(line + "\n")
		}
	}
	if body != "" {
		b.WriteString(Shown(a.Stdout, body) + "\n")
	}
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}

// Bold returns what switches bold text on and off: nothing, unless standard output is a terminal
// with colours.
func (a *App) Bold() (on, off string) {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !IsTerminal(a.Stdout) {
		return "", ""
	}
	return "\x1b[1m", "\x1b[0m"
}

type Colour string

const (
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Red    Colour = "\x1b[1;31m"
	Dim    Colour = "\x1b[2m"
)

func (a *App) Painted(c Colour, text string) string {
	if on, off := a.Bold(); on != "" {
		return string(c) + text + off
	}
	return text
}
