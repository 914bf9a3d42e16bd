package budget

import (
	"context"
	"fmt"
	"time"

	"tenaq/internal/bench"
	"tenaq/internal/cli"
	"tenaq/internal/ops/doctor"
)

// measureDepth compares a deep queue with an empty one.
func measureDepth(ctx context.Context, e *env) (found []measure, err error) {
	deep := e.work(bench.Work{Kind: bench.Send, Depth: e.count(10_000_000, 200_000)})
	began := time.Now()
	url, err := bench.Fill(ctx, deep, e.telling("fill the queue"))
	if err != nil {
		return nil, err
	}
	filled := fmt.Sprintf("%d waiting, sent in %s", deep.Depth,
		cli.ShortDuration(time.Since(began)))
	for _, kind := range []bench.Kind{bench.Send, bench.Life} {
		ratio, note, err := e.versus(ctx, string(kind)+", empty", bench.Work{Kind: kind},
			string(kind)+", deep", bench.Work{Kind: kind, On: url})
		if err != nil {
			return found, err
		}
		found = append(found, measure{string(kind), ratio, note})
	}
	memories, err := e.memories()
	if err != nil {
		return found, err
	}
	memories[0].note = filled
	found = append(found, memories...)
	ready, err := e.readyAgain(ctx)
	if err != nil {
		return found, err
	}
	return append(found, ready), nil
}

// measureFIFO compares a queue with many groups to a standard queue of the same depth.
func measureFIFO(ctx context.Context, e *env) ([]measure, error) {
	n := e.count(1_000_000, 50_000)
	ratio, note, err := e.versus(ctx, "standard", bench.Work{Kind: bench.Life, Depth: n}, "FIFO",
		bench.Work{Kind: bench.Life, Depth: n, Groups: int(n)})
	return []measure{{"life", ratio, note}}, err
}

// dedupGroups is the number of groups in these queues.
const dedupGroups = 1000

// measureDedup compares a queue that remembers many deduplication ids with one that remembers none.
func measureDedup(ctx context.Context, e *env) ([]measure, error) {
	full := e.work(bench.Work{Kind: bench.Send, Groups: dedupGroups,
		Depth: e.count(5_000_000, 100_000)})
	began := time.Now()
	url, err := bench.Fill(ctx, full, e.telling("fill the queue"))
	if err != nil {
		return nil, err
	}
	filled := time.Since(began)
	w := bench.Work{Kind: bench.Send, Groups: dedupGroups}
	on := w
	on.On = url
	ratio, note, err := e.versus(ctx, "none remembered", w, "many remembered", on)
	if err != nil {
		return nil, err
	}
	// If sending takes long, the first ids are already forgotten when the last ones are sent.
	remembered := full.Depth
	if over := time.Since(began) - doctor.DedupWindow; over > 0 {
		remembered -= int64(float64(full.Depth) * min(1, over.Seconds()/filled.Seconds()))
	}
	found := []measure{{"send", ratio,
		fmt.Sprintf("%s, %d remembered at the end", note, remembered)}}
	ready, err := e.readyAgain(ctx)
	if err != nil {
		return found, err
	}
	return append(found, ready), nil
}

// measureWindow does the same with a deduplication window of seven days, also after a restart, when
// the server has nothing of the ids in memory.
func measureWindow(ctx context.Context, e *env) (found []measure, err error) {
	w := bench.Work{Kind: bench.Send, Groups: dedupGroups,
		Tags: map[string]string{"tenaq:dedup-window": "7d"}}
	full := w
	full.Depth = e.count(5_000_000, 100_000)
	url, err := bench.Fill(ctx, e.work(full), e.telling("fill the queue"))
	if err != nil {
		return nil, err
	}
	on := w
	on.On = url
	for _, what := range []string{"send", "after kill -9"} {
		if what != "send" {
			if _, err := e.readyAgain(ctx); err != nil {
				return found, err
			}
		}
		ratio, note, err := e.versus(ctx, "none remembered", w, "many remembered", on)
		if err != nil {
			return found, err
		}
		found = append(found, measure{what, ratio, note})
	}
	return found, nil
}
