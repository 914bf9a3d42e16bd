package stage

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tenaq/claims"
	"tenaq/records/sqliterecords"
	"tenaq/worker"
)

// RecordsFile is where the processes of a scenario keep their records.
func RecordsFile(dir string) string { return filepath.Join(dir, "records.db") }

// OpenRecords opens the records, and the ledger of the work in them.
func (a *Act) OpenRecords(
	dir string, lease time.Duration,
) (*sqliterecords.Store, *claims.Ledger) {
	store, err := sqliterecords.New(sqliterecords.Config{Path: RecordsFile(dir)})
	a.Must(err)
	ledger, err := claims.New(claims.Config{Store: store, Lease: lease})
	a.Must(err)
	return store, ledger
}

// Points of a message that a watched worker reports, beside the kinds of outcomes.
const (
	Received  = "received"
	TakenOver = "taken over"
	Begun     = "begun"
	Ended     = "ended" // the handler, with its error as text
)

// Work runs a worker that reports all that it does, until the process is told to end.
func (c *Child) Work(cfg worker.Config) {
	about := func(point string, m *worker.Message) Report {
		return Report{Point: point, Key: m.Key, Message: m.ID, Number: m.Attempt(),
			Generation: m.Generation, Fence: m.Fence()}
	}
	cfg.Logger = slog.Default()
	open := &outcomes{open: make(map[string]chan struct{})}
	cfg.Events = worker.Events{
		Received: func(m *worker.Message) {
			open.wait(c.Ctx)
			c.Tell(about(Received, m))
		},
		Outcome: func(m *worker.Message, o worker.Outcome) {
			r := about(string(o.Kind), m)
			r.Text = o.Reason
			c.Tell(r)
			open.done(m.ID)
		},
	}
	cfg.Middleware = []worker.Middleware{func(
		ctx context.Context, messages []*worker.Message, next func(context.Context) error,
	) error {
		m := messages[0]
		open.wait(c.Ctx)
		if m.TakenOver() != nil {
			c.Tell(about(TakenOver, m))
		}
		r := about(Begun, m)
		r.Run = rand.Text()
		c.Tell(r)
		err := next(ctx)
		open.add(m.ID)
		r.Point, r.Lost = Ended, context.Cause(ctx) == worker.ErrLost
		if err != nil {
			r.Text = err.Error()
		}
		c.Tell(r)
		return err
	}}
	w, err := worker.New(cfg)
	c.Must(err)
	c.Must(w.Run(c.Ctx))
}

// outcomes are the messages whose handlers have returned, and whose outcomes are not reported yet.
// A worker takes the next message while it records. If it were killed because of that message, the
// report about the one before would be missing.
type outcomes struct {
	mu   sync.Mutex
	open map[string]chan struct{} // by message id; closed when the outcome is reported
}

func (o *outcomes) add(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[id] == nil {
		o.open[id] = make(chan struct{})
	}
}

func (o *outcomes) done(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if reported := o.open[id]; reported != nil {
		close(reported)
		delete(o.open, id)
	}
}

// wait waits until all of them are reported, or for as long as recording may take.
func (o *outcomes) wait(ctx context.Context) {
	o.mu.Lock()
	open := slices.Collect(maps.Values(o.open))
	o.mu.Unlock()
	limit := time.After(5 * time.Second)
	for _, reported := range open { // order does not matter: it waits for all
		select {
		case <-reported:
		case <-limit:
			return
		case <-ctx.Done():
			return
		}
	}
}
