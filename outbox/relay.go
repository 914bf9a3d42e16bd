package outbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"time"

	"tenaq/internal/work/backoff"
)

// A Relay sends the rows of a box. Any number of them may run, in any number of processes.
type Relay struct {
	cfg    Config
	queues directory
}

// NewRelay returns a relay, or an error when the configuration contradicts itself.
func NewRelay(cfg Config) (*Relay, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	return &Relay{cfg: cfg, queues: directory{client: cfg.Client, names: cfg.Queues}}, nil
}

// Run sends rows until ctx ends, and returns nil then: what is under way is finished first, and the
// rest given back for others. Databases and queues that cannot be used are tried again and again.
// It returns an error at once when the tables are not there or are of another version (ErrSchema).
func (r *Relay) Run(ctx context.Context) error { return r.run(ctx, nil) }

// run relays until ctx ends, or d says so.
func (r *Relay) run(ctx context.Context, d *drain) error {
	if _, err := r.cfg.Box.Stats(ctx); errors.Is(err, ErrSchema) {
		return fmt.Errorf("outbox: %w", err)
	}
	sweeping, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { r.sweep(sweeping) })
	defer beside.Wait()
	defer stop()
	f := newFlow(r)
	f.drain = d
	f.run(ctx)
	return nil
}

// relayName is a name that no other relay has. People find the process by it.
func relayName() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:8])
}

// How rows that were sent are removed: few at a time, so that nobody waits long for a lock or a
// disk.
const (
	sweepEvery = time.Minute
	sweepRows  = 500
	sweepPause = 100 * time.Millisecond
)

// sweep removes rows that were sent long ago, until ctx ends.
func (r *Relay) sweep(ctx context.Context) {
	if r.cfg.Keep < 0 {
		return
	}
	for {
		pause := backoff.Jitter(sweepEvery)
		n, err := r.cfg.Box.Sweep(ctx, r.cfg.Keep, sweepRows)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.cfg.Logger.Warn("rows that were sent long ago cannot be removed now", "error", err)
		case n == sweepRows:
			pause = sweepPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// chance is a number in [0, 1).
func chance() float64 { return mathrand.Float64() }
