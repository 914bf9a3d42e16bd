package metric

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// A Fine counts durations in whole milliseconds, or other whole numbers, in buckets that grow with
// the values: each value below 16 has a bucket of its own, and from there each power of two has
// eight. So the middle of a bucket differs from its values by less than 7 %. The memory is fixed.
// The zero Fine is ready.
type Fine struct{ counts [fineBuckets]atomic.Int64 }

const (
	fineBits    = 35 // of the greatest value, a little more than a year
	fineMax     = 1<<fineBits - 1
	fineSplit   = 8 // of each power of two
	fineBuckets = (fineBits-4)*fineSplit + 2*fineSplit
)

// Observe counts a value.
func (f *Fine) Observe(ms int64) { f.counts[fineBucket(ms)].Add(1) }

func fineBucket(value int64) int {
	v := uint64(min(max(value, 0), fineMax))
	shift := max(bits.Len64(v)-4, 0)
	return shift*fineSplit + int(v>>shift)
}

// AddTo adds the counts to those of all, for Quantiles.
func (f *Fine) AddTo(all *FineCounts) {
	for i := range f.counts {
		all[i] += f.counts[i].Load()
	}
}

// FineCounts are counts of a Fine at one time, or the sums of several.
type FineCounts [fineBuckets]int64

// Sum returns how many values were counted.
func (c *FineCounts) Sum() (n int64) {
	for _, of := range c {
		n += of
	}
	return n
}

// Quantiles returns, for each share, the value that this share of all values does not exceed.
// There must be values.
func (c *FineCounts) Quantiles(shares ...float64) (ms []int64) {
	for _, share := range shares {
		i := rank(c[:], share)
		shift := max(i/fineSplit-1, 0)
		from := int64(i-shift*fineSplit) << shift
		ms = append(ms, from+(1<<shift-1)/2)
	}
	return ms
}

// Quantiles returns, for each share, the bounds of the bucket with the value that this share of all
// values does not exceed: the value is above the first and at most the second, which is infinite
// for the last bucket. It returns nil if there is no value.
func (h *Histogram) Quantiles(shares ...float64) (bounds [][2]float64, n int64) {
	counts := make([]int64, len(h.counts))
	for i := range counts {
		counts[i] = h.counts[i].Load()
		n += counts[i]
	}
	if n == 0 {
		return nil, 0
	}
	for _, share := range shares {
		b := [2]float64{0, math.Inf(1)}
		i := rank(counts, share)
		if i > 0 {
			b[0] = h.bounds[i-1]
		}
		if i < len(h.bounds) {
			b[1] = h.bounds[i]
		}
		bounds = append(bounds, b)
	}
	return bounds, n
}

// rank returns the bucket that has the value which a share of all values does not exceed.
func rank(counts []int64, share float64) int {
	n := int64(0)
	for _, c := range counts {
		n += c
	}
	wanted := max(int64(math.Ceil(share*float64(n))), 1)
	for i, c := range counts {
		if wanted -= c; wanted <= 0 {
			return i
		}
	}
	return len(counts) - 1
}
