package outbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"tenaq/internal/work/backoff"
)

// A Relay sends the rows of a box. Any number of relays may run, in any number of processes.
type Relay struct {
	cfg    Config
	queues directory
}

// New returns a relay, or an error if the configuration contradicts itself.
func New(cfg Config) (*Relay, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	return &Relay{cfg: cfg, queues: directory{client: cfg.Client, names: cfg.Queues}}, nil
}

// Run sends rows until ctx ends. Then it finishes the requests in progress, gives the other rows
// back for other relays, and returns nil. It keeps retrying databases and queues that cannot be
// used. It returns an error at once if the tables are missing or have another version (ErrSchema).
func (r *Relay) Run(ctx context.Context) error { return r.run(ctx, nil) }

// run sends rows until ctx ends or d is over.
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

// relayName returns a unique name, by which people can find the process.
func relayName() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:8])
}

// Sent rows are removed a few at a time, so that no transaction waits long for a lock or a disk.
const (
	sweepEvery = time.Minute
	sweepRows  = 500
	sweepPause = 100 * time.Millisecond
)

// sweep removes rows that were sent longer ago than Config.Keep, until ctx ends.
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
			r.cfg.Logger.Warn("cannot remove sent rows whose retention has ended", "error", err)
		case n == sweepRows:
			pause = sweepPause
		}
		if backoff.Sleep(ctx, pause) != nil {
			return
		}
	}
}
