// Package bench loads SQS endpoints over raw HTTP and says how they compare.
//
// What a machine does in a second says more about the machine than about the program, so what is
// measured here is measured against something else in the same run: contenders take turns of a
// second or so, for some rounds, and each is told with the median of its rates divided by that of
// the first one in the same round. A contender is a workload on an endpoint; the first one may be a
// server that does nothing on the same HTTP stack, an empty queue beside a deep one, or the engine
// without HTTP.
//
// The clients are connections that write requests made beforehand and read no more of an answer
// than they need. They send one request after the other; with a rate they send at moments that were
// fixed before, and the latency counts from that moment on, whether or not a connection was free
// then: a server that stands still for a second has made everybody wait who came in that second.
//
// It leaves to others: child processes (internal/child), and what the figures should be
// (internal/bench/budget).
package bench

import (
	"context"
	"errors"
	"slices"
	"time"
)

// A Contender takes part in a comparison.
type Contender interface {
	// Prepare is called once, before the first round. Done is how much of the preparation, from 0
	// to 1, has been done.
	Prepare(ctx context.Context, done func(share float64)) error

	// Round works for a while and returns what was done. Load is the same in each round and for
	// each contender.
	Round(ctx context.Context, load Load) (Tally, error)

	// Close ends what Prepare has begun. It leaves queues as they are.
	Close() error
}

// A Load says how much the contenders are asked for.
type Load struct {
	Clients int           // connections, each with one request at a time; 64 when zero
	Rate    float64       // steps a second of all clients together; as many as they can when zero
	Round   time.Duration // how long a round takes; a second when zero
}

func (l Load) withDefaults() Load {
	if l.Clients == 0 {
		l.Clients = 64
	}
	if l.Round == 0 {
		l.Round = time.Second
	}
	return l
}

// A Tally is what came of a round, or of all of a contender's.
type Tally struct {
	Steps     int64 // of the workload: requests, or lives of messages
	Requests  int64
	Messages  int64 // sent, or received and deleted
	Empty     int64 // receives that found nothing
	Throttled int64 // requests that were refused for overload
	Unnamed   int64 // of these, those whose refusal was not called RequestThrottled
	Took      time.Duration
	Latency   Latencies // of the steps
}

// Add counts what came of another round.
func (t *Tally) Add(o *Tally) {
	t.Steps += o.Steps
	t.Requests += o.Requests
	t.Messages += o.Messages
	t.Empty += o.Empty
	t.Throttled += o.Throttled
	t.Unnamed += o.Unnamed
	t.Took += o.Took
	t.Latency.Merge(&o.Latency)
}

// Rate is how many messages a second were handled.
func (t *Tally) Rate() float64 { return float64(t.Messages) / max(t.Took.Seconds(), 1e-9) }

// A Result is what became of one contender.
type Result struct {
	Tally

	// Ratio is the median, over all rounds, of the rate divided by the first contender's in the
	// same round; Least and Most are the extremes. They are 1 for the first contender.
	Ratio, Least, Most float64
}

// Progress is told how far a comparison is; nil is nobody.
type Progress func(what string, share float64)

// Named is a contender with the name that progress is told under.
type Named struct {
	Name string
	Contender
}

// Compare prepares the contenders, gives each a round that does not count and then as many as
// rounds says, in turns, and returns one result for each. It ends early, with an error, when ctx
// does or a contender fails.
func Compare(
	ctx context.Context, load Load, rounds int, progress Progress, contenders ...Named,
) (results []Result, err error) {
	load = load.withDefaults()
	if progress == nil {
		progress = func(string, float64) {}
	}
	prepared := 0
	defer func() {
		for _, c := range contenders[:prepared] {
			err = errors.Join(err, c.Close())
		}
	}()
	for _, c := range contenders {
		prepared++
		if err := c.Prepare(ctx, func(share float64) {
			progress("prepare "+c.Name, share)
		}); err != nil {
			return nil, err
		}
	}
	results = make([]Result, len(contenders))
	ratios := make([][]float64, len(contenders))
	for round := -1; round < rounds; round++ {
		var first float64
		for i, c := range contenders {
			progress(c.Name, float64(round+1)/float64(rounds+1))
			t, err := c.Round(ctx, load)
			if err != nil {
				return nil, err
			}
			if round < 0 {
				continue // everything is cold
			}
			results[i].Add(&t)
			if i == 0 {
				first = t.Rate()
			}
			ratios[i] = append(ratios[i], t.Rate()/max(first, 1e-9))
		}
	}
	for i := range results {
		r := &results[i]
		r.Least, r.Ratio, r.Most = slices.Min(ratios[i]), Median(ratios[i]), slices.Max(ratios[i])
	}
	return results, nil
}

// Median returns the middle of some numbers, which it sorts.
func Median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
