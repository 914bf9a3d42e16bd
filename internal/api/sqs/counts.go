package sqs

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"tenaq/internal/observe/metric"
)

// An attempt is a request on its way to an answer, and what is counted of both.
type attempt struct {
	h        *Handler
	from     time.Time
	protocol protocol
	id       string // of the request
	action   string // empty until it is known
}

// ends counts the attempt under the code of its error, empty for success.
func (e *attempt) ends(code string) {
	c := e.h.counts.of(e.action, code)
	c.n.Add(1)
	if code == "" {
		c.times.Observe(time.Since(e.from).Seconds())
	}
}

// counts are how often each action ended with each code.
type counts struct{ m sync.Map } // of *count, by outcome

type outcome struct{ action, code string }

type count struct {
	n     metric.Counter
	times *metric.Histogram // of those that succeeded
}

func (c *counts) of(action, code string) *count {
	k := outcome{action, code}
	if found, ok := c.m.Load(k); ok {
		return found.(*count)
	}
	found, _ := c.m.LoadOrStore(k, &count{times: metric.NewHistogram(metric.Latencies...)})
	return found.(*count)
}

// A Count is how often an action ended with a code since the start.
type Count struct {
	Action string // empty for requests that name none
	Code   string // of the error; empty for success, ClientGone when nobody waited for the answer
	N      int64

	// Times are the seconds from the headers of the request to its answer, waits of polls included. They are of
	// requests that succeeded.
	Times *metric.Histogram
}

// Counts returns them in order.
func (h *Handler) Counts() (all []Count) {
	h.counts.m.Range(func(k, v any) bool {
		o, c := k.(outcome), v.(*count)
		all = append(all, Count{o.action, o.code, c.n.Value(), c.times})
		return true
	})
	slices.SortFunc(all, func(x, y Count) int { return cmp.Or(cmp.Compare(x.Action, y.Action), cmp.Compare(x.Code, y.Code)) })
	return all
}
