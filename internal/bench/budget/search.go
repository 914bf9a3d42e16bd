package budget

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tenaq/internal/bench"
)

// measureSearch compares sends beside a search of the bodies of a long queue with sends beside
// none. As in the console, the search pauses for six times as long as each answer took.
func measureSearch(ctx context.Context, e *env) ([]measure, error) {
	deep := e.work(bench.Work{Kind: bench.Send, Size: 100, Depth: e.count(10_000_000, 20_000)})
	if _, err := bench.Fill(ctx, deep, e.telling("fill the queue")); err != nil {
		return nil, err
	}
	alone, err := e.contender("alone", bench.Work{Kind: bench.Send})
	if err != nil {
		return nil, err
	}
	inner, err := bench.New(e.work(bench.Work{Kind: bench.Send}))
	if err != nil {
		return nil, err
	}
	beside := &besideSearch{Contender: inner, e: e, in: map[string]any{"queue": deep.Queue,
		"filter": map[string]string{"text": "no message has this"}}}
	e.more = 3 // the bound is within the noise of nine rounds
	ratio, note, err := e.compare(ctx, alone, bench.Named{Name: "beside", Contender: beside})
	return []measure{
		{"searched", float64(beside.looked) / beside.took.Seconds(), fmt.Sprintf(
			"%d messages in %d requests, of a queue of %d", beside.looked, beside.asked, deep.Depth)},
		{"send", ratio, note},
	}, err
}

// besideSearch works while a queue is searched.
type besideSearch struct {
	bench.Contender
	e  *env
	in map[string]any // what is searched; after is where the next request continues

	looked, asked int64
	took          time.Duration
}

func (b *besideSearch) Round(ctx context.Context, load bench.Load) (t bench.Tally, err error) {
	searching, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	began := time.Now()
	go func() {
		for searching.Err() == nil {
			asked := time.Now()
			if err := b.search(ctx); err != nil {
				ended <- err
				return
			}
			_ = rest(searching, 6*time.Since(asked))
		}
		ended <- nil
	}()
	t, err = b.Contender.Round(ctx, load)
	stop()
	err = errors.Join(err, <-ended)
	b.took += time.Since(began)
	return t, err
}

// search asks for the next part of a search, and begins again after the last.
func (b *besideSearch) search(ctx context.Context) error {
	found, err := b.e.task(ctx, "POST", "/v1/tasks/count", b.in)
	if err != nil {
		return err
	}
	if found.Looked == 0 && found.Next != "" || found.Count > 0 {
		return fmt.Errorf("a search has looked at %d messages and found %d", found.Looked, found.Count)
	}
	b.looked, b.asked, b.in["after"] = b.looked+found.Looked, b.asked+1, found.Next
	return nil
}
