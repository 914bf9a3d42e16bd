package archtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRaced runs test/raced around programs that end as test binaries do. Only one that the race
// detector itself ended is started again, and not forever.
func TestRaced(t *testing.T) {
	const broke = `ThreadSanitizer: CHECK failed: tsan_rtl.cpp:282 "((!thr->slot_locked)) != (0)" (0x0, 0x0) (tid=1)`
	for _, test := range []struct {
		name, output string
		status       int  // of each start
		heals        bool // all but the first pass
		starts       int
		want         int
	}{
		{"passes", "PASS", 0, false, 1, 0},
		{"broke once", broke, 66, true, 2, 0},
		{"fault once", "SIGSEGV: segmentation violation\nPC=0x41bce9 m=8 sigcode=1 addr=0x0", 2,
			true, 2, 0},
		{"broke always", broke, 66, false, 3, 66},
		{"a failed test", "--- FAIL: TestX (0.00s)\nFAIL", 1, false, 1, 1},
		{"a failed test, then broke", "--- FAIL: TestX (0.00s)\n" + broke, 66, false, 1, 66},
		{"a race, then broke", "WARNING: DATA RACE\n" + broke, 66, false, 1, 66},
		{"a panic", "panic: runtime error: invalid memory address or nil pointer " +
			"dereference\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x1]", 2,
			false, 1, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			starts := filepath.Join(dir, "starts")
			program := filepath.Join(dir, "program")
			script := fmt.Sprintf("#!/usr/bin/env bash\necho start >> '%s'\n", starts)
			if test.heals {
				script += fmt.Sprintf("[ $(wc -l < '%s') -eq 1 ] || exit 0\n", starts)
			}
			script += fmt.Sprintf("cat >&2 <<'END'\n%s\nEND\nexit %d\n", test.output, test.status)
			if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			got := 0
			output, err := exec.Command("../../test/raced", program, "-test.v").CombinedOutput()
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				got = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("exit status %d, want %d\n%s", got, test.want, output)
			}
			if !test.heals && !strings.Contains(string(output), test.output) {
				t.Errorf("the output is %q, want what the program wrote", output)
			}
			lines, err := os.ReadFile(starts)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(lines), "\n"); n != test.starts {
				t.Errorf("started %d times, want %d", n, test.starts)
			}
		})
	}
}
