// Package alarms has a page for each built-in alarm: what it means, where to look, what to do. The
// pages are part of the documentation, and of the program, which shows them with "tenaq alarms
// explain" on a machine without the documentation.
package alarms

import (
	"embed"
	"strings"
)

//go:embed *.md
var pages embed.FS

// Page returns the page of a kind of alarm, such as dead-letters. In it, QUEUE stands for the queue
// of the alarm.
func Page(kind string) (text string, ok bool) {
	b, err := pages.ReadFile(kind + ".md")
	return string(b), err == nil
}

// Kinds returns the kinds that have a page, in the order of their names.
func Kinds() (kinds []string) {
	entries, _ := pages.ReadDir(".") // embedded, so it is there
	for _, e := range entries {
		kinds = append(kinds, strings.TrimSuffix(e.Name(), ".md"))
	}
	return kinds
}
