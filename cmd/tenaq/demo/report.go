package demo

import (
	"fmt"
	"math"

	"tenaq/internal/cli"
)

// A demoRow is one check of a scenario: what must be, what is, and whether that is fine.
type demoRow struct {
	Check string `json:"check"`
	Want  string `json:"want"`
	Got   string `json:"got"`
	OK    string `json:"ok"`
}

// What the last column of a row says.
const (
	rowOK      = "yes"
	rowFailed  = "no"
	rowShown   = "-" // the row only tells
	rowSkipped = "skipped"
)

// wantRow is a check for a value.
func wantRow(check string, want, got any) demoRow {
	r := demoRow{Check: check, Want: fmt.Sprint(want), Got: fmt.Sprint(got), OK: rowFailed}
	if r.Want == r.Got {
		r.OK = rowOK
	}
	return r
}

// atLeastRow is a check for a lower bound.
func atLeastRow(check string, want, got int) demoRow {
	r := demoRow{Check: check, Want: fmt.Sprintf(">= %d", want), Got: fmt.Sprint(got), OK: rowFailed}
	if got >= want {
		r.OK = rowOK
	}
	return r
}

// shownRow tells something for which there is no bound.
func shownRow(check string, got any) demoRow {
	return demoRow{Check: check, Want: "-", Got: fmt.Sprint(got), OK: rowShown}
}

// skippedRow says that a check was not made, and why.
func skippedRow(check, why string) demoRow {
	return demoRow{Check: check, Want: "-", Got: why, OK: rowSkipped}
}

type scenarioReport struct {
	Name    string    `json:"name"`
	Text    string    `json:"text"`
	Seconds float64   `json:"seconds"`
	Rows    []demoRow `json:"rows"`
}

type demoReport struct {
	Seed      uint64           `json:"seed"`
	OK        bool             `json:"ok"`
	DataDir   string           `json:"dataDir,omitempty"`
	Scenarios []scenarioReport `json:"scenarios"`
}

func (r *demoReport) add(s scenarioReport) {
	s.Seconds = math.Round(s.Seconds*10) / 10
	r.Scenarios = append(r.Scenarios, s)
	_, failed := r.count()
	r.OK = failed == 0
}

// count returns how many checks were fine and how many were not.
func (r *demoReport) count() (ok, failed int) {
	for _, s := range r.Scenarios {
		for _, row := range s.Rows {
			switch row.OK {
			case rowOK:
				ok++
			case rowFailed:
				failed++
			}
		}
	}
	return ok, failed
}

// verdict is nil when all checks are fine.
func (r *demoReport) verdict() error {
	if ok, failed := r.count(); failed > 0 {
		return cli.Codedf(cli.ExitFailed, "%d of %s failed; run it again with --seed %d", failed, cli.Counted(ok+failed, "check", "checks"), r.Seed)
	}
	return nil
}

// printDemo prints one table for all scenarios.
func printDemo(a *cli.App, r *demoReport) error {
	if a.JSON {
		return a.PrintJSON(r)
	}
	t := cli.Table{Head: []string{"CHECK", "WANT", "GOT", "OK"}}
	seconds := 0.0
	for _, s := range r.Scenarios {
		t.Add(s.Name + ": " + s.Text)
		for _, row := range s.Rows {
			ok := row.OK
			if ok == rowFailed {
				ok = "NO" // it should be seen
			}
			t.Add("  "+row.Check, row.Want, row.Got, ok)
		}
		seconds += s.Seconds
	}
	if err := a.PrintTable(t); err != nil {
		return err
	}
	ok, failed := r.count()
	_, err := fmt.Fprintf(a.Stdout, "\n%d of %s ok in %.0f s, seed %d\n", ok, cli.Counted(ok+failed, "check", "checks"), seconds, r.Seed)
	return err
}
