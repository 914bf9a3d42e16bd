package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pure are the packages whose results depend on their arguments only. Replay, the metamorphic tests
// and replicas all rest on it: the same commands over the same rows give the same rows on every
// machine.
var pure = []string{"internal/engine", "internal/engine/row", "internal/invariant", "internal/engine/key",
	"internal/door/policy", "internal/api/sqs/sqswire"}

// pureImports are the standard packages that a pure package may use: none of them reads a clock, a
// source of randomness, the environment or the address of anything, and none starts a goroutine.
var pureImports = []string{
	"bytes", "cmp", "container/...", "crypto/hmac", "crypto/md5", "crypto/sha1", "crypto/sha256",
	"encoding/...",
	"errors", "fmt", "hash", "hash/adler32", "hash/crc32", "hash/crc64", "hash/fnv", "html", "io",
	"iter", "maps",
	"math", "math/bits", "mime", "net/netip", "net/url", "reflect", "regexp/...", "slices", "sort",
	"strconv", "strings",
	"text/...", "unicode/...",
}

// pureRule looks at the syntax of the pure packages: imports, goroutines and floating point, whose
// results may differ between processors. mapOrderRule does what needs types.
func pureRule(dirs []string) rule {
	return func(t *tree) (problems []string) {
		for _, dir := range dirs {
			for _, f := range t.sources(dir) {
				problem := func(n ast.Node, format string, args ...any) {
					problems = append(problems, t.at(n.Pos())+": "+fmt.Sprintf(format, args...))
				}
				for _, spec := range f.syntax.Imports {
					if p := t.local(spec.Path.Value); isStandard(p) && !matchesAny(pureImports, p) {
						problem(spec, "imports %s; time, randomness and the world outside come "+
							"in as arguments", p)
					}
				}
				ast.Inspect(f.syntax, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.GoStmt:
						problem(n, "starts a goroutine")
					case *ast.SelectStmt:
						problem(n, "selects, which picks at random")
					case *ast.BasicLit:
						if n.Kind == token.FLOAT || n.Kind == token.IMAG {
							problem(n, "floating point: %s", n.Value)
						}
					case *ast.Ident:
						if n.Name == "float32" || n.Name == "float64" {
							problem(n, "floating point: %s", n.Name)
						}
					}
					return true
				})
			}
		}
		return problems
	}
}

// mapOrderRule finds loops over maps, whose order is random, unless the line or the one above says
// in a comment that the result is sorted, or that the order does not matter, and why.
func mapOrderRule(dirs []string) rule {
	return func(t *tree) (problems []string) {
		for _, dir := range dirs {
			files := t.sources(dir)
			if len(files) == 0 {
				continue
			}
			info, err := t.check(dir, files)
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v", dir, err))
				continue
			}
			for _, f := range files {
				for _, pos := range unordered(f.syntax, info) {
					if !t.explained(f, pos) {
						problems = append(problems,
							t.at(pos)+": goes through a map in random order; "+
								`sort, and say "sorted" in a comment here, or "order does not matter:" and why`)
					}
				}
			}
		}
		return problems
	}
}

// unordered returns the places in a file where the elements of a map come out in random order:
// loops over maps, and the iterators of package maps unless they go straight into a sorting
// function.
func unordered(f *ast.File, info *types.Info) (found []token.Pos) {
	sorted := make(map[ast.Expr]bool)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if tv, ok := info.Types[n.X]; ok && isMap(tv.Type) {
				found = append(found, n.Pos())
			}
		case *ast.CallExpr:
			pkg, name := callee(n, info)
			if pkg == "slices" && strings.HasPrefix(name, "Sorted") && len(n.Args) > 0 {
				sorted[n.Args[0]] = true
			}
			if pkg == "maps" && slices.Contains([]string{"All", "Keys", "Values"}, name) &&
				!sorted[n] {
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

// callee returns the package and name of the function that a call names, if it is one of a package.
func callee(call *ast.CallExpr, info *types.Info) (pkg, name string) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if f, ok := info.Uses[sel.Sel].(*types.Func); ok && f.Pkg() != nil {
		return f.Pkg().Path(), f.Name()
	}
	return "", ""
}

// isMap also holds for a type parameter that may stand for a map.
func isMap(typ types.Type) bool {
	if p, ok := types.Unalias(typ).(*types.TypeParam); ok {
		i := p.Constraint().Underlying().(*types.Interface)
		for e := range i.EmbeddedTypes() {
			if u, ok := e.(*types.Union); ok {
				for term := range u.Terms() {
					if isMap(term.Type()) {
						return true
					}
				}
			} else if isMap(e) {
				return true
			}
		}
		return false
	}
	_, ok := typ.Underlying().(*types.Map)
	return ok
}

// explained says whether a comment on the line of pos, or ending on the one above, speaks about
// order. "Order does not matter" needs a reason: something has to follow it.
func (t *tree) explained(f *file, pos token.Pos) bool {
	line := t.fset.Position(pos).Line
	for _, group := range f.syntax.Comments {
		begins, ends := t.fset.Position(group.Pos()).Line, t.fset.Position(group.End()).Line
		if begins != line && ends != line-1 {
			continue
		}
		text := strings.ToLower(group.Text())
		if strings.Contains(text, "sorted") {
			return true
		}
		if _, why, ok := strings.Cut(text, "order does not matter"); ok &&
			strings.Trim(why, " .:,;\n") != "" {
			return true
		}
	}
	return false
}

// check computes the types of a package. Those of its imports come from the compiler's export data,
// which is in the build cache whenever the package was built.
func (t *tree) check(dir string, files []*file) (*types.Info, error) {
	var imports []string
	var syntax []*ast.File
	for _, f := range files {
		syntax = append(syntax, f.syntax)
		for _, spec := range f.syntax.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, err
			}
			imports = append(imports, p)
		}
	}
	exports, err := exportData(imports)
	if err != nil {
		return nil, err
	}
	conf := types.Config{Importer: importer.ForCompiler(t.fset, "gc",
		func(p string) (io.ReadCloser, error) {
			name, ok := exports[p]
			if !ok {
				return nil, fmt.Errorf("go list gave no export data of %s", p)
			}
			return os.Open(name)
		})}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue),
		Uses: make(map[*ast.Ident]types.Object)}
	_, err = conf.Check(path.Join(t.module, dir), t.fset, syntax, info)
	return info, err
}

// exportData returns the files that hold the export data of packages and all that they import.
func exportData(packages []string) (map[string]string, error) {
	exports := make(map[string]string)
	if len(packages) == 0 {
		return exports, nil
	}
	slices.Sort(packages)
	args := []string{"list", "-export", "-deps", "-f",
		"{{if .Export}}{{.ImportPath}}\t{{.Export}}{{end}}", "--"}
	cmd := exec.Command("go", append(args, slices.Compact(packages)...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &stderr)
	}
	for line := range strings.Lines(string(out)) {
		if p, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			exports[p] = name
		}
	}
	return exports, nil
}

func TestPure(t *testing.T)     { holds(t, pureRule(pure)) }
func TestMapOrder(t *testing.T) { holds(t, mapOrderRule(pure)) }

func TestPureFinds(t *testing.T) {
	finds(t, pureRule([]string{"p"}), map[string]string{
		"p/p_test.go": "package p\nimport _ \"time\"\n",
		"q/q.go":      "package q\nimport _ \"time\"\n",
		"p/p.go": `package p

import (
	"math"
	"strings"
	"time"
	_ "math/rand/v2"
	_ "net/url"
	_ "sync"
)

const third = 0.3

func f(c chan int) {
	go f(c)
	select {
	case <-c:
	default:
	}
	_ = float64(math.MaxInt64)
	_ = strings.Repeat
	_ = time.Now
}
`},
		"p/p.go:6: imports time",
		"p/p.go:7: imports math/rand/v2",
		"p/p.go:9: imports sync",
		"p/p.go:12: floating point: 0.3",
		"p/p.go:15: starts a goroutine",
		"p/p.go:16: selects",
		"p/p.go:20: floating point: float64",
	)
}

func TestMapOrderFinds(t *testing.T) {
	finds(t, mapOrderRule([]string{"p"}), map[string]string{
		"p/p.go": `package p

import (
	"maps"
	"slices"
)

type table map[string]int

func f(m table, s []int, seq func(func(int) bool)) (keys []string) {
	for range s {
	}
	for range seq {
	}
	for k := range m {
		keys = append(keys, k)
	}
	for k := range m { // sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	// Order does not matter: readers of s add it up,
	// and a sum is the same in any order.
	for _, n := range m {
		s = append(s, n)
	}
	for _, n := range m { // order does not matter
		s = append(s, n)
	}
	for k := range maps.Keys(m) {
		keys = append(keys, k)
	}
	return slices.Sorted(maps.Keys(m))
}

func g[M ~map[K]V, K comparable, V any](m M) {
	for range m {
	}
}
`},
		"p/p.go:15: random order",
		"p/p.go:27: random order",
		"p/p.go:30: random order",
		"p/p.go:37: random order",
	)
}
