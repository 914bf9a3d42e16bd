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
		if err := RunChild(context.Background(), []Scenario{{Name: "test", Roles: map[string]Role{
			"worker": testChild, "broken": testChild, "once": testChild,
		}}}, os.Args[3:], os.Stdin); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// testChild reports that it is there, and works until a signal stops it, it fails, or it is done.
func testChild(c *Child) {
	c.Tell(Report{Point: "here"})
	switch c.told.Role {
	case "broken":
		c.Must(errors.New("it fails"))
	case "once":
		return
	}
	<-c.Ctx.Done()
}

func newTestCrew(t *testing.T) *Crew {
	t.Helper()
	env := &Env{Name: "test", Program: os.Args[0], Dir: t.TempDir(), Progress: cli.NewProgress(io.Discard, "test")}
	c, err := newCrew(&SQS{Env: env, Act: newAct(t.Context()), Outer: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// seen waits until as many reports of a point are there.
func seen(t *testing.T, c *Crew, point string, n int) []Report {
	t.Helper()
	c.Play(func() { c.Until(point, func() bool { return len(At(c.Reports(), point)) >= n }) })
	if err := context.Cause(c.Ctx); err != nil {
		t.Fatal(err)
	}
	return At(c.Reports(), point)
}

// A process that is killed at a point goes no further, and another one takes its place.
func TestCrewKills(t *testing.T) {
	c := newTestCrew(t)
	c.deaths = []Death{
		{Point: "elsewhere"}, {Point: "here", Key: "of another"},
		{Point: "here", If: func(r Report) bool { return r.From != "worker-1" }},
		{Point: "here", Why: "on purpose"},
	}
	c.Hire("worker", nil)
	here := seen(t, c, "here", 3)
	killed := At(c.Reports(), Killed)
	if here[2].From != "worker-3" || len(killed) != 2 || killed[0].Text != "on purpose" {
		t.Errorf("got reports %v, want two killed workers and their successors", c.Reports())
	}
	if c.Take(Report{From: "worker-1", Point: "late"}); len(At(c.Reports(), "late")) > 0 {
		t.Error("what a dead worker said is recorded")
	}
	c.Dismiss("worker")
	if c.unclean != 0 || c.Ctx.Err() != nil || len(c.deaths) != 2 {
		t.Errorf("got %d unclean ends, %v and %d deaths to come, want none, nil and 2", c.unclean,
			context.Cause(c.Ctx), len(c.deaths))
	}
}

// Finish waits for the process that takes the place of a killed one, but not for one that is killed
// for good.
func TestCrewFinish(t *testing.T) {
	c := newTestCrew(t)
	final := func(r Report) bool { return r.From == "once-3" }
	c.deaths = []Death{{Point: "here", If: final, Final: true}, {Point: "here"}}
	c.Play(func() {
		c.Finish("once", nil)
		c.Finish("once", nil)
	})
	if got := len(At(c.Reports(), "here")); got != 3 || c.Ctx.Err() != nil {
		t.Errorf("%d processes reported, error %v, want 3: %v", got, context.Cause(c.Ctx),
			c.Reports())
	}
}

// A failed must ends the scenario and its goroutine, and releases everything that waits for it.
func TestMust(t *testing.T) {
	c := newTestCrew(t)
	want, after := errors.New("it fails"), false
	c.Play(func() {
		c.Beside(func() {
			c.Must(want)
			after = true
		})()
		after = true
	})
	if got := context.Cause(c.Ctx); got != want || after {
		t.Errorf("got %v, and the story went on: %v; want %v and false", got, after, want)
	}
}

// A process that ends by itself ends the scenario.
func TestCrewFails(t *testing.T) {
	c := newTestCrew(t)
	c.Hire("broken", nil)
	<-c.Ctx.Done()
	if err := context.Cause(c.Ctx); err == nil || !strings.Contains(err.Error(), "broken-1 ended by itself") {
		t.Errorf("got %v, want the process that ended", err)
	}
}

// A stopped process can be dismissed, and continues by itself. It is not left in the middle of a
// write.
func TestCrewFreezes(t *testing.T) {
	c := newTestCrew(t)
	c.Hire("worker", nil)
	seen(t, c, "here", 1)
	locked := []bool{false, true} // in the middle of a write at first
	free := func() bool {
		is := locked[0]
		locked = locked[1:]
		return is
	}
	c.Do(func() {
		c.Freeze("worker-1", "", free, func() bool {
			points := []string{c.reports[0].Point, c.reports[1].Point}
			if want := []string{"here", Frozen}; !slices.Equal(points, want) || len(locked) != 0 {
				t.Errorf("got %q after %d looks, want %q after 2", points, 2-len(locked), want)
			}
			c.Aside(func() { c.Dismiss() })
			return true
		})
	})
	if c.unclean != 0 || len(At(c.Reports(), Thawed)) != 1 {
		t.Errorf("the stopped process did not end as it should: %v", c.Reports())
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
