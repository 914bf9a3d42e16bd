package budget

import (
	"strconv"
	"strings"

	"tenaq/internal/cli"
)

// A Report is what "bench budget" prints with --json.
type Report struct {
	Short      bool    `json:"short"`
	Scale      float64 `json:"scale"`
	Processors int     `json:"processors"`
	// of the machine, averages of 1, 5 and 15 minutes; empty where it is not known
	Load string `json:"loadBefore"`
	Rows []Row  `json:"rows"`
}

// A Row is one line of the table.
type Row struct {
	Line    string `json:"line"`
	Measure string `json:"measure,omitempty"`
	Unit    string `json:"unit,omitempty"`
	AtMost  bool   `json:"atMost"`
	// that of the form that was run; null when it does not judge this
	Bound    *float64 `json:"bound"`
	Measured *float64 `json:"measured"` // null when it could not be measured
	Holds    *bool    `json:"holds"`    // null when it was not judged
	Note     string   `json:"note,omitempty"`
	Error    string   `json:"error,omitempty"`
	Seconds  float64  `json:"lineSeconds"` // that the whole line took

	bound bound
}

func (r Row) failed() bool { return r.Error != "" || r.Holds != nil && !*r.Holds }

// verdict returns the text of the row in the column HOLDS.
func (r Row) verdict() string {
	switch {
	case r.Error != "":
		return "no: " + r.Error
	case r.Holds == nil:
		return "not judged"
	case *r.Holds:
		return "yes"
	}
	return "no"
}

func (b bound) judge(line string, short bool, m measure) Row {
	r := Row{Line: line, Measure: m.what, Unit: b.unit, AtMost: b.most, Measured: &m.value,
		Note: m.note, bound: b}
	if b.free {
		return r
	}
	limit := b.is
	if short {
		if limit = b.gross; limit == 0 && b.is != 0 {
			return r
		}
	}
	holds := m.value >= limit
	if b.most {
		holds = m.value <= limit
	}
	r.Bound, r.Holds = &limit, &holds
	return r
}

// Failed returns the names of the bounds that are not met, and of the lines that failed.
func (r *Report) Failed() (names []string) {
	for _, row := range r.Rows {
		if row.failed() {
			names = append(names, row.name())
		}
	}
	return names
}

// name returns the text of the row in the column LINE.
func (r Row) name() string {
	if r.Measure == "" {
		return r.Line
	}
	return r.Line + ": " + r.Measure
}

// Table returns the report as a table for people.
func (r *Report) Table() cli.Table {
	t := cli.Table{Head: []string{"LINE", "BOUND", "MEASURED", "HOLDS"}}
	for _, row := range r.Rows {
		if row.Error != "" {
			t.Add(row.name(), "", "", row.verdict())
			continue
		}
		if row.Measured == nil {
			t.Add(row.name(), "", row.Note, row.verdict())
			continue
		}
		limit := ""
		if row.Bound != nil {
			limit = row.bound.say(*row.Bound)
		}
		measured := strings.TrimSpace(figure(*row.Measured) + " " + row.Unit)
		if row.Note != "" {
			measured += " (" + row.Note + ")"
		}
		t.Add(row.name(), limit, measured, row.verdict())
	}
	return t
}

func (b bound) say(limit float64) string {
	sign := ">= "
	if b.most {
		sign = "<= "
	}
	return strings.TrimSpace(sign + figure(limit) + " " + b.unit)
}

// figure formats a number with two places, or none if it is large or whole.
func figure(v float64) string {
	if v >= 100 || v == float64(int64(v)) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
