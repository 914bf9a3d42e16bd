package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
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

// longerRule: the packages that the Makefile names as LONGER are those whose tests do less in their
// short form, or with the race detector. The race detector runs that form of all others, and no
// stage of make test runs them again.
func longerRule(t *tree) (problems []string) {
	for _, f := range t.files {
		if f.path != "Makefile" {
			continue
		}
		longer, found := named(f, "LONGER")
		if !found {
			problems = append(problems, "Makefile: no LONGER")
		}
		for _, dir := range longer {
			if !slices.Contains(t.packages(), dir) {
				problems = append(problems, fmt.Sprintf("Makefile: there is no package %s", dir))
			}
		}
		unraced, _ := named(f, "UNRACED")
		alone, _ := named(f, "ALONE")
		unwatched := append(unraced, alone...)
		known := make(map[string]map[string]string)
		for _, dir := range t.packages() {
			elsewhere := slices.ContainsFunc(unwatched, func(other string) bool {
				above, all := strings.CutSuffix(other, "/...")
				return dir == above || all && strings.HasPrefix(dir, above+"/")
			})
			listed := slices.Contains(longer, dir)
			switch shorter := slices.Sorted(maps.Values(t.shorter(dir, true, known))); {
			case elsewhere && listed:
				problems = append(problems, fmt.Sprintf("Makefile: %s is in LONGER and in UNRACED"+
					" or ALONE; take it off LONGER", dir))
			case elsewhere || !t.tested(dir):
			case listed && len(shorter) == 0:
				problems = append(problems, fmt.Sprintf("Makefile: no test of %s has a shorter"+
					" form; take it off LONGER", dir))
			case !listed && len(shorter) > 0:
				problems = append(problems, fmt.Sprintf("%s: the short form of a test of %s; add"+
					" it to LONGER in the Makefile, so that its long form runs", shorter[0], dir))
			}
		}
	}
	return problems
}

func (t *tree) tested(dir string) bool {
	return slices.ContainsFunc(t.files, func(f *file) bool {
		return f.isGo() && f.isTest() && f.dir() == dir
	})
}

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

func TestLonger(t *testing.T) { holds(t, longerRule) }

func TestLongerFinds(t *testing.T) {
	finds(t, longerRule, map[string]string{
		"Makefile": "UNRACED := ./far/...\nALONE := ./lone\n" +
			"LONGER := ./quiet \\\n\t./listed ./lone ./gone\nX := y\n",
		"internal/testing/proof/p.go": "package proof\nfunc Count() {}\n" +
			"func Seed() { Count() }\n",
		"kit/k.go": "package kit\nimport \"fixture/internal/testing/proof\"\n" +
			"type T struct{}\nfunc few() { proof.Count() }\nfunc Run() { few() }\n" +
			"func Long() {}\nfunc (T) Few() { few() }\nfunc (T) Long() {}\n",
		"quiet/q_test.go": "package quiet\nimport (\n\"fixture/internal/testing/proof\"\n" +
			"\"fixture/kit\"\n)\nfunc TestQ() { proof.Seed(); kit.Long(); kit.T{}.Long() }\n",
		"calm/c_test.go": "package calm\nimport \"fixture/kit\"\n" +
			"func TestC() { kit.Long() }\n",
		"listed/l_test.go": "package listed\nimport \"testing\"\nvar l = testing.Short()\n",
		"direct/d_test.go": "package direct\nimport \"testing\"\nvar d = testing.Short()\n",
		"called/c_test.go": "package called\nimport \"fixture/internal/testing/proof\"\n" +
			"func f() { proof.Count() }\n",
		"user/u_test.go": "package user\nimport kits \"fixture/kit\"\n" +
			"func TestU() { kits.Run() }\n",
		"method/m_test.go": "package method\nimport \"fixture/kit\"\n" +
			"func TestM(t kit.T) { t.Few() }\n",
		"other/o_test.go": "package other\nimport \"os\"\n" +
			"var e = os.Getenv(\"TENAQ_EFFORT\")\n",
		"lone/l_test.go":     "package lone\nimport \"testing\"\nvar l = testing.Short()\n",
		"far/away/f_test.go": "package away\nimport \"testing\"\nvar f = testing.Short()\n",
	},
		"Makefile no package gone", "called/c_test.go:3 test of called",
		"direct/d_test.go:3 test of direct", "Makefile lone is in LONGER and",
		"method/m_test.go:3 test of method", "other/o_test.go:3 test of other",
		"Makefile no test of quiet", "user/u_test.go:3 test of user")
}
