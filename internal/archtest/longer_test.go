package archtest

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// named returns the packages that a variable of the Makefile lists, and whether it is there.
func named(makefile *file, variable string) (dirs []string, found bool) {
	text := strings.ReplaceAll(string(makefile.text), "\\\n", " ")
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != variable || words[1] != ":=" {
			continue
		}
		for _, dir := range words[2:] {
			dirs = append(dirs, strings.TrimPrefix(dir, "./"))
		}
		return dirs, true
	}
	return nil, false
}

// longerList names the tests that make whole runs in a longer form than make race, one per line.
const longerList = "test/longer.txt"

const writeLonger = "go test ./internal/archtest -run TestLonger -rewrite"

var rewrite = flag.Bool("rewrite", false, "write "+longerList+" anew")

// longerRule: longerList has the tests that do less in their short form, or with the race detector.
// The race detector runs that form of all others, and no stage of make test runs them again.
func longerRule(t *tree) (problems []string) {
	longer, listed := t.longer(), make(map[string]bool)
	for _, f := range t.files {
		if f.path != longerList {
			continue
		}
		for line := range strings.Lines(string(f.text)) {
			test := strings.TrimSuffix(line, "\n")
			if listed[test] = true; longer[test] == "" {
				problems = append(problems, fmt.Sprintf("%s: %s has no longer form that make race"+
					" leaves out: %s", longerList, test, writeLonger))
			}
		}
	}
	for _, test := range slices.Sorted(maps.Keys(longer)) {
		if !listed[test] {
			problems = append(problems, fmt.Sprintf("%s: the short form of %s; add it to %s, so"+
				" that its long form runs: %s", longer[test], test, longerList, writeLonger))
		}
	}
	return problems
}

// longer returns the tests that belong on longerList, and where each does less. Of the packages
// that the race detector leaves out all tests run anyway.
func (t *tree) longer() map[string]string {
	var unwatched []string
	for _, f := range t.files {
		if f.path == "Makefile" {
			unraced, _ := named(f, "UNRACED")
			alone, _ := named(f, "ALONE")
			unwatched = append(unraced, alone...)
		}
	}
	longer, known := make(map[string]string), make(map[string]map[string]string)
	for _, dir := range t.packages() {
		if slices.ContainsFunc(unwatched, func(other string) bool {
			above, all := strings.CutSuffix(other, "/...")
			return dir == above || all && strings.HasPrefix(dir, above+"/")
		}) {
			continue
		}
		shorter := t.shorter(dir, true, known)
		all := cmp.Or(shorter["TestMain"], shorter["init"])
		for _, name := range t.tests(dir) {
			if at := cmp.Or(all, shorter[name]); at != "" {
				longer[dir+" "+name] = at
			}
		}
	}
	return longer
}

// tests returns the names of what go test runs in a package.
func (t *tree) tests(dir string) (names []string) {
	for _, f := range t.files {
		if !f.isGo() || !f.isTest() || f.dir() != dir {
			continue
		}
		for _, decl := range f.syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && fn.Recv == nil && isRun.MatchString(fn.Name.Name) {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

var isRun = regexp.MustCompile(`^(Test|Fuzz|Example)(\P{Ll}|$)`)

// shorter returns which declarations of a package do less in the short form of tests or under the
// race detector, and where. What uses such a declaration by its name does so too. A method has a
// dot before its name.
func (t *tree) shorter(
	dir string, tests bool, known map[string]map[string]string,
) map[string]string {
	if dir == "internal/testing/proof" && !tests {
		return map[string]string{"Count": dir, "Few": dir, "Short": dir, "Unraced": dir, "Race": dir}
	}
	if found, ok := known[dir]; ok && !tests {
		return found
	}
	found := make(map[string]string)
	if !tests {
		known[dir] = found
	}
	parts := t.parts(dir, tests, known)
	for grown := true; grown; {
		grown = false
		for _, p := range parts {
			if found[p.name] != "" {
				continue
			}
			if at := p.shortens(t, found); at != "" {
				found[p.name], grown = at, true
			}
		}
	}
	return found
}

// A part is a declaration at the top of a file, and what the packages that the file imports have
// in shorter forms, by the names that they are imported with.
type part struct {
	name string
	node ast.Node
	kits map[string]map[string]string
}

func (t *tree) parts(dir string, tests bool, known map[string]map[string]string) (parts []part) {
	for _, f := range t.files {
		if !f.isGo() || f.dir() != dir || f.isTest() && !tests {
			continue
		}
		kits := map[string]map[string]string{"testing": {"Short": "testing"}}
		for _, spec := range f.syntax.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			below, ours := strings.CutPrefix(name, t.module+"/")
			if err != nil || !ours || below == dir {
				continue
			}
			alias := path.Base(below)
			if spec.Name != nil {
				alias = spec.Name.Name
			}
			kits[alias] = t.shorter(below, false, known)
		}
		for _, decl := range f.syntax.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				name := decl.Name.Name
				if decl.Recv != nil {
					name = "." + name
				}
				parts = append(parts, part{name, decl, kits})
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							parts = append(parts, part{name.Name, spec, kits})
						}
					case *ast.TypeSpec:
						parts = append(parts, part{spec.Name.Name, spec, kits})
					}
				}
			}
		}
	}
	return parts
}

// shortens returns the place where a part does less in the short form, if there is one.
func (p part) shortens(t *tree, found map[string]string) (at string) {
	ast.Inspect(p.node, func(n ast.Node) bool {
		uses := false
		switch n := n.(type) {
		case *ast.SelectorExpr:
			uses = found["."+n.Sel.Name] != ""
			x, _ := n.X.(*ast.Ident)
			for alias, kit := range p.kits {
				uses = uses || kit["."+n.Sel.Name] != "" ||
					x != nil && x.Name == alias && kit[n.Sel.Name] != ""
			}
		case *ast.Ident:
			uses = found[n.Name] != ""
		case *ast.BasicLit:
			uses = n.Value == `"TENAQ_EFFORT"`
		}
		if uses && at == "" {
			at = t.at(n.Pos())
		}
		return at == ""
	})
	return at
}

func TestLonger(t *testing.T) {
	if !*rewrite {
		holds(t, longerRule)
		return
	}
	tr, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Join(slices.Sorted(maps.Keys(tr.longer())), "\n") + "\n"
	if err := os.WriteFile(filepath.Join("../..", longerList), []byte(list), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestLongerFinds(t *testing.T) {
	finds(t, longerRule, map[string]string{
		"Makefile":        "UNRACED := ./far/...\nALONE := ./lone\nX := y\n",
		"test/longer.txt": "gone TestG\nlisted TestL\nlone TestL\nquiet TestQ\n",
		"internal/testing/proof/p.go": "package proof\nfunc Count() {}\n" +
			"func Seed() { Count() }\n",
		"kit/k.go": "package kit\nimport \"fixture/internal/testing/proof\"\n" +
			"type T struct{}\nfunc few() { proof.Count() }\nfunc Run() { few() }\n" +
			"func Long() {}\nfunc (T) Few() { few() }\nfunc (T) Long() {}\n",
		"quiet/q_test.go": "package quiet\nimport (\n\"fixture/internal/testing/proof\"\n" +
			"\"fixture/kit\"\n)\nfunc TestQ() { proof.Seed(); kit.Long(); kit.T{}.Long() }\n",
		"calm/c_test.go": "package calm\nimport \"fixture/kit\"\n" +
			"func TestC() { kit.Long() }\n",
		"listed/l_test.go": "package listed\nimport \"testing\"\nvar l = testing.Short()\n" +
			"func TestL() { _ = l }\nfunc TestOther() {}\nfunc Testing() { _ = l }\n",
		"direct/d_test.go": "package direct\nimport \"testing\"\n" +
			"func TestD() { _ = testing.Short() }\n",
		"main/m_test.go": "package main\nimport \"testing\"\n" +
			"func TestMain() { _ = testing.Short() }\nfunc TestM() {}\n",
		"called/c_test.go": "package called\nimport \"fixture/internal/testing/proof\"\n" +
			"func f() { proof.Count() }\nfunc FuzzC() { f() }\nfunc TestC() {}\n",
		"user/u_test.go": "package user\nimport kits \"fixture/kit\"\n" +
			"func TestU() { kits.Run() }\n",
		"method/m_test.go": "package method\nimport \"fixture/kit\"\n" +
			"func TestM(t kit.T) { t.Few() }\n",
		"other/o_test.go": "package other\nimport \"os\"\n" +
			"var e = os.Getenv(\"TENAQ_EFFORT\")\nfunc ExampleE() { _ = e }\n",
		"lone/l_test.go": "package lone\nimport \"testing\"\n" +
			"func TestL() { _ = testing.Short() }\n",
		"far/away/f_test.go": "package away\nimport \"testing\"\n" +
			"func TestF() { _ = testing.Short() }\n",
	},
		"test/longer.txt gone TestG has no", "test/longer.txt lone TestL has no",
		"test/longer.txt quiet TestQ has no",
		"called/c_test.go:4 short form of called FuzzC;",
		"direct/d_test.go:3 short form of direct TestD;",
		"main/m_test.go:3 short form of main TestM;",
		"main/m_test.go:3 short form of main TestMain;",
		"method/m_test.go:3 short form of method TestM;",
		"other/o_test.go:4 short form of other ExampleE;",
		"user/u_test.go:3 short form of user TestU;")
}

// TestLongerRuns runs test/longer where a list names tests, and where it names none.
func TestLongerRuns(t *testing.T) {
	for dir, want := range map[string]string{
		"internal/kv":       "program -test.v -test.run=^(TestMemory|TestMemoryDurable|TestMemoryLost)$\n",
		"internal/archtest": "program -test.v\n",
	} {
		script, err := filepath.Abs("../../test/longer")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(script, "echo", "program", "-test.v")
		cmd.Dir = filepath.Join("../..", dir)
		if got, err := cmd.CombinedOutput(); err != nil || string(got) != want {
			t.Errorf("in %s: %q, %v, want %q", dir, got, err, want)
		}
	}
}
