package metric

import "sync"

// Extremes keeps of the values since it was last taken how small and how large they were, their
// sum, and how many there were. One reader takes it: what it was given once, it is not given again,
// and no value is lost in between. The zero Extremes is ready.
type Extremes struct {
	mu   sync.Mutex
	span Span
}

// A Span is what some values have in common. The zero Span has none.
type Span struct{ Min, Max, Sum, Count float64 }

// Observe takes up a value.
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
