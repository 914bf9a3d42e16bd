//go:build unix

package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tenaq/claims"
	"tenaq/records/sqliterecords"
	"tenaq/worker"
)

// childSettings names the variable with the settings that make this program a worker instead of
// running tests.
const childSettings = "TENAQ_WORKER_CHILD"

// A childConfig is the configuration of a worker in another process.
type childConfig struct {
	Name        string
	Endpoint    string // of the queue
	Queue       string
	Store       string // file of the ledger
	Effects     string // URL of the effects
	Seed        uint64
	Attempts    int
	Concurrency int
	LedgerLease time.Duration
}

// A note is what a worker in another process tells about one of its handlers.
type note struct {
	Worker string
	Run    int // number of the handler in its process
	What   string

	// Of begin.
	ID, Key  string
	Attempt  int
	Fence    uint64
	Takeover bool

	// When the context had not ended, and by when it was to: on the clock that all processes share.
	Believed     bool
	At, Deadline time.Time

	Outcome outcome // of end
}

// A childWorker is the worker in another process.
type childWorker struct {
	childConfig
	http    http.Client
	runs    sync.Map // *worker.Message to *childRun
	counter atomic.Int64
}

// A childRun is a handler of it.
type childRun struct {
	number int
	run
}

// childMain runs a worker until it is stopped.
func childMain(settings string) error {
	c := &childWorker{http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	if err := json.Unmarshal([]byte(settings), &c.childConfig); err != nil {
		return err
	}
	store, err := sqliterecords.New(sqliterecords.Config{Path: c.Store})
	if err != nil {
		return err
	}
	defer store.Close()
	ledger, err := claims.New(claims.Config{Store: store, Lease: c.LedgerLease, Owner: c.Name})
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // who started it is dead
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client := connect(c.Endpoint, 3, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}})
	for {
		w, err := worker.New(worker.Config{
			Client: client, QueueURL: c.Queue, Claims: ledger,
			Handler: worker.HandlerFunc(c.handle), Concurrency: c.Concurrency,
			Lease: lease, Drain: drain, Attempts: c.Attempts, RetryBase: 100 * time.Millisecond, RetryMax: time.Second,
			Key: func(m *worker.Message) (string, error) {
				o, err := bodyOf(m)
				return o.Key, err
			},
			Logger: slog.New(slog.DiscardHandler),
			Events: worker.Events{Outcome: func(m *worker.Message, o worker.Outcome) {
				switch o.Kind {
				case worker.Done, worker.Failed, worker.Deferred, worker.Lost, worker.Abandoned:
					c.tell(m, string(o.Kind))
				}
			}},
		})
		if err != nil {
			return err
		}
		if err = w.Run(ctx); ctx.Err() != nil {
			return nil
		}
		fmt.Fprintln(os.Stderr, err) // the server is not there yet
		time.Sleep(100 * time.Millisecond)
	}
}

func (c *childWorker) handle(ctx context.Context, m *worker.Message) error {
	r := &childRun{number: int(c.counter.Add(1)), run: run{ctx: ctx}}
	claim := m.Claim()
	r.deadline = claim.Deadline
	c.runs.Store(m, r)
	c.say(&r.run, note{
		What: "begin", ID: m.ID, Key: m.EffectKey(), Attempt: m.Attempt(), Fence: m.Fence(), Takeover: m.TakenOver() != nil,
	}, r.number)
	out := failed
	defer func() { c.say(&r.run, note{What: "end", Outcome: out}, r.number) }()
	o, err := bodyOf(m)
	if err != nil {
		return err
	}
	err = act(childEffects{c, r.number}, &r.run, o.play(c.Seed, m, false))
	out = outcomeOf(ctx, o, err)
	return err
}

// tell passes an event on. Events of messages that no handler had are of no interest.
func (c *childWorker) tell(m *worker.Message, what string) {
	if v, ok := c.runs.Load(m); ok {
		r := v.(*childRun)
		c.say(&r.run, note{What: what}, r.number)
	}
}

// say tells the judge something. The time comes first: a context that has not ended later had not
// then.
func (c *childWorker) say(r *run, n note, number int) {
	n.Worker, n.Run, n.At = c.Name, number, time.Now()
	n.Deadline = n.At.Add(time.Until(r.deadline()))
	n.Believed = r.believes()
	body, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	resp, err := c.http.Post(c.Effects, "application/json", bytes.NewReader(body))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	_ = resp.Body.Close()
}

// childEffects are effects that happen where the judge sees them.
type childEffects struct {
	*childWorker
	number int
}

func (e childEffects) write(r *run)  { e.say(r, note{What: "write"}, e.number) }
func (e childEffects) charge(r *run) { e.say(r, note{What: "charge"}, e.number) }
