package alarm

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"tenaq/internal/observe/series"
)

// noon is when the scripts evaluate: the newest period ends there.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixMilli()

var (
	watched    = series.Metric{Namespace: "N", Name: "M"}
	states     = []State{OK, Alarm, Insufficient}
	treatments = []Missing{TreatMissing, TreatIgnore, TreatBreaching, TreatNotBreaching}
)

// single is the rule that most tests change a little: one breaches, zero does not.
func single(periods, datapoints int) Rule {
	return Rule{
		Queries: []Query{{Metric: watched, Stat: series.Maximum, Period: 60}},
		Periods: periods, Datapoints: datapoints, Operator: Above, Threshold: 0.5,
	}
}

// record returns a Store that has a value for each of the last minutes; what is not a number is
// missing.
func record(t testing.TB, values map[string][]float64) *series.Store {
	t.Helper()
	s := series.New(series.Config{})
	for name, line := range values {
		for i, v := range line {
			if math.IsNaN(v) {
				continue
			}
			m, at := series.Metric{Namespace: "N", Name: name}, noon-int64(len(line)-i)*series.Minute
			if err := s.Put(m, at, series.One(v), ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// values reads numbers, - for missing, and 0 and X for those that do not breach and do.
func values(t testing.TB, text string) (line []float64) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		switch word {
		case "-":
			line = append(line, math.NaN())
		case "X":
			line = append(line, 1)
		default:
			v, err := strconv.ParseFloat(word, 64)
			if err != nil {
				t.Fatal(err)
			}
			line = append(line, v)
		}
	}
	return line
}

// TestScripts plays testdata, which says what a newcomer should know. The commands are:
//
//	states periods=3 datapoints=2     the state for each line of data, oldest first, under each treatment of missing data
//	evaluate periods=3 treat=missing  state and reason for one line of data
//	math                              what the last line gives, with the series of the lines before it
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "states":
				return scriptStates(t, d)
			case "evaluate":
				return scriptEvaluate(t, d)
			case "math":
				return scriptMath(t, d)
			}
			d.Fatalf(t, "unknown command")
			return ""
		})
	})
}

func scriptStates(t *testing.T, d *datadriven.TestData) string {
	r := scriptRule(t, d)
	var out strings.Builder
	out.WriteString("           missing            ignore  breaching  notBreaching\n")
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		s := record(t, map[string][]float64{"M": values(t, line)})
		fmt.Fprintf(&out, "%s ", line)
		for i, width := range []int{-18, -7, -10, 0} {
			r.Missing = treatments[i]
			fmt.Fprintf(&out, " %*s", width, outcome(t, r, s))
		}
		out.WriteString("\n")
	}
	return out.String()
}

// outcome is the state that a rule gives whatever the one before, or that it keeps that one.
func outcome(t *testing.T, r Rule, d Data) string {
	t.Helper()
	var found []State
	for _, was := range states {
		found = append(found, r.Evaluate(d, noon, was).State)
	}
	switch {
	case slices.Equal(found, states):
		return "keep"
	case found[0] == found[1] && found[1] == found[2]:
		return string(found[0])
	}
	t.Fatalf("%+v: states %v after %v", r, found, states)
	return ""
}

func scriptRule(t *testing.T, d *datadriven.TestData) Rule {
	periods, datapoints := 1, 0
	d.MaybeScanArgs(t, "periods", &periods)
	d.MaybeScanArgs(t, "datapoints", &datapoints)
	r := single(periods, datapoints)
	for _, arg := range d.CmdArgs {
		switch v := arg.Vals[0]; arg.Key {
		case "treat":
			r.Missing = Missing(v)
		case "operator":
			r.Operator = Operator(v)
		case "threshold":
			r.Threshold = values(t, v)[0]
		}
	}
	return r
}

func scriptEvaluate(t *testing.T, d *datadriven.TestData) string {
	s := record(t, map[string][]float64{"M": values(t, d.Input)})
	v := scriptRule(t, d).Evaluate(s, noon, OK)
	return fmt.Sprintf("%s\n%s\n", v.State, v.Reason)
}

func scriptMath(t *testing.T, d *datadriven.TestData) string {
	lines := strings.Split(strings.TrimSpace(d.Input), "\n")
	r := single(1, 0)
	r.Queries = nil
	data, n := make(map[string][]float64), 0
	for _, line := range lines[:len(lines)-1] {
		id, text, ok := strings.Cut(line, " = ")
		q := Query{ID: id, Expression: text}
		if ok && strings.Trim(text, "-.0123456789 ") == "" {
			q = Query{ID: id, Metric: series.Metric{Namespace: "N", Name: id}, Stat: series.Maximum, Period: 60}
			data[id] = values(t, text)
			n = len(data[id])
		}
		r.Queries = append(r.Queries, q)
	}
	r.Queries = append(r.Queries, Query{ID: "result", Expression: lines[len(lines)-1], Return: true})
	p, err := r.compile()
	if err != nil {
		return err.Error() + "\n"
	}
	var words []string
	for _, v := range p.series(record(t, data), window{noon - int64(n)*series.Minute, noon, 60, n}) {
		if math.IsNaN(v) {
			words = append(words, "-")
		} else {
			words = append(words, strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
	return strings.Join(words, " ") + "\n"
}
