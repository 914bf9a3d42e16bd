package budget

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/cli"
)

// A bound is kept up to its limit. The short form has limits of its own, and judges nothing that
// has none.
func TestBoundsAreJudged(t *testing.T) {
	ratio, memory := atLeast("rate", 0.8, 0.2), atMost("memory", 512, "MiB", 0)
	for _, tt := range []struct {
		bound bound
		short bool
		value float64
		want  string
	}{
		{ratio, false, 0.8, "yes"},
		{ratio, false, 0.79, "no"},
		{ratio, true, 0.2, "yes"},
		{ratio, true, 0.19, "no"},
		{memory, false, 512, "yes"},
		{memory, false, 512.1, "no"},
		{memory, true, 9999, "not judged"},
		{atMost("refused", 0, "requests", 0), false, 0, "yes"},
		{atMost("refused", 0, "requests", 0), false, 1, "no"},
		{atMost("refused", 0, "requests", 0), true, 1, "no"},
	} {
		r := tt.bound.judge("line", tt.short, measure{tt.bound.what, tt.value, ""})
		if got := r.verdict(); got != tt.want {
			t.Errorf("%s %v, short %v: got %q, want %q", tt.bound.say(tt.bound.is), tt.value, tt.short, got, tt.want)
		}
		if (r.Holds == nil) != (r.Bound == nil) || *r.Measured != tt.value {
			t.Errorf("%s: got %+v", tt.bound.say(tt.bound.is), r)
		}
	}
}

// A line that fails late still reports what it has measured. A missing measurement is a failure
// even if the line reports no error.
func TestLinesThatFail(t *testing.T) {
	line := Line{Name: "line", bounds: []bound{atLeast("a", 1, 1), atLeast("b", 1, 1)}}
	f := &Config{Short: true, Scale: 1, Dir: t.TempDir()}
	for _, failure := range []error{errors.New("the server is gone"), nil} {
		line.run = func(context.Context, *env) ([]measure, error) { return []measure{{"a", 1, ""}}, failure }
		rows := line.measure(t.Context(), f, cli.NewProgress(io.Discard, "test"))
		if len(rows) != 2 || rows[0].verdict() != "yes" || rows[0].failed() || !rows[1].failed() || rows[1].Error == "" {
			t.Errorf("%v: got %+v", failure, rows)
		}
	}
}

// The short form measures again what missed a ratio, and nothing else: a second failure counts, and
// what must never happen or failed is not tried again.
func TestMeasuredTwice(t *testing.T) {
	ratio, never := atLeast("rate", 0.8, 0.2), atMost("lost", 0, "messages", 0)
	for _, tt := range []struct {
		name   string
		full   bool
		rates  []float64 // one for each time that it is measured
		lost   float64
		err    error
		failed []string
	}{
		{name: "met", rates: []float64{0.2}},
		{name: "missed once", rates: []float64{0.1, 0.2}},
		{name: "missed twice", rates: []float64{0.1, 0.1}, failed: []string{"line: rate"}},
		{name: "full form", full: true, rates: []float64{0.1}, failed: []string{"line: rate"}},
		{name: "lost", rates: []float64{0.1}, lost: 1, failed: []string{"line: rate", "line: lost"}},
		{name: "error", rates: []float64{0.1}, err: errors.New("the server is gone"),
			failed: []string{"line: rate", "line"}},
	} {
		times := 0
		line := Line{Name: "line", bounds: []bound{ratio, never},
			run: func(context.Context, *env) ([]measure, error) {
				times++
				return []measure{{"rate", tt.rates[min(times, len(tt.rates))-1], ""}, {"lost", tt.lost, ""}}, tt.err
			}}
		r := Run(t.Context(), &Config{Short: !tt.full, Scale: 1, Dir: t.TempDir()}, []Line{line},
			cli.NewProgress(io.Discard, "test"))
		if times != len(tt.rates) || !slices.Equal(r.Failed(), tt.failed) {
			t.Errorf("%s: measured %d times, failed %q, want %d, %q", tt.name, times, r.Failed(), len(tt.rates), tt.failed)
		}
		if again := strings.Contains(r.Rows[0].Note, "the first time 0.10"); again != (times > 1) {
			t.Errorf("%s: the note of %d measurements is %q", tt.name, times, r.Rows[0].Note)
		}
	}
}

// A machine that is too small for a line is reported, and is not a failure.
func TestTooSmall(t *testing.T) {
	line := Line{Name: "line", bounds: []bound{atLeast("a", 1, 1)},
		run: func(context.Context, *env) ([]measure, error) { return nil, tooSmall("not measured: too small") }}
	f := &Config{Scale: 1, Short: true, Dir: t.TempDir()}
	rows := line.measure(t.Context(), f, cli.NewProgress(io.Discard, "test"))
	if len(rows) != 1 || rows[0].failed() || rows[0].verdict() != "not judged" || rows[0].Measured != nil || rows[0].Note == "" {
		t.Errorf("got %+v", rows)
	}
	r := Report{Rows: rows}
	if got := r.Table().Rows; len(r.Failed()) != 0 || len(got) != 1 || !slices.Contains(got[0], "not measured: too small") {
		t.Errorf("got %q, failed: %q", got, r.Failed())
	}
}

// A measure without a bound is reported and not judged.
func TestFree(t *testing.T) {
	r := bound{what: "rate", free: true}.judge("line", false, measure{"rate", 3, ""})
	if r.verdict() != "not judged" || r.failed() || r.Bound != nil || *r.Measured != 3 {
		t.Errorf("got %+v", r)
	}
}

// The bytes that a process wrote are found among the other numbers.
func TestBytesWritten(t *testing.T) {
	const io = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6789\ncancelled_write_bytes: 8\n"
	if got, err := writtenOf(io); err != nil || got != 6789 {
		t.Errorf("got %v, %v, want 6789", got, err)
	}
	for _, bad := range []string{"", "cancelled_write_bytes: 8\n", "x\nwrite_bytes: many\n"} {
		if got, err := writtenOf(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, got)
		}
	}
}

// A thread that is pinned stays there.
func TestPin(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this needs Linux")
	}
	all, err := processors()
	if err != nil || len(all) != runtime.NumCPU() {
		t.Fatalf("got %v, %v, want %d processors", all, err, runtime.NumCPU())
	}
	defer func() {
		if err := pin("self", all); err != nil {
			t.Error(err)
		}
	}()
	last := all[len(all)-1:]
	if err := pin("self", last); err != nil {
		t.Fatal(err)
	}
	if got, err := processors(); err != nil || !slices.Equal(got, last) {
		t.Errorf("got %v, %v, want %v", got, err, last)
	}
}

// The short form judges ratios and nothing else, far below the bounds, and every line has something
// to judge but start, idle and copy.
func TestBudgetLines(t *testing.T) {
	for _, l := range slices.Concat(Lines, ClusterLines) {
		for _, b := range l.bounds {
			switch {
			case b.free:
			case b.gross == 0 && b.unit == "":
				t.Errorf("%s: %s is a ratio that the short form does not judge", l.Name, b.what)
			case b.gross != 0 && b.unit != "":
				t.Errorf("%s: %s is no ratio, and the short form judges it", l.Name, b.what)
			case b.gross != 0 && b.most != (b.gross > b.is):
				t.Errorf("%s: %s: the short form wants %v and the full one %v", l.Name, b.what, b.gross, b.is)
			}
		}
		if !slices.ContainsFunc(l.bounds, func(b bound) bool { return b.gross != 0 || b.is == 0 }) &&
			!slices.Contains([]string{"start", "idle", "copy"}, l.Name) {
			t.Errorf("%s: the short form judges nothing", l.Name)
		}
	}
}
