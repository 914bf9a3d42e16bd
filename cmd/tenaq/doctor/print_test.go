package doctor

import (
	"strings"
	"testing"

	"tenaq/internal/cli"
	"tenaq/internal/ops/doctor"
)

func TestVerdict(t *testing.T) {
	r := &doctor.Report{Problems: 1}
	if err := verdict(r, false); cli.ExitCode(err) != cli.ExitFailed {
		t.Errorf("with a problem: got %v, want exit code 1", err)
	}
	r = &doctor.Report{Warnings: 7}
	if lax, strict := verdict(r, false), verdict(r, true); lax != nil || cli.ExitCode(strict) != cli.ExitFailed {
		t.Errorf("with warnings: got %v and %v, want nothing and exit code 1", lax, strict)
	}
}

func TestWrapped(t *testing.T) {
	if got := wrapped("one two three four five six seven", "  ", 25); got != "one two three four five\n  six seven" {
		t.Errorf("got %q", got)
	}
	if got := wrapped("one two", "  ", 0); got != "one two" {
		t.Errorf("without a width: got %q", got)
	}
	for line := range strings.SplitSeq(wrapped(strings.Repeat("word ", 100), strings.Repeat(" ", 10), 60), "\n") {
		if len(line) > 60 {
			t.Errorf("got a line of %d: %q", len(line), line)
		}
	}
}
