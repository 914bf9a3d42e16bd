package series

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A model is what a Store should be like, without any idea: a Set for every minute.
type model map[int64]Set

func (m model) sets(period, from, to int64) (found []Interval) {
	for at := from; at < to; at += period {
		var set Set
		for minute := at; minute < min(at+period, to); minute++ {
			set = set.Merge(m[minute])
		}
		if set.Count > 0 {
			found = append(found, Interval{at * Minute, set})
		}
	}
	return found
}

// runs says how many there have to be: no two that could be one.
func (m model) runs() (n int) {
	for _, minute := range slices.Sorted(maps.Keys(m)) {
		if before, ok := m[minute-1]; !ok || before != m[minute] {
			n++
		}
	}
	return n
}

// A Store is exact, in whatever order data comes, and keeps as few runs as there can be.
// [ALARM-36, ALARM-37]
func TestStoreLikeModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		s, want := New(Config{}), model{}
		m := Metric{Namespace: "N", Name: "M"}
		base, floor := int64(29_000_000), int64(0)
		width := 1 + rnd.Int64N(60)
		for range 150 {
			switch at := base + rnd.Int64N(width); rnd.IntN(12) {
			case 0:
				floor = base + rnd.Int64N(width/2+1)
				s.Drop(floor*Minute + rnd.Int64N(Minute))
				maps.DeleteFunc(want, func(minute int64, _ Set) bool { return minute < floor })
			case 1:
				from, period := base-5+rnd.Int64N(width), 1+rnd.Int64N(7)
				to := from + rnd.Int64N(20*period) // the last period may be cut short
				got := s.Sets(m, period*60, from*Minute, to*Minute)
				if want := want.sets(period, from, to); !slices.Equal(got, want) {
					t.Fatalf("sets of %d minutes from %d to %d\n got %v\nwant %v", period, from, to, got, want)
				}
			default:
				set := One(float64(rnd.IntN(2)))
				err := s.Put(m, at*Minute+rnd.Int64N(Minute), set, "")
				if wantErr := at < floor; wantErr != errors.Is(err, ErrTooOld) {
					t.Fatalf("put at %d with floor %d: error %v", at, floor, err)
				}
				if err == nil {
					want[at] = want[at].Merge(set)
				}
			}
			if got := s.runs; got != want.runs() || got > 0 && got != len(s.track(m).runs) {
				t.Fatalf("%d runs, want %d: %v", got, want.runs(), want)
			}
		}
	}
}

// The newest minute of an idle metric is sampled several times. While it is not complete it differs
// from the minutes before, and when it is, it belongs to their run. [ALARM-38]
func TestNewestMinuteJoinsItsRun(t *testing.T) {
	s, m := New(Config{}), Metric{Name: "M"}
	for minute := range int64(10) {
		for sample := range int64(4) {
			put(t, s, m, minute*Minute+sample*15_000, One(5))
			if want := min(2, 1+int(minute)); sample < 3 && s.runs != want {
				t.Errorf("minute %d, sample %d: %d runs, want %d", minute, sample, s.runs, want)
			}
		}
		if s.runs != 1 {
			t.Errorf("minute %d: %d runs when it is complete, want 1", minute, s.runs)
		}
	}
}

func put(t *testing.T, s *Store, m Metric, at int64, set Set) {
	t.Helper()
	if err := s.Put(m, at, set, ""); err != nil {
		t.Fatal(err)
	}
}

// Longer periods are made of the Sets of their minutes. [ALARM-36]
func TestPoints(t *testing.T) {
	s, m := New(Config{}), Metric{Name: "M"}
	for minute, v := range []float64{1, 2, 3, 9, 5} {
		put(t, s, m, int64(minute)*Minute, One(v))
	}
	put(t, s, m, 8*Minute, Set{1, 3, 4, 2})
	for stat, want := range map[Stat][]Point{
		Average:     {{0, 2}, {3 * Minute, 7}, {6 * Minute, 2}},
		Minimum:     {{0, 1}, {3 * Minute, 5}, {6 * Minute, 1}},
		Maximum:     {{0, 3}, {3 * Minute, 9}, {6 * Minute, 3}},
		Sum:         {{0, 6}, {3 * Minute, 14}, {6 * Minute, 4}},
		SampleCount: {{0, 3}, {3 * Minute, 2}, {6 * Minute, 2}},
	} {
		if got := s.Points(m, stat, 180, 0, 12*Minute); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", stat, got, want)
		}
	}
	if got := s.Points(Metric{Name: "other"}, Sum, 60, 0, Minute); got != nil {
		t.Errorf("points of a metric that is not there: %v", got)
	}
}

// [ALARM-37, ALARM-38]
func TestRefused(t *testing.T) {
	now := int64(1000 * Minute)
	s := New(Config{Keep: time.Hour, MetricsMax: 2})
	s.Drop(now - 60*Minute)
	m := Metric{Name: "M"}
	for _, c := range []struct {
		at   int64
		set  Set
		want error
	}{
		{now, One(1), nil},
		{now - 60*Minute, One(1), nil},
		{now - 60*Minute - 1, One(1), ErrTooOld},
		{now + 121*Minute - 1, One(1), nil},
		{now + 121*Minute, One(1), ErrTooNew},
		{now, Set{}, nil},
		{now, One(math.NaN()), ErrInvalid},
		{now, One(math.Inf(-1)), ErrInvalid},
		{now, Set{1, 1, 1, -1}, ErrInvalid},
		{now, Set{2, 1, 3, 2}, ErrInvalid},
		{now + Minute, One(math.MaxFloat64), nil},
		{now + Minute, One(math.MaxFloat64), ErrInvalid}, // the sum is not finite
	} {
		if err := s.Put(m, c.at, c.set, ""); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("put %v at %d: error %v, want %v", c.set, c.at, err, c.want)
		}
	}
	if got := s.Sets(m, 60, now+Minute, now+2*Minute); len(got) != 1 || got[0].Set.Count != 1 {
		t.Errorf("after a refused set: %v", got)
	}

	put(t, s, Metric{Name: "second"}, now, One(1))
	if err := s.Put(Metric{Name: "third"}, now, One(1), ""); !errors.Is(err, ErrFull) {
		t.Errorf("third of two metrics: error %v", err)
	}
	put(t, s, Metric{Name: "third"}, now, Set{}) // nothing is no metric
	s.Forget(Metric{Name: "second"})
	put(t, s, Metric{Name: "third"}, now, One(1))
}

// When there are too many runs, the oldest minutes go, of all metrics alike. [ALARM-38]
func TestOldestMinutesGoFirst(t *testing.T) {
	s := New(Config{RunsMax: 64})
	idle, old := Metric{Name: "idle"}, Metric{Name: "old"}
	put(t, s, old, 0, One(1))
	for minute := range int64(100) {
		put(t, s, idle, minute*Minute, One(1))
		for i := range 3 {
			before := s.runs
			put(t, s, Metric{Name: fmt.Sprint(i)}, minute*Minute, One(float64(minute)))
			if s.runs > 64 {
				t.Fatalf("%d runs, want at most 64", s.runs)
			}
			if s.runs < before && s.runs > 60 {
				t.Errorf("%d runs are left; want room for some at once", s.runs)
			}
		}
	}
	if got := s.List(Filter{Name: "old"}); got != nil {
		t.Errorf("a metric without data is still there: %v", got)
	}
	first := func(m Metric) int64 { return s.Sets(m, 60, 0, 100*Minute)[0].At / Minute }
	for _, m := range s.List(Filter{}) {
		if got, want := first(m), first(idle); got != want {
			t.Errorf("%s begins at minute %d, the idle metric at %d", m.Name, got, want)
		}
		if n := len(s.Sets(m, 60, 0, 100*Minute)); n < 19 {
			t.Errorf("%s: only %d minutes are left, 19 have room", m.Name, n)
		}
	}
}

// Two metrics stay two, no matter which characters their names contain.
func TestMetricsAreToldApart(t *testing.T) {
	s := New(Config{})
	all := []Metric{
		{Namespace: "a", Name: "bc"},
		{Namespace: "ab", Name: "c"},
		{Namespace: "a\x00b", Name: "c"},
		{Namespace: "a", Name: "b\x00c"},
		{Namespace: "a", Name: "b", Dimensions: []Dimension{{"c", ""}}},
		{Namespace: "a", Name: "b", Dimensions: []Dimension{{"", "c"}}},
		{Namespace: "a", Name: "b", Dimensions: []Dimension{{"c", "d"}, {"e", ""}}},
		{Namespace: "a", Name: "b", Dimensions: []Dimension{{"c", ""}, {"d", "e"}}},
	}
	for i, m := range all {
		put(t, s, m, 0, One(float64(i)))
	}
	for i, m := range all {
		if got := s.Points(m, Sum, 60, 0, Minute); len(got) != 1 || got[0].Value != float64(i) {
			t.Errorf("%q: %v, want %d", m, got, i)
		}
	}
}

func TestList(t *testing.T) {
	s := New(Config{})
	metric := func(namespace, name string, dims ...string) Metric {
		m := Metric{Namespace: namespace, Name: name}
		for i := 0; i < len(dims); i += 2 {
			m.Dimensions = append(m.Dimensions, Dimension{dims[i], dims[i+1]})
		}
		return m.Sorted()
	}
	all := []Metric{
		metric("A", "x"),
		metric("A", "x", "Q", "1"),
		metric("A", "x", "Q", "1", "R", "2"),
		metric("A", "x", "Q", "2"),
		metric("A", "y", "Q", "1"),
		metric("AB", "", "Q", "1"),
		metric("B", "x", "Q", "1"),
	}
	for i, n := range rand.Perm(len(all)) {
		put(t, s, all[n], int64(n)*Minute, One(float64(i)))
	}
	for _, c := range []struct {
		filter Filter
		want   []Metric
	}{
		{Filter{}, all},
		{Filter{Namespace: "A"}, all[:5]},
		{Filter{Name: "y"}, all[4:5]},
		{Filter{Namespace: "A", Dimensions: []Dimension{{"Q", ""}}}, all[1:5]},
		{Filter{Namespace: "A", Dimensions: []Dimension{{"Q", "2"}}}, all[3:4]},
		{Filter{Dimensions: []Dimension{{"R", ""}, {"Q", "1"}}}, all[2:3]},
		{Filter{Since: 5 * Minute}, all[5:]},
		{Filter{Since: 99 * Minute}, nil},
	} {
		got := s.List(c.filter)
		if !slices.EqualFunc(got, c.want, func(x, y Metric) bool { return Compare(x, y) == 0 }) {
			t.Errorf("%+v:\n got %v\nwant %v", c.filter, got, c.want)
		}
	}
}

// [ALARM-39]
func TestUnitIsTheFirst(t *testing.T) {
	s, m := New(Config{}), Metric{Name: "M"}
	for _, unit := range []string{"", "Seconds", "Bytes"} {
		if err := s.Put(m, 0, One(1), unit); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Unit(m); got != "Seconds" {
		t.Errorf("unit %q, want Seconds", got)
	}
	s.Forget(m)
	if got := s.Unit(m); got != "" || s.runs != 0 {
		t.Errorf("of a forgotten metric: unit %q, %d runs", got, s.runs)
	}
}

// A caller may change its slice afterwards without changing the Store.
func TestDimensionsAreCopied(t *testing.T) {
	s, m := New(Config{}), Metric{Name: "M", Dimensions: []Dimension{{"Q", "1"}}}
	put(t, s, m, 0, One(1))
	m.Dimensions[0].Value = "2"
	if got := s.List(Filter{})[0].Dimensions[0].Value; got != "1" {
		t.Errorf("dimension %q, want 1", got)
	}
}
