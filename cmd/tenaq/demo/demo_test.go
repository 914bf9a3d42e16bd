package demo

import (
	"strings"
	"testing"
	"time"

	"tenaq/internal/audit"
	"tenaq/internal/audit/load"
	"tenaq/internal/child"
	"tenaq/internal/cli"
)

func TestChooseScenarios(t *testing.T) {
	all, err := chooseScenarios(nil)
	if err != nil || len(all) != len(scenarios) {
		t.Errorf("without a name: got %d scenarios and error %v, want all %d", len(all), err, len(scenarios))
	}
	one, err := chooseScenarios([]string{"crash", "crash"})
	if err != nil || len(one) != 1 || one[0].name != "crash" {
		t.Errorf("crash, twice: got %v and error %v, want it once", one, err)
	}
	for name, want := range map[string]string{"crush": "did you mean crash?", "xyzzy": "there are: crash"} {
		if _, err := chooseScenarios([]string{name}); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want exit code %d and %q", name, err, cli.ExitUsage, want)
		}
	}
}

// What a scenario cannot leave out is refused before anything begins.
func TestCheckBreak(t *testing.T) {
	bare := scenario{name: "bare"}
	for _, tt := range []struct {
		flags  demoFlags
		chosen []scenario
		want   string // of the refusal; empty for none
	}{
		{demoFlags{}, scenarios, ""},
		{demoFlags{breakage: "disk"}, []scenario{crashScenario}, ""},
		{demoFlags{breakage: "disk"}, []scenario{crashScenario, bare}, "for one scenario"},
		{demoFlags{breakage: "disk"}, []scenario{bare}, "has nothing that can be left out"},
		{demoFlags{breakage: "desk"}, []scenario{crashScenario}, "--break takes: disk"},
		{demoFlags{breakage: "disk", endpointURL: "aws"}, []scenario{crashScenario}, "needs a server of the demo's own"},
	} {
		err := tt.flags.checkBreak(tt.chosen)
		if refused := cli.ExitCode(err) == cli.ExitUsage; refused != (tt.want != "") || refused && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("--break %s: got error %v, want %q", tt.flags.breakage, err, tt.want)
		}
	}
}

func TestDemoRows(t *testing.T) {
	tests := []struct {
		row  demoRow
		want demoRow
	}{
		{wantRow("a", 0, 0), demoRow{"a", "0", "0", rowOK}},
		{wantRow("a", 0, 1), demoRow{"a", "0", "1", rowFailed}},
		{atLeastRow("a", 3, 3), demoRow{"a", ">= 3", "3", rowOK}},
		{atLeastRow("a", 3, 2), demoRow{"a", ">= 3", "2", rowFailed}},
		{shownRow("a", 7), demoRow{"a", "-", "7", rowShown}},
		{skippedRow("a", "why"), demoRow{"a", "-", "why", rowSkipped}},
	}
	for _, tt := range tests {
		if tt.row != tt.want {
			t.Errorf("got %v, want %v", tt.row, tt.want)
		}
	}
}

func TestPrintDemo(t *testing.T) {
	var out strings.Builder
	a := &cli.App{Stdout: &out}
	r := &demoReport{Seed: 7}
	r.add(scenarioReport{Name: "one", Text: "a story", Seconds: 1.26, Rows: []demoRow{wantRow("lost", 0, 0), shownRow("seen", 12)}})
	if !r.OK || r.verdict() != nil {
		t.Errorf("without a failure: got ok %v and %v, want true and no error", r.OK, r.verdict())
	}
	r.add(scenarioReport{Name: "two", Text: "another story", Seconds: 2, Rows: []demoRow{wantRow("lost", 0, 3), skippedRow("kills", "why")}})
	if r.OK || cli.ExitCode(r.verdict()) != cli.ExitFailed {
		t.Errorf("with a failure: got ok %v and %v, want false and exit code %d", r.OK, r.verdict(), cli.ExitFailed)
	}
	if err := printDemo(a, r); err != nil {
		t.Fatal(err)
	}
	const want = `CHECK    WANT  GOT  OK
one: a story
  lost   0     0    yes
  seen   -     12   -
two: another story
  lost   0     3    NO
  kills  -     why  skipped

1 of 2 checks ok in 3 s, seed 7
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Every rule of the audit has a row that fails when the rule is broken.
func TestAuditRowsShowEveryRule(t *testing.T) {
	sound := &audit.Report{Acknowledged: crashMessages, Copies: 1, Deliveries: 1200, Repeated: 100}
	for _, row := range auditRows(sound) {
		if row.OK != rowOK && row.OK != rowShown {
			t.Errorf("sound run: got %v, want ok", row)
		}
	}
	rules := []audit.Rule{audit.Lost, audit.Invented, audit.Multiplied, audit.InFlight, audit.Deleted, audit.Counts, audit.Fixed}
	for _, rule := range rules {
		failed := 0
		for _, row := range auditRows(&audit.Report{Acknowledged: crashMessages, Violations: []audit.Violation{{Rule: rule}}}) {
			if row.OK == rowFailed {
				failed++
			}
		}
		if failed != 1 {
			t.Errorf("%s: got %d rows that fail, want 1", rule, failed)
		}
	}
}

// Refusing old handles is a failure of our own server, and a remark about any other.
func TestOldHandlesRow(t *testing.T) {
	l := load.New(load.Config{QueueURL: "http://127.0.0.1/000000000000/q"})
	for _, test := range []struct {
		run  crashRun
		want string
	}{
		{crashRun{load: l}, rowShown},
		{crashRun{load: l, server: new(child.Server)}, rowOK},
	} {
		if row := test.run.oldHandlesRow(); row.OK != test.want || row.Check != "old handles refused" {
			t.Errorf("got %+v, want %s", row, test.want)
		}
	}
}

func TestProgressWithoutATerminal(t *testing.T) {
	var out strings.Builder
	p := cli.NewProgress(&out)
	p.Begin("crash")
	p.Line("%d of %d", 1, 2)
	p.Say("kill %d", 1)
	p.Note("left %s", "behind")
	p.Done()
	if got, want := out.String(), "crash: kill 1\ncrash: left behind\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProgressOnATerminal(t *testing.T) {
	var out strings.Builder
	p := &cli.Progress{W: &out, Terminal: true}
	p.Begin("crash")
	p.Began = time.Now().Add(-3 * time.Second)
	p.Say("kill %d", 1)
	p.Line("%s", strings.Repeat("x", 200))
	p.Done()
	if got, want := out.String(), "\rcrash   3 s  "+strings.Repeat("x", 66)+"\x1b[K\r\x1b[K"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBar(t *testing.T) {
	for part, want := range map[int]string{
		0: "[                    ]", 50: "[==========          ]", 100: "[====================]", 120: "[====================]",
	} {
		if got := cli.Bar(part, 100); got != want {
			t.Errorf("%d of 100: got %s, want %s", part, got, want)
		}
	}
}
