package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"tenaq/internal/bench"
)

// budgetSend compares durable sends with requests of the same bytes that nothing is done for.
func budgetSend(ctx context.Context, e *budgetEnv) ([]measure, error) {
	if err := e.start(ctx); err != nil {
		return nil, err
	}
	w := bench.Work{Kind: bench.Send}
	server, err := e.contender("server", w)
	if err != nil {
		return nil, err
	}
	nothing, err := e.own.baseline(ctx, e.work(w))
	if err != nil {
		return nil, err
	}
	ratio, note, err := e.compare(ctx, bench.Named{Name: "baseline", Contender: nothing}, server)
	return []measure{{"rate", ratio, note}}, err
}

// budgetBatch compares lives over HTTP with those that the engine makes by itself.
func budgetBatch(ctx context.Context, e *budgetEnv) ([]measure, error) {
	if err := e.start(ctx); err != nil {
		return nil, err
	}
	w := bench.Work{Kind: bench.Life, Batch: 10}
	server, err := e.contender("server", w)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(e.own.temporary, "engine-") // it goes with the data of the server
	if err != nil {
		return nil, err
	}
	ratio, note, err := e.compare(ctx, bench.Named{Name: "engine", Contender: bench.Engine(dir, w)}, server)
	return []measure{{"rate", ratio, note}}, err
}

// budgetLatency sends at half of the rate that the closed loop has just reached, and forces writes of its own to the same
// disk right after, in turns, so that both see the same disk.
func budgetLatency(ctx context.Context, e *budgetEnv) ([]measure, error) {
	if err := e.start(ctx); err != nil {
		return nil, err
	}
	c, err := e.contender("sends", bench.Work{Kind: bench.Send})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.Prepare(ctx, e.telling("prepare")); err != nil {
		return nil, err
	}
	var sends bench.Latencies
	var writes []time.Duration
	rounds := e.rounds()
	for round := -1; round < rounds; round++ {
		e.tell("sends and forced writes", float64(round+1)/float64(rounds+1))
		closed, err := c.Round(ctx, e.load())
		if err != nil {
			return nil, err
		}
		half := e.load()
		half.Rate, half.Round = max(1, closed.Rate()/2), e.seconds(3, 0.5)
		calm, err := c.Round(ctx, half)
		if err != nil {
			return nil, err
		}
		took, err := measureFsync(ctx, e.own.temporary)
		if err != nil {
			return nil, err
		}
		if round >= 0 { // everything is cold before
			sends.Merge(&calm.Latency)
			writes = append(writes, took...)
		}
	}
	if len(writes) == 0 {
		return nil, fmt.Errorf("no write could be forced in %s", e.own.temporary)
	}
	slices.Sort(writes)
	sent, forced := sends.At(99), quantileOf(writes, 0.99)
	note := fmt.Sprintf("%s of %d sends against %s of %d writes", shortDuration(sent), sends.Count(), shortDuration(forced), len(writes))
	return []measure{{"p99", sent.Seconds() / forced.Seconds(), note}}, nil
}
