package budget

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tenaq/internal/bench"
)

// A tooSmall error says that the machine is too small for a line, which is no failure.
type tooSmall string

func (t tooSmall) Error() string { return string(t) }

// scalingLeast is how many processors the line scaling needs.
const scalingLeast = 4

// measureScaling compares servers that have 2, 4 and more processors with one that has one. The
// generator has a quarter of the processors for itself, at least one. All servers run at the same
// time and take turns.
func measureScaling(ctx context.Context, e *env) (found []measure, err error) {
	all, err := processors()
	if err != nil {
		return nil, err
	}
	if len(all) < scalingLeast {
		return nil, tooSmall(fmt.Sprintf("not measured: the machine is too small, with %d processors instead of %d", len(all), scalingLeast))
	}
	generator := max(1, len(all)/4)
	if err := pin("self", all[:generator]); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pin("self", all)) }()
	all = all[generator:]
	var counts []int
	for n := 1; n < len(all); n *= 2 {
		counts = append(counts, n)
	}
	var contenders []bench.Named
	for _, n := range append(counts, len(all)) {
		own := &bench.Servers{Dir: e.own.Dir, Env: []string{"GOMAXPROCS=" + strconv.Itoa(n)}}
		defer func() { err = errors.Join(err, own.Close()) }()
		w := e.work(bench.Work{Kind: bench.Send, Size: 100})
		if w.Endpoint, err = own.Start(ctx); err != nil {
			return nil, err
		}
		if err := pin(strconv.Itoa(own.Server.PID()), all[:n]); err != nil {
			return nil, err
		}
		c, err := bench.New(w)
		if err != nil {
			return nil, err
		}
		contenders = append(contenders, bench.Named{Name: strconv.Itoa(n), Contender: c})
	}
	load := e.load()
	load.Clients = 256
	results, err := bench.Compare(ctx, load, e.rounds(), e.tell, contenders...)
	if err != nil {
		return nil, err
	}
	var notes []string
	for i := range results {
		notes = append(notes, fmt.Sprintf("%s: %.0f/s (%.2f)", contenders[i].Name,
			results[i].Rate(), results[i].Ratio))
	}
	return []measure{{"rate", results[len(results)-1].Ratio, fmt.Sprintf("processors of the server: %s; of the generator: %d", strings.Join(notes, ", "), generator)}}, nil
}
