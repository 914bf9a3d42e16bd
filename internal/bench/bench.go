// Package bench loads SQS endpoints over raw HTTP and compares them.
//
// An absolute rate says more about the machine than about the program. So contenders take turns of
// about a second, for some rounds, and the result of each is the median ratio of its rate to that
// of the first contender in the same round. A contender is a workload on an endpoint. The first one
// may be a server that does nothing, an empty queue beside a deep one, or the engine without HTTP.
//
// The clients are connections that write prepared requests and read no more of an answer than they
// need. They send one request after the other, or at a fixed rate. With a rate, latency counts from
// the moment at which a request was due, whether or not a connection was free: a server that pauses
// for a second delays every request of that second.
//
// It leaves child processes to internal/child, the bounds to internal/bench/budget, and
// other queues than tenaq to internal/bench/peers.
package bench

import (
	"context"
	"errors"
	"slices"
	"time"
)

// A Contender takes part in a comparison.
type Contender interface {
	// Prepare is called once, before the first round. It calls done with the share that is done,
	// from 0 to 1.
	Prepare(ctx context.Context, done func(share float64)) error

	// Round works for the time of a round and returns what was done. All rounds of all contenders
	// have the same load.
	Round(ctx context.Context, load Load) (Tally, error)

	// Close ends what Prepare began.
	Close() error
}

// A Load is the load of a round.
type Load struct {
	Clients int           // connections, each with one request at a time; 64 when zero
	Rate    float64       // steps per second of all clients together; unlimited when zero
	Round   time.Duration // duration of a round; a second when zero
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

// A Tally counts what was done in one or more rounds.
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

// Add adds the tally of another round.
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

// Rate returns the messages handled per second.
func (t *Tally) Rate() float64 { return float64(t.Messages) / max(t.Took.Seconds(), 1e-9) }

// A Result is the result of one contender.
type Result struct {
	Tally
	Rates []float64 // of each round

	// Ratio is the median over all rounds of the rate divided by that of the first contender; Least
	// and Most are the extremes. All are 1 for the first contender.
	Ratio, Least, Most float64
}

// Progress receives the share of a comparison that is done; nil means no subscriber.
type Progress func(what string, share float64)

// Named is a contender with its name for progress.
type Named struct {
	Name string
	Contender
}

// Compare prepares the contenders, gives each a round that does not count, and then takes turns for
// the given number of rounds. It returns one result for each. It ends early, with an error, when
// ctx ends or a contender fails.
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
			results[i].Rates = append(results[i].Rates, t.Rate())
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
