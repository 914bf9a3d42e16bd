package series

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Config bounds a Store. The zero value is that of a server.
type Config struct {
	Keep time.Duration // how far back data may lie; zero for 3 hours
	// runs of minutes of all metrics together; zero for 1,000,000, some 50 MB
	RunsMax    int
	MetricsMax int // zero for 200,000

	// Own are namespaces whose metrics count against OwnMax, 2,000,000 when zero, and not against
	// MetricsMax: metrics of clients take no room from them.
	Own    []string
	OwnMax int
}

// ahead is how far ahead of the Store data may lie, in minutes, because clocks differ. CloudWatch
// has the same bound.
const ahead = 120

// Why a Put was refused.
var (
	ErrInvalid = errors.New("not a set of finite values")
	ErrTooOld  = errors.New("older than what is kept")
	ErrTooNew  = errors.New("more than 2 hours ahead")
	ErrFull    = errors.New("too many metrics")
)

// A Store holds metrics. See New.
type Store struct {
	keep                int64 // minutes
	runsMax, metricsMax int
	own                 []string
	ownMax, ownCount    int // of metrics in the namespaces of own

	mu      sync.Mutex
	tracks  map[string]*track // by Metric.appendKey
	order   []*track          // the same, as List has them, unless stale
	stale   bool
	runs    int   // of all tracks
	floor   int64 // the first minute that is kept, as Drop said
	floored bool
}

// New returns an empty Store. It learns the time from Drop, which its owner calls every minute.
// Before the first call it accepts data of any time.
func New(c Config) *Store {
	return &Store{
		keep:       int64(cmp.Or(c.Keep, 3*time.Hour) / time.Minute),
		runsMax:    cmp.Or(c.RunsMax, 1_000_000),
		metricsMax: cmp.Or(c.MetricsMax, 200_000),
		own:        c.Own,
		ownMax:     cmp.Or(c.OwnMax, 2_000_000),
		tracks:     make(map[string]*track),
	}
}

// Put adds the values of a Set to those that m has in the minute of at. The first unit of a metric
// stays; later ones are ignored. A Set without values has no effect.
//
// Errors are ErrInvalid, ErrTooOld, ErrTooNew and ErrFull, wrapped, and leave the Store unchanged.
func (s *Store) Put(m Metric, at int64, set Set, unit string) error {
	if set.Count == 0 {
		return nil
	}
	if !set.valid() {
		return fmt.Errorf("metric %s: %w", m.Name, ErrInvalid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	minute := minuteOf(at)
	switch {
	case s.floored && minute < s.floor:
		return fmt.Errorf("metric %s: %w", m.Name, ErrTooOld)
	case s.floored && minute-s.floor > s.keep+ahead:
		return fmt.Errorf("metric %s: %w", m.Name, ErrTooNew)
	}
	t, err := s.obtain(m, unit)
	if err != nil {
		return err
	}
	before := len(t.runs)
	if !t.put(minute, set) {
		return fmt.Errorf("metric %s: %w", m.Name, ErrInvalid)
	}
	if s.runs += len(t.runs) - before; s.runs > s.runsMax {
		s.shrink()
	}
	return nil
}

// obtain returns the track of a metric, and makes it if there is none.
func (s *Store) obtain(m Metric, unit string) (*track, error) {
	if t := s.track(m); t != nil {
		if t.unit == "" {
			t.unit = unit
		}
		return t, nil
	}
	own := slices.Contains(s.own, m.Namespace)
	switch others := len(s.tracks) - s.ownCount; {
	case own && s.ownCount >= s.ownMax:
		return nil, fmt.Errorf("metric %s: %w: there are %d already", m.Name, ErrFull, s.ownCount)
	case own:
		s.ownCount++
	case others >= s.metricsMax:
		return nil, fmt.Errorf("metric %s: %w: there are %d already", m.Name, ErrFull, others)
	}
	m.Dimensions = slices.Clone(m.Dimensions)
	t := &track{metric: m, unit: unit}
	s.tracks[string(m.appendKey(nil))] = t
	s.order = append(s.order, t)
	s.stale = true
	return t, nil
}

// track returns the track of a metric, nil if there is none.
func (s *Store) track(m Metric) *track {
	var buf [128]byte
	return s.tracks[string(m.appendKey(buf[:0]))]
}

// Points returns a statistic of m in the periods between from and to, which lie a whole number of
// periods (seconds, whole minutes) apart. The first period begins in the minute of from, wherever
// that is. Periods without data are left out.
func (s *Store) Points(m Metric, stat Stat, period, from, to int64) []Point {
	var points []Point
	for _, i := range s.Sets(m, period, from, to) {
		points = append(points, Point{i.At, stat.Of(i.Set)})
	}
	return points
}

// An Interval is what a metric was in the period that begins at At.
type Interval struct {
	At  int64
	Set Set
}

// Sets returns the Sets of m in the periods between from and to, like Points.
func (s *Store) Sets(m Metric, period, from, to int64) []Interval {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.track(m)
	if t == nil || period < 60 {
		return nil
	}
	return t.sets(period/60, minuteOf(from), minuteOf(to))
}

// A Filter selects metrics. The zero Filter selects all.
type Filter struct {
	Namespace, Name string // empty for any
	// which the metric must have, among others; an empty value stands for any
	Dimensions []Dimension
	Since      int64 // data in this minute or later; zero for any
}

// List returns the metrics that a filter selects, in the order of Compare. Their dimensions must
// not be changed.
func (s *Store) List(f Filter) []Metric {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stale {
		slices.SortFunc(s.order, func(x, y *track) int { return Compare(x.metric, y.metric) })
		s.stale = false
	}
	var found []Metric
	first := 0
	if f.Namespace != "" {
		first, _ = slices.BinarySearchFunc(s.order, f.Namespace, func(t *track, name string) int {
			return cmp.Compare(t.metric.Namespace, name)
		})
	}
	for _, t := range s.order[first:] {
		if f.Namespace != "" && t.metric.Namespace != f.Namespace {
			break
		}
		if f.means(t) {
			found = append(found, t.metric)
		}
	}
	return found
}

func (f Filter) means(t *track) bool {
	if f.Namespace != "" && f.Namespace != t.metric.Namespace ||
		f.Name != "" && f.Name != t.metric.Name {
		return false
	}
	for _, want := range f.Dimensions {
		if !slices.ContainsFunc(t.metric.Dimensions, func(d Dimension) bool {
			return d.Name == want.Name && (want.Value == "" || want.Value == d.Value)
		}) {
			return false
		}
	}
	return f.Since == 0 || t.end() > minuteOf(f.Since)
}

// Unit returns the unit of a metric, empty if none was given.
func (s *Store) Unit(m Metric) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.track(m); t != nil {
		return t.unit
	}
	return ""
}

// Forget removes a metric and all its data.
func (s *Store) Forget(m Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.track(m); t != nil {
		s.runs -= len(t.runs)
		t.runs = nil
		s.sweep()
	}
}

// Drop removes the data before the minute of before, and the metrics that have no other data. It
// also sets the time of the Store: from now on Put accepts data from that minute to 2 hours beyond
// the time that is kept. After a clock was set back, the minute may be earlier than the last one.
func (s *Store) Drop(before int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floor, s.floored = minuteOf(before), true
	s.trim(s.floor)
}

// trim removes the minutes before first, of all metrics.
func (s *Store) trim(first int64) {
	empty := false
	for _, t := range s.order {
		s.runs -= t.trim(first)
		empty = empty || len(t.runs) == 0
	}
	if empty {
		s.sweep()
	}
}

func (s *Store) sweep() {
	s.order = slices.DeleteFunc(s.order, func(t *track) bool {
		if len(t.runs) > 0 {
			return false
		}
		delete(s.tracks, string(t.metric.appendKey(nil)))
		if slices.Contains(s.own, t.metric.Namespace) {
			s.ownCount--
		}
		return true
	})
}

// shrink removes the oldest minutes of all metrics. It makes room for a sixteenth more than needed,
// because finding these minutes takes a look at every run.
func (s *Store) shrink() {
	ends := make([]int64, 0, s.runs)
	for _, t := range s.order {
		for _, r := range t.runs {
			ends = append(ends, r.end())
		}
	}
	slices.Sort(ends)
	s.trim(ends[len(ends)-1-(s.runsMax-s.runsMax/16)])
}
