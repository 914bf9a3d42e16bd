package intake

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"tenaq/internal/observe/metric"
)

// Ends are how often each action ended with each code.
type Ends struct{ m sync.Map } // of *End, by endKey

type endKey struct{ action, code string }

// An End is how often an action ended with a code since the start.
type End struct {
	Action string // empty for requests that name none
	// of the error; empty for success, ClientGone when the client left before the answer
	Code string
	N    metric.Counter

	// Times are the seconds from the headers of the request to its answer, waits of polls included.
	// They are of requests that succeeded.
	Times *metric.Histogram
}

// Add counts a request that began at from.
func (e *Ends) Add(action, code string, from time.Time) {
	k := endKey{action, code}
	found, ok := e.m.Load(k)
	if !ok {
		found, _ = e.m.LoadOrStore(k,
			&End{Action: action, Code: code, Times: metric.NewHistogram(metric.Latencies...)})
	}
	end := found.(*End)
	end.N.Add(1)
	if code == "" {
		end.Times.Observe(time.Since(from).Seconds())
	}
}

// All returns them by action and code.
func (e *Ends) All() (all []*End) {
	e.m.Range(func(_, v any) bool {
		all = append(all, v.(*End))
		return true
	})
	slices.SortFunc(all, func(x, y *End) int {
		return cmp.Or(cmp.Compare(x.Action, y.Action), cmp.Compare(x.Code, y.Code))
	})
	return all
}
