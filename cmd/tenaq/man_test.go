package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

// Every command has a page with its help, and roff prints the text as it is.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	wantExecute(t, cli.ExitOK, "pages written", "man", dir)
	var check func(cmd *cobra.Command)
	root := newRoot(&cli.App{})
	pages := manPages(root)
	check = func(cmd *cobra.Command) {
		page := pages[manName(cmd)+".1"]
		if !strings.Contains(page, roff(cmd.Long)) || !strings.Contains(page, roff(cmd.Example)) {
			t.Errorf("%s: the page lacks the help or the examples", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				check(sub)
			}
		}
	}
	check(root)
	if _, err := exec.LookPath("groff"); err != nil {
		t.Log("groff is not installed: pages are not printed")
		return
	}
	for name, want := range map[string]string{
		"tenaq.1":                 "durable message queue",
		"tenaq-send.1":            `tenaq send orders '{"id": 1}'`,
		"tenaq-completion-bash.1": "source <(tenaq completion bash)",
	} {
		out, err := exec.Command("groff", "-man", "-Tascii", "-ww", filepath.Join(dir, name)).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "warning") {
			t.Errorf("%s: %v, want %q and no warning, got:\n%s", name, err, want, out)
		}
	}
}

func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		"a-b":             `a\-b`,
		".SH x\n'so y\nz": "\\&.SH x\n\\(aqso y\nz",
		`C:\new`:          `C:\enew`,
	} {
		if got := roff(text); got != want {
			t.Errorf("roff(%q) is %q, want %q", text, got, want)
		}
	}
}
