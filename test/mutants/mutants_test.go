package mutants

import (
	"cmp"
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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	all      = flag.Bool("all", false, "try every mutant")
	single   = flag.String("mutant", "", "try the mutant of this name alone")
	rotation = flag.Int64("rotation", draw(),
		"which mutants to try; TENAQ_SEED, or else the number of the day, unless told")
	keep = flag.String("keep", "",
		"keep changed sources and programs in this folder, for go test -overlay")
)

func draw() int64 {
	if seed, err := strconv.ParseInt(os.Getenv("TENAQ_SEED"), 10, 64); err == nil {
		return seed
	}
	return time.Now().Unix() / 86400
}

// share is how many mutants a run tries.
const share = 4

// limit is how long a test may take. One that is still running is no verdict, and so the mutant
// survives.
const limit = 2 * time.Minute

func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: too long with -short")
	}
	w := workshop{dir: *keep, base: unguarded(t)}
	if w.dir == "" {
		w.dir = t.TempDir()
	}
	chosen := choose(t)
	if *all || *single != "" { // a few leave this to the suite that they are a part of
		w.without(t, chosen)
	}
	if t.Failed() {
		return // a test that fails anyway proves nothing
	}
	t.Run("with", func(t *testing.T) {
		for _, m := range chosen {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				r := w.run(t, m)
				if r.killer == "" {
					t.Errorf("%-28s SURVIVED %s (%.1f s); repeat with -mutant=%s -keep=DIR\n%s",
						m.name, m.killer(), r.took.Seconds(), m.name, r.output)
					return
				}
				t.Logf("%-28s killed by %s in %.1f s", m.name, r.killer, r.took.Seconds())
			})
		}
	})
}

// without runs the tests of mutants without their bugs, once each.
func (w workshop) without(t *testing.T, chosen []mutant) {
	tried := make(map[string]bool)
	t.Run("without", func(t *testing.T) {
		for _, k := range chosen {
			if tried[k.killer()] {
				continue
			}
			tried[k.killer()], k.name, k.hunks = true, "", nil
			t.Run(k.killer(), func(t *testing.T) {
				t.Parallel()
				if r := w.run(t, k); r.err != nil {
					t.Errorf("%s fails without a mutant: %v\n%s", k.killer(), r.err, r.output)
				}
			})
		}
	})
}

// choose returns the mutants of this run.
func choose(t *testing.T) (chosen []mutant) {
	every := mutants(t)
	n := int64(len(every))
	switch {
	case *all:
		return every
	case *single != "":
		for _, m := range every {
			if m.name == *single {
				return []mutant{m}
			}
		}
		t.Fatalf("-mutant=%s: there is no such mutant", *single)
	}
	for i := range int64(share) {
		chosen = append(chosen, every[((*rotation*share+i)%n+n)%n])
	}
	t.Logf("%d of %d mutants; repeat with -rotation=%d, or try -all", share, n, *rotation)
	return chosen
}

// killer names the test that must fail, with its settings.
func (m mutant) killer() string {
	return path.Base(m.pkg) + " " +
		strings.Join(append([]string{strings.NewReplacer("^", "", "$", "").Replace(m.test)},
			m.with...), " ")
}

// A workshop is a folder of programs with and without bugs.
type workshop struct {
	dir  string
	base []hunk
}

// build builds a test binary or, with program, that, as the product is built and not for the race
// detector.
func (w workshop) build(t *testing.T, m mutant, program string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(w.dir, cmp.Or(m.name, "none"),
		path.Base(cmp.Or(program, m.pkg))))
	if err != nil {
		t.Fatal(err)
	}
	args, name := []string{"test", "-c"}, filepath.Join(dir, "run.test")
	if program != "" {
		args, name = []string{"build"}, filepath.Join(dir, "run")
	}
	args = append(args, "-trimpath", "-ldflags=-s -w", "-overlay",
		overlay(t, dir, append(slices.Clone(w.base), m.hunks...)), "-o", name,
		"./"+cmp.Or(program, m.pkg))
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return name
}

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

// run builds and runs the test of a mutant, or, if it has no name, the same test without a bug.
func (w workshop) run(t *testing.T, m mutant) (r result) {
	env := withoutSettings(os.Environ())
	built := m
	if m.program != "" {
		env = append(env, "TENAQ_BINARY="+w.build(t, m, m.program))
		built.name, built.hunks = "", nil
	}
	args := []string{"-test.run", m.test, "-test.timeout", limit.String()}
	for _, word := range m.with {
		if strings.HasPrefix(word, "-") {
			args = append(args, word)
		} else {
			env = append(env, word)
		}
	}
	binary := w.build(t, built, "")
	ctx, cancel := context.WithTimeout(t.Context(), limit+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Env = filepath.Join(root, m.pkg), env
	// Processes that the test starts are in its group, so they end with it, even at a timeout.
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
		t.Fatalf("%s: there is no such test", m.killer())
	case err != nil && !errors.As(err, &exit):
		t.Fatalf("%s: %v", m.killer(), err)
	case strings.Contains(r.output, endless) || ctx.Err() != nil:
		r.output = fmt.Sprintf("it was still running after %v\n%s", limit, r.output)
	default:
		if found := failure.FindAllStringSubmatch(r.output, -1); found != nil {
			r.killer = found[len(found)-1][1] // the innermost of the last that failed
		}
	}
	return r
}

// withoutSettings leaves out what would make the tests run otherwise than their patches say.
func withoutSettings(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		return strings.HasPrefix(v, "TENAQ_")
	})
}
