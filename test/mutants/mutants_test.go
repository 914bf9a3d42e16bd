// Package mutants tries whether the tests that prove the promises of tenaq would notice if they were broken.
//
// Package internal/mutant seeds bugs, one for each promise and more. This package builds the tests that must
// notice them, lets each run against its mutant, and expects it to fail; without a mutant it must pass. A mutant
// that survives is a finding about the test.
//
// A run tries eight of them, others each day. All take a few minutes:
//
//	go test ./test/mutants -count=1 -v -all
//	go test ./test/mutants -count=1 -v -rotation=3
//	go test ./test/mutants -count=1 -v -mutant=no-sync
package mutants

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tenaq/internal/mutant"
)

var (
	all      = flag.Bool("all", false, "try every mutant")
	single   = flag.String("mutant", "", "try the mutant of this name alone")
	rotation = flag.Int64("rotation", time.Now().Unix()/86400, "which mutants to try; the number of the day unless told")
)

// share is how many mutants a run tries.
const share = 8

// limit is how long a test may take. One that is still running is no verdict, and so the mutant survives.
const limit = 2 * time.Minute

// root is where the module begins.
const root = "../.."

func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: too long with -short")
	}
	entries := chosen(t)
	w := build(t, entries)
	var killers []mutant.Killer
	for _, e := range entries {
		if !slices.ContainsFunc(killers, func(k mutant.Killer) bool { return k.Command("") == e.Killer.Command("") }) {
			killers = append(killers, e.Killer)
		}
	}
	t.Run("without", func(t *testing.T) {
		for _, k := range killers {
			t.Run(nameOf(k), func(t *testing.T) {
				t.Parallel()
				if r := w.run(t, k, ""); r.err != nil {
					t.Errorf("%s fails without a mutant: %v\n%s", k.Command(""), r.err, r.output)
				}
			})
		}
	})
	if t.Failed() {
		return // a test that fails anyway proves nothing
	}
	t.Run("with", func(t *testing.T) {
		for _, e := range entries {
			t.Run(string(e.Mutant), func(t *testing.T) {
				t.Parallel()
				r := w.run(t, e.Killer, e.Mutant)
				if r.killer == "" {
					t.Errorf("%-28s SURVIVED %s (%.1f s): %s\n%s", e.Mutant, nameOf(e.Killer), r.took.Seconds(), e.Killer.Command(e.Mutant), r.output)
					return
				}
				t.Logf("%-28s killed by %s in %.1f s", e.Mutant, r.killer, r.took.Seconds())
			})
		}
	})
}

// chosen returns the mutants of this run.
func chosen(t *testing.T) (entries []mutant.Entry) {
	table := mutant.Table()
	n := int64(len(table))
	switch {
	case *all:
		return table
	case *single != "":
		for _, e := range table {
			if string(e.Mutant) == *single {
				return []mutant.Entry{e}
			}
		}
		t.Fatalf("-mutant=%s: there is no such mutant", *single)
	}
	for i := range int64(share) {
		entries = append(entries, table[((*rotation*share+i)%n+n)%n])
	}
	t.Logf("%d of %d mutants; repeat with -rotation=%d, or try -all", share, n, *rotation)
	return entries
}

// nameOf is a killer's name in the output.
func nameOf(k mutant.Killer) string {
	return path.Base(k.Package) + " " + strings.NewReplacer("^", "", "$", "").Replace(k.Test)
}

// A workshop is a folder of programs that can be mutants: tests, and tenaq if one of them needs it.
type workshop struct{ dir string }

// build builds what the killers of some mutants need, as the product is built and not for the race detector.
func build(t *testing.T, entries []mutant.Entry) workshop {
	w := workshop{t.TempDir()}
	program := false
	built := make(map[string]bool)
	for _, e := range entries {
		program = program || e.Killer.Program
		if p := e.Killer.Package; !built[p] {
			built[p] = true
			w.build(t, "test", "-c", "-tags", "mutant", "-o", w.test(e.Killer), "../../"+p)
		}
	}
	if program {
		w.build(t, "build", "-tags", "mutant", "-o", w.program(), "tenaq/cmd/tenaq")
	}
	return w
}

func (w workshop) build(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (w workshop) test(k mutant.Killer) string {
	return filepath.Join(w.dir, strings.ReplaceAll(k.Package, "/", "-")+".test")
}

func (w workshop) program() string { return filepath.Join(w.dir, "tenaq") }

// A result is what became of a test.
type result struct {
	err    error
	killer string // the test that failed; empty when none gave a verdict
	took   time.Duration
	output string
}

var (
	failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	nothing = "testing: warning: no tests to run"
	endless = "panic: test timed out after"
)

// run runs a test against a mutant, or against the program as it is when m is empty.
func (w workshop) run(t *testing.T, k mutant.Killer, m mutant.Mutant) (r result) {
	ctx, cancel := context.WithTimeout(t.Context(), limit+10*time.Second)
	defer cancel()
	args := append([]string{"-test.run", k.Test, "-test.timeout", limit.String()}, k.Args...)
	cmd := exec.CommandContext(ctx, w.test(k), args...)
	cmd.Dir = filepath.Join(root, k.Package)
	cmd.Env = append(withoutSettings(os.Environ()), k.Env...)
	switch {
	case k.Program:
		cmd.Env = append(cmd.Env, "TENAQ_BINARY="+w.disguise(t, m))
	case m != "":
		cmd.Env = append(cmd.Env, "TENAQ_MUTANT="+string(m))
	}
	// What the test starts is in its group and ends with it, also when the time is over.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = end, 10*time.Second

	began := time.Now()
	out, err := cmd.CombinedOutput()
	r.took, r.output, r.err = time.Since(began), string(out), err
	if cmd.Process != nil {
		_ = end()
	}
	var exit *exec.ExitError
	switch {
	case strings.Contains(r.output, nothing):
		t.Fatalf("%s: there is no such test", k.Command(m))
	case err != nil && !errors.As(err, &exit):
		t.Fatalf("%s: %v", k.Command(m), err)
	case strings.Contains(r.output, endless) || ctx.Err() != nil:
		r.output = fmt.Sprintf("it was still running after %v\n%s", limit, r.output)
	default:
		if found := failure.FindAllStringSubmatch(r.output, -1); found != nil {
			r.killer = found[len(found)-1][1] // the innermost of the last that failed
		}
	}
	return r
}

// withoutSettings leaves out what would make the tests run otherwise than Table says.
func withoutSettings(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		return strings.HasPrefix(v, "TENAQ_") || strings.HasPrefix(v, "BROKER_") || strings.HasPrefix(v, "KVTEST_")
	})
}

// disguise returns a program that is the mutant m. Tests start programs without the settings of their own
// surroundings, so the mutant is named by a script that becomes the program.
func (w workshop) disguise(t *testing.T, m mutant.Mutant) string {
	if m == "" {
		return w.program()
	}
	name := filepath.Join(w.dir, string(m))
	script := fmt.Sprintf("#!/bin/sh\nTENAQ_MUTANT=%s exec '%s' \"$@\"\n", m, w.program())
	if err := os.WriteFile(name, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}
