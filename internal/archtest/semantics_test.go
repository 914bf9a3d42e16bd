package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The rules of docs/semantics, and the tests that cite them. docs/semantics/README.md describes the
// form of both.

// A ruleID is a number such as VIS-3.
type ruleID struct {
	family string
	number int
}

func (id ruleID) String() string { return fmt.Sprintf("%s-%d", id.family, id.number) }

// A statement is one rule as docs/semantics states it.
type statement struct {
	id     ruleID
	place  string // file:line of the heading
	status string // yes, partial or no
}

// A citation is one mention of a rule in brackets.
type citation struct {
	id    ruleID
	place string
	file  *file
}

var (
	headingPattern = regexp.MustCompile(`^### ([A-Z][A-Z0-9]*)-([1-9][0-9]*) — \S`)
	statusPattern  = regexp.MustCompile(`^Status: (yes|partial|no)( \(.+\))? · Source: (.+) · (20[0-9][0-9]-(?:0[1-9]|1[0-2]))$`)

	// citedPattern finds what is meant as a citation: brackets that begin with the number of a
	// rule. The families have at least two letters, so that the index a[N-1] is no citation.
	citedPattern = regexp.MustCompile(`\[([A-Z][A-Z0-9]+-[0-9][^\[\]]*)\]`)
	itemPattern  = regexp.MustCompile(`^([A-Z][A-Z0-9]+)-([1-9][0-9]*)(?: to ([A-Z][A-Z0-9]+)-([1-9][0-9]*))?$`)
)

// sources are the words that may stand behind "Source:", one or several joined by "and".
var sources = []string{
	"AWS documentation", "common knowledge", "imitators", "inferred", "our decision",
	"recorded AWS answer",
}

// statements reads the rules, and says which of them are not as they should be.
func (t *tree) statements() (all []statement, problems []string) {
	for _, f := range t.files {
		if path.Ext(f.path) != ".md" || f.dir() != "docs/semantics" {
			continue
		}
		open := false // a rule has begun and its status line is still to come
		for n, line := range lines(f.text) {
			place := fmt.Sprintf("%s:%d", f.path, n)
			problem := func(format string, args ...any) {
				problems = append(problems, place+": "+fmt.Sprintf(format, args...))
			}
			switch {
			case strings.HasPrefix(line, "#"):
				if open {
					problem("%v above ends without a status line", all[len(all)-1].id)
				}
				open = false
				if !strings.HasPrefix(line, "### ") {
					continue
				}
				m := headingPattern.FindStringSubmatch(line)
				if m == nil {
					problem("a heading of a rule reads ### VIS-3 — Title")
					continue
				}
				number, _ := strconv.Atoi(m[2])
				all = append(all, statement{id: ruleID{m[1], number}, place: place})
				open = true
			case strings.HasPrefix(line, "Status:"):
				if !open {
					problem("a status line that belongs to no rule")
					continue
				}
				open = false
				status, wrong := parseStatus(line)
				if wrong != "" {
					problem("%s", wrong)
				}
				all[len(all)-1].status = status
			}
		}
		if open {
			problems = append(problems,
				fmt.Sprintf("%s: %v ends without a status line", f.path, all[len(all)-1].id))
		}
	}
	return all, problems
}

// parseStatus returns the first word of a status line, and what is wrong with the line.
func parseStatus(line string) (status, wrong string) {
	m := statusPattern.FindStringSubmatch(line)
	if m == nil {
		return "", "a status line reads Status: yes|partial|no (reason) · Source: words · 2026-08"
	}
	if m[1] != "yes" && m[2] == "" {
		return m[1], m[1] + " needs its reason in parentheses"
	}
	for source := range strings.SplitSeq(m[3], " and ") {
		if !slices.Contains(sources, source) {
			return m[1], fmt.Sprintf("unknown source %q; use one of: %s", source,
				strings.Join(sources, ", "))
		}
	}
	return m[1], ""
}

// lines yields the lines of a text with their numbers, which start at 1.
func lines(text []byte) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		for i, line := range strings.Split(string(text), "\n") {
			if !yield(i+1, line) {
				return
			}
		}
	}
}

// citations returns all citations of a tree: in comments and strings of Go files, in scripts and in
// the documentation. It says which do not read [VIS-3], [VIS-3, DEL-2] or [VIS-3 to VIS-6, DEL-2].
func (t *tree) citations() (all []citation, problems []string) {
	for _, f := range t.files {
		cite := func(firstLine int, text string) {
			for _, m := range citedPattern.FindAllStringSubmatchIndex(text, -1) {
				place := fmt.Sprintf("%s:%d", f.path, firstLine+strings.Count(text[:m[0]], "\n"))
				ids, ok := parseCitation(text[m[2]:m[3]])
				if !ok {
					problems = append(problems, place+": "+text[m[0]:m[1]]+
						" is no citation; write [VIS-3], [VIS-3, DEL-2] or [VIS-3 to VIS-6]")
				}
				for _, id := range ids {
					all = append(all, citation{id: id, place: place, file: f})
				}
			}
		}
		switch {
		case f.isGo() && f.dir() != "internal/archtest": // whose fixtures cite what is not there
			t.texts(f, cite)
		case f.isScript(), path.Ext(f.path) == ".md":
			cite(1, string(f.text))
		}
	}
	return all, problems
}

// texts calls found for each group of comments and each string of a Go file. In code, brackets that
// look like a citation are something else.
func (t *tree) texts(f *file, found func(line int, text string)) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			found(t.fset.Position(lit.Pos()).Line, lit.Value)
		}
		return true
	})
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			found(t.fset.Position(c.Pos()).Line, c.Text)
		}
	}
}

// parseCitation reads what stands between the brackets.
func parseCitation(text string) (ids []ruleID, ok bool) {
	for item := range strings.SplitSeq(text, ",") {
		m := itemPattern.FindStringSubmatch(strings.TrimSpace(item))
		if m == nil {
			return nil, false
		}
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] != "" {
			if last, _ = strconv.Atoi(m[4]); m[3] != m[1] || last <= first || last > first+99 {
				return nil, false
			}
		}
		for n := first; n <= last; n++ {
			ids = append(ids, ruleID{m[1], n})
		}
	}
	return ids, true
}

// statementRule: the rules read as they should, and each family counts from 1 without a gap.
func statementRule(t *tree) []string {
	all, problems := t.statements()
	families := make(map[string]map[int]string)
	for _, s := range all {
		if families[s.id.family] == nil {
			families[s.id.family] = make(map[int]string)
		}
		if earlier, ok := families[s.id.family][s.id.number]; ok {
			problems = append(problems,
				fmt.Sprintf("%s: %v was stated before, at %s", s.place, s.id, earlier))
		}
		families[s.id.family][s.id.number] = s.place
	}
	for _, family := range slices.Sorted(maps.Keys(families)) {
		numbers := slices.Sorted(maps.Keys(families[family]))
		for n := 1; n < numbers[len(numbers)-1]; n++ {
			if _, ok := families[family][n]; !ok {
				problems = append(problems,
					fmt.Sprintf("docs/semantics: %v is missing", ruleID{family, n}))
			}
		}
	}
	return problems
}

// citationRule: every citation names a rule, and no script shows what a rule says is not so yet.
func citationRule(t *tree) []string {
	all, _ := t.statements()
	status := make(map[ruleID]string)
	for _, s := range all {
		status[s.id] = s.status
	}
	cited, problems := t.citations()
	for _, c := range cited {
		s, ok := status[c.id]
		switch {
		case !ok:
			problems = append(problems,
				fmt.Sprintf("%s: [%v] is no rule of docs/semantics", c.place, c.id))
		case s == "no" && c.file.isScript():
			problems = append(problems,
				fmt.Sprintf("%s: [%v] has status no, yet a script shows it", c.place, c.id))
		}
	}
	return problems
}

// unproved returns the rules with status yes that no script and no test cites.
func (t *tree) unproved() (unproved []statement) {
	all, _ := t.statements()
	cited, _ := t.citations()
	proved := make(map[ruleID]bool)
	for _, c := range cited {
		if c.file.isScript() || c.file.isTest() {
			proved[c.id] = true
		}
	}
	for _, s := range all {
		if s.status == "yes" && !proved[s.id] {
			unproved = append(unproved, s)
		}
	}
	return unproved
}

// proofRule: what is said to be so has a test that would notice if it were not.
func proofRule(t *tree) []string {
	families := make(map[string][]int)
	for _, s := range t.unproved() {
		families[s.id.family] = append(families[s.id.family], s.id.number)
	}
	var problems []string
	for _, family := range slices.Sorted(maps.Keys(families)) {
		numbers := slices.Sorted(slices.Values(families[family]))
		problems = append(problems,
			fmt.Sprintf("%s: status yes, but no script or test cites %d of them: %v", family,
				len(numbers), numbers))
	}
	return problems
}

func TestStatements(t *testing.T) { holds(t, statementRule) }
func TestCitations(t *testing.T)  { holds(t, citationRule) }
func TestProofs(t *testing.T)     { holds(t, proofRule) }

// fixtureRules are in order.
const fixtureRules = `# Rules

    ### ZZ-9 — an example in an indented block is no rule

## Good

### AA-1 — Proved

Text.

Status: yes · Source: our decision · 2026-08

### AA-2 — Not proved

Status: yes · Source: recorded AWS answer and imitators · 2026-08

### AA-3 — Later

Status: no (later) · Source: inferred · 2026-08

### AA-4 — In part

Status: partial (half) · Source: common knowledge · 2026-08
`

func TestStatementsFinds(t *testing.T) {
	finds(t, statementRule, map[string]string{
		"docs/semantics/a.md": fixtureRules,
		"docs/semantics/b.md": `### AA-6 — After a gap
Status: yes · Source: our decision · 2026-08
### AA-1 — Stated twice
Status: yes · Source: our decision · 2026-08
### AA-7 - No dash
### BB-1 — No status

## Next
Status: yes · Source: our decision · 2026-08
### BB-2 — No reason
Status: no · Source: our decision · 2026-08
### BB-3 — No such source
Status: yes · Source: hearsay · 2026-08
### BB-4 — No such month
Status: yes · Source: our decision · 2026-13
### BB-5 — No status at the end
`},
		"docs/semantics/b.md:5: a heading of a rule reads",
		"docs/semantics/b.md:8: BB-1 above ends without",
		"docs/semantics/b.md:9: belongs to no rule",
		"docs/semantics/b.md:11: no needs its reason",
		"docs/semantics/b.md:13: unknown source",
		"docs/semantics/b.md:15: a status line reads",
		"docs/semantics/b.md: BB-5 ends without",
		"docs/semantics/b.md:3: AA-1 was stated before, at docs/semantics/a.md:7",
		"docs/semantics: AA-5 is missing",
	)
}

func TestCitationsFinds(t *testing.T) {
	finds(t, citationRule, map[string]string{
		"docs/semantics/a.md": fixtureRules,
		"docs/other.md":       "as [AA-1](semantics/a.md) and [AA-5] say\n",
		"internal/e/e.go": "package e\n\n// Later. [AA-3]\nvar s = " +
			"[]int{}[AA-9]\n\n/* One.\n[AA-1 to AA-5] [AA-1; AA-2] */\n",
		"internal/e/e_test.go": "package e\n\nvar names = \"[AA-3, BB-1]\"\n",
		"internal/e/testdata/script.txt": "# In part, later. [AA-4, AA-3]\n# Nothing. [AA-2 " +
			"to AA-1]\n",
		"internal/e/testdata/deep/it.txtar":  "# None. [AA-0]\n",
		"internal/e/testdata/answer.golden":  "[AA-9]",
		"internal/e/testdata/fuzz/corpus.go": "[AA-9]",
	},
		"internal/e/e.go:7: [AA-1; AA-2] is no citation",
		"internal/e/testdata/deep/it.txtar:1: [AA-0] is no citation",
		"internal/e/testdata/script.txt:2: [AA-2 to AA-1] is no citation",
		"docs/other.md:1: [AA-5] is no rule",
		"internal/e/e.go:7: [AA-5] is no rule",
		"internal/e/e_test.go:3: [BB-1] is no rule",
		"internal/e/testdata/script.txt:1: [AA-3] has status no",
	)
}

func TestProofsFinds(t *testing.T) {
	finds(t, proofRule, map[string]string{
		"docs/semantics/a.md":            fixtureRules,
		"internal/e/e.go":                "package e\n\n// Code is no proof. [AA-2]\n",
		"internal/e/testdata/script.txt": "# [AA-1]\n",
	},
		"AA: no script or test cites 1 of them: [2]",
	)
}
