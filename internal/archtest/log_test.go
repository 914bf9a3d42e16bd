package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// People search logs for messages and collect their attributes: both are an interface, and
// docs/log.md is where they are said. A message that is changed, or new, is a line there.

const logPage = "docs/log.md"

// A logLine is one way to write to the log.
type logLine struct {
	level, message string
	attributes     []string
	at             string
}

// logLines finds what programs for users write: calls of methods with the names of those of
// slog.Logger, whose first argument is a string. Tests, demos and examples are not looked at.
func logLines(t *tree) (lines []logLine) {
	for _, f := range t.files {
		if !f.isGo() || f.isTest() || strings.HasSuffix(f.dir(), "test") ||
			strings.Contains(f.dir(), "demo") || strings.HasPrefix(f.path, "examples/") ||
			strings.HasPrefix(f.path, "test/") || strings.HasPrefix(f.path, "internal/testing/audit/") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"},
				method.Sel.Name) {
				return true
			}
			message, ok := text(call.Args[0])
			if !ok {
				return true
			}
			l := logLine{level: strings.ToLower(method.Sel.Name), message: message,
				at: t.at(call.Pos())}
			for _, arg := range call.Args[1:] {
				if key, ok := text(arg); ok {
					l.attributes = append(l.attributes, key)
				}
			}
			lines = append(lines, l)
			return true
		})
	}
	return lines
}

// text returns a string that stands in the code, put together where it is in pieces.
func text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, ok := text(e.X)
		if y, also := text(e.Y); ok && also && e.Op == token.ADD {
			return x + y, true
		}
	}
	return "", false
}

var logRow = regexp.MustCompile("(?m)^\\| (debug|info|warn|error) \\| `([^`]+)` \\| ([^|]*) \\|")

// logRule: every message of the log stands on the page, with its level and its attributes, and no
// other does.
func logRule(t *tree) (problems []string) {
	page := ""
	for _, f := range t.files {
		if f.path == logPage {
			page = string(f.text)
		}
	}
	said := make(map[string]bool) // whether the program writes it
	for _, row := range logRow.FindAllStringSubmatch(page, -1) {
		said[row[0]] = false
	}
	for _, l := range logLines(t) {
		found, attributes := false, "" // several programs may write the same message
		for row := range said {
			if m := logRow.FindStringSubmatch(row); m[1] == l.level && m[2] == l.message {
				found, said[row] = true, true
				attributes += m[3]
			}
		}
		if !found {
			problems = append(problems,
				fmt.Sprintf("%s: %s %q is not in %s", l.at, l.level, l.message, logPage))
			continue
		}
		for _, key := range l.attributes {
			if !strings.Contains(attributes, "`"+key+"`") {
				problems = append(problems,
					fmt.Sprintf("%s: the attribute %q of %q is not in %s", l.at, key, l.message,
						logPage))
			}
		}
	}
	for row, written := range said {
		if !written {
			problems = append(problems, fmt.Sprintf("%s: nobody writes %q", logPage, row))
		}
	}
	slices.Sort(problems)
	return problems
}

func TestLog(t *testing.T) { holds(t, logRule) }

func TestLogFinds(t *testing.T) {
	finds(t, logRule, map[string]string{
		"docs/log.md": "| warn | `a queue hangs` | `queue` |\n| info | `never written` |  |\n",
		"low/low.go": "package low\nfunc f(l logger) {\nl.Warn(\"a queue \" + \"hangs\", " +
			"\"queue\", 1, \"why\", 2)\nl.Info(\"new\")\n}\n",
	}, "docs/log.md: nobody writes", `low/low.go:3: "why"`, `low/low.go:4: "new" is not in`)
}
