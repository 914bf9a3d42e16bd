package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// blocks finds what pages show as code: fenced in the languages sh and none, or indented.
var (
	fenced   = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```")
	indented = regexp.MustCompile(`(?m)(?:^|\n\n)((?:    .*\n)+)`)
)

// Every command of tenaq that the documentation shows in a block exists, with its flags and as many
// arguments: it would parse as it is written there.
func TestCommandsOfDocs(t *testing.T) {
	root := os.DirFS("../..")
	commands, pages := 0, 0
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "docs/operations/*.md",
		"docs/alarms/*.md", "examples/*/README.md"} {
		names, err := fs.Glob(root, pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(root, name)
			if err != nil {
				t.Fatal(err)
			}
			lines, problems := commandsOf(string(text))
			for _, line := range lines {
				if err := parsesArgs(line); err != nil {
					problems = append(problems, fmt.Sprintf("tenaq %s: %v", strings.Join(line, " "), err))
				}
			}
			for _, problem := range problems {
				t.Errorf("%s: %s", name, problem)
			}
			if commands += len(lines); len(lines) > 0 {
				pages++
			}
		}
	}
	t.Logf("%d commands on %d pages", commands, pages)
	if commands < 250 || pages < 40 {
		t.Errorf("%d commands on %d pages: too few for the documentation", commands, pages)
	}
	lines, _ := commandsOf("```sh\nx=$(FOO=1 bin/tenaq queue lst a | jq .) # no\n```\n")
	if len(lines) != 1 || parsesArgs(lines[0]) == nil {
		t.Errorf("found %q, want a command that does not exist", lines)
	}
}

// commandsOf returns the arguments of each call of tenaq in the blocks of a page. Each x stands for
// text that a shell would insert.
func commandsOf(page string) (lines [][]string, problems []string) {
	var all []string
	for _, m := range fenced.FindAllStringSubmatch(page, -1) {
		if m[1] == "" || m[1] == "sh" {
			all = append(all, m[2])
		}
	}
	for _, m := range indented.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		all = append(all, m[1])
	}
	for _, block := range all {
		if !strings.Contains(block, "tenaq ") {
			continue
		}
		file, err := syntax.NewParser().Parse(strings.NewReader(block), "")
		if err != nil {
			if regexp.MustCompile(`(?m)^ *(bin/)?tenaq `).MatchString(block) {
				problems = append(problems, fmt.Sprintf("not for a shell: %v\n%s", err, block))
			}
			continue
		}
		syntax.Walk(file, func(node syntax.Node) bool {
			call, ok := node.(*syntax.CallExpr)
			if !ok || len(call.Args) == 0 || path.Base(call.Args[0].Lit()) != "tenaq" {
				return true
			}
			var line []string
			for _, word := range call.Args[1:] {
				line = append(line, literal(word.Parts))
			}
			lines = append(lines, line)
			return true
		})
	}
	return lines, problems
}

// literal is a word as far as it is known before a shell runs.
func literal(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(literal(p.Parts))
		default:
			b.WriteString("x")
		}
	}
	return b.String()
}

// parsesArgs leaves out what stands for more arguments, and asks for no help.
func parsesArgs(args []string) error {
	if slices.Contains(args, "--help") {
		return nil
	}
	return parsesWords(slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return arg == "..." || arg == "…"
	}))
}
