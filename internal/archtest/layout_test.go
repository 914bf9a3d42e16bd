package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// linesMax bounds the length of a Go file that is no test. A longer one holds more than one idea.
const linesMax = 700

// formatRule: every Go file is as gofmt writes it.
func formatRule(t *tree) (problems []string) {
	for _, f := range t.files {
		if !f.isGo() {
			continue
		}
		formatted, err := format.Source(f.text)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", f.path, err))
		} else if !bytes.Equal(formatted, f.text) {
			problems = append(problems, f.path+": run gofmt -w on it")
		}
	}
	return problems
}

// lengthRule: no file is longer than linesMax.
func lengthRule(t *tree) (problems []string) {
	for _, f := range t.files {
		if n := bytes.Count(f.text, []byte("\n")); f.isGo() && !f.isTest() && n > linesMax {
			problems = append(problems,
				fmt.Sprintf("%s: %d lines, at most %d; which ideas are in it?", f.path, n,
					linesMax))
		}
	}
	return problems
}

// packageCommentRule: every package says what it is, what it guarantees and what it leaves to
// others, which takes two lines at least, in exactly one place.
func packageCommentRule(t *tree) (problems []string) {
	for _, dir := range t.packages() {
		files := t.sources(dir)
		if len(files) == 0 {
			continue // tests only
		}
		var commented []string
		short := false
		for _, f := range files {
			if f.syntax.Doc != nil {
				commented = append(commented, f.path)
				short = strings.Count(f.syntax.Doc.Text(), "\n") < 2
			}
		}
		switch {
		case len(commented) == 0:
			problems = append(problems, dir+": no package comment")
		case len(commented) > 1:
			problems = append(problems,
				dir+": package comments in "+strings.Join(commented, " and "))
		case short:
			problems = append(problems, dir+": the package comment needs two lines at least")
		}
	}
	return problems
}

// exportedRule: in packages that are an API, everything exported has a comment; those under
// internal and cmd are none. A comment on a group of constants or variables covers the group.
func exportedRule(t *tree) (problems []string) {
	for _, f := range t.files {
		parts := strings.Split(f.dir(), "/")
		inside := slices.Contains(parts, "internal") || parts[0] == "cmd"
		if !f.isGo() || f.isTest() || inside || f.syntax.Name.Name == "main" {
			continue
		}
		for _, decl := range f.syntax.Decls {
			for _, name := range uncommented(decl) {
				problems = append(problems,
					fmt.Sprintf("%s: exported %s has no comment", t.at(name.Pos()), name.Name))
			}
		}
	}
	return problems
}

// uncommented returns the exported names that a declaration introduces without a comment.
func uncommented(decl ast.Decl) (names []*ast.Ident) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv)) {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				// A comment on a group of types says nothing about each.
				if s.Doc == nil && (d.Doc == nil || d.Lparen != token.NoPos) &&
					s.Name.IsExported() {
					names = append(names, s.Name)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if s.Doc == nil && s.Comment == nil && d.Doc == nil && name.IsExported() {
						names = append(names, name)
					}
				}
			}
		}
	}
	return names
}

// exportedReceiver says whether a method belongs to an exported type.
func exportedReceiver(recv *ast.FieldList) bool {
	typ := recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

func TestFormat(t *testing.T)          { holds(t, formatRule) }
func TestLength(t *testing.T)          { holds(t, lengthRule) }
func TestPackageComments(t *testing.T) { holds(t, packageCommentRule) }
func TestExported(t *testing.T)        { holds(t, exportedRule) }

func TestFormatFinds(t *testing.T) {
	finds(t, formatRule, map[string]string{
		"good.go":         "package p\n",
		"bad.go":          "package  p\n",
		"testdata/bad.go": "package  p\n",
	},
		"bad.go: run gofmt",
	)
}

func TestLengthFinds(t *testing.T) {
	finds(t, lengthRule, map[string]string{
		"good.go":     "package p\n" + strings.Repeat("\n", linesMax-1),
		"bad.go":      "package p\n" + strings.Repeat("\n", linesMax),
		"bad_test.go": "package p\n" + strings.Repeat("\n", linesMax),
	},
		"bad.go: 701 lines",
	)
}

func TestPackageCommentsFinds(t *testing.T) {
	finds(t, packageCommentRule, map[string]string{
		"good/a.go":       "// Package a is\n// good.\npackage a\n",
		"good/b.go":       "// A comment that is not the package's.\n\npackage a\n",
		"none/a.go":       "package a\n",
		"short/a.go":      "// Package a is short.\npackage a\n",
		"twice/a.go":      "// Package a is\n// here.\npackage a\n",
		"twice/b.go":      "// Package a is\n// there.\npackage a\n",
		"test/a.go":       "// Package a is\n// good.\npackage a\n",
		"tests/a_test.go": "package a\n",
	},
		"none: no package comment",
		"short: two lines",
		"twice: twice/a.go and twice/b.go",
	)
}

func TestExportedFinds(t *testing.T) {
	finds(t, exportedRule, map[string]string{
		"internal/a/a.go": "package a\n\nfunc F() {}\n",
		"cmd/a/a.go":      "package main\n\nfunc F() {}\n",
		"cmd/a/b/b.go":    "package b\n\nfunc F() {}\n",
		"a/a.go": `package a

func F() {}

// G has one.
func G() {}

type T[P any] struct{}

func (T[P]) M() {}
func (t *T[P]) m() {}

type u int

func (u) M() {}

const (
	A = 1 // has one
	B = 2
)

// All of these are one.
var (
	C = 1
	D = 2
)
`},
		"a/a.go:3: F",
		"a/a.go:8: T",
		"a/a.go:10: M",
		"a/a.go:19: B",
	)
}
