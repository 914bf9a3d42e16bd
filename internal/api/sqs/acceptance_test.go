package sqs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The list of docs/semantics/README.md is in order, names scripts and tests that there are, and
// names every script that was written for it.
func TestAcceptanceList(t *testing.T) {
	text, err := os.ReadFile("../../../docs/semantics/README.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testsByName(t, ".", "sqswire", "../../../test/sdk", "../../../test/interop")
	row := regexp.MustCompile(`(?m)^\| ([0-9]+) \| .+ \| (.+) \|$`)
	named := make(map[string]bool)
	for i, m := range row.FindAllStringSubmatch(string(text), -1) {
		if m[1] != itoa(i+1) {
			t.Errorf("item %s, want %d", m[1], i+1)
		}
		for name := range strings.SplitSeq(m[2], ", ") {
			name = strings.Trim(name, "`")
			named[name] = true
			if strings.HasPrefix(name, "Test") {
				if tests[name] == "" {
					t.Errorf("item %s: there is no test %s", m[1], name)
				}
			} else if _, err := os.Stat(filepath.Join("testdata", name)); err != nil {
				t.Errorf("item %s: %v", m[1], err)
			}
		}
	}
	if len(named) < 15 {
		t.Errorf("the list names %d scripts and tests: %v", len(named), slices.Sorted(maps.Keys(named)))
	}
	scripts, err := filepath.Glob("testdata/acceptance_*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range scripts {
		if !named[filepath.Base(path)] {
			t.Errorf("%s is not in the list", path)
		}
	}
}
