package archtest

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

// A tree is the text of a repository. Binary files are left out.
type tree struct {
	module string // the module path, from go.mod
	fset   *token.FileSet
	files  []*file // in order of their paths
}

// A file is one file of a tree.
type file struct {
	path   string // from the root, with slashes
	text   []byte
	syntax *ast.File // nil unless the go tool would look at it
}

func (f *file) isGo() bool   { return f.syntax != nil }
func (f *file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// dir is the directory of the file, which is how packages are named here: internal/kv.
func (f *file) dir() string { return path.Dir(f.path) }

// isScript says whether f is a test script: text below a testdata directory.
func (f *file) isScript() bool {
	return strings.Contains("/"+f.path, "/testdata/") &&
		(path.Ext(f.path) == ".txt" || path.Ext(f.path) == ".txtar")
}

// repository is the tree this package is part of.
var repository = sync.OnceValues(func() (*tree, error) { return load(os.DirFS("../..")) })

// load reads a tree. Directories that are no part of the repository are skipped: what begins with a
// dot is a tool's unless it is .ci or .github, and /bin is what make builds.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			if name == "bin" || base != "." && base[0] == '.' && base != ".ci" &&
				base != ".github" {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			return err
		}
		f := &file{path: name, text: text}
		if path.Ext(name) == ".go" && !strings.Contains("/"+name, "/testdata/") {
			f.syntax, err = parser.ParseFile(t.fset, name, text,
				parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
		}
		t.files = append(t.files, f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, f := range t.files {
		if f.path == "go.mod" {
			line, _, _ := strings.Cut(string(f.text), "\n")
			t.module = strings.TrimPrefix(line, "module ")
		}
	}
	if t.module == "" {
		return nil, fmt.Errorf("no go.mod that begins with a module line")
	}
	slices.SortFunc(t.files, func(a, b *file) int { return cmp.Compare(a.path, b.path) })
	return t, nil
}

// packages returns the directories that hold Go files, in order.
func (t *tree) packages() []string {
	var dirs []string
	for _, f := range t.files {
		if f.isGo() {
			dirs = append(dirs, f.dir())
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// sources returns the Go files of a package, tests left out.
func (t *tree) sources(dir string) []*file {
	var files []*file
	for _, f := range t.files {
		if f.isGo() && !f.isTest() && f.dir() == dir {
			files = append(files, f)
		}
	}
	return files
}

// at says where something stands, as compilers do: internal/kv/kv.go:17.
func (t *tree) at(pos token.Pos) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// A rule finds what is wrong with a tree. Each problem begins with the place and ends with what to
// do where that is not plain.
type rule func(*tree) []string

// holds runs a rule over the repository.
func holds(t *testing.T, r rule) {
	t.Helper()
	tr, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range r(tr) {
		t.Error(problem)
	}
}

// finds runs a rule over a fixture and compares the places it complains about, and a few words of
// each complaint, with want. The fixture maps paths to texts; it need not have a go.mod.
func finds(t *testing.T, r rule, fixture map[string]string, want ...string) {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module fixture\n")}}
	for name, text := range fixture {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tr, err := load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	got := r(tr)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(want):
			t.Errorf("problem %d: got %q, want no more", i, got[i])
		case i >= len(got):
			t.Errorf("problem %d: got no more, want %q", i, want[i])
		default:
			place, words, _ := strings.Cut(want[i], " ")
			if !strings.HasPrefix(got[i], place) || !strings.Contains(got[i], words) {
				t.Errorf("problem %d: got %q, want %q", i, got[i], want[i])
			}
		}
	}
}
