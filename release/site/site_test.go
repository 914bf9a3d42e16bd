package main

import (
	"bytes"
	"encoding/json"
	"html"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tenaq/internal/testing/proof"
)

var (
	hrefForm   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	idForm     = regexp.MustCompile(` id="([^"]*)"`)
	loadedForm = regexp.MustCompile(`<(?:script|link|img)[^>]*(?:href|src)="(?:https?:)?//`)
)

// build writes the site of the sources and returns its files.
func build(t *testing.T, versions ...string) (dir string, files map[string]string) {
	t.Helper()
	dir, files = t.TempDir(), make(map[string]string)
	for _, v := range versions {
		if err := write(os.DirFS("../.."), dir, v); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		short, _ := filepath.Rel(dir, name)
		files[filepath.ToSlash(short)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir, files
}

// Every link of every page leads to a file of the site and a heading that it has, nothing is loaded
// from elsewhere, and two builds are equal.
func TestSite(t *testing.T) {
	_, files := build(t, "v0.2.0")
	ids := make(map[string]map[string]bool)
	for name, text := range files {
		ids[name] = make(map[string]bool)
		for _, m := range idForm.FindAllStringSubmatch(text, -1) {
			ids[name][m[1]] = true
		}
	}
	links := 0
	for name, text := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		if m := loadedForm.FindString(text); m != "" {
			t.Errorf("%s loads %s", name, m)
		}
		for _, m := range hrefForm.FindAllStringSubmatch(text, -1) {
			to := html.UnescapeString(m[1])
			if strings.Contains(to, "://") || to == "#" {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(to, "#")
			at := name
			if file != "" {
				at = path.Join(path.Dir(name), file)
			}
			if _, ok := files[at]; !ok {
				t.Errorf("%s: %s leads to no file", name, to)
			} else if anchor != "" && !ids[at][anchor] {
				t.Errorf("%s: %s leads to no heading", name, to)
			}
		}
	}
	if links < 2000 || len(files) < 60 {
		t.Errorf("%d links in %d files: too few for the documentation", links, len(files))
	}
	for name, want := range map[string]string{
		"v0.2.0/docs/api.html":                 `<h2 id="post-v1session">POST /v1/session</h2>`,
		"v0.2.0/docs/alarms/dead-letters.html": "<h1",
		"v0.2.0/docs/redrive.html":             `aria-current="page">Redrive</a>`,
		"index.html":                           "v0.2.0/index.html",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q", name, want)
		}
	}
	_, again := build(t, "v0.2.0")
	if len(again) != len(files) {
		t.Errorf("a second build has %d files, the first %d", len(again), len(files))
	}
	for name, text := range files {
		if again[name] != text {
			t.Errorf("%s differs between two builds", name)
		}
	}
}

// The search has the parts of pages by their headings.
func TestSearch(t *testing.T) {
	_, files := build(t, "v0.2.0")
	list := strings.TrimSuffix(strings.TrimPrefix(files["v0.2.0/search.js"], "window.entries = "), ";\n")
	var entries []entry
	if err := json.Unmarshal([]byte(list), &entries); err != nil {
		t.Fatal(err)
	}
	for _, want := range []entry{
		{Page: "Extensions", Heading: "Pause a queue", Address: "docs/extensions.html#pause-a-queue",
			Text: "tenaq queue pause orders"},
		{Page: "The HTTP API", Heading: "GET /v1/queues", Text: "sort"},
	} {
		found := false
		for _, e := range entries {
			found = found || e.Page == want.Page && e.Heading == want.Heading &&
				strings.Contains(e.Text, want.Text) && (want.Address == "" || e.Address == want.Address)
		}
		if !found {
			t.Errorf("the search finds nothing like %+v", want)
		}
	}
}

// In a browser, scripts run under the policy of the pages: the switch has both versions.
func TestVersions(t *testing.T) {
	browser, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		if browser, err = exec.LookPath("chromium"); err != nil {
			proof.Missing(t, "needs chromium-headless-shell")
		}
	}
	dir, files := build(t, "v0.10.0", "v0.10.0-rc.1", "v0.2.0", "v0.3.0")
	if got := files["versions.js"]; !strings.Contains(got, `["v0.10.0","v0.10.0-rc.1","v0.3.0","v0.2.0"]`) {
		t.Errorf("the versions are %s, want the latest first", got)
	}
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--dump-dom",
		"--user-data-dir="+t.TempDir(), "file://"+filepath.Join(dir, "v0.2.0", "docs", "claims.html"))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	page, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &errs)
	}
	for _, want := range []string{`<option value="v0.3.0">`, `<option value="v0.2.0" selected="">`} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestRefuses(t *testing.T) {
	if err := write(os.DirFS("../.."), t.TempDir(), "2"); err == nil || !strings.Contains(err.Error(), "make site VERSION") {
		t.Errorf("the version 2: %v, want a refusal that says what to do", err)
	}
}

// The runbook_url of each rule for Prometheus, and the page of each built-in alarm, is a page of
// the site, with the heading that the address names. [ALARM-53]
func TestRunbooks(t *testing.T) {
	const base = "https://docs.example.com/tenaq/"
	_, files := build(t, "v0.2.0")
	rules, err := os.ReadFile("../../examples/monitoring/tenaq.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := alertForm.FindAllStringSubmatch(string(rules), -1)
	if all := strings.Count(string(rules), "- alert:"); len(alerts) != all || all == 0 {
		t.Errorf("%d of %d rules have a runbook_url", len(alerts), all)
	}
	addresses := make(map[string]string)
	for _, m := range alerts {
		addresses[m[1]] = m[2]
	}
	kinds, err := filepath.Glob("../../docs/alarms/*.md")
	if err != nil || len(kinds) == 0 {
		t.Fatalf("docs/alarms: %v, %v", kinds, err)
	}
	for _, name := range kinds {
		kind := strings.TrimSuffix(filepath.Base(name), ".md")
		addresses[kind] = base + "docs/alarms/" + kind + ".html"
	}
	for name, address := range addresses {
		place, known := strings.CutPrefix(address, base)
		file, anchor, _ := strings.Cut(place, "#")
		page, ok := files["v0.2.0/"+file]
		if !known || !ok || anchor != "" && !strings.Contains(page, ` id="`+anchor+`"`) {
			t.Errorf("%s: %s leads nowhere", name, address)
		}
	}
}

// alertForm matches a rule with its runbook_url, and not beyond the next rule.
var alertForm = regexp.MustCompile(`- alert: (\w+)\n(?: {8}.*\n)*? {10}runbook_url: (\S+)\n`)
