package series

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sort"
	"strings"
)

// A track is the data of one metric: runs in order that do not overlap. Adjacent runs have
// different Sets, so a metric that does not change has one run.
type track struct {
	metric Metric
	unit   string
	runs   []run
}

// A run is some minutes in a row with the same Set.
type run struct {
	first, n int64 // minutes
	set      Set
}

func (r run) end() int64 { return r.first + r.n }

// end returns the minute after the last that has data.
func (t *track) end() int64 {
	if len(t.runs) == 0 {
		return math.MinInt64
	}
	return t.runs[len(t.runs)-1].end()
}

// find returns the index of the first run that ends after a minute: the run of the minute, if it
// has one.
func (t *track) find(minute int64) int {
	n := len(t.runs)
	if n > 0 && t.runs[n-1].first <= minute { // nearly always
		if minute < t.runs[n-1].end() {
			return n - 1
		}
		return n
	}
	return sort.Search(n, func(i int) bool { return t.runs[i].end() > minute })
}

// put merges a Set into a minute. It reports false and changes nothing if the result is not finite.
func (t *track) put(minute int64, set Set) bool {
	i := t.find(minute)
	from, to := i, i // the runs that are replaced
	var parts [5]run
	p := parts[:0]
	if from > 0 {
		from--
		p = append(p, t.runs[from])
	}
	if i < len(t.runs) && t.runs[i].first <= minute {
		r := t.runs[i]
		if set = r.set.Merge(set); !set.valid() {
			return false
		}
		to++
		p = join(p, run{r.first, minute - r.first, r.set})
		p = join(p, run{minute, 1, set})
		p = join(p, run{minute + 1, r.end() - minute - 1, r.set})
	} else {
		p = join(p, run{minute, 1, set})
	}
	if to < len(t.runs) {
		p = join(p, t.runs[to])
		to++
	}
	t.runs = slices.Replace(t.runs, from, to, p...)
	return true
}

// join appends a run, or extends the last one.
func join(runs []run, r run) []run {
	if r.n == 0 {
		return runs
	}
	if n := len(runs); n > 0 && runs[n-1].end() == r.first && runs[n-1].set == r.set {
		runs[n-1].n += r.n
		return runs
	}
	return append(runs, r)
}

// sets merges the minutes between from and to into periods; all of these are minutes.
func (t *track) sets(period, from, to int64) (found []Interval) {
	for _, r := range t.runs[t.find(from):] {
		for at := max(r.first, from); at < min(r.end(), to); {
			first := from + (at-from)/period*period
			end := min(first+period, r.end(), to)
			set := r.set.times(float64(end - at))
			if n := len(found); n > 0 && found[n-1].At == first*Minute {
				found[n-1].Set = found[n-1].Set.Merge(set)
			} else {
				found = append(found, Interval{first * Minute, set})
			}
			at = end
		}
		if r.end() >= to {
			break
		}
	}
	return found
}

// trim removes the minutes before first, and returns the number of removed runs.
func (t *track) trim(first int64) (gone int) {
	gone = sort.Search(len(t.runs), func(i int) bool { return t.runs[i].end() > first })
	t.runs = slices.Delete(t.runs, 0, gone)
	if len(t.runs) > 0 && t.runs[0].first < first {
		t.runs[0].n -= first - t.runs[0].first
		t.runs[0].first = first
	}
	if cap(t.runs) > 4*len(t.runs)+8 { // it was busy and is idle now
		t.runs = slices.Clone(t.runs)
	}
	return gone
}

// valid reports whether a Set can summarize some values.
func (s Set) valid() bool {
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	return s.Count > 0 && s.Min <= s.Max && finite(s.Min) && finite(s.Max) && finite(s.Sum) &&
		finite(s.Count)
}

// times returns the Set of the same values, n times each.
func (s Set) times(n float64) Set {
	s.Sum, s.Count = s.Sum*n, s.Count*n
	return s
}

// minuteOf returns the number of the minute in which a time lies.
func minuteOf(at int64) int64 {
	m := at / Minute
	if at%Minute < 0 {
		m--
	}
	return m
}

// appendKey appends a key that identifies the metric.
func (m Metric) appendKey(key []byte) []byte {
	add := func(s string) {
		key = append(binary.AppendUvarint(key, uint64(len(s))), s...)
	}
	add(m.Namespace)
	add(m.Name)
	for _, d := range m.Dimensions {
		add(d.Name)
		add(d.Value)
	}
	return key
}

// Compare orders metrics as List does: by namespace, name and dimensions.
func Compare(x, y Metric) int {
	return cmp.Or(
		strings.Compare(x.Namespace, y.Namespace),
		strings.Compare(x.Name, y.Name),
		slices.CompareFunc(x.Dimensions, y.Dimensions, func(d, e Dimension) int {
			return cmp.Or(strings.Compare(d.Name, e.Name), strings.Compare(d.Value, e.Value))
		}),
	)
}
