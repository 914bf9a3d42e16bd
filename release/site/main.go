// Command site writes the documentation as a static site: the pages of docs, the README and others,
// and the reference of the HTTP API, each as an HTML page that needs no server and loads nothing
// from elsewhere.
//
// A version of the site is a folder of its own, so that several can be published side by side:
//
//	TO/v0.2.0/index.html   the README; every other page has the place that its source has
//	TO/versions.js         the versions that are there, for the switch on each page
//	TO/index.html          leads to the version that was written last
//
// Links between pages are those of the sources. Linked files that are not pages are copied.
// Diagrams stay the text that they are in the sources.
package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	v1 "tenaq/internal/api/v1"
)

func main() {
	version := flag.String("version", "", "the version, such as v0.2.0")
	to := flag.String("to", "bin/site", "the folder of the site")
	flag.Parse()
	if err := write(os.DirFS("."), *to, *version); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// index is the page that lists the others, which is the navigation of each page.
const index = "docs/README.md"

var (
	//go:embed assets/page.html
	pageText string
	//go:embed assets/style.css
	style []byte
	//go:embed assets/site.js
	script []byte

	layout      = template.Must(template.New("page").Parse(pageText))
	versionForm = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)
)

// A site is one version in the making.
type site struct {
	sources fs.FS
	to      string
	version string
	menu    []section
	entries []entry         // of the search
	copies  map[string]bool // files that pages link to
}

// A section of the navigation.
type section struct {
	Title string
	Links []link
}

type link struct{ Title, To string }

// An entry is a part of a page that a search can find.
type entry struct {
	Page    string `json:"page"`
	Heading string `json:"heading"`
	Address string `json:"address"`
	Text    string `json:"text"`
}

// write writes a version of the site, and what leads to all versions.
func write(sources fs.FS, to, version string) error {
	if !versionForm.MatchString(version) {
		return fmt.Errorf("%q is not a version such as v0.2.0: make site VERSION=v0.2.0", version)
	}
	s := &site{sources: sources, to: filepath.Join(to, version), version: version,
		copies: make(map[string]bool)}
	if err := os.RemoveAll(s.to); err != nil {
		return err
	}
	pages, err := s.pages()
	if err != nil {
		return err
	}
	if err := s.readMenu(); err != nil {
		return err
	}
	for _, name := range pages {
		text, err := fs.ReadFile(sources, name)
		if err != nil {
			return err
		}
		if err := s.page(name, text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	reference, err := apiReference(v1.OpenAPI())
	if err != nil {
		return err
	}
	if err := s.page("docs/api.md", reference); err != nil {
		return err
	}
	for name := range s.copies {
		data, err := fs.ReadFile(sources, name)
		if err != nil {
			return err
		}
		if err := s.put(name, data); err != nil {
			return err
		}
	}
	entries, err := json.Marshal(s.entries)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"style.css": style, "site.js": script,
		"search.js": slices.Concat([]byte("window.entries = "), entries, []byte(";\n"))} {
		if err := s.put(name, data); err != nil {
			return err
		}
	}
	return writeVersions(to, version)
}

// pages lists the sources of pages: those of docs, and others at the root.
func (s *site) pages() (names []string, err error) {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/README.md"} {
		found, err := fs.Glob(s.sources, pattern)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	return names, nil
}

// put writes a file of this version.
func (s *site) put(name string, data []byte) error {
	file := filepath.Join(s.to, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// address is where the page of a source is.
func address(name string) string {
	if name == "README.md" {
		return "index.html"
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}

var (
	menuHeading = regexp.MustCompile(`(?m)^#{2,3} (.+)$`)
	menuLink    = regexp.MustCompile(`\[([^\]]+)\]\(([^)#]+\.md)\)`)
)

// readMenu takes the navigation from the tables of the index.
func (s *site) readMenu() error {
	text, err := fs.ReadFile(s.sources, index)
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if m := menuHeading.FindStringSubmatch(line); m != nil {
			s.menu = append(s.menu, section{Title: m[1]})
		}
		if n := len(s.menu) - 1; n >= 0 && strings.HasPrefix(line, "| ") {
			first, _, _ := strings.Cut(line[2:], " | ")
			for _, m := range menuLink.FindAllStringSubmatch(first, -1) {
				s.menu[n].Links = append(s.menu[n].Links,
					link{m[1], path.Join(path.Dir(index), m[2])})
			}
		}
	}
	for i := range s.menu {
		if s.menu[i].Title == "Reference" {
			s.menu[i].Links = append(s.menu[i].Links, link{"HTTP API", "docs/api.md"})
		}
	}
	s.menu = slices.DeleteFunc(s.menu, func(x section) bool { return len(x.Links) == 0 })
	if len(s.menu) == 0 {
		return fmt.Errorf("%s lists no pages", index)
	}
	return nil
}

// page writes the page of a source.
func (s *site) page(name string, text []byte) error {
	body, title, entries, err := s.render(name, text)
	if err != nil {
		return err
	}
	s.entries = append(s.entries, entries...)
	root := strings.Repeat("../", strings.Count(name, "/"))
	menu := make([]section, len(s.menu))
	for i, part := range s.menu {
		menu[i].Title = part.Title
		for _, l := range part.Links {
			menu[i].Links = append(menu[i].Links, link{l.Title, root + address(l.To)})
		}
	}
	var b bytes.Buffer
	err = layout.Execute(&b, map[string]any{"Title": cmp.Or(title, "tenaq"), "Body": body,
		"Root": root, "Menu": menu, "Version": s.version, "Here": root + address(name)})
	if err != nil {
		return err
	}
	return s.put(address(name), b.Bytes())
}

// writeVersions lists the versions that are there, the latest first, and leads to the given one.
func writeVersions(to, version string) error {
	found, err := filepath.Glob(filepath.Join(to, "v*", "index.html"))
	if err != nil {
		return err
	}
	var versions []string
	for _, name := range found {
		versions = append(versions, filepath.Base(filepath.Dir(name)))
	}
	slices.SortFunc(versions, func(a, b string) int { return semver.Compare(b, a) })
	list, err := json.Marshal(versions)
	if err != nil {
		return err
	}
	lead := fmt.Sprintf("<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>tenaq</title>\n"+
		"<meta http-equiv=\"refresh\" content=\"0; url=%[1]s/index.html\">\n<a href=\"%[1]s/index.html\">tenaq %[1]s</a>\n", version)
	if err := os.WriteFile(filepath.Join(to, "index.html"), []byte(lead), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "versions.js"),
		[]byte("window.versions = "+string(list)+";\n"), 0o644)
}
