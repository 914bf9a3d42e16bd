package stage

import "fmt"

// A Row is one check: what must be, what is, and whether they agree.
type Row struct {
	Check string `json:"check"`
	Want  string `json:"want"`
	Got   string `json:"got"`
	OK    string `json:"ok"`
}

// Values of Row.OK.
const (
	OK      = "yes"
	Failed  = "no"
	Shown   = "-" // the row is a figure and checks nothing
	Skipped = "skipped"
)

// Want checks for a value.
func Want(check string, want, got any) Row {
	return row(check, fmt.Sprint(want), fmt.Sprint(got), fmt.Sprint(want) == fmt.Sprint(got))
}

// AtLeast checks for a lower bound.
func AtLeast(check string, want, got int) Row {
	return row(check, fmt.Sprint(">= ", want), fmt.Sprint(got), got >= want)
}

// AtMost checks for an upper bound.
func AtMost(check string, want, got int) Row {
	return row(check, fmt.Sprint("<= ", want), fmt.Sprint(got), got <= want)
}

// True checks that something holds.
func True(check string, holds bool) Row {
	got := "no"
	if holds {
		got = "yes"
	}
	return row(check, "yes", got, holds)
}

// Show is a figure for which there is no bound.
func Show(check string, got any) Row { return Row{check, "-", fmt.Sprint(got), Shown} }

// Skip says that a check was not made, and why.
func Skip(check, why string) Row { return Row{check, "-", why, Skipped} }

func row(check, want, got string, ok bool) Row {
	r := Row{check, want, got, Failed}
	if ok {
		r.OK = OK
	}
	return r
}

// NotOurs is why checks are skipped with --endpoint-url.
const NotOurs = "not our server"

// Unless returns rows or, if something keeps them from being judged, only that their checks are
// skipped.
func Unless(prevented bool, why string, rows ...Row) (list []Row) {
	if !prevented {
		return rows
	}
	for _, r := range rows {
		if r.OK != Shown {
			list = append(list, Skip(r.Check, why))
		}
	}
	return list
}

// Red returns the names of the checks that failed.
func Red(rows []Row) (checks []string) {
	for _, r := range rows {
		if r.OK == Failed {
			checks = append(checks, r.Check)
		}
	}
	return checks
}
