package doctor

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"tenaq/internal/cli"
)

// A verdict is how a check ended.
type verdict string

const (
	IsOK      verdict = "ok"
	isWarning verdict = "warning"
	IsProblem verdict = "problem"
	isUnknown verdict = "not checked"
)

// A finding is what a check has to say, as --json prints it. The zero finding says that the check does not apply.
type finding struct {
	Subject string  `json:"subject"` // machine, clock, endpoint, or the name of a queue behind "queue "
	Check   string  `json:"check"`
	State   verdict `json:"state"`
	Says    string  `json:"says"`         // what was found, with the figure
	Do      string  `json:"do,omitempty"` // what to do about it

	Figures map[string]float64 `json:"figures,omitempty"`
}

func fine(format string, args ...any) finding {
	return finding{State: IsOK, Says: fmt.Sprintf(format, args...)}
}

func warning(do, format string, args ...any) finding {
	return finding{State: isWarning, Do: do, Says: fmt.Sprintf(format, args...)}
}

func problem(do, format string, args ...any) finding {
	return finding{State: IsProblem, Do: do, Says: fmt.Sprintf(format, args...)}
}

func unchecked(do, format string, args ...any) finding {
	return finding{State: isUnknown, Do: do, Says: fmt.Sprintf(format, args...)}
}

// with adds the figures that a finding rests on.
func (f finding) with(figures map[string]float64) finding {
	f.Figures = figures
	return f
}

// A doctorReport is all that was found.
type doctorReport struct {
	Endpoint  string    `json:"endpoint"`
	Problems  int       `json:"problems"`
	Warnings  int       `json:"warnings"`
	Unchecked int       `json:"notChecked"`
	OK        int       `json:"ok"`
	Seconds   float64   `json:"seconds"`
	Findings  []finding `json:"findings"`
}

func newDoctorReport(endpoint string, findings []finding) *doctorReport {
	r := &doctorReport{Endpoint: endpoint, Findings: bySubject(findings)}
	for _, f := range findings {
		switch f.State {
		case IsProblem:
			r.Problems++
		case isWarning:
			r.Warnings++
		case isUnknown:
			r.Unchecked++
		default:
			r.OK++
		}
	}
	return r
}

// bySubject puts together what was found about the same, in the order in which each was first spoken of.
func bySubject(findings []finding) []finding {
	first := map[string]int{}
	for i, f := range findings {
		if _, ok := first[f.Subject]; !ok {
			first[f.Subject] = i
		}
	}
	return slices.SortedStableFunc(slices.Values(findings), func(a, b finding) int { return cmp.Compare(first[a.Subject], first[b.Subject]) })
}

func (d *Doctor) printReport(r *doctorReport) error {
	if d.JSON {
		return d.PrintJSON(r)
	}
	var b strings.Builder
	on, off := d.Bold()
	width := width(d.App)
	subject := ""
	for _, f := range together(r.Findings) {
		if f.State == IsOK && !d.flags.verbose {
			continue
		}
		if f.Subject != subject {
			subject = f.Subject
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s%s%s\n", on, cli.OneLine(subject), off)
		}
		f.write(&b, width, Colour(d.App, f.State), off)
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	fmt.Fprintln(&b, r.summary(d.flags.verbose))
	_, err := io.WriteString(d.Stdout, b.String())
	return err
}

// findingColumns are where what was found begins: behind the state and the name of the check.
const findingColumns = 2 + len("not checked") + 2 + 18 + 1

// write writes a finding: one line, and what to do about it in another. Lines are only broken on a terminal.
func (f *finding) write(b *strings.Builder, width int, on, off string) {
	if on == "" {
		off = ""
	}
	fmt.Fprintf(b, "  %s%-11s%s  %-18s ", on, f.State, off, f.Check)
	indent := strings.Repeat(" ", findingColumns)
	b.WriteString(wrapped(cli.OneLine(f.Says), indent, width) + "\n")
	if f.Do != "" {
		b.WriteString(indent + wrapped("-> "+cli.OneLine(f.Do), indent+"   ", width) + "\n")
	}
}

// summary is the last line. What is not shown is only counted.
func (r *doctorReport) summary(verbose bool) string {
	text := fmt.Sprintf("%s: %s, %s, %d not checked, %d ok", r.Endpoint,
		cli.Counted(r.Problems, "problem", "problems"), cli.Counted(r.Warnings, "warning", "warnings"), r.Unchecked, r.OK)
	if r.OK > 0 && !verbose {
		text += " (--verbose shows them)"
	}
	return text
}

// sameShown is how many queues of which the same is said are named.
const sameShown = 5

// together says once what would be said of many queues in the same words.
func together(findings []finding) []finding {
	type said struct {
		check    string
		state    verdict
		says, do string
	}
	of := func(f *finding) said { return said{f.Check, f.State, f.Says, f.Do} }
	queues := map[said][]string{}
	for i := range findings {
		if name, ok := strings.CutPrefix(findings[i].Subject, "queue "); ok && findings[i].State != IsOK {
			queues[of(&findings[i])] = append(queues[of(&findings[i])], name)
		}
	}
	var alone, shared []finding
	for _, f := range findings {
		k := of(&f)
		names := queues[k]
		switch {
		case len(names) < 3:
			alone = append(alone, f)
		case "queue "+names[0] == f.Subject:
			f.Subject = "several queues"
			list := strings.Join(names[:min(len(names), sameShown)], ", ")
			if more := len(names) - sameShown; more > 0 {
				list += fmt.Sprintf(" and %d more", more)
			}
			f.Says = fmt.Sprintf("%s (%s)", f.Says, list)
			shared = append(shared, f)
		}
	}
	return append(alone, shared...)
}

// Colour switches on the colour of a state, where bold text may be shown.
func Colour(a *cli.App, v verdict) string {
	if on, _ := a.Bold(); on == "" {
		return ""
	}
	switch v {
	case IsProblem:
		return "\x1b[1;31m"
	case isWarning:
		return "\x1b[33m"
	case isUnknown:
		return "\x1b[2m"
	}
	return "\x1b[32m"
}

// width is how many columns standard output has; 0 for no end of them, when it is not a terminal.
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

// wrapped breaks text between words so that it fits into width behind the indent, if that leaves room for words.
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
