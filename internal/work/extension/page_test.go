package extension

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the table of docs/extensions.md anew")

const begin, end = "<!-- begin extensions -->\n", "<!-- end extensions -->\n"

// docs/extensions.md has the table of extensions as it is. [TAG-15]
func TestPage(t *testing.T) {
	const name = "../../../docs/extensions.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	old, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", name)
	}
	want := page()
	switch {
	case old == want:
	case *rewrite:
		if err := os.WriteFile(name, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table in docs/extensions.md differs from the list; write it with -rewrite")
	}
}

func page() string {
	var b strings.Builder
	b.WriteString("\n| Tag | Value | Example | Effect | Rules |\n|---|---|---|---|---|\n")
	for _, x := range All {
		queues := ""
		if x.FIFOOnly {
			queues = " FIFO queues only."
		}
		if x.StandardOnly {
			queues = " Standard queues only."
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s%s | %s |\n", x.Tag, x.Values, x.Example, x.Does,
			queues, x.Rules)
	}
	b.WriteString("\n")
	return b.String()
}

// Every extension is complete, takes its own example, and says what it switches on. Tables and
// answers follow the order of the list. [TAG-15]
func TestAll(t *testing.T) {
	if !slices.IsSortedFunc(All, func(a, b Extension) int { return strings.Compare(a.Tag, b.Tag) }) {
		t.Error("the extensions are not in order of their tags")
	}
	for _, x := range All {
		if reason, _ := Check(x.Tag, x.Example, x.FIFOOnly); reason != "" {
			t.Errorf("%s refuses its example %s: %s", x.Tag, x.Example, reason)
		}
		if says := Explain(x.Tag, x.Example); says == "" || strings.HasSuffix(says, ".") {
			t.Errorf("%s=%s is explained as %q, want a few words", x.Tag, x.Example, says)
		}
		var s Set
		if s.Add(x.Tag, x.Example); s == (Set{}) {
			t.Errorf("%s=%s switches nothing on", x.Tag, x.Example)
		}
		for _, wrong := range []string{"", " ", "0", "-1", "yes", "1e3", "99999999999999999999"} {
			reason, ofValue := Check(x.Tag, wrong, true)
			if !ofValue || !strings.HasPrefix(reason, "Must be ") {
				t.Errorf("%s=%s is refused with %q, want a reason that begins with Must be",
					x.Tag, wrong, reason)
			}
			var s Set
			if s.Add(x.Tag, wrong); s != (Set{}) {
				t.Errorf("%s=%s, which is refused, switches on %+v", x.Tag, wrong, s)
			}
		}
	}
	if reason, ofValue := Check("tenaq:nothing", "1", true); reason == "" || ofValue {
		t.Errorf("an unknown tag is refused with %q, of its value: %v", reason, ofValue)
	}
}
