package metric

import "sync"

// Extremes summarizes the values since the last Take. It has one reader, which gets each value
// exactly once. The zero Extremes is ready.
type Extremes struct {
	mu   sync.Mutex
	span Span
}

// A Span summarizes some values. The zero Span has none.
type Span struct{ Min, Max, Sum, Count float64 }

// Observe adds a value.
func (x *Extremes) Observe(v float64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := &x.span
	if s.Count == 0 {
		*s = Span{v, v, v, 1}
		return
	}
	*s = Span{min(s.Min, v), max(s.Max, v), s.Sum + v, s.Count + 1}
}

// Take returns the values since the last Take and forgets them.
func (x *Extremes) Take() Span {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.span
	x.span = Span{}
	return s
}
