package budget

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"tenaq/internal/bench"
	"tenaq/internal/cli"
	"tenaq/internal/ops/doctor"
)

// measureBatch compares lives over HTTP with those of the engine alone. The note also has the rate
// on a net/http server that does nothing.
func measureBatch(ctx context.Context, e *env) ([]measure, error) {
	w := bench.Work{Kind: bench.Life, Batch: 10}
	server, err := e.contender("server", w)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(e.own.Temporary, "engine-") // it goes with the data of the server
	if err != nil {
		return nil, err
	}
	nothing, err := e.baseline(ctx, w)
	if err != nil {
		return nil, err
	}
	ratio, note, err := e.compare(ctx, bench.Named{Name: "engine", Contender: bench.Engine(dir, w)},
		server,
		bench.Named{Name: "baseline", Contender: nothing})
	return []measure{{"rate", ratio, note}}, err
}

// measureHistory compares lives on a queue that keeps a history with lives on one that does not.
func measureHistory(ctx context.Context, e *env) ([]measure, error) {
	ratio, note, err := e.versus(ctx, "without", bench.Work{Kind: bench.Life}, "with",
		bench.Work{Kind: bench.Life, Tags: map[string]string{"tenaq:history": "1d/1GiB"}})
	return []measure{{"rate", ratio, note}}, err
}

// measureLatency sends at half of the rate that the closed loop has just reached. Meanwhile it
// forces writes of its own to the same disk, so that both see the same machine. In turns, a server
// that does nothing gets the same rate, and its latency is in the note.
func measureLatency(ctx context.Context, e *env) ([]measure, error) {
	w := bench.Work{Kind: bench.Send}
	server, err := e.contender("sends", w)
	if err != nil {
		return nil, err
	}
	nothing, err := e.baseline(ctx, w)
	if err != nil {
		return nil, err
	}
	for _, c := range []bench.Contender{server, nothing} {
		defer c.Close()
		if err := c.Prepare(ctx, e.telling("prepare")); err != nil {
			return nil, err
		}
	}
	var sends, nothings bench.Latencies
	var writes []time.Duration
	rounds := e.rounds()
	for round := -1; round < rounds; round++ {
		e.tell("sends and forced writes", float64(round+1)/float64(rounds+1))
		closed, err := server.Round(ctx, e.load())
		if err != nil {
			return nil, err
		}
		half := e.load()
		half.Rate, half.Round = max(1, closed.Rate()/2), e.seconds(3, 0.5)
		var calm bench.Tally
		took, err := forcedMeanwhile(e.own.Temporary, func() (err error) {
			calm, err = server.Round(ctx, half)
			return err
		})
		if err != nil {
			return nil, err
		}
		half.Round = e.seconds(1, 0.5)
		idle, err := nothing.Round(ctx, half)
		if err != nil {
			return nil, err
		}
		if round >= 0 { // everything is cold before
			sends.Merge(&calm.Latency)
			nothings.Merge(&idle.Latency)
			writes = append(writes, took...)
		}
	}
	slices.Sort(writes)
	sent, forced := sends.At(99), doctor.QuantileOf(writes, 0.99)
	note := fmt.Sprintf("%s of %d sends against %s of %d writes; baseline %s",
		cli.ShortDuration(sent), sends.Count(), cli.ShortDuration(forced), len(writes),
		cli.ShortDuration(nothings.At(99)))
	return []measure{{"p99", sent.Seconds() / forced.Seconds(), note}}, nil
}

// forcedEvery is the pause between two writes that measure the disk.
const forcedEvery = 5 * time.Millisecond

// forcedMeanwhile forces small writes to a file in dir while f runs, and returns how long each
// took, at least one.
func forcedMeanwhile(dir string, f func() error) (took []time.Duration, err error) {
	probe, err := os.CreateTemp(dir, doctor.FsyncPattern)
	if err != nil {
		return nil, err
	}
	ran := make(chan error, 1)
	go func() { ran <- f() }()
	block := make([]byte, doctor.FsyncBlock)
	for {
		if err == nil {
			began := time.Now()
			_, writeErr := probe.Write(block)
			err = errors.Join(writeErr, probe.Sync())
			took = append(took, time.Since(began))
		}
		select {
		case failed := <-ran:
			return took, errors.Join(err, failed, probe.Close(), os.Remove(probe.Name()))
		case <-time.After(forcedEvery):
		}
	}
}
