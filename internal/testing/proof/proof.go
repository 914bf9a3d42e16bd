// Package proof holds the settings that random and long tests share, so that each has one spelling
// in the whole tree:
//
//   - TENAQ_SEED repeats a random test. Each logs its seed, and when it fails the command that
//     repeats it.
//   - TENAQ_EFFORT says how much a test tries: short, normal, test (make test), hard (make proofs),
//     long (make proofs-long), or a number that multiplies normal. Unset it is short with -short or
//     the race detector, else normal.
//   - TENAQ_REQUIRE_ALL=1 fails the tests that lack what they need, which are skipped otherwise.
//   - TENAQ_EMULATOR_DIR has what make emulators installs: other people's servers and clients.
//   - -rewrite has tests write what they compare with: golden files, tables in docs. Each package
//     that has some defines the flag, as datadriven does.
//
// A test binary that is about to reach its time limit prints all goroutines and the commands that
// repeat its random tests. Otherwise a test that hangs would not report its seed.
//
// It is for tests only. Programs that are built for tests may import it too.
package proof

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Seed returns TENAQ_SEED, or a new seed below 2^32, and logs it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64() >> 32
	if v := os.Getenv("TENAQ_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("TENAQ_SEED is %q, want a number", v)
		}
	}
	command := Command(t, seed)
	t.Logf("TENAQ_SEED=%d", seed)
	running.add(command)
	t.Cleanup(func() {
		running.remove(command)
		if t.Failed() {
			t.Logf("repeat with: %s", command)
		}
	})
	return seed
}

// Random returns a source of randomness that begins with Seed.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}

// Command returns the command that repeats a test with a seed, at the root of the module.
func Command(t testing.TB, seed uint64) string {
	words := []string{fmt.Sprintf("TENAQ_SEED=%d", seed)}
	if v := os.Getenv("TENAQ_EFFORT"); v != "" {
		words = append(words, "TENAQ_EFFORT="+v)
	}
	words = append(words, "go test -count=1")
	if Race {
		words = append(words, "-race")
	}
	if testing.Short() {
		words = append(words, "-short")
	}
	name := strings.ReplaceAll(t.Name(), "/", "$/^")
	return strings.Join(append(words, "./"+folder(), "-run", "'^"+name+"$'"), " ")
}

// folder is where the test is, from the root of the module. Tests start in their package's folder.
func folder() string {
	wd, err := os.Getwd()
	if err != nil {
		return "..."
	}
	for root := wd; root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			rel, err := filepath.Rel(root, wd)
			if err == nil {
				return filepath.ToSlash(rel)
			}
		}
	}
	return "..."
}

// Count returns how often to try: one of its arguments by name, or a multiple of normal. The effort
// of make test is the geometric mean of normal and hard, and at most twice normal. It is never less
// than normal, at which each mutant dies.
func Count(short, normal, hard, long int) int {
	switch e := effort(); e {
	case "short":
		return short
	case "normal":
		return normal
	case "test":
		return min(int(math.Sqrt(float64(normal)*float64(hard))), 2*normal)
	case "hard":
		return hard
	case "long":
		return long
	default:
		factor, err := strconv.ParseFloat(e, 64)
		if err != nil || factor <= 0 {
			panic(fmt.Sprintf("TENAQ_EFFORT is %q, want short, normal, test, hard, long or "+
				"a number above 0", e))
		}
		return max(int(factor*float64(normal)), 1)
	}
}

// Few returns how often a case does something: n times, or a fifth of that with -short.
func Few(n int) int {
	if testing.Short() {
		return max(1, n/5)
	}
	return n
}

// Short reports whether the effort is short. Race says why that may be: everything takes about ten
// times as long with the race detector, and what one goroutine decides it does not find.
func Short() bool { return effort() == "short" }

// Unraced skips a test under the race detector, where it would take minutes. It is for simulations
// of hours, if shorter tests run the same goroutines under the detector, and for what starts none.
func Unraced(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("it takes minutes under the race detector")
	}
}

func effort() string {
	if e := os.Getenv("TENAQ_EFFORT"); e != "" {
		return e
	}
	if testing.Short() || Race {
		return "short"
	}
	return "normal"
}

// list is what the watchdog reports. The random tests of a binary may run side by side.
type list struct {
	mu       sync.Mutex
	commands []string
}

var running list

func (l *list) add(command string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commands = append(l.commands, command)
}

func (l *list) remove(command string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.commands, command); i >= 0 {
		l.commands = slices.Delete(l.commands, i, i+1)
	}
}

func (l *list) report() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return "the time limit is near; repeat with:\n" + strings.Join(l.commands, "\n") + "\n"
}

// The timer begins here and not in Seed, which may be called in a bubble of testing/synctest, where
// time is another one. Flags are not parsed yet.
func init() {
	if after := watch(os.Args); after > 0 {
		time.AfterFunc(after, end)
	}
}

// end ends the test binary and says which tests were running.
func end() {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	fmt.Fprintf(os.Stderr, "%s\n%s", running.report(), stacks)
	os.Exit(2)
}

// watch returns when the watchdog ends a test binary that was started with these arguments: a tenth
// of its time limit before that. It is 0 for never.
func watch(args []string) time.Duration {
	for _, arg := range args {
		if v, ok := strings.CutPrefix(arg, "-test.timeout="); ok {
			if limit, err := time.ParseDuration(v); err == nil {
				return limit - limit/10
			}
		}
	}
	return 0
}
