package demo

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/internal/cli"
)

type scenarioReport struct {
	Name    string      `json:"name"`
	Text    string      `json:"text"`
	Seconds float64     `json:"seconds"`
	Rows    []stage.Row `json:"rows"`
}

type report struct {
	Seed      uint64           `json:"seed"`
	OK        bool             `json:"ok"`
	Repeat    string           `json:"repeat"`
	DataDir   string           `json:"dataDir,omitempty"`
	Scenarios []scenarioReport `json:"scenarios"`
}

func (r *report) add(s scenarioReport) {
	s.Seconds = math.Round(s.Seconds*10) / 10
	r.Scenarios = append(r.Scenarios, s)
	r.OK = r.verdict() == nil
}

// count returns how many checks have one of the results.
func (r *report) count(results ...string) (n int) {
	for _, s := range r.Scenarios {
		n += stage.Count(s.Rows, func(r stage.Row) bool { return slices.Contains(results, r.OK) })
	}
	return n
}

// verdict is nil if all checks passed.
func (r *report) verdict() error {
	if failed := r.count(stage.Failed); failed > 0 {
		return cli.Codedf(cli.ExitFailed, "%d of %s failed", failed,
			cli.Counted(r.count(stage.OK, stage.Failed), "check", "checks"))
	}
	return nil
}

// marks are what a line begins with.
var marks = map[string]string{stage.OK: "✓", stage.Failed: "✗", stage.Shown: "·",
	stage.Skipped: "-"}

// print prints the scenario on one line, then the checks that failed, or all of them.
func (s *scenarioReport) print(w io.Writer, verbose bool) {
	ok := stage.OK
	if len(stage.Red(s.Rows)) > 0 {
		ok = stage.Failed
	}
	fmt.Fprintf(w, "%s %-9s %-61s %3.0f s\n", marks[ok], s.Name, s.Text, s.Seconds)
	for _, row := range s.Rows {
		if verbose || row.OK == stage.Failed {
			fmt.Fprint(w, rowText(row))
		}
	}
}

// rowText is a row, check mark first, wrapped at 80 columns.
func rowText(r stage.Row) string {
	text := r.Check + ": " + r.Got
	switch r.OK {
	case stage.Failed:
		text += ", want " + r.Want
	case stage.Skipped:
		text = r.Check + ": skipped, " + r.Got
	}
	// of a check that belongs to the one before
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	return "  " + marks[r.OK] + " " + indent + wrap(text, 76-len(indent), "\n      ") + "\n"
}

// wrap breaks text between words, or within a word that is too long.
func wrap(text string, width int, newline string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case column > 0 && column+1+length > width:
			b.WriteString(newline)
			column = 2 // the indentation of the lines that follow
		case column > 0:
			b.WriteByte(' ')
			column++
		}
		for ; column+length > width; length = utf8.RuneCountInString(word) {
			cut := []rune(word)
			b.WriteString(string(cut[:width-column]) + newline)
			word, column = string(cut[width-column:]), 2
		}
		b.WriteString(word)
		column += length
	}
	return b.String()
}

// finish prints the sum of all scenarios and how to repeat it.
func (r *report) finish(a *cli.App) error {
	if a.JSON {
		return a.PrintJSON(r)
	}
	seconds := 0.0
	for _, s := range r.Scenarios {
		seconds += s.Seconds
	}
	_, err := fmt.Fprintf(a.Stdout, "\n%d of %s passed in %.0f s. Run it again:\n  %s\n",
		r.count(stage.OK), cli.Counted(r.count(stage.OK, stage.Failed), "check", "checks"), seconds,
		r.Repeat)
	return err
}
