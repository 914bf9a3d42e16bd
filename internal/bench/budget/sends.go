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

// A sending compares durable sends with the same sends to another server, such as one that does
// nothing. Both are processes of their own.
type sending struct {
	ratio float64 // of the rates
	note  string  // which says what they are

	// CPU time for one send, of the server and of the other one
	cost, other time.Duration
}

// sending compares sends of a workload. The server that does nothing is started with it.
func (e *env) sending(
	ctx context.Context, w bench.Work, clients int,
) (s sending, err error) {
	server, empty := &bench.Costed{}, &bench.Costed{}
	if server.Contender, err = bench.New(e.work(w)); err != nil {
		return s, err
	}
	if empty.Contender, err = e.baseline(ctx, w); err != nil {
		return s, err
	}
	server.PID, empty.PID = e.own.Server.PID(), e.own.BaselinePID()
	return e.costed(ctx, clients, "baseline", empty, "server", server)
}

// costed compares the sends of the second contender with those of the first.
func (e *env) costed(
	ctx context.Context, clients int, firstName string, first *bench.Costed, secondName string,
	second *bench.Costed,
) (s sending, err error) {
	load := e.load()
	load.Clients = clients
	results, err := bench.Compare(ctx, load, e.rounds(), e.tell,
		bench.Named{Name: firstName, Contender: first},
		bench.Named{Name: fmt.Sprintf("%s, %d clients", secondName, clients), Contender: second})
	if err != nil {
		return s, err
	}
	r := &results[1]
	return sending{r.Ratio,
		fmt.Sprintf("%.0f/s against %.0f/s, rounds %.2f to %.2f, p50 %s against %s", r.Rate(),
			results[0].Rate(), r.Least, r.Most, cli.ShortDuration(r.Latency.At(50)),
			cli.ShortDuration(results[0].Latency.At(50))),
		second.Each(), first.Each()}, nil
}

// measureSend compares small durable sends with those to a server that does nothing.
func measureSend(ctx context.Context, e *env) (found []measure, err error) {
	for _, clients := range []int{64, 256} {
		s, err := e.sending(ctx, bench.Work{Kind: bench.Send, Size: 100}, clients)
		if err != nil {
			return found, err
		}
		found = append(found, measure{fmt.Sprintf("%d clients", clients), s.ratio, s.note})
		if clients == 64 {
			found = append(found, s.processor("CPU time"))
		}
	}
	return found, nil
}

func (s *sending) processor(what string) measure {
	return measure{what, s.cost.Seconds() / max(s.other.Seconds(), 1e-9),
		fmt.Sprintf("%d µs for a send against %d µs", s.cost.Microseconds(),
			s.other.Microseconds())}
}

// measureBodies compares sends of large bodies.
func measureBodies(ctx context.Context, e *env) (found []measure, err error) {
	for _, kib := range []int{4, 64} {
		w := bench.Work{Kind: bench.Send, Size: kib << 10, Random: true}
		s, err := e.sending(ctx, w, 64)
		if err != nil {
			return found, err
		}
		found = append(found, measure{fmt.Sprintf("%d KiB", kib), s.ratio,
			s.note + "; CPU time " + s.processor("").note})
	}
	return found, nil
}

// committers is how many clients wait for the forced writes of the line commit.
const committers = 16

// measureCommit compares the median of durable sends with that of forced writes, which take turns.
func measureCommit(ctx context.Context, e *env) (found []measure, err error) {
	load := bench.Load{Clients: committers, Round: e.seconds(1, 0.5)}
	c, err := e.warm(ctx, bench.Work{Kind: bench.Send, Size: 100}, load)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var sends bench.Latencies
	var writes []time.Duration
	var ratios []float64
	rounds := e.rounds()
	for round := range rounds {
		e.tell("sends and forced writes", float64(round)/float64(rounds))
		took, err := forcedWrites(e.own.Temporary, load.Round/2)
		if err != nil {
			return nil, err
		}
		t, err := c.Round(ctx, load)
		if err != nil {
			return nil, err
		}
		slices.Sort(took)
		ratios = append(ratios, t.Latency.At(50).Seconds()/doctor.QuantileOf(took, 0.5).Seconds())
		sends.Merge(&t.Latency)
		writes = append(writes, took...)
	}
	slices.Sort(writes)
	ratio := bench.Median(ratios)
	return []measure{{"p50", ratio, fmt.Sprintf("%s of %d sends against %s of %d writes, rounds %.2f to %.2f",
		cli.ShortDuration(sends.At(50)), sends.Count(),
		cli.ShortDuration(doctor.QuantileOf(writes, 0.5)), len(writes), ratios[0],
		ratios[len(ratios)-1])}}, nil
}

// forcedWrites appends blocks to a file in dir, one after the other, and forces the data of each to
// disk. It returns how long each took, at least one.
func forcedWrites(dir string, during time.Duration) (took []time.Duration, err error) {
	f, err := os.CreateTemp(dir, doctor.FsyncPattern)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, doctor.FsyncBlock)
	for began := time.Now(); len(took) == 0 || time.Since(began) < during; {
		from := time.Now()
		if _, err := f.Write(block); err != nil {
			return took, err
		}
		if err := syncData(f); err != nil {
			return took, err
		}
		took = append(took, time.Since(from))
	}
	return took, nil
}
