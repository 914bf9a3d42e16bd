package worker_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/worker"
)

// The result of the outermost middleware counts, no matter what the handler returned. A panic is a
// failed attempt wherever it happens; middleware sees a panic of the handler as an error.
func TestMiddleware(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		var seen []error
		outer := func(ctx context.Context, batch []*worker.Message, next func(context.Context) error) error {
			err := next(ctx)
			if batch[0].Body == "inside" || batch[0].Body == "handler" {
				seen = append(seen, err)
			}
			if batch[0].Body == "outside" {
				panic("oh")
			}
			return err
		}
		calls := make(map[string]int)
		inner := func(ctx context.Context, batch []*worker.Message, next func(context.Context) error) error {
			switch batch[0].Body {
			case "inside":
				panic("oh")
			case "skipped":
				return nil
			case "twice":
				if err := next(ctx); err == nil {
					t.Error("the first call of the handler did not fail")
				}
			}
			return next(ctx)
		}
		for _, body := range []string{"inside", "outside", "handler", "skipped", "twice"} {
			r.send(body)
		}
		cfg := r.config(func(_ context.Context, m *worker.Message) error {
			calls[m.Body]++
			if m.Body == "handler" {
				panic("oh")
			}
			if m.Body == "twice" && calls[m.Body] == 1 {
				return errSick
			}
			return nil
		})
		cfg.Middleware, cfg.Attempts, cfg.Concurrency = append(cfg.Middleware, outer, inner), 1, 1
		r.run(cfg)
		r.sleep(time.Hour)
		done, dead := bodies(r.lines("done")), r.lines("dead")
		slices.Sort(done)
		slices.Sort(dead)
		if !slices.Equal(done, []string{"skipped", "twice"}) {
			t.Errorf("done %q", done)
		}
		if !slices.Equal(dead, []string{"dead handler the handler panicked: oh", "dead inside the handler panicked: oh",
			"dead outside the handler panicked: oh"}) {
			t.Errorf("dead %q", dead)
		}
		if calls["skipped"] != 0 || calls["twice"] != 2 || calls["inside"] != 0 {
			t.Errorf("calls of the handler: %v", calls)
		}
		if len(seen) != 1 || seen[0] == nil {
			t.Errorf("the outer middleware saw %v, want the panic of the handler alone", seen)
		}
	})
}

// A handler that ends its goroutine has not done the work.
func TestGoexit(t *testing.T) {
	const goexit = "the handler ended its goroutine and did not return"
	var tried atomic.Bool
	for name, handler := range map[string]worker.Handler{
		"one": worker.HandlerFunc(func(context.Context, *worker.Message) error {
			runtime.Goexit()
			return nil
		}),
		"batch": batchFunc(func(context.Context, []*worker.Message) error {
			runtime.Goexit()
			return nil
		}),
		"later try": worker.HandlerFunc(func(_ context.Context, m *worker.Message) error {
			if !tried.Swap(true) {
				return worker.Unavailable(errors.New("not yet"))
			}
			runtime.Goexit()
			return nil
		}),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, "", func(t *testing.T, r *rig) {
				r.send("a")
				cfg := r.config(nil)
				cfg.Handler = handler
				r.run(cfg)
				r.sleep(time.Hour)
				r.wantLines([]string{"failed a " + goexit, "failed a " + goexit, "failed a " + goexit, "dead a " + goexit}, "done", "failed", "dead")
				r.wantCount(r.dead, 1)
			})
		})
	}
}
