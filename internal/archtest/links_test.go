package archtest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	linkForm    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	headingForm = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	dropForm    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	fenceForm   = regexp.MustCompile("(?ms)^```.*?^```$")
)

// index is the page from which links lead to every other one of its folder.
const index = "docs/README.md"

// linkRule finds links in pages that lead nowhere: a file that is not there, a heading that a page
// does not have. Addresses of other sites are not followed. It also finds pages to which no link
// leads.
func linkRule(t *tree) (problems []string) {
	there := map[string]bool{}
	headings, links := map[string][]string{}, map[string][]string{}
	for _, f := range t.files {
		for p := f.path; p != "."; p = path.Dir(p) {
			there[p] = true
		}
		if path.Ext(f.path) == ".md" {
			headings[f.path] = anchors(string(f.text))
		}
	}
	for _, f := range t.files {
		if path.Ext(f.path) != ".md" {
			continue
		}
		for _, m := range linkForm.FindAllStringSubmatch(fenceForm.ReplaceAllString(string(f.text), ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			name, anchor, _ := strings.Cut(m[1], "#")
			to := f.path
			if name != "" {
				to = path.Join(f.dir(), name)
			}
			links[f.path] = append(links[f.path], to)
			switch {
			case !there[to]:
				problems = append(problems, fmt.Sprintf("%s: %s leads to no file", f.path, m[1]))
			case anchor != "" && !slices.Contains(headings[to], anchor):
				problems = append(problems, fmt.Sprintf("%s: %s leads to no heading", f.path, m[1]))
			}
		}
	}
	reached := map[string]bool{}
	var follow func(page string)
	follow = func(page string) {
		if !reached[page] {
			reached[page] = true
			for _, to := range links[page] {
				follow(to)
			}
		}
	}
	follow(index)
	for page := range headings {
		if strings.HasPrefix(page, path.Dir(index)+"/") && !reached[page] {
			problems = append(problems, fmt.Sprintf("%s: no link leads here from %s", page, index))
		}
	}
	return problems
}

// anchors returns the names by which the usual hosts of repositories link to the headings of a
// page.
func anchors(text string) (all []string) {
	for _, m := range headingForm.FindAllStringSubmatch(fenceForm.ReplaceAllString(text, ""), -1) {
		name := strings.ReplaceAll(dropForm.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		all = append(all, name)
	}
	return all
}

func TestLinks(t *testing.T) { holds(t, linkRule) }

func TestLinksFinds(t *testing.T) {
	finds(t, linkRule, map[string]string{
		"docs/a.md": "# One: the `first` idea\n\n[here](#one-the-first-idea) [there](b/c.md#two) " +
			"[folder](b)\n" +
			"[gone](gone.md) [no heading](b/c.md#one) [else](https://example.com/x) " +
			"[outside](../LICENSE)\n",
		"docs/b/c.md":    "## Two\n\n```sh\n# Three ](x)\n```\n",
		"docs/README.md": "[a](a.md)\n",
		"docs/alone.md":  "[a](a.md)\n",
		"LICENSE":        "free\n",
	},
		"docs/a.md: gone.md leads to no file",
		"docs/a.md: b/c.md#one leads to no heading",
		"docs/alone.md: no link leads here from docs/README.md",
	)
}
