package metric

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// The quantiles of a Fine differ from those of the values by less than 7 %, whatever the values
// are, and its memory is fixed. [V1-22]
func TestFine(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for round := range 200 {
		var f Fine
		values := make([]int64, 1+r.IntN(300))
		for i := range values {
			values[i] = int64(math.Exp(r.Float64() * math.Log(1<<34)))
			if round%3 == 0 {
				values[i] %= 20
			}
			f.Observe(values[i])
		}
		slices.Sort(values)
		var counts FineCounts
		f.AddTo(&counts)
		for i, got := range counts.Quantiles(0.5, 0.95, 0.99, 1) {
			share := []float64{0.5, 0.95, 0.99, 1}[i]
			want := values[max(int(math.Ceil(share*float64(len(values)))), 1)-1]
			if off := math.Abs(float64(got - want)); off > 0.07*float64(want) {
				t.Errorf("p%v of %v is %d, want about %d", 100*share, values, got, want)
			}
		}
	}
	if size := unsafe.Sizeof(Fine{}); size > 4<<10 {
		t.Errorf("a Fine takes %d bytes", size)
	}
}

// All values have a bucket, the greatest and those that cannot be too.
func TestFineBounds(t *testing.T) {
	for _, c := range [][2]int64{{-5, 0}, {0, 0}, {15, 15}, {16, 16}, {17, 16}, {1000, 991}, {math.MaxInt64, 33285996543}} {
		var f Fine
		var counts FineCounts
		f.Observe(c[0])
		f.AddTo(&counts)
		if got := counts.Quantiles(0.99)[0]; got != c[1] {
			t.Errorf("%d is shown as %d, want %d", c[0], got, c[1])
		}
	}
}

// A Histogram knows the bucket of a quantile and no more.
func TestHistogramQuantiles(t *testing.T) {
	h := NewHistogram(1, 5, 15)
	if got, n := h.Quantiles(0.5); got != nil || n != 0 {
		t.Errorf("without values: %v of %d", got, n)
	}
	for _, v := range []float64{0.5, 2, 5, 5, 20} {
		h.Observe(v)
	}
	if got, n := h.Quantiles(0, 0.5, 0.8, 0.99); fmt.Sprint(got, n) != "[[0 1] [1 5] [1 5] [15 +Inf]] 5" {
		t.Errorf("got %v of %d", got, n)
	}
}
