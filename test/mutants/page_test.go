package mutants

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the table of docs/proofs.md anew")

const begin, end = "<!-- begin mutants -->\n", "<!-- end mutants -->\n"

// docs/proofs.md has the table of mutants as it is.
func TestPage(t *testing.T) {
	name := filepath.Join(root, "docs/proofs.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	old, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", name)
	}
	want := page(t)
	switch {
	case old == want:
	case *rewrite:
		if err := os.WriteFile(name, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table of mutants in docs/proofs.md differs from test/mutants/patches; " +
			"write it with -rewrite")
	}
}

func page(t *testing.T) string {
	var b strings.Builder
	b.WriteString("\n| Mutant | What is wrong | Breaks | Killed by |\n|---|---|---|---|\n")
	for _, m := range mutants(t) {
		test, breaks := strings.NewReplacer("^", "", "$", "", "|", `\|`).Replace(m.test), m.breaks
		if !strings.HasSuffix(breaks, ".") {
			breaks = strings.Join(strings.Fields(breaks), ", ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` in `%s` |\n", m.name, m.wrong, breaks, test, m.pkg)
	}
	b.WriteString("\n")
	return b.String()
}
