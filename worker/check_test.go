package worker_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/worker"
)

// A contradictory configuration is refused before anything is received, and the error says what to
// do.
func TestNewRefuses(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for want, change := range map[string]func(*worker.Config){
			"Client is missing":                                func(c *worker.Config) { c.Client = nil },
			"QueueURL is missing":                              func(c *worker.Config) { c.QueueURL = "" },
			"Handler is missing":                               func(c *worker.Config) { c.Handler = nil },
			"Handler is missing:":                              func(c *worker.Config) { c.Handler = worker.HandlerFunc(nil) },
			"Stall is 2m0s: it must be at most Timeout, 1m0s":  func(c *worker.Config) { c.Timeout, c.Stall = time.Minute, 2*time.Minute },
			"or set NoClaims to handle messages at least once": func(c *worker.Config) { c.Claims = nil },
			"Claims and NoClaims are both set":                 func(c *worker.Config) { c.NoClaims = true },
			"Lease is 1s":                                      func(c *worker.Config) { c.Lease = time.Second },
			"SQS counts in whole seconds":                      func(c *worker.Config) { c.Lease = 3500 * time.Millisecond },
			"Timeout is 12h0m0s":                               func(c *worker.Config) { c.Timeout = 12 * time.Hour },
			"Concurrency is -1":                                func(c *worker.Config) { c.Concurrency = -1 },
			"Middleware[1] is nil":                             func(c *worker.Config) { c.Middleware = append(c.Middleware, nil) },
			"Prefetch is -1":                                   func(c *worker.Config) { c.Prefetch = -1 },
			"Attempts is -1":                                   func(c *worker.Config) { c.Attempts = -1 },
			"RetryBase and RetryMax are 2s and":                func(c *worker.Config) { c.RetryMax = 13 * time.Hour },
			"BatchSize is 11": func(c *worker.Config) {
				c.Handler, c.BatchSize = batchFunc(func(context.Context, []*worker.Message) error { return nil }), 11
			},
		} {
			cfg := r.config(func(context.Context, *worker.Message) error { return nil })
			change(&cfg)
			if _, err := worker.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %q", err, want)
			}
		}
	})
}

// A configuration that does not fit the queue is refused when the worker starts.
func TestRunRefuses(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		fifo := r.server.Queue(t, "other.fifo")
		kept := r.server.Queue(t, "kept", "MessageRetentionPeriod", "1209600")
		short, err := claims.New(claims.Config{Store: r.store, Retention: 14 * 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for want, change := range map[string]func(*worker.Config){
			"set Retention of the claims to at least that":    func(c *worker.Config) { c.QueueURL, c.Claims = kept, short },
			"is not of the same kind":                         func(c *worker.Config) { c.DeadLetterURL = fifo },
			"the dead-letter queue http":                      func(c *worker.Config) { c.DeadLetterURL += r.url + "-gone" },
			"gone cannot be used: operation error SQS: GetQu": func(c *worker.Config) { c.QueueURL += "-gone" },
			"cannot find the URL of the queue absent: ":       func(c *worker.Config) { c.QueueURL = "absent" },
			"correct the name, allow sqs:GetQueueUrl, or con": func(c *worker.Config) { c.DeadLetterURL = "absent-dead" },
		} {
			cfg := r.config(func(context.Context, *worker.Message) error { return nil })
			change(&cfg)
			w, err := worker.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %q", err, want)
			}
		}
	})
}

// A worker runs once: a second run would have no renewals, so it receives nothing.
func TestRunsOnce(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		w, err := worker.New(r.config(func(context.Context, *worker.Message) error { return nil }))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"", "this Worker has run: make another one with New"} {
			r.send("a")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := w.Run(ctx); err == nil != (want == "") || err != nil && err.Error() != want {
				t.Errorf("got error %v, want %q", err, want)
			}
			cancel()
		}
		r.wantLines([]string{"started a"}, "started", "lost")
		r.wantCount(r.url, 1)
	})
}

// A queue may be given by its name or its ARN. Messages and dead letters then go by the URL.
func TestQueueByName(t *testing.T) {
	for work, dead := range map[string]string{"work": "dead", sqstest.ARN("work"): sqstest.ARN("dead")} {
		inBubble(t, "", func(t *testing.T, r *rig) {
			r.send("a")
			var url string
			cfg := r.config(func(_ context.Context, m *worker.Message) error {
				url = m.QueueURL
				return worker.Poison(errSick)
			})
			cfg.QueueURL, cfg.DeadLetterURL = work, dead
			r.run(cfg)
			r.sleep(time.Minute)
			r.wantLines([]string{"started a", "dead a sick"}, "started", "dead", "error")
			if url != r.url {
				t.Errorf("the message is from %q, want %q", url, r.url)
			}
			r.wantCount(r.url, 0)
			r.wantCount(r.dead, 1)
		})
	}
}

// A queue that dead-letters by receives, nearly as early as the attempts are used up, is worth a
// word.
func TestHeadroom(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for receives, warns := range map[string]bool{"3": true, "5": true, "6": false, "10": false} {
			url := r.server.Queue(t, "work"+receives, "RedrivePolicy", sqstest.RedrivePolicy("dead", receives))
			var said bytes.Buffer
			cfg := r.config(func(context.Context, *worker.Message) error { return nil })
			cfg.QueueURL, cfg.Logger = url, slog.New(slog.NewTextHandler(&said, nil))
			stop := r.start(cfg)
			r.sleep(time.Second)
			r.mustStop(stop)
			if got := strings.Contains(said.String(), "maxReceiveCount"); got != warns {
				t.Errorf("maxReceiveCount %s: said %q", receives, said.String())
			}
		}
	})
}

// A worker that is stopped while it checks its queue ends without an error.
func TestEndsAtStart(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for _, url := range []string{r.url, r.url + "-gone"} {
			cfg := r.config(func(context.Context, *worker.Message) error { return nil })
			cfg.QueueURL = url
			w, err := worker.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := w.Run(ctx); err != nil {
				t.Errorf("%s: the worker ended with %v, want nil", url, err)
			}
		}
	})
}

// A queue that cannot be reached is tried again, ever less often, and messages flow when it is
// back.
func TestQueueDown(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.run(r.config(func(context.Context, *worker.Message) error { return nil }))
		r.sleep(time.Second)
		r.client.SetFault(func(string) sqstest.Fault { return sqstest.Dropped })
		r.send("a")
		before := r.client.Calls("ReceiveMessage")
		r.sleep(time.Hour)
		if got := r.client.Calls("ReceiveMessage") - before; got < 3600/20 || got > 2*3600/20+20 {
			t.Errorf("%d polls in an hour of outage", got)
		}
		r.client.SetFault(nil)
		r.sleep(time.Minute)
		if got := r.lines("done"); len(got) != 1 {
			t.Errorf("done %q", got)
		}
	})
}
