package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// widthMax is how wide a line of Go may be, in columns; a tab counts 4.
const widthMax = 100

// wingsMax bounds the folders directly under internal. A newcomer finds a room from their names
// alone.
const wingsMax = 19

// linesBelow bounds the lines of Go, tests excepted, below each folder that holds packages. A bound
// is what was reached, rounded up. Something that goes over one should first make room.
var linesBelow = map[string]int{
	"": 155_690,

	"claims": 2_150, "cmd": 23_290, "docs": 50, "examples": 1_150, "offload": 1_050,
	"outbox": 10_010, "producer": 1_250, "queuetest": 300, "records": 5_100,
	"redrive": 2_850, "release": 1_500, "test": 100, "worker": 5_400, "workertest": 250,

	"internal/api": 18_570, "internal/archtest": 50, "internal/bench": 5_950, "internal/broker": 1_510,
	"internal/child": 690, "internal/cli": 4_530, "internal/cluster": 4_700, "internal/console": 350, "internal/door": 4_390,
	"internal/engine": 28_850, "internal/invariant": 100, "internal/kv": 6_470, "internal/observe": 6_360,
	"internal/ops": 4_200, "internal/redrivehost": 1_400, "internal/server": 3_890, "internal/settings": 1_900,
	"internal/testing": 4_750, "internal/work": 3_400,
}

// wingsRule: internal has few folders.
func wingsRule(most int) rule {
	return func(t *tree) []string {
		wings := make(map[string]bool)
		for _, dir := range t.packages() {
			if wing := wingOf(dir); strings.HasPrefix(wing, "internal/") {
				wings[wing] = true
			}
		}
		if len(wings) <= most {
			return nil
		}
		return []string{fmt.Sprintf("internal: %d folders, at most %d: %s",
			len(wings), most, strings.Join(slices.Sorted(maps.Keys(wings)), " "))}
	}
}

// wingOf returns the part of a package's path that linesBelow has: internal/kv of
// internal/kv/pebblekv.
func wingOf(dir string) string {
	parts := strings.Split(dir, "/")
	if parts[0] == "internal" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// linesRule: no folder has more lines than its bound, and each has one.
func linesRule(below map[string]int) rule {
	return func(t *tree) (problems []string) {
		lines := make(map[string]int)
		for _, f := range t.files {
			if f.isGo() && !f.isTest() {
				n := bytes.Count(f.text, []byte("\n"))
				lines[""] += n
				lines[wingOf(f.dir())] += n
			}
		}
		for _, wing := range slices.Sorted(maps.Keys(lines)) {
			most, ok := below[wing]
			switch n := lines[wing]; {
			case !ok:
				problems = append(problems, fmt.Sprintf("%s: %d lines and no bound", wing, n))
			case n > most:
				problems = append(problems, fmt.Sprintf("%s: %d lines, at most %d", wing, n, most))
			}
		}
		return problems
	}
}

// widthRule: comments are at most widthMax wide, and so is code that is no test, a tab counting
// four. Text that cannot be broken may be wider: strings, which people search for as a whole, code
// and tables in comments, citations, and words that take most of a line, such as addresses.
func widthRule(t *tree) (problems []string) {
	for _, f := range t.files {
		if !f.isGo() {
			continue
		}
		strs, comments := stringLines(t, f), commentLines(f)
		for i, line := range strings.Split(string(f.text), "\n") {
			n := columns(line)
			if n <= widthMax || strs[i+1] || formatted.MatchString(line) || f.isTest() && !comments[i+1] ||
				slices.ContainsFunc(strings.Fields(line), isLong) {
				continue
			}
			problems = append(problems,
				fmt.Sprintf("%s:%d: %d columns, at most %d", f.path, i+1, n, widthMax))
		}
	}
	return problems
}

// formatted matches comments that are laid out by hand: code, tables, outputs and citations.
var formatted = regexp.MustCompile(`^\s*//(\t| \[[A-Z]+-| Output: | \d+ )`)

func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

func isLong(word string) bool { return utf8.RuneCountInString(word) > 60 }

// stringLines returns the lines of a file that end a string of more than 40 bytes, or that hold a
// part of a raw string.
func stringLines(t *tree, f *file) map[int]bool {
	found := make(map[int]bool)
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		end := t.fset.Position(lit.End())
		if len(lit.Value) > 40 {
			found[end.Line] = true
		}
		for i := t.fset.Position(lit.Pos()).Line; lit.Value[0] == '`' && i <= end.Line; i++ {
			found[i] = true
		}
		return true
	})
	return found
}

// commentLines returns the lines of a file that are comments and nothing else.
func commentLines(f *file) map[int]bool {
	found := make(map[int]bool)
	for i, line := range strings.Split(string(f.text), "\n") {
		found[i+1] = strings.HasPrefix(strings.TrimSpace(line), "//")
	}
	return found
}

// libraries are the folders that users import, and drivers what they must not get with them: only
// the packages named for a database bring its driver, and nothing brings the server.
var (
	libraries = []string{"claims/...", "offload/...", "outbox/...", "producer/...", "records/...",
		"redrive/...", "worker/..."}
	drivers = map[string][]string{
		"github.com/cockroachdb/pebble": {},
		"github.com/jackc/pgx": {"claims/pgclaims", "outbox/pgoutbox", "records/pgrecords",
			"worker/pginbox"},
		"modernc.org/sqlite": {"outbox/sqliteoutbox", "records/sqliterecords"},
		"internal/api":       {},
		"internal/broker":    {},
		"internal/engine":    {},
		"internal/kv":        {},
		"internal/server":    {},
	}
)

// driverRule: a library imports no driver, neither itself nor through other packages of the module.
func driverRule(libraries []string, drivers map[string][]string) rule {
	return func(t *tree) (problems []string) {
		for _, dir := range t.packages() {
			if !matchesAny(libraries, dir) {
				continue
			}
			for _, imported := range slices.Sorted(maps.Keys(t.reach(dir, make(map[string]bool)))) {
				for driver, homes := range drivers {
					if strings.HasPrefix(imported+"/", driver+"/") && !slices.Contains(homes, dir) {
						problems = append(problems, fmt.Sprintf("%s: imports %s", dir, imported))
					}
				}
			}
		}
		return problems
	}
}

// reach adds to found what a package imports, tests excepted, and what that imports.
func (t *tree) reach(dir string, found map[string]bool) map[string]bool {
	for _, f := range t.sources(dir) {
		for _, spec := range f.syntax.Imports {
			if imported := t.local(spec.Path.Value); !found[imported] {
				found[imported] = true
				t.reach(imported, found)
			}
		}
	}
	return found
}

func TestWings(t *testing.T)   { holds(t, wingsRule(wingsMax)) }
func TestLines(t *testing.T)   { holds(t, linesRule(linesBelow)) }
func TestWidth(t *testing.T)   { holds(t, widthRule) }
func TestDrivers(t *testing.T) { holds(t, driverRule(libraries, drivers)) }

func TestWingsFinds(t *testing.T) {
	fixture := map[string]string{
		"claims/a.go": "package a\n", "internal/a/a.go": "package a\n",
		"internal/a/b/b.go": "package b\n", "internal/c/d/d.go": "package d\n",
	}
	finds(t, wingsRule(2), fixture)
	finds(t, wingsRule(1), fixture, "internal: internal/a internal/c")
}

func TestLinesFinds(t *testing.T) {
	finds(t, linesRule(map[string]int{"": 4, "claims": 2, "internal/a": 2}), map[string]string{
		"claims/a.go":       "package a\n\n",
		"claims/a_test.go":  "package a\n\n\n\n\n\n",
		"internal/a/a.go":   "package a\n\n",
		"internal/a/b/b.go": "package b\n",
		"internal/c/c.go":   "package c\n",
	},
		" 6 lines, at most 4",
		"internal/a: 3 lines, at most 2",
		"internal/c: no bound",
	)
}

func TestWidthFinds(t *testing.T) {
	wide := strings.Repeat("word ", 21)
	finds(t, widthRule, map[string]string{
		"a/a.go": "package a\n\n// " + wide + "\n\n// https://" + strings.Repeat("x", 100) +
			"\n",
		"a/a_test.go": "package a\n\nvar x = `" + wide + "\n" + wide + "`\n\nvar y = \"" + wide +
			"\"\n",
		"a/b/b.go": "package b\n\nfunc f() {\n\t\t\t\t// " + wide[:86] + "\n}\n",
		"c/c.go":   "package c\n\n// " + wide + "\n",
	},
		"a/a.go:3: 108 columns",
		"a/b/b.go:4: 105 columns",
		"c/c.go:3: 108 columns",
	)
}

func TestDriversFinds(t *testing.T) {
	finds(t, driverRule([]string{"lib/..."},
		map[string][]string{"example.com/db": {"lib/dblib"}, "internal/server": {}}),
		map[string]string{
			"lib/lib.go":         "package lib\nimport _ \"fixture/internal/deep\"\n",
			"lib/lib_test.go":    "package lib\nimport _ \"example.com/db\"\n",
			"lib/dblib/dblib.go": "package dblib\nimport _ \"example.com/db/v2\"\n",
			"lib/other/other.go": "package other\nimport _ \"example.com/dbx\"\nimport _ " +
				"\"fixture/internal/server\"\n",
			"internal/deep/deep.go": "package deep\nimport _ \"example.com/db/v2/sub\"\n",
			"internal/server/s.go":  "package server\n",
		},
		"lib: imports example.com/db/v2/sub",
		"lib/other: imports internal/server",
	)
}
