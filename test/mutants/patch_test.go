package mutants

import (
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is where the module begins.
const root = "../.."

// A mutant is a bug and the test that must notice it. The package comment describes its file.
type mutant struct {
	name          string
	wrong, breaks string
	pkg, test     string   // what must fail
	with          []string // variables and flags of the test
	program       string   // has the bug; else the test has
	hunks         []hunk
}

// A hunk replaces lines of one file in a folder.
type hunk struct {
	folder string
	old    []string
	new    []string
}

// mutants reads all patches, in the order of their names.
func mutants(t *testing.T) (all []mutant) {
	t.Helper()
	names, err := filepath.Glob("patches/*.patch")
	if err != nil || len(names) == 0 {
		t.Fatalf("no patches: %v", err)
	}
	for _, name := range names {
		all = append(all, read(t, name))
	}
	return all
}

func read(t *testing.T, name string) mutant {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	m := mutant{name: strings.TrimSuffix(filepath.Base(name), ".patch")}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		key, value, ok := strings.Cut(line, ": ")
		switch {
		case key == "In" && ok:
			m.hunks = append(m.hunks, hunk{folder: value})
		case len(m.hunks) > 0:
			if !m.hunks[len(m.hunks)-1].add(line) {
				t.Fatalf("%s:%d: a line of a hunk begins with a blank, + or -", name, i+1)
			}
		case key == "Wrong":
			m.wrong = value
		case key == "Breaks":
			m.breaks = value
		case key == "Test":
			m.pkg, m.test, _ = strings.Cut(value, " ")
		case key == "With":
			m.with = strings.Fields(value)
		case key == "Program":
			m.program = value
		default:
			t.Fatalf("%s:%d: unknown line %q", name, i+1, line)
		}
	}
	return m
}

func (h *hunk) add(line string) bool {
	if line == "" { // editors remove blanks at the ends of lines
		line = " "
	}
	switch line[0] {
	case ' ':
		h.old, h.new = append(h.old, line[1:]), append(h.new, line[1:])
	case '-':
		h.old = append(h.old, line[1:])
	case '+':
		h.new = append(h.new, line[1:])
	default:
		return false
	}
	return true
}

// apply returns the files that hunks change, by name.
func apply(hunks []hunk) (map[string]string, error) {
	changed := make(map[string]string)
	for _, h := range hunks {
		names, err := filepath.Glob(filepath.Join(root, h.folder, "*.go"))
		if err != nil {
			return nil, err
		}
		places := 0
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, ok := changed[name]
			if !ok {
				b, err := os.ReadFile(name)
				if err != nil {
					return nil, err
				}
				text = string(b)
			}
			lines := strings.Split(text, "\n")
			for i := range lines {
				if matches(lines[i:], h.old) {
					places++
					changed[name] = strings.Join(slices.Concat(lines[:i], h.new,
						lines[i+len(h.old):]), "\n")
				}
			}
		}
		if places != 1 {
			return nil, fmt.Errorf("these lines are in %d places of %s, want 1:\n%s", places,
				h.folder, strings.Join(h.old, "\n"))
		}
	}
	return changed, nil
}

// matches reports whether lines begin with some others; indentation does not count.
func matches(lines, with []string) bool {
	return len(with) > 0 && len(lines) >= len(with) &&
		slices.EqualFunc(lines[:len(with)], with, func(a, b string) bool {
			return strings.TrimSpace(a) == strings.TrimSpace(b)
		})
}

// overlay writes the files that hunks change into dir and returns a file for go build -overlay.
func overlay(t *testing.T, dir string, hunks []hunk) string {
	t.Helper()
	changed, err := apply(hunks)
	if err != nil {
		t.Fatal(err)
	}
	replace := make(map[string]string)
	for name, text := range changed {
		from, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, strings.ReplaceAll(filepath.Clean(strings.TrimPrefix(name,
			root+"/")), "/", "-"))
		write(t, to, []byte(text))
		replace[from] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	write(t, name, text)
	return name
}

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// unguarded are the hunks that every mutant has.
func unguarded(t *testing.T) []hunk { return read(t, "unguarded.patch").hunks }

// Every patch is complete and applies, and what it breaks is a rule. If this fails after a change
// of the sources, update the lines of the patch, so that it seeds the same bug.
func TestPatches(t *testing.T) {
	rules := rules(t)
	number := regexp.MustCompile(`^[A-Z0-9]+-\d+$`)
	for _, m := range mutants(t) {
		if !strings.HasSuffix(m.wrong, ".") || m.breaks == "" || m.test == "" || len(m.hunks) == 0 {
			t.Errorf("%s: Wrong, Breaks, Test or In is missing: %+v", m.name, m)
		}
		if _, err := os.Stat(filepath.Join(root, m.pkg)); err != nil {
			t.Errorf("%s: its test: %v", m.name, err)
		}
		for rule := range strings.FieldsSeq(m.breaks) {
			if number.MatchString(rule) && !strings.Contains(rules, "\n### "+rule+" — ") {
				t.Errorf("%s breaks %s, which is no rule", m.name, rule)
			}
		}
		changed, err := apply(append(unguarded(t), m.hunks...))
		if err != nil {
			t.Errorf("patches/%s.patch does not apply: %v", m.name, err)
		}
		for name, text := range changed {
			if _, err := format.Source([]byte(text)); err != nil {
				t.Errorf("patches/%s.patch: %s: %v", m.name, name, err)
			}
		}
	}
}

// rules returns the text of all rules.
func rules(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "docs/semantics/*.md"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	var rules strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rules.Write(text)
	}
	return rules.String()
}

// A hunk that fits nowhere, or in two places, is refused; indentation does not count.
func TestApply(t *testing.T) {
	h := hunk{folder: "internal/invariant", old: []string{"\tpackage invariant"},
		new: []string{"package changed"}}
	changed, err := apply([]hunk{h})
	for name, text := range changed {
		if !strings.Contains(text, "\npackage changed\n") &&
			!strings.HasPrefix(text, "package changed\n") {
			t.Errorf("%s is not changed:\n%s", name, text)
		}
	}
	if err != nil || len(changed) != 1 {
		t.Errorf("%d files changed, %v; want one", len(changed), err)
	}
	for _, old := range [][]string{nil, {"no such line"}, {"}"}} {
		if changed, err := apply([]hunk{{folder: "internal/invariant", old: old}}); err == nil {
			t.Errorf("%q was replaced in %v, want an error", old, changed)
		}
	}
}
