package demo

import (
	"strings"
	"testing"
	"unicode/utf8"

	"tenaq/cmd/tenaq/demo/crash"
	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/internal/cli"
)

func TestChoose(t *testing.T) {
	all, err := choose(nil)
	if err != nil || len(all) != len(scenarios) {
		t.Errorf("without a name: got %d scenarios and error %v, want all %d", len(all), err, len(scenarios))
	}
	one, err := choose([]string{"crash", "crash"})
	if err != nil || len(one) != 1 || one[0].Name != "crash" {
		t.Errorf("crash, twice: got %v and error %v, want it once", one, err)
	}
	for name, want := range map[string]string{"crush": "did you mean crash?", "xyzzy": "there are: crash"} {
		if _, err := choose([]string{name}); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want exit code %d and %q", name, err, cli.ExitUsage, want)
		}
	}
}

// A part that a scenario cannot leave out is refused before anything begins.
func TestCheckBreak(t *testing.T) {
	for _, tt := range []struct {
		flags  flags
		chosen []stage.Scenario
		want   string // of the refusal; empty for none
	}{
		{flags{}, scenarios, ""},
		{flags{breakage: "disk"}, []stage.Scenario{crash.Scenario}, ""},
		{flags{breakage: "disk"}, scenarios, "for one scenario"},
		{flags{breakage: "desk"}, []stage.Scenario{crash.Scenario}, "--break takes: disk"},
		{flags{breakage: "disk", endpointURL: "aws"}, []stage.Scenario{crash.Scenario}, "needs a server of the demo's own"},
	} {
		err := tt.flags.checkBreak(tt.chosen)
		if refused := cli.ExitCode(err) == cli.ExitUsage; refused != (tt.want != "") || refused && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("--break %s: got error %v, want %q", tt.flags.breakage, err, tt.want)
		}
	}
}

// The command that repeats a run says all that the run depends on, and no password.
func TestRepeat(t *testing.T) {
	f := flags{seed: 7, long: true, breakage: "rate", database: "postgres://me:secret@db/app"}
	got := f.repeat([]string{"outbox"})
	if !strings.HasSuffix(got, "demo outbox --break rate --long --db URL --seed 7") {
		t.Errorf("got %q", got)
	}
}

var (
	good = scenarioReport{Name: "one", Text: "a story", Seconds: 1.26, Rows: []stage.Row{
		stage.Want("lost", 0, 0), stage.Show("seen", 12), stage.Want("  of these, twice", 0, 0),
	}}
	wrong = scenarioReport{Name: "two", Text: "another story", Seconds: 2, Rows: []stage.Row{
		stage.Want("lost", 0, 3), stage.Skip("kills", "not our server"),
		stage.Want("ran to its end", "yes", "it ended: "+strings.Repeat("a long log ", 20)+strings.Repeat("x", 100)),
	}}
)

// A scenario is one line and its failures, unless all is wanted. The check mark comes first, and no
// line is wider than a terminal.
func TestPrint(t *testing.T) {
	var short, long strings.Builder
	for _, s := range []scenarioReport{good, wrong} {
		s.print(&short, false)
		s.print(&long, true)
	}
	lines := strings.Split(short.String(), "\n")
	if !strings.HasPrefix(lines[0], "✓ one ") || !strings.HasSuffix(lines[0], " 1 s") {
		t.Errorf("got %q, want the scenario and its time", lines[0])
	}
	if !strings.HasPrefix(lines[1], "✗ two ") || lines[2] != "  ✗ lost: 3, want 0" {
		t.Errorf("got %q, want the scenario that failed and its check", lines[1:3])
	}
	for _, want := range []string{"  ✓ lost: 0\n", "  · seen: 12\n", "  ✓   of these, twice: 0\n", "  - kills: skipped, not our server\n"} {
		if !strings.Contains(long.String(), want) {
			t.Errorf("verbose: no %q in\n%s", want, long.String())
		}
		if strings.Contains(short.String(), want) {
			t.Errorf("%q is no failure and is printed:\n%s", want, short.String())
		}
	}
	for line := range strings.Lines(long.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
}

// The sum is that of all scenarios, and decides the exit code.
func TestVerdict(t *testing.T) {
	var out strings.Builder
	a := &cli.App{Stdout: &out}
	r := &report{Seed: 7, Repeat: "tenaq demo --seed 7"}
	r.add(good)
	if !r.OK || r.verdict() != nil {
		t.Errorf("without a failure: got ok %v and %v, want true and no error", r.OK, r.verdict())
	}
	r.add(wrong)
	if r.OK || cli.ExitCode(r.verdict()) != cli.ExitFailed {
		t.Errorf("with a failure: got ok %v and %v, want false and an error", r.OK, r.verdict())
	}
	if err := r.finish(a); err != nil {
		t.Fatal(err)
	}
	if want := "\n2 of 4 checks passed in 3 s. Run it again:\n  tenaq demo --seed 7\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// Names of scenarios and parts fit their columns.
func TestTexts(t *testing.T) {
	for _, s := range scenarios {
		if len(s.Name) > 9 || len(s.Text) > 61 {
			t.Errorf("%s %q does not fit into its columns", s.Name, s.Text)
		}
		for _, b := range s.Breaks {
			if len(b.Name) > 11 || len(b.Text) > 56 {
				t.Errorf("--break %s %q does not fit into a line of the help", b.Name, b.Text)
			}
		}
	}
}
