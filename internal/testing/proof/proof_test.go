package proof

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestSeed(t *testing.T) {
	t.Setenv("TENAQ_SEED", "7")
	t.Setenv("TENAQ_EFFORT", "hard")
	if got := Seed(t); got != 7 {
		t.Errorf("the seed is %d, want 7", got)
	}
	t.Run("a part/of it", func(t *testing.T) {
		got := Command(t, 7)
		want := "TENAQ_SEED=7 TENAQ_EFFORT=hard go test -count=1 "
		run := " ./internal/testing/proof -run '^TestSeed$/^a_part$/^of_it$'"
		if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, run) {
			t.Errorf("the command is %s, want %s…%s", got, want, run)
		}
	})
}

func TestCount(t *testing.T) {
	for effort, want := range map[string]int{"short": 1, "normal": 20, "test": 40, "hard": 300,
		"long": 4000, "2.5": 50, "0.01": 1} {
		t.Setenv("TENAQ_EFFORT", effort)
		if got := Count(1, 20, 300, 4000); got != want {
			t.Errorf("with %s it is %d, want %d", effort, got, want)
		}
	}
	t.Setenv("TENAQ_EFFORT", "")
	want := 20
	if testing.Short() || Race {
		want = 1
	}
	if got := Count(1, 20, 300, 4000); got != want {
		t.Errorf("unset it is %d, want %d", got, want)
	}
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "hrad") {
			t.Errorf("a misspelt effort panics with %q, want its name", text)
		}
	}()
	t.Setenv("TENAQ_EFFORT", "hrad")
	Count(1, 20, 300, 4000)
}

// A test that hangs tells its seed before the time limit.
func TestWatchdog(t *testing.T) {
	if os.Getenv("PROOF_TEST_HANGS") != "" {
		Seed(t)
		go end()
		select {}
	}
	if got := watch([]string{"p.test", "-test.v", "-test.timeout=10m0s"}); got != 9*time.Minute {
		t.Errorf("the watchdog comes after %v, want 9m", got)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestWatchdog$")
	cmd.Env = append(os.Environ(), "PROOF_TEST_HANGS=1", "TENAQ_SEED=11")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"TENAQ_SEED=11 ", "'^TestWatchdog$'", "proof.TestWatchdog("} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("the test ended with %v and wrote no %q:\n%.2000s", err, want, out)
		}
	}
}
