package metric

import (
	"sync"
	"testing"
)

func TestExtremes(t *testing.T) {
	var x Extremes
	want := func(want Span) {
		t.Helper()
		if got := x.Take(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	want(Span{})
	x.Observe(7)
	want(Span{7, 7, 7, 1})
	x.Observe(7)
	x.Observe(3)
	x.Observe(12)
	want(Span{3, 12, 22, 3})
	want(Span{})
	x.Observe(0)
	want(Span{0, 0, 0, 1})
}

// Whenever the extremes are taken, each value counts once.
func TestExtremesLoseNothing(t *testing.T) {
	var x Extremes
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for i := range 2000 {
				x.Observe(float64(i))
			}
		})
	}
	written := make(chan bool)
	go func() { writers.Wait(); close(written) }()
	var all Span
	take := func() {
		s := x.Take()
		all.Sum, all.Count, all.Max = all.Sum+s.Sum, all.Count+s.Count, max(all.Max, s.Max)
	}
	for done := false; !done; {
		select {
		case <-written:
			done = true
		default:
		}
		take()
	}
	if want := (Span{Max: 1999, Sum: 4 * 1999 * 2000 / 2, Count: 8000}); all != want {
		t.Errorf("got %+v in all, want %+v", all, want)
	}
}
