package stage

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/cli"
)

// TestMain is also the main function of the children that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "demo" && os.Args[2] == "child" {
		if err := RunChild(context.Background(), []Scenario{{Name: "test", Child: testChild}}, os.Args[3:], os.Stdin); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// testChild reports that it is there, and works until it is told to end, fails, or is done.
func testChild(ctx context.Context, c *Child) error {
	c.Tell(ctx, Report{Point: "here"})
	switch c.Role {
	case "broken":
		return errors.New("it fails")
	case "once":
		return nil
	}
	<-ctx.Done()
	return nil
}

func newTestCrew(t *testing.T) *Crew {
	t.Helper()
	env := &Env{Name: "test", Dir: t.TempDir(), Progress: cli.NewProgress(io.Discard)}
	c, err := NewCrew(t.Context(), &SQS{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// seen waits until as many reports of a point are there.
func seen(t *testing.T, c *Crew, point string, n int) []Report {
	t.Helper()
	if err := c.Until(point, func() (bool, error) { return len(At(c.Reports(), point)) >= n, nil }); err != nil {
		t.Fatal(err)
	}
	return At(c.Reports(), point)
}

// A process that is killed at a point goes no further, and another one takes its place.
func TestCrewKills(t *testing.T) {
	c := newTestCrew(t)
	c.On = func(r Report) {
		if r.From == "worker-1" {
			c.Kill(r.From, "on purpose", "")
		}
	}
	if err := c.Hire("worker", nil); err != nil {
		t.Fatal(err)
	}
	here := seen(t, c, "here", 2)
	if here[1].From != "worker-2" || len(At(c.Reports(), Killed)) != 1 {
		t.Errorf("got reports %v, want one killed worker and its successor", c.Reports())
	}
	c.Dismiss("worker")
	if c.Unclean() != 0 || c.Ctx.Err() != nil {
		t.Errorf("got %d unclean ends and %v, want none", c.Unclean(), context.Cause(c.Ctx))
	}
}

// Finish waits for the process that takes the place of a killed one, but not for one that is killed
// for good.
func TestCrewFinish(t *testing.T) {
	c := newTestCrew(t)
	c.On = func(r Report) {
		switch r.From {
		case "once-1":
			c.Kill(r.From, "", "")
		case "once-3":
			c.KillForGood(r.From, "", "")
		}
	}
	for range 2 {
		if err := c.Finish("once", nil, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(At(c.Reports(), "here")); got != 3 {
		t.Errorf("%d processes reported, want 3: %v", got, c.Reports())
	}
}

// A process that ends by itself ends the scenario.
func TestCrewFails(t *testing.T) {
	c := newTestCrew(t)
	if err := c.Hire("broken", nil); err != nil {
		t.Fatal(err)
	}
	<-c.Ctx.Done()
	if err := context.Cause(c.Ctx); err == nil || !strings.Contains(err.Error(), "broken-1 ended by itself") {
		t.Errorf("got %v, want the process that ended", err)
	}
}

// A stopped process can be dismissed.
func TestCrewFreezes(t *testing.T) {
	c := newTestCrew(t)
	if err := c.Hire("worker", nil); err != nil {
		t.Fatal(err)
	}
	seen(t, c, "here", 1)
	locked := []bool{false, true} // in the middle of a write at first
	c.Do(func() {
		c.Freeze("worker-1", func() bool {
			free := locked[0]
			locked = locked[1:]
			return free
		})
		if !c.IsFrozen("worker-1") || len(locked) != 0 {
			t.Errorf("frozen %v after %d looks, want true after 2", c.IsFrozen("worker-1"), 2-len(locked))
		}
	})
	c.Dismiss()
	if c.Unclean() != 0 {
		t.Error("the stopped process did not end")
	}
}

func TestUnlocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "some.db")
	if !Unlocked(t.Context(), path) {
		t.Error("a new file is locked")
	}
	if Unlocked(t.Context(), t.TempDir()) {
		t.Error("a folder can be written as a file")
	}
}

func TestRows(t *testing.T) {
	for _, tt := range []struct{ got, want Row }{
		{Want("a", 0, 0), Row{"a", "0", "0", OK}},
		{Want("a", 0, 1), Row{"a", "0", "1", Failed}},
		{AtLeast("a", 3, 3), Row{"a", ">= 3", "3", OK}},
		{AtLeast("a", 3, 2), Row{"a", ">= 3", "2", Failed}},
		{AtMost("a", 3, 3), Row{"a", "<= 3", "3", OK}},
		{AtMost("a", 3, 4), Row{"a", "<= 3", "4", Failed}},
		{True("a", true), Row{"a", "yes", "yes", OK}},
		{True("a", false), Row{"a", "yes", "no", Failed}},
		{Show("a", 7), Row{"a", "-", "7", Shown}},
		{Skip("a", "why"), Row{"a", "-", "why", Skipped}},
	} {
		if tt.got != tt.want {
			t.Errorf("got %v, want %v", tt.got, tt.want)
		}
	}
	if red := Red([]Row{Want("a", 0, 0), Want("b", 0, 1), Show("c", 1)}); !slices.Equal(red, []string{"b"}) {
		t.Errorf("got %v, want b", red)
	}
}

// The short form is what runs unless the long one is asked for.
func TestScale(t *testing.T) {
	if got := (&Env{}).Scale(1, 2); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
	if got := (&Env{Long: true}).Scale(1, 2); got != 2 {
		t.Errorf("long: got %d, want 2", got)
	}
}
