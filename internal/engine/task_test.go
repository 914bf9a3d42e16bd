package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"tenaq/internal/engine/enginetest"
)

// A walk from the latest message passes segments in which nothing is left, and more segments than
// one step looks at. [TASK-9, TASK-20]
func TestNewestOverGaps(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: too long with -short")
	}
	w := enginetest.NewWorld(enginetest.Variant{Window: 256, Turn: 64})
	defer w.Close()
	p := enginetest.NewPlayer(w)
	play := func(format string, args ...any) string {
		t.Helper()
		answer, err := p.Play(enginetest.Step{Pos: "test", Text: fmt.Sprintf(format, args...)})
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(answer)
	}
	const segment = 4096
	play("create q=a")
	play("create q=lot")
	for _, n := range []int{9 * segment, 20 * segment, 5000} {
		play("send q=a body=special")
		play("fill q=a n=%d body=%s", n, map[bool]string{true: "gap", false: "x"}[n == 20*segment])
	}
	finish := func(start string) string {
		play("%s", start)
		for range 2000 {
			if play("task-list active") == "" {
				break
			}
			play("move-step")
		}
		line, _, _ := strings.Cut(play("task-list q=a"), "\n")
		return line
	}
	want := "a:1 delete COMPLETED done=81920 expected=81920 confirm=81920"
	if got := finish("task-start q=a do=delete confirm=81920 text=gap"); !strings.HasPrefix(got, want) {
		t.Fatalf("got %s, want %s", got, want)
	}
	if got, want := play("task-count q=a newest"), "count=41867 "; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := play("task-count q=a newest text=special"); got != "count=3 bytes=21 skipped=0 m118787" {
		t.Errorf("got %s", got)
	}
	want = "a:2 move COMPLETED done=3 to=lot newest"
	if got := finish("task-start q=a newest to=lot text=special"); !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
