package archtest

import (
	"fmt"
	"regexp"
	"testing"
)

// A mention is something that no file of the repository may contain.
type mention struct {
	pattern *regexp.Regexp
	why     string
}

var mentions = []mention{
	{regexp.MustCompile(`(?:^|[^\w./-])/(?:home|root|Users)/\w`),
		"a path of one machine; build it from the repository or a temporary directory"},
	{regexp.MustCompile(`\b(?:TODO|FIXME)\b`),
		"unfinished work; finish it, or say what is known to be wrong with BUG(name):"},
	{regexp.MustCompile(`\bGOPROXY=|\b(?:PIP_)?INDEX_URL=|--(?:extra-)?index-url\b|\bnpm_config_registry=|--registry\b`),
		"a registry; where packages come from is the environment's business"},
	{regexp.MustCompile(`(?i)\bissues? #?[0-9]+\b|\b(?:closes|fix|fixes|pr|pull request|see) #[0-9]+\b`),
		"a number in some tracker; say what it says, or give the public address"},
}

// An exception permits one mention in one file, for a reason.
type exception struct {
	path    string
	pattern string // as it stands in mentions
	why     string
}

var exceptions = []exception{
	{vendored + "preact/src/index.d.ts", mentions[1].pattern.String(), unchanged},
	{vendored + "preact/src/index.d.ts", mentions[3].pattern.String(), unchanged},
	{vendored + "preact/src/dom.d.ts", mentions[1].pattern.String(), unchanged},
	{vendored + "uplot/dist/uPlot.d.ts", mentions[1].pattern.String(), unchanged},
	{vendored + "uplot/dist/uPlot.esm.js", mentions[1].pattern.String(), unchanged},
}

const (
	vendored  = "internal/console/web/vendor/"
	unchanged = "a file of a library, unchanged"
)

// mentionRule finds mentions, and exceptions that nothing needs any more.
func mentionRule(exceptions []exception) rule {
	return func(t *tree) (problems []string) {
		used := make([]bool, len(exceptions))
		for _, f := range t.files {
			if f.path == "go.sum" || f.path == "internal/archtest/mentions_test.go" {
				continue // hashes may spell anything; this file names what it forbids
			}
			for n, line := range lines(f.text) {
				for _, m := range mentions {
					found := m.pattern.FindString(line)
					if found == "" || excepted(exceptions, used, f.path, m) {
						continue
					}
					problems = append(problems,
						fmt.Sprintf("%s:%d: mentions %q, %s", f.path, n, found, m.why))
				}
			}
		}
		for i, e := range exceptions {
			if !used[i] {
				problems = append(problems,
					fmt.Sprintf("%s: nothing needs the exception for %s", e.path, e.pattern))
			}
		}
		return problems
	}
}

// excepted says whether an exception permits the mention in the file, and marks it as used.
func excepted(exceptions []exception, used []bool, path string, m mention) bool {
	for i, e := range exceptions {
		if e.path == path && e.pattern == m.pattern.String() {
			used[i] = true
			return true
		}
	}
	return false
}

func TestMentions(t *testing.T) { holds(t, mentionRule(exceptions)) }

func TestMentionsFinds(t *testing.T) {
	exceptions := []exception{
		{"allowed.txt", mentions[1].pattern.String(), "to try it"},
		{"gone.txt", mentions[1].pattern.String(), "for a file that went"},
	}
	finds(t, mentionRule(exceptions), map[string]string{
		"allowed.txt":         "TODO\n/home/me/here\n",
		"a.go":                "package a\n\n// FIXME: see issue 12.\n",
		"bin/x":               "TODO",
		".git/x":              "TODO",
		".ci/run":             "GOPROXY=https://example.com\n",
		"a/testdata/work.txt": "see #12\nhttps://github.com/x/y/issues/12 a/home/b &#39; a#1 #333\n",
	},
		".ci/run:1: a registry",
		"a.go:3: FIXME",
		"a.go:3: issue 12",
		"a/testdata/work.txt:1: see #12",
		"allowed.txt:2: /home/",
		"gone.txt: nothing needs",
	)
}
