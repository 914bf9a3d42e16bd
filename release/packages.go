package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// nfpm makes packages for Debian and Red Hat. Later versions need modules that the proxy of Go does
// not serve.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.1"

// packages writes a .deb and an .rpm for each Linux, from the folder package.
func (b *build) packages() error {
	tools := filepath.Join(b.work, "tools")
	_, err := output(b.work, []string{"GOBIN=" + tools, "GOFLAGS=", "CGO_ENABLED=0"}, "go",
		"install", "-trimpath", nfpm)
	if err != nil {
		return err
	}
	for p, program := range b.programs {
		if p.system != "linux" {
			continue
		}
		stage := filepath.Join(b.work, "stage", p.processor)
		if err := b.stage(stage, program); err != nil {
			return err
		}
		for _, kind := range []string{"deb", "rpm"} {
			_, err := output(stage, []string{"VERSION=" + b.version, "ARCH=" + p.processor,
				fmt.Sprintf("SOURCE_DATE_EPOCH=%d", b.at.Unix())}, filepath.Join(tools, "nfpm"),
				"package", "--config", "nfpm.yaml", "--packager", kind, "--target", b.to)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// stage lays out what nfpm.yaml names, each file with the time of the commit.
func (b *build) stage(dir, program string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	changes, err := gzipped(b.debianChanges(), nil)
	if err != nil {
		return err
	}
	files := []file{{name: "tenaq", data: text}, {name: "changelog.gz", data: changes}}
	var manual strings.Builder
	for _, f := range b.shared {
		if strings.HasPrefix(f.name, "man/") {
			f.name += ".gz"
			if f.data, err = gzipped(f.data, nil); err != nil {
				return err
			}
			// nfpm lists no folder as documentation.
			fmt.Fprintf(&manual, "  - {src: %[1]s, dst: /usr/share/%[1]s, packager: rpm, type: doc, "+
				"file_info: {mode: 0644}}\n", f.name)
		}
		files = append(files, f)
	}
	parts := filepath.Join(b.root, "release", "package")
	entries, err := os.ReadDir(parts)
	if err != nil {
		return err
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(parts, e.Name()))
		if err != nil {
			return err
		}
		if e.Name() == "nfpm.yaml" {
			text = append(text, manual.String()...)
		}
		files = append(files, file{name: e.Name(), data: text})
	}
	for _, f := range files {
		name := filepath.Join(dir, f.name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, f.data, 0o644); err != nil {
			return err
		}
		if err := os.Chtimes(name, b.at, b.at); err != nil {
			return err
		}
	}
	return nil
}

// debianChanges is the changelog in the form that Debian requires. What changed is in CHANGELOG.md.
func (b *build) debianChanges() []byte {
	return fmt.Appendf(nil, "tenaq (%s) unstable; urgency=medium\n\n"+
		"  * See /usr/share/doc/tenaq/CHANGELOG.md.\n\n"+
		" -- The tenaq authors <tenaq@localhost>  %s\n",
		strings.Replace(b.number(), "-", "~", 1), b.at.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
}
