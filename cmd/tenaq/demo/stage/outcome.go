package stage

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"tenaq/internal/testing/audit"
)

// An Outcome is what every scenario finds.
type Outcome struct {
	Ours    bool   // the server is the demo's own
	Broken  string // name of the Break
	Unclean int    // processes that did not end as they should when they were told to
	Reports []Report
}

// Outcome returns what was found so far.
func (c *Crew) Outcome() Outcome {
	return Outcome{c.Server != nil, c.Broken, c.unclean, c.Reports()}
}

// At returns the reports of a point.
func (o *Outcome) At(point string) []Report { return At(o.Reports, point) }

// Usual returns rows about the usual way to write the program. If it did no harm, the rest would
// prove nothing.
func (o *Outcome) Usual(rows ...Row) []Row {
	return Unless(o.Broken != "", "left out too", rows...)
}

// Ended is the row about the processes.
func (o *Outcome) Ended() Row {
	return Want("processes that did not end when told to", 0, o.Unclean)
}

// KeepHistory writes what clients did and what is wrong with it to files, as evidence of a failure.
func (e *Env) KeepHistory(h *audit.History, r *audit.Report) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	var findings []byte
	for _, v := range r.Violations {
		findings = fmt.Appendln(findings, v)
	}
	if err := os.WriteFile(filepath.Join(e.Dir, "violations.txt"), findings, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(e.Dir, "history.json"), text, 0o600)
}

// At returns the reports of a point.
func At(reports []Report, point string) (some []Report) {
	for _, r := range reports {
		if r.Point == point {
			some = append(some, r)
		}
	}
	return some
}
