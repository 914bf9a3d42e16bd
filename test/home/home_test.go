// Package home shows that the module can move to the address of a copy, and be imported from there.
//
// The module path tenaq has no domain, so `go get` cannot fetch it. `make home` gives a copy a path
// that it can.
package home

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	module  = "example.com/you/tenaq"
	version = "v0.1.0"
)

// user is a program in another module that imports the libraries.
var user = map[string]string{
	"go.mod": "module shop\n\ngo 1.26.0\n\nrequire " + module + " " + version + "\n",
	"main.go": `package main

import (
	"fmt"

	"` + module + `/claims"
	"` + module + `/worker"
)

func main() {
	_, err := worker.New(worker.Config{})
	fmt.Println(err)
	fmt.Println(claims.EffectKey("order-1", 0))
}
`,
}

// A copy renames itself with `make home`, every package of it is found under the new path, and a
// program in another module imports its libraries from a module proxy.
func TestHome(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the libraries under another path")
	}
	copied := copyOfTree(t)
	run(t, copied, "git", "init", "-q")
	run(t, copied, "git", "add", "-A")
	run(t, copied, "make", "home", "MODULE="+module)

	for _, dir := range strings.Fields(run(t, copied, "go", "list", "-deps", "-test", "./...")) {
		if dir == "tenaq" || strings.HasPrefix(dir, "tenaq/") {
			t.Errorf("%s is still imported by its old path", dir)
		}
	}

	// The modules that tenaq needs come from the cache of this machine, laid out as a proxy.
	downloaded := filepath.Join(strings.TrimSpace(run(t, copied, "go", "env", "GOMODCACHE")), "cache", "download")
	proxy := t.TempDir()
	publish(t, proxy, copied)
	program := t.TempDir()
	for name, text := range user {
		write(t, filepath.Join(program, name), text)
	}
	t.Setenv("GOPROXY", "file://"+proxy+",file://"+downloaded)
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOFLAGS", "-mod=mod -modcacherw -trimpath")
	t.Setenv("CGO_ENABLED", "0")
	out := run(t, program, "go", "run", ".")
	if !strings.Contains(out, "order-1") || !strings.Contains(out, "worker") {
		t.Errorf("the program printed:\n%s", out)
	}
}

// copyOfTree copies the files that git knows, as they are now.
func copyOfTree(t *testing.T) string {
	root, dir := strings.TrimSpace(run(t, ".", "git", "rev-parse", "--show-toplevel")), t.TempDir()
	for name := range strings.SplitSeq(run(t, root, "git", "ls-files", "-co", "--exclude-standard"), "\n") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if name == "" || os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(data))
	}
	return dir
}

// publish puts the module in dir into a proxy on disk.
func publish(t *testing.T, proxy, dir string) {
	base := filepath.Join(proxy, module, "@v", version)
	gomod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, base+".mod", string(gomod))
	write(t, base+".info", `{"Version": "`+version+`"}`)

	f, err := os.Create(base + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	others := others(t, dir)
	for name := range strings.SplitSeq(strings.TrimSpace(run(t, dir, "git", "ls-files")), "\n") {
		if inAny(others, name) {
			continue
		}
		w, err := z.Create(module + "@" + version + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		from, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, from); err != nil {
			t.Fatal(err)
		}
		from.Close()
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

// others returns the folders of modules inside the module, which do not belong to it.
func others(t *testing.T, dir string) (dirs []string) {
	for name := range strings.FieldsSeq(run(t, dir, "git", "ls-files", "*/go.mod")) {
		dirs = append(dirs, strings.TrimSuffix(name, "go.mod"))
	}
	return dirs
}

func inAny(dirs []string, name string) bool {
	for _, dir := range dirs {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return false
}

func write(t *testing.T, name, text string) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs a command in dir and returns what it printed.
func run(t *testing.T, dir string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, said.String())
	}
	return string(out)
}
