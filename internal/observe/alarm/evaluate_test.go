package alarm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/internal/observe/series"
)

// naive reads the rules of CloudWatch's documentation once more, over letters: 0, X and - as in
// testdata. The data has a letter for each period of the evaluation range.
func naive(data string, n, m int, treat Missing, was State) State {
	verdict := func(letters string) State {
		if strings.Count(letters, "X") >= m {
			return Alarm
		}
		return OK
	}
	there := strings.ReplaceAll(data, "-", "")
	if len(there) >= n {
		return verdict(there[len(there)-n:])
	}
	if strings.Count(there, "X") >= m {
		return Alarm
	}
	since := strings.TrimLeft(data, "-") // the first that breaches, and all after it
	switch {
	case treat == TreatBreaching:
		return verdict(there + strings.Repeat("X", n-len(there)))
	case treat == TreatNotBreaching:
		return verdict(there + strings.Repeat("0", n-len(there)))
	case treat == TreatIgnore && !strings.Contains(data, "0"):
		return was
	case treat == TreatIgnore:
		return OK
	case there == "":
		return Insufficient
	case !strings.Contains(since, "0") && len(since) >= m:
		return Alarm
	}
	return OK
}

// Every sequence of up to five periods, under every rule of up to four, is judged as the second
// reading of the rules has it. [ALARM-4 to ALARM-14]
func TestEvaluateLikeNaive(t *testing.T) {
	sequences := []string{""}
	for from := 0; len(sequences[len(sequences)-1]) < 5; {
		end := len(sequences)
		for _, s := range sequences[from:end] {
			sequences = append(sequences, s+"0", s+"X", s+"-")
		}
		from = end
	}
	if want := 1 + 3 + 9 + 27 + 81 + 243; len(sequences) != want {
		t.Fatalf("%d sequences, want %d", len(sequences), want)
	}
	for _, sequence := range sequences {
		d := record(t, map[string][]float64{"M": values(t, strings.Join(strings.Split(sequence, ""), " "))})
		for n := 1; n <= 4; n++ {
			r := single(n, 0)
			data := strings.Repeat("-", Range(r)) + sequence
			data = data[len(data)-Range(r):]
			for r.Datapoints = range n + 1 {
				m := r.Datapoints
				if m == 0 {
					m = n
				}
				for _, r.Missing = range treatments {
					for _, was := range states {
						got, want := r.Evaluate(d, noon, was).State, naive(data, n, m, r.Missing, was)
						if got != want {
							t.Errorf("%q, %d of %d, %s, after %s: %s, want %s", data, m, n, r.Missing, was, got, want)
						}
					}
				}
			}
		}
	}
}

// The empty treatment is missing, and a single metric needs no id. [ALARM-12]
func TestTreatmentDefault(t *testing.T) {
	for _, line := range []string{"-", "- X - -", "0 - - -", "- - X X"} {
		d := record(t, map[string][]float64{"M": values(t, line)})
		r := single(3, 0)
		was := r.Evaluate(d, noon, Alarm)
		r.Missing = TreatMissing
		if got := r.Evaluate(d, noon, Alarm); got.State != was.State || got.Reason != was.Reason {
			t.Errorf("%s: %+v by default, %+v as missing", line, was, got)
		}
	}
}

func randomRule(rnd *rand.Rand) Rule {
	r := single(1+rnd.IntN(8), 0)
	r.Datapoints = rnd.IntN(r.Periods + 1)
	r.Operator = []Operator{Above, AtLeast, Below, AtMost}[rnd.IntN(4)]
	r.Threshold = float64(rnd.IntN(3))
	return r
}

// These properties hold for every rule and all data. [ALARM-6, ALARM-10]
func TestEvaluateProperties(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		r := randomRule(rnd)
		was := states[rnd.IntN(3)]
		line := make([]float64, Range(r))
		gaps := rnd.IntN(4)
		for i := range line {
			if line[i] = float64(rnd.IntN(3)); gaps > 0 && rnd.IntN(4) < gaps {
				line[i] = math.NaN()
			}
		}
		d := record(t, map[string][]float64{"M": line})
		var found []Verdict
		for _, r.Missing = range treatments {
			found = append(found, r.Evaluate(d, noon, was))
		}

		if v := found[3]; v.State == Insufficient {
			t.Errorf("%+v over %v is %+v", r, line, v)
		}
		for i, v := range found {
			if gaps == 0 && (v.State != found[0].State || v.Reason != found[0].Reason) {
				t.Errorf("without missing data, over %v: %s as %s, %s as %s", line, v.State, treatments[i], found[0].State, treatments[0])
			}
			if len(v.Recent) > r.Periods || !slices.IsSortedFunc(v.Recent, func(x, y series.Point) int { return int(x.At - y.At) }) {
				t.Errorf("recent %v, of %d periods", v.Recent, r.Periods)
			}
			if !strings.HasSuffix(v.Reason, ".") {
				t.Errorf("reason %q", v.Reason)
			}
		}

		older := append([]float64{0, 1, 2, 0, 1, 2}, line...)
		d = record(t, map[string][]float64{"M": older})
		for i, treat := range treatments {
			r.Missing = treat
			if got := r.Evaluate(d, noon, was); got.State != found[i].State || got.Reason != found[i].Reason || !slices.Equal(got.Recent, found[i].Recent) {
				t.Errorf("with older data %v: %+v, without %+v", older, got, found[i])
			}
		}
	}
}

// Periods of any length end at the minute of the evaluation, and later data is ignored.
// [ALARM-15, ALARM-20]
func TestWindowsSlide(t *testing.T) {
	s := series.New(series.Config{})
	start := noon - 100*series.Minute
	for minute := range int64(100) {
		v := 0.0
		if minute == 50 {
			v = 10
		}
		if err := s.Put(watched, start+minute*series.Minute, series.One(v), ""); err != nil {
			t.Fatal(err)
		}
	}
	r := single(1, 0)
	r.Queries[0].Period, r.Queries[0].Stat, r.Threshold = 300, series.Sum, 5
	for minute := int64(40); minute < 70; minute++ {
		want := OK
		if 51 <= minute && minute <= 55 {
			want = Alarm
		}
		v := r.Evaluate(s, start+minute*series.Minute, OK)
		if v.State != want {
			t.Errorf("minute %d: %s, want %s", minute, v.State, want)
		}
		if got, want := v.Recent[0].At, start+(minute-5)*series.Minute; got != want {
			t.Errorf("minute %d: the period begins at %d, want %d", minute, got, want)
		}
	}
}

// Every statistic is computed from all that a period has. [ALARM-21]
func TestStatistics(t *testing.T) {
	d := record(t, map[string][]float64{"M": {1, 2, 3, 9, 5}})
	r := single(1, 0)
	r.Queries[0].Period = 300
	for stat, want := range map[series.Stat]float64{
		series.Average: 4, series.Minimum: 1, series.Maximum: 9, series.Sum: 20, series.SampleCount: 5,
	} {
		r.Queries[0].Stat = stat
		if got := r.Evaluate(d, noon, OK).Recent[0].Value; got != want {
			t.Errorf("%s: %v, want %v", stat, got, want)
		}
	}
}

// [ALARM-3]
func TestOperators(t *testing.T) {
	for o, want := range map[Operator]string{
		Above: "[false false true false]", AtLeast: "[false true true false]",
		Below: "[true false false false]", AtMost: "[true true false false]", "other": "[false false false false]",
	} {
		r := Rule{Operator: o, Threshold: 5}
		var got []bool
		for _, v := range []float64{4, 5, 6, math.NaN()} {
			got = append(got, r.breaches(v))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s 5, of 4, 5, 6 and no number: %v, want %s", o, got, want)
		}
	}
}

// odd answers with what no Store would.
type odd struct{ points []series.Point }

func (o odd) Points(series.Metric, series.Stat, int64, int64, int64) []series.Point { return o.points }

// Values that are not finite count as missing, and values outside the range are ignored.
// [ALARM-3, ALARM-25]
func TestOddData(t *testing.T) {
	minute := func(n int64) int64 { return noon - n*series.Minute }
	d := odd{[]series.Point{
		{At: minute(4), Value: 1}, {At: minute(3), Value: math.Inf(1)}, {At: minute(2), Value: 0}, {At: minute(1), Value: math.NaN()}, {At: noon, Value: 1},
	}}
	v := single(1, 0).Evaluate(d, noon, Alarm)
	if want := []series.Point{{At: minute(2), Value: 0}}; v.State != OK || !slices.Equal(v.Recent, want) {
		t.Errorf("%+v, want OK from %v", v, want)
	}
}

// A query that names a unit sees only data recorded in that unit, and nothing is converted.
// [ALARM-34]
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		recorded, wanted string
		want             State
	}{
		{"Seconds", "", Alarm},
		{"Seconds", "Seconds", Alarm},
		{"Seconds", "Milliseconds", Insufficient},
		{"", "Seconds", Insufficient},
		{"", "None", Alarm},
		{"None", "None", Alarm},
		{"", "", Alarm},
	} {
		s := series.New(series.Config{})
		if err := s.Put(watched, noon-series.Minute, series.One(1), c.recorded); err != nil {
			t.Fatal(err)
		}
		r := single(1, 0)
		r.Queries[0].Unit = c.wanted
		if got := r.Evaluate(s, noon, OK).State; got != c.want {
			t.Errorf("recorded in %q, asked for in %q: %s, want %s", c.recorded, c.wanted, got, c.want)
		}
	}
}

// asked notes how far back it was asked for.
type asked struct{ from, to int64 }

func (a *asked) Points(_ series.Metric, _ series.Stat, _, from, to int64) []series.Point {
	a.from, a.to = from, to
	return nil
}

// A rule tells how far back it looks. [ALARM-5, ALARM-35]
func TestSpan(t *testing.T) {
	r := single(3, 2)
	r.Queries[0].Period = 300
	a := &asked{}
	r.Evaluate(a, noon, OK)
	if want := int64(5 * 300_000); Range(r) != 5 || r.Span() != want || a.from != noon-want || a.to != noon {
		t.Errorf("range %d, span %d, asked for %d to %d before", Range(r), r.Span(), noon-a.from, noon-a.to)
	}
}

// A rule that Check refuses, such as one from a later version, does not cause a panic. [ALARM-33]
func TestEvaluateUnchecked(t *testing.T) {
	v := Rule{}.Evaluate(odd{}, noon, Alarm)
	if v.State != Insufficient || !strings.Contains(v.Reason, "Comparison operator") {
		t.Errorf("%+v", v)
	}
}
