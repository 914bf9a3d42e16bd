// Package metric counts, and writes what was counted in the text format of Prometheus. It needs
// nothing but the standard library, so the engine may use it.
//
// A family is a name with its help and its kind; a Sample is one value of it under some labels.
// There is no registry: a scrape writes the current values to a Writer, so nothing is shown after
// it is gone.
//
// Counters and histograms may be used by any number of goroutines. A reader does not see a
// histogram as of one moment, but its values never decrease.
package metric

import (
	"math"
	"sync/atomic"
)

// A Counter counts events since the process started.
type Counter struct{ n atomic.Int64 }

// Add adds n, which must not be negative.
func (c *Counter) Add(n int64) { c.n.Add(n) }

// Value returns the count.
func (c *Counter) Value() int64 { return c.n.Load() }

// A Histogram counts values by how large they are.
type Histogram struct {
	bounds []float64 // of the buckets, rising; the last bucket has none
	counts []atomic.Int64
	sum    atomic.Uint64 // the bits of a float64
}

// NewHistogram returns a histogram whose buckets have these upper bounds, inclusive and in rising
// order.
func NewHistogram(bounds ...float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Int64, len(bounds)+1)}
}

// Observe counts a value.
func (h *Histogram) Observe(v float64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

// Bounds of common histograms, in seconds and in bytes.
var (
	// Latencies are those of requests and of disks.
	Latencies = []float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30}

	// Ages are how long messages wait and are handled.
	Ages = []float64{0.01, 0.1, 1, 5, 15, 60, 300, 1800, 7200, 43200, 345600}

	// Sizes are those of messages.
	Sizes = []float64{256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}

	// Batches are numbers of requests in a turn.
	Batches = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)
