package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRaced runs test/raced around programs that end as test binaries do. Only one that the race
// detector itself ended is started again, and not forever.
func TestRaced(t *testing.T) {
	const broke = `ThreadSanitizer: CHECK failed: tsan_rtl.cpp:282 "((!thr->slot_locked)) != (0)" (0x0, 0x0) (tid=1)`
	for _, test := range []struct {
		name, output string
		status       int  // of each start
		heals        bool // all but the first pass
		starts       int
		want         int
	}{
		{"passes", "PASS", 0, false, 1, 0},
		{"broke once", broke, 66, true, 2, 0},
		{"fault once", "SIGSEGV: segmentation violation\nPC=0x41bce9 m=8 sigcode=1 addr=0x0", 2,
			true, 2, 0},
		{"broke always", broke, 66, false, 3, 66},
		{"a failed test", "--- FAIL: TestX (0.00s)\nFAIL", 1, false, 1, 1},
		{"a failed test, then broke", "--- FAIL: TestX (0.00s)\n" + broke, 66, false, 1, 66},
		{"a race, then broke", "WARNING: DATA RACE\n" + broke, 66, false, 1, 66},
		{"a panic", "panic: runtime error: invalid memory address or nil pointer " +
			"dereference\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x1]", 2,
			false, 1, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			starts := filepath.Join(dir, "starts")
			program := filepath.Join(dir, "program")
			script := fmt.Sprintf("#!/usr/bin/env bash\necho start >> '%s'\n", starts)
			if test.heals {
				script += fmt.Sprintf("[ $(wc -l < '%s') -eq 1 ] || exit 0\n", starts)
			}
			script += fmt.Sprintf("cat >&2 <<'END'\n%s\nEND\nexit %d\n", test.output, test.status)
			if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			got := 0
			output, err := exec.Command("../../test/raced", program, "-test.v").CombinedOutput()
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				got = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("exit status %d, want %d\n%s", got, test.want, output)
			}
			if !test.heals && !strings.Contains(string(output), test.output) {
				t.Errorf("the output is %q, want what the program wrote", output)
			}
			lines, err := os.ReadFile(starts)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(lines), "\n"); n != test.starts {
				t.Errorf("started %d times, want %d", n, test.starts)
			}
		})
	}
}

// aloneRule: no test of the packages that the Makefile names as ALONE can have a race. Neither they
// nor what their tests use in this repository starts a goroutine.
func aloneRule(t *tree) (problems []string) {
	for _, f := range t.files {
		if f.path != "Makefile" {
			continue
		}
		text := strings.ReplaceAll(string(f.text), "\\\n", " ")
		_, list, found := strings.Cut(text, "\nALONE       := ")
		if !found {
			problems = append(problems, "Makefile: no ALONE")
		}
		list, _, _ = strings.Cut(list, "\n")
		for _, dir := range strings.Fields(list) {
			dir = strings.TrimPrefix(dir, "./")
			if !slices.Contains(t.packages(), dir) {
				problems = append(problems, fmt.Sprintf("Makefile: there is no package %s", dir))
			}
			if at := t.firstGoroutine(dir, true, map[string]bool{}); at != "" {
				problems = append(problems, fmt.Sprintf("%s: a goroutine in the tests of %s; take it"+
					" off ALONE in the Makefile, so that the race detector watches it", at, dir))
			}
		}
	}
	return problems
}

// firstGoroutine returns the place where a package, or one that it imports, starts a goroutine. The
// watchdog of package proof shares no data with tests.
func (t *tree) firstGoroutine(dir string, tests bool, seen map[string]bool) string {
	if seen[dir] || dir == "internal/testing/proof" {
		return ""
	}
	seen[dir] = true
	for _, f := range t.files {
		if !f.isGo() || f.dir() != dir || f.isTest() && !tests {
			continue
		}
		at := ""
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				at = t.at(n.Pos())
			case *ast.SelectorExpr:
				if slices.Contains([]string{"Go", "AfterFunc", "Parallel", "RunParallel", "NewServer",
					"Serve", "ListenAndServe"}, n.Sel.Name) {
					at = t.at(n.Pos())
				}
			}
			return at == ""
		})
		for _, spec := range f.syntax.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if below, ok := strings.CutPrefix(name, t.module+"/"); ok && err == nil && at == "" {
				at = t.firstGoroutine(below, false, seen)
			}
		}
		if at != "" {
			return at
		}
	}
	return ""
}

func TestAlone(t *testing.T) { holds(t, aloneRule) }

func TestAloneFinds(t *testing.T) {
	finds(t, aloneRule, map[string]string{
		"Makefile":         "UNRACED := ./far\nALONE       := ./quiet ./busy \\\n\t./tested ./user ./gone\nX := y\n",
		"quiet/q.go":       "package quiet\nfunc F() {}\n",
		"busy/b.go":        "package busy\nfunc F() { go F() }\n",
		"tested/t.go":      "package tested\n",
		"tested/t_test.go": "package tested\nimport \"testing\"\nfunc TestT(t *testing.T) { t.Parallel() }\n",
		"user/u.go":        "package user\nimport _ \"fixture/far\"\n",
		"far/f.go":         "package far\nimport _ \"fixture/quiet\"\nfunc F() { go F() }\n",
		"far/f_test.go":    "package far\nfunc G() { go F() }\n",
	},
		"busy/b.go:2 tests of busy", "tested/t_test.go:3 tests of tested",
		"far/f.go:3 tests of user", "Makefile no package gone")
}
