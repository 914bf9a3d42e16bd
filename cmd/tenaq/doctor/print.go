package doctor

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"tenaq/internal/cli"
	"tenaq/internal/ops/doctor"
)

// colours are those of the states, on a terminal that shows any.
var colours = map[doctor.Verdict]cli.Colour{
	doctor.OK: cli.Green, doctor.Warning: cli.Yellow, doctor.Problem: cli.Red,
	doctor.NotChecked: cli.Dim,
}

func printReport(a *cli.App, r *doctor.Report, verbose bool) error {
	if a.JSON {
		return a.PrintJSON(r)
	}
	on, off := a.Bold()
	width := width(a)
	subject := ""
	for _, f := range doctor.Together(r.Findings) {
		if f.State == doctor.OK && !verbose {
			continue
		}
		if f.Subject != subject {
			fmt.Fprintf(a.Stdout, "%s%s%s%s\n", cli.OrEmpty(subject != "", "\n"), on,
				cli.OneLine(f.Subject), off)
			subject = f.Subject
		}
		if _, err := fmt.Fprint(a.Stdout, findingText(a, &f, width)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(a.Stdout, cli.OrEmpty(subject != "", "\n")+summary(r, verbose))
	return err
}

// findingColumns is where the text of a finding begins: after the state and the name of the check.
const findingColumns = 2 + len("not checked") + 2 + 18 + 1

// findingText is one line, and what to do in a second. Lines are wrapped only on a terminal.
func findingText(a *cli.App, f *doctor.Finding, width int) string {
	indent := strings.Repeat(" ", findingColumns)
	text := fmt.Sprintf("  %s  %-18s %s\n",
		a.Painted(colours[f.State],
			fmt.Sprintf("%-11s", f.State)), f.Check, wrapped(cli.OneLine(f.Says), indent, width))
	if f.Do != "" {
		text += indent + wrapped("-> "+cli.OneLine(f.Do), indent+"   ", width) + "\n"
	}
	return text
}

// summary is the last line. It counts what is not shown.
func summary(r *doctor.Report, verbose bool) string {
	text := fmt.Sprintf("%s: %s, %s, %d not checked, %d ok", r.Endpoint,
		cli.Counted(r.Problems, "problem", "problems"), cli.Counted(r.Warnings, "warning",
			"warnings"), r.Unchecked, r.OK)
	return text + cli.OrEmpty(r.OK > 0 && !verbose, " (--verbose shows them)")
}

// width is the number of columns of standard output; 0 if it is not a terminal.
func width(a *cli.App) int {
	f, ok := a.Stdout.(*os.File)
	if !ok || !cli.IsTerminal(f) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return cmp.Or(max(width, 0), 80)
}

// wrapped breaks text between words so that it fits into width behind the indent, if that leaves
// room for words.
func wrapped(text, indent string, width int) string {
	room := width - len(indent)
	if width == 0 || room < 20 {
		return text
	}
	var b strings.Builder
	at := 0
	for i, word := range slices.Collect(strings.SplitSeq(text, " ")) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > room:
			b.WriteString("\n" + indent)
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
