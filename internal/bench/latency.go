package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are times with their percentiles, exact to one part in a thousand from a microsecond to
// ten minutes. The zero value is empty.
type Latencies struct{ h *hdrhistogram.Histogram }

const latencyMax = 10 * time.Minute

func (l *Latencies) histogram() *hdrhistogram.Histogram {
	if l.h == nil {
		l.h = hdrhistogram.New(1, latencyMax.Microseconds(), 3)
	}
	return l.h
}

// Add counts one time.
func (l *Latencies) Add(d time.Duration) {
	// it fits
	_ = l.histogram().RecordValue(min(max(d.Microseconds(), 1), latencyMax.Microseconds()))
}

// Merge counts the times of another.
func (l *Latencies) Merge(o *Latencies) {
	if o.h != nil {
		l.histogram().Merge(o.h)
	}
}

// Count returns the number of times.
func (l *Latencies) Count() int64 {
	if l.h == nil {
		return 0
	}
	return l.h.TotalCount()
}

// At returns a percentile, zero if there are no times.
func (l *Latencies) At(percent float64) time.Duration {
	if l.h == nil {
		return 0
	}
	return time.Duration(l.h.ValueAtQuantile(percent)) * time.Microsecond
}

// A latencies is shared by some of the clients: at 200 KB each, it is too large for thousands of
// clients to have their own.
type latencies struct {
	mu  sync.Mutex
	all Latencies
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Add(d)
}

func (l *Latencies) reset() {
	if l.h != nil {
		l.h.Reset()
	}
}
