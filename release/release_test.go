package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tenaq/internal/testing/proof"
)

// folder holds what tests build.
var folder string

// built is a release for this processor and Linux, which all tests look at.
var built = sync.OnceValues(func() (*build, error) {
	b, err := newBuild("..", filepath.Join(folder, "out"), "v1.2.3-rc.4")
	if err != nil {
		return nil, err
	}
	if err := b.compile([]platform{{"linux", runtime.GOARCH}}); err != nil {
		return nil, err
	}
	for _, step := range []func() error{b.archives, b.lists, b.packages, b.images,
		b.chart, b.checksums} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return b, nil
})

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "tenaq-release-test-"); err != nil {
		panic(err)
	}
	os.Setenv("TMPDIR", folder)
	status := m.Run()
	os.RemoveAll(folder)
	os.Exit(status)
}

// results returns the build, or skips the test where it would take too long.
func results(t *testing.T) *build {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a release: not in the short form")
	}
	b, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *build) result(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(b.to, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v, want one file", pattern, found, err)
	}
	return found[0]
}

// needs skips a test that a machine cannot run; CI can run all.
func needs(t *testing.T, ok bool, what string) {
	t.Helper()
	if !ok {
		proof.Missing(t, "needs "+what)
	}
}

func has(program string) bool { _, err := exec.LookPath(program); return err == nil }

// untar returns the files of a tar by name.
func untar(t *testing.T, r io.Reader) (map[string]*tar.Header, map[string][]byte) {
	t.Helper()
	headers, contents := make(map[string]*tar.Header), make(map[string][]byte)
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if err == io.EOF {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		if contents[h.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
		headers[h.Name] = h
	}
}

func ungzip(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parse(t *testing.T, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

// The archive holds the program, which knows its version and commit, and what goes with it, with
// the time of the commit and no name of this machine.
func TestArchive(t *testing.T) {
	b := results(t)
	name := "tenaq_1.2.3-rc.4_linux_" + runtime.GOARCH
	headers, contents := untar(t, bytes.NewReader(ungzip(t, read(t, b.result(t, name+".tar.gz")))))
	for _, want := range []string{"tenaq", "LICENSE", "LICENSES-OF-MODULES", "README.md",
		"CHANGELOG.md", "completions/tenaq.bash", "completions/_tenaq", "completions/tenaq.fish",
		"man/man1/tenaq.1", "man/man1/tenaq-queue-create.1"} {
		h := headers[name+"/"+want]
		if h == nil || h.Size == 0 {
			t.Errorf("%s is not in the archive, or empty", want)
		} else if !h.ModTime.Equal(b.at) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s: time %v, owner %d %q; want %v and 0", want, h.ModTime, h.Uid, h.Uname, b.at)
		}
	}
	program := contents[name+"/tenaq"]
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(program, []byte(root)) {
		t.Errorf("the program holds the folder it was built in, %s", root)
	}
	said, err := output(".", nil, b.programs[platform{"linux", runtime.GOARCH}], "version")
	if err != nil || !strings.Contains(said, "tenaq v1.2.3-rc.4 (commit "+b.commit[:12]) {
		t.Errorf("version says %q, %v", said, err)
	}
	if out, err := output(b.to, nil, "sha256sum", "--check",
		b.result(t, "*_checksums.txt")); err != nil || strings.Count(out, ": OK") != 6 {
		t.Errorf("checksums: %v\n%s", err, out)
	}
}

// The list names every module that Go has recorded, once, and everything it relates to is in it.
func TestList(t *testing.T) {
	b := results(t)
	var doc bill
	parse(t, read(t, b.result(t, "*.spdx.json")), &doc)
	if doc.Creation.Created != b.at.Format(time.RFC3339) {
		t.Errorf("created %s, want the time of the commit", doc.Creation.Created)
	}
	ids := map[string]bool{doc.ID: true}
	names := make(map[string]string)
	for _, p := range doc.Packages {
		if ids[p.ID] {
			t.Errorf("%s is there twice", p.ID)
		}
		ids[p.ID], names[p.Name] = true, p.Version
	}
	for _, r := range doc.Relationships {
		if !ids[r.From] || !ids[r.To] {
			t.Errorf("%v names what is not in the list", r)
		}
	}
	said, err := output(".", nil, "go", "version", "-m", b.programs[platform{"linux", runtime.GOARCH}])
	if err != nil {
		t.Fatal(err)
	}
	modules := 0
	for line := range strings.SplitSeq(said, "\n") {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" {
			modules++
			if names[f[1]] != f[2] {
				t.Errorf("module %s %s is %q in the list", f[1], f[2], names[f[1]])
			}
		}
	}
	if modules < 50 || modules != len(doc.Packages)-2 {
		t.Errorf("%d modules are linked and %d packages are listed", modules, len(doc.Packages))
	}
}

// Both packages hold the same files, apart from where zsh and licenses are, and what only Debian
// requires. Documentation is marked in the .rpm. The changelog of the .deb has its version.
func TestRPM(t *testing.T) {
	b := results(t)
	needs(t, has("rpm") && has("dpkg-deb"), "rpm and dpkg: apt install rpm")
	listed, err := output(b.to, nil, "rpm", "-qp", "--queryformat",
		"[%{FILENAMES} %{FILEMODES:perms} %{FILEFLAGS:fflags}\n]", b.result(t, "*.rpm"))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := exec.Command("dpkg-deb", "--fsys-tarfile", b.result(t, "*.deb")).Output()
	if err != nil {
		t.Fatal(err)
	}
	deb, contents := untar(t, bytes.NewReader(packed))
	if got := string(ungzip(t, contents["./usr/share/doc/tenaq/changelog.gz"])); !strings.HasPrefix(got, "tenaq (1.2.3~rc.4) unstable; ") {
		t.Errorf("the changelog of the .deb is %q", got)
	}
	rpm := make(map[string]string)
	for line := range strings.SplitSeq(listed, "\n") {
		name, about, _ := strings.Cut(line, " ")
		rpm[name] = about
	}
	for name, h := range deb {
		name = strings.TrimPrefix(name, ".")
		onlyDebian := strings.Contains(name, "/zsh/") || strings.Contains(name, "/lintian/") ||
			slices.Contains([]string{"changelog.gz", "copyright"}, filepath.Base(name))
		if h.Typeflag == tar.TypeReg && rpm[name] == "" && !onlyDebian {
			t.Errorf("%s is not in the .rpm", name)
		}
	}
	for name, want := range map[string]string{
		"/usr/bin/tenaq": "-rwxr-xr-x ", "/etc/tenaq/tenaq.yaml": "-rw-r----- cn",
		"/etc/tenaq/tenaq.env": "-rw------- cn", "/usr/share/zsh/site-functions/_tenaq": "-rw-r--r-- ",
		"/usr/share/man/man1/tenaq-serve.1.gz": "-rw-r--r-- d", "/usr/share/doc/tenaq/README.md": "-rw-r--r-- d",
		"/usr/share/licenses/tenaq/LICENSE": "-rw-r--r-- l",
	} {
		if rpm[name] != want {
			t.Errorf("%s: %q, want %q", name, rpm[name], want)
		}
	}
}

// The chart is that of the sources, with the version of the release.
func TestChart(t *testing.T) {
	b := results(t)
	_, packed := untar(t, bytes.NewReader(ungzip(t, read(t, b.result(t, "tenaq-*.tgz")))))
	for _, want := range []string{"\nversion: 1.2.3-rc.4\n", "\nappVersion: 1.2.3-rc.4 "} {
		if chart := string(packed["tenaq/Chart.yaml"]); !strings.Contains(chart, want) {
			t.Errorf("Chart.yaml lacks %q:\n%s", want, chart)
		}
	}
	if got, want := packed["tenaq/templates/statefulset.yaml"],
		read(t, "../deploy/helm/tenaq/templates/statefulset.yaml"); !bytes.Equal(got, want) {
		t.Errorf("the StatefulSet is not that of the sources:\n%s", got)
	}
}

// systemd finds no fault with the unit, and little that it leaves open.
func TestUnit(t *testing.T) {
	needs(t, has("systemd-analyze"), "systemd-analyze: apt install systemd")
	unit := filepath.Join(t.TempDir(), "tenaq.service")
	text := bytes.ReplaceAll(read(t, "package/tenaq.service"), []byte("/usr/bin/tenaq"),
		[]byte("/bin/true"))
	text = bytes.ReplaceAll(text, []byte("Documentation="), []byte("#"))
	if err := os.WriteFile(unit, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput(); err != nil ||
		bytes.Contains(out, []byte(unit)) {
		t.Errorf("verify: %v\n%s", err, out)
	}
	out, err := exec.Command("systemd-analyze", "security", "--offline=yes", "--threshold=15",
		unit).CombinedOutput()
	if err != nil {
		t.Errorf("exposure above 1.5: %v\n%s", err, out)
	}
	t.Logf("%s", out[max(0, bytes.LastIndex(out, []byte("Overall"))):])
}

func TestVersions(t *testing.T) {
	for version, ok := range map[string]bool{"v0.2.0": true, "v1.0.0-rc.1": true, "": false,
		"0.2.0": false, "v0.2": false, "v0.2.0-3-gabc": false, "v0.2.0 ": false} {
		if versions.MatchString(version) != ok {
			t.Errorf("version %q: got %v", version, !ok)
		}
	}
}

func TestDifferences(t *testing.T) {
	one := map[string]string{"a": "1", "b": "2"}
	if err := differences(one, map[string]string{"b": "2", "a": "1"}); err != nil {
		t.Error(err)
	}
	for want, other := range map[string]map[string]string{
		"differ in: a":    {"a": "3", "b": "2"},
		"differ in: b":    {"a": "1"},
		"differ in: b, c": {"a": "1", "c": "2"},
	} {
		if err := differences(one, other); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if differences(nil, nil) == nil {
		t.Error("two builds without files are equal")
	}
}
