package peers

import (
	"context"
	"sync"
	"time"

	"tenaq/internal/bench"
)

// A client is one connection to a peer. Its methods are called one at a time, except close.
type client interface {
	// send sends messages and returns when the peer has acknowledged all.
	send(bodies []string) error

	// consume receives up to n messages, deletes them and returns how many. If the peer pushes
	// messages, it waits for n until the given moment.
	consume(n int, until time.Time) (int, error)

	close()
}

// A broker is a peer that does not speak SQS.
type broker struct {
	*process
	create func(ctx context.Context, queue string) error
	drop   func(queue string) error
	dial   func(ctx context.Context, queue string, w *bench.Work) (client, error)
}

func (b *broker) contender(_ context.Context, w bench.Work) (bench.Contender, error) {
	w.Batch = max(w.Batch, 1)
	return &working{broker: b, work: w, bodies: bench.NewBodies(w.Size)}, nil
}

// A working is a workload on a broker. It is to package bench what its workload on SQS is.
type working struct {
	*broker
	work    bench.Work
	bodies  *bench.Bodies
	clients []client
}

func (w *working) Prepare(ctx context.Context, _ func(float64)) error {
	return w.create(ctx, w.work.Queue)
}

// Round has the clients work until the round is over.
func (w *working) Round(ctx context.Context, load bench.Load) (total bench.Tally, err error) {
	for len(w.clients) < load.Clients {
		c, err := w.dial(ctx, w.work.Queue, &w.work)
		if err != nil {
			return total, err
		}
		w.clients = append(w.clients, c)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tallies := make([]bench.Tally, load.Clients)
	began := time.Now()
	var wg sync.WaitGroup
	for i, c := range w.clients[:load.Clients] {
		stop := context.AfterFunc(ctx, c.close)
		wg.Go(func() {
			defer stop()
			if err := w.loop(ctx, c, began.Add(load.Round), &tallies[i]); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return total, err
	}
	for i := range tallies {
		total.Add(&tallies[i])
	}
	total.Took = time.Since(began)
	return total, nil
}

func (w *working) loop(ctx context.Context, c client, ends time.Time, t *bench.Tally) error {
	bodies := make([]string, w.work.Batch)
	for time.Now().Before(ends) && ctx.Err() == nil {
		for i := range bodies {
			bodies[i] = w.bodies.Next()
		}
		if err := c.send(bodies); err != nil {
			return err
		}
		n := len(bodies)
		if w.work.Kind == bench.Life {
			var err error
			if n, err = c.consume(n, ends); err != nil {
				return err
			}
			if n == 0 {
				t.Empty++
			}
		}
		t.Messages += int64(n)
		t.Steps++
	}
	return nil
}

func (w *working) Close() error {
	for _, c := range w.clients {
		c.close()
	}
	return w.drop(w.work.Queue)
}
