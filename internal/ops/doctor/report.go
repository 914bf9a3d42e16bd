package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Verdict is how a check ended.
type Verdict string

const (
	OK         Verdict = "ok"
	Warning    Verdict = "warning"
	Problem    Verdict = "problem"
	NotChecked Verdict = "not checked"
)

// A Finding is what a check has to say, as --json prints it. The zero Finding says that the check
// does not apply.
type Finding struct {
	// machine, clock, endpoint, or the name of a queue behind "queue "
	Subject string  `json:"subject"`
	Check   string  `json:"check"`
	State   Verdict `json:"state"`
	Says    string  `json:"says"`         // what was found, with the figure
	Do      string  `json:"do,omitempty"` // what to do about it

	Figures map[string]float64 `json:"figures,omitempty"`
}

func fine(format string, args ...any) Finding {
	return Finding{State: OK, Says: fmt.Sprintf(format, args...)}
}

func warning(do, format string, args ...any) Finding {
	return Finding{State: Warning, Do: do, Says: fmt.Sprintf(format, args...)}
}

func problem(do, format string, args ...any) Finding {
	return Finding{State: Problem, Do: do, Says: fmt.Sprintf(format, args...)}
}

func unchecked(do, format string, args ...any) Finding {
	return Finding{State: NotChecked, Do: do, Says: fmt.Sprintf(format, args...)}
}

// with adds the figures of a finding.
func (f Finding) with(figures map[string]float64) Finding {
	f.Figures = figures
	return f
}

// A Report is all that was found, as --json prints it.
type Report struct {
	Endpoint  string    `json:"endpoint"`
	Problems  int       `json:"problems"`
	Warnings  int       `json:"warnings"`
	Unchecked int       `json:"notChecked"`
	OK        int       `json:"ok"`
	Seconds   float64   `json:"seconds"`
	Findings  []Finding `json:"findings"`
}

func newReport(endpoint string, findings []Finding) *Report {
	r := &Report{Endpoint: endpoint, Findings: bySubject(findings)}
	for _, f := range findings {
		switch f.State {
		case Problem:
			r.Problems++
		case Warning:
			r.Warnings++
		case NotChecked:
			r.Unchecked++
		default:
			r.OK++
		}
	}
	return r
}

// bySubject sorts findings by their subjects, in the order of their first findings.
func bySubject(findings []Finding) []Finding {
	first := map[string]int{}
	for i, f := range findings {
		if _, ok := first[f.Subject]; !ok {
			first[f.Subject] = i
		}
	}
	return slices.SortedStableFunc(slices.Values(findings), func(a, b Finding) int {
		return cmp.Compare(first[a.Subject], first[b.Subject])
	})
}

// sameShown is how many queues of a merged finding are named.
const sameShown = 5

// Together merges equal findings of three queues or more into one that names the queues.
func Together(findings []Finding) []Finding {
	type said struct {
		check    string
		state    Verdict
		says, do string
	}
	of := func(f *Finding) said { return said{f.Check, f.State, f.Says, f.Do} }
	queues := map[said][]string{}
	for i := range findings {
		if name, ok := strings.CutPrefix(findings[i].Subject, "queue "); ok &&
			findings[i].State != OK {
			queues[of(&findings[i])] = append(queues[of(&findings[i])], name)
		}
	}
	var alone, shared []Finding
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
