// Command release builds what a release of tenaq consists of: archives for Linux, macOS and
// Windows, packages for Debian and Red Hat, an image for containers, a Helm chart, lists of what is
// linked, and checksums.
//
// Two builds of one commit with one version of Go are equal to the byte: times are those of the
// commit, files are in a fixed order, and no name of a machine, a user or a folder gets in. It
// needs Go, git, and the modules that Go fetches; nothing here is linked into the program.
//
// What the packages hold is in the folder package. It leaves signing and publishing to others.
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "the version, such as v0.2.0")
	to := flag.String("to", "bin/release", "the folder of the results")
	check := flag.Bool("check", false, "build twice, in two clones, and compare the results")
	flag.Parse()
	run := release
	if *check {
		run = compareTwo
	}
	if err := run(*version, *to); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A build is one release in the making.
type build struct {
	root, to, work string // the sources, the results, and a folder for what is in between
	version        string // v0.2.0
	commit         string
	at             time.Time // of the commit
	programs       map[platform]string
	shared         []file // what every archive holds: pages, completions, licenses
}

// A platform is a system and a processor, as Go names them.
type platform struct{ system, processor string }

func (p platform) String() string { return p.system + "_" + p.processor }

// platforms are those of a release. On Windows there are only the client commands.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"},
	{"darwin", "arm64"}, {"windows", "amd64"}}

var versions = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

// release builds everything.
func release(version, to string) error {
	if !versions.MatchString(version) {
		return fmt.Errorf("%q is not a version such as v0.2.0: make release VERSION=v0.2.0", version)
	}
	changes, err := output(".", nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the sources have changes that are in no commit: commit them, or build in a clone:\n%s",
			changes)
	}
	b, err := newBuild(".", to, version)
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	if err := b.compile(platforms); err != nil {
		return err
	}
	for _, step := range []func() error{b.archives, b.lists, b.packages, b.images,
		b.chart, b.checksums} {
		if err := step(); err != nil {
			return err
		}
	}
	fmt.Printf("%s of commit %.12s is in %s\n", version, b.commit, to)
	return nil
}

func newBuild(root, to, version string) (*build, error) {
	head, err := output(root, nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return nil, err
	}
	b := &build{version: version, programs: make(map[platform]string)}
	var seconds string
	b.commit, seconds, _ = strings.Cut(head, " ")
	unix, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), seconds), 10, 64)
	if err != nil {
		return nil, err
	}
	b.at = time.Unix(unix, 0).UTC()
	if b.root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	if b.to, err = filepath.Abs(to); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(b.to); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(b.to, 0o755); err != nil {
		return nil, err
	}
	b.work, err = os.MkdirTemp("", "tenaq-release-")
	return b, err
}

// number is the version as packages write it.
func (b *build) number() string { return strings.TrimPrefix(b.version, "v") }

// compile builds the program for each platform, and collects what goes with it. Commit and version
// are given by hand: what Go records by itself depends on the tags that a clone has.
func (b *build) compile(all []platform) error {
	here := platform{runtime.GOOS, runtime.GOARCH}
	for _, p := range append(slices.Clone(all), here) {
		if b.programs[p] != "" {
			continue
		}
		name := filepath.Join(b.work, p.String(), "tenaq")
		if p.system == "windows" {
			name += ".exe"
		}
		_, err := output(b.root, []string{"CGO_ENABLED=0", "GOOS=" + p.system,
			"GOARCH=" + p.processor, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=",
			"GOWORK=off"}, "go", "build", "-trimpath", "-buildvcs=false",
			"-ldflags", "-s -w -X main.version="+b.version+" -X main.commit="+b.commit,
			"-o", name, "./cmd/tenaq")
		if err != nil {
			return err
		}
		b.programs[p] = name
	}
	err := b.collect(b.programs[here])
	if !slices.Contains(all, here) {
		delete(b.programs, here)
	}
	return err
}

// collect asks the program for its pages and completions, in an environment that says nothing of
// this machine, and reads the licenses.
func (b *build) collect(program string) error {
	env := []string{"HOME=/nonexistent", "XDG_STATE_HOME=", "STATE_DIRECTORY=", "COLUMNS=80"}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join(b.root, name))
		if err != nil {
			return err
		}
		b.shared = append(b.shared, file{name: name, data: text})
	}
	for shell, name := range map[string]string{"bash": "tenaq.bash", "zsh": "_tenaq",
		"fish": "tenaq.fish", "powershell": "tenaq.ps1"} {
		text, err := output(b.work, env, program, "completion", shell)
		if err != nil {
			return err
		}
		b.shared = append(b.shared, file{name: "completions/" + name, data: []byte(text + "\n")})
	}
	pages := filepath.Join(b.work, "man")
	if _, err := output(b.work, env, program, "man", pages); err != nil {
		return err
	}
	found, err := os.ReadDir(pages)
	if err != nil {
		return err
	}
	for _, page := range found {
		text, err := os.ReadFile(filepath.Join(pages, page.Name()))
		if err != nil {
			return err
		}
		b.shared = append(b.shared, file{name: "man/man1/" + page.Name(), data: text})
	}
	licenses, err := b.licenses()
	if err != nil {
		return err
	}
	b.shared = append(b.shared, file{name: "LICENSES-OF-MODULES", data: licenses})
	slices.SortFunc(b.shared, func(x, y file) int { return strings.Compare(x.name, y.name) })
	return nil
}

// archives writes what people unpack: a .tar.gz for each platform, a .zip for Windows.
func (b *build) archives() error {
	for p, program := range b.programs {
		name := fmt.Sprintf("tenaq_%s_%s", b.number(), p)
		text, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		files := []file{{name: filepath.Base(program), data: text, mode: 0o755}}
		files = append(files, b.shared...)
		for i := range files {
			files[i].name = name + "/" + files[i].name
		}
		var archive []byte
		if p.system == "windows" {
			name += ".zip"
			archive, err = zipped(files, b.at)
		} else {
			name += ".tar.gz"
			archive, err = gzipped(tarred(files, b.at))
		}
		if err != nil {
			return err
		}
		if err := b.write(name, archive); err != nil {
			return err
		}
	}
	return nil
}

var chartVersion = regexp.MustCompile(`(?m)^(version|appVersion): [^ \n]+`)

// chart writes the Helm chart, whose default image is that of this version.
func (b *build) chart() error {
	folder := os.DirFS(filepath.Join(b.root, "deploy", "helm"))
	var files []file
	err := fs.WalkDir(folder, "tenaq", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(folder, name)
		if name == "tenaq/Chart.yaml" {
			text = chartVersion.ReplaceAll(text, []byte("$1: "+b.number()))
		}
		files = append(files, file{name: name, data: text})
		return err
	})
	if err != nil {
		return err
	}
	archive, err := gzipped(tarred(files, b.at))
	if err != nil {
		return err
	}
	return b.write("tenaq-"+b.number()+".tgz", archive)
}

// checksums writes the file that sha256sum --check reads.
func (b *build) checksums() error {
	sums, err := sumsOf(b.to)
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&list, "%s  %s\n", sums[name], name)
	}
	return b.write(fmt.Sprintf("tenaq_%s_checksums.txt", b.number()), list.Bytes())
}

func (b *build) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(b.to, name), data, 0o644)
}

// sumsOf returns the SHA-256 of each file of a folder.
func sumsOf(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	sums := make(map[string]string)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		sums[e.Name()] = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	return sums, nil
}

// output runs a program and returns what it prints, without the last line break.
func output(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, said.Bytes())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// compareTwo builds the release in two clones of the last commit, the second with the settings of
// another user, and compares the results.
func compareTwo(version, to string) error {
	work, err := os.MkdirTemp("", "tenaq-release-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	caches, err := output(".", nil, "go", "env", "GOCACHE", "GOMODCACHE")
	if err != nil {
		return err
	}
	cache, modules, _ := strings.Cut(caches, "\n")
	env := []string{"GOCACHE=" + cache, "GOMODCACHE=" + modules}
	first, second := filepath.Join(work, "first"), filepath.Join(work, "another", "folder")
	for _, to := range [][2]string{{".", first}, {first, second}} { // so that both have one commit
		if _, err := output(".", nil, "git", "clone", "-q", to[0], to[1]); err != nil {
			return err
		}
	}
	for dir, as := range map[string]struct {
		umask string
		env   []string
	}{
		first:  {"022", nil},
		second: {"077", []string{"HOME=" + work, "TZ=Asia/Tokyo", "LC_ALL=C", "USER=other"}},
	} {
		_, err := output(dir, append(slices.Clone(env), as.env...), "sh", "-c",
			`umask "$1" && exec go run -trimpath ./release -version "$2"`, "sh", as.umask, version)
		if err != nil {
			return err
		}
	}
	results := filepath.Join("bin", "release")
	one, err := sumsOf(filepath.Join(first, results))
	if err != nil {
		return err
	}
	other, err := sumsOf(filepath.Join(second, results))
	if err != nil {
		return err
	}
	if err := differences(one, other); err != nil {
		return err
	}
	fmt.Printf("%d files of %s are equal in two builds\n", len(one), version)
	return nil
}

// differences returns an error that names the files that two builds do not share.
func differences(one, other map[string]string) error {
	var differ []string
	for _, sums := range []map[string]string{one, other} {
		for name := range sums {
			if one[name] != other[name] {
				differ = append(differ, name)
			}
		}
	}
	if len(one) == 0 {
		return errors.New("the build made no files")
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return fmt.Errorf("two builds differ in: %s", strings.Join(slices.Compact(differ), ", "))
}
