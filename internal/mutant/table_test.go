package mutant

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// root is where the module begins.
const root = "../.."

// Every mutant has its row, and every row a mutant.
func TestTable(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "mutant.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[Mutant]string) // of constants
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names[Mutant(value)] = spec.Names[0].Name
		}
		return true
	})
	sites := sitesOf(t)
	for _, e := range Table() {
		name, ok := names[e.Mutant]
		switch {
		case !ok:
			t.Errorf("%s has two rows, or no constant", e.Mutant)
		case sites[name] != 1:
			t.Errorf("%s is in %d places of the program, want one", e.Mutant, sites[name])
		case !strings.HasSuffix(e.Wrong, ".") || e.Breaks == "" || e.Killer.Package == "":
			t.Errorf("%s: the row is not complete: %+v", e.Mutant, e)
		}
		delete(names, e.Mutant)
	}
	for m := range names {
		t.Errorf("%s has no row", m)
	}
}

// sitesOf counts in how many places each constant is asked for.
func sitesOf(t *testing.T) map[string]int {
	sites := make(map[string]int)
	asked := regexp.MustCompile(`mutant\.Is\(mutant\.(\w+)\)`)
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || filepath.Dir(name) == filepath.Join(root, "internal/mutant") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range asked.FindAllStringSubmatch(string(text), -1) {
			sites[m[1]]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sites
}

// What a mutant breaks is a rule.
func TestRulesExist(t *testing.T) {
	var rules strings.Builder
	files, err := filepath.Glob(filepath.Join(root, "docs/semantics/*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rules.Write(text)
	}
	for _, e := range Table() {
		for rule := range strings.FieldsSeq(e.Breaks) {
			if !strings.Contains(rules.String(), "\n### "+rule+" — ") {
				t.Errorf("%s breaks %s, which is no rule", e.Mutant, rule)
			}
		}
	}
}

func TestChosen(t *testing.T) {
	if got := chosen(""); got != "" {
		t.Errorf("without a name the mutant is %q, want none", got)
	}
	if got := chosen("no-sync"); got != NoSync {
		t.Errorf("the mutant is %q, want %q", got, NoSync)
	}
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "no-sinc") || !strings.Contains(text, "\nno-sync\n") {
			t.Errorf("a misspelt name panics with %q, want the name and a list", text)
		}
	}()
	chosen("no-sinc")
}
