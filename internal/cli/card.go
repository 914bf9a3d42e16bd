package cli

import (
	"fmt"
	"io"
	"strings"
)

// PrintList prints rows as a table, or with --json as the member name of one document.
func PrintList[T any](a *App, name string, rows []T, head []string, cells func(*T) []string) error {
	if a.JSON {
		if rows == nil {
			rows = []T{}
		}
		return a.PrintJSON(map[string]any{name: rows})
	}
	t := Table{Head: head}
	for i := range rows {
		t.Add(cells(&rows[i])...)
	}
	return a.PrintTable(t)
}

// PrintCard prints one thing: its document with --json, otherwise a line for each field that has a
// value, the first line in bold, and then the body if there is one.
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
