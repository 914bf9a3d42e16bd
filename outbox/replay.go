package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tenaq/claims"
	"tenaq/internal/work/invalid"
)

// A ReplayConfig configures a Replayer. Box is required, and Source for Run and Plan. The rest has
// defaults.
//
// Consumers that do work once skip messages about completed work. So there are two kinds of
// replays:
//
//   - By default, a replay repeats the work: its messages get a new generation, and with it new
//     effect keys (see claims.EffectKey). Consumers run again, and their effects happen again.
//   - With MissingOnly, a replay fills the gaps: it asks the ledger of the consumers, and sends
//     only what they never completed, in its own generation. Of work that the source has in several
//     generations, because it was replayed before, it sends only the latest. It does not know of
//     messages that are still in a queue: begin it when the consumers have nothing left to do. A
//     FIFO queue drops a message that was first sent less than five minutes ago.
type ReplayConfig struct {
	Box    History
	Source Source

	// MissingOnly leaves out work that Ledger knows as completed. The rest keeps its generation.
	MissingOnly bool
	Ledger      *claims.Ledger

	// Lane, if set, is the queue for all messages, so that other consumers work on them than on the
	// live messages. It is a name as in rows.
	Lane string

	// Rate is the maximum number of messages per second: 50 when zero, at most 10,000.
	Rate float64

	// Ahead is the maximum number of due rows in the outbox: 1,000 when zero. While there are more,
	// the replay pauses, so that live messages do not wait behind it.
	Ahead int

	// Generation is the generation of the messages: the number of the replay when zero. Set it
	// after the database was restored to a time before an earlier replay. If a message already has
	// that generation or a later one, the replay uses a larger one.
	Generation int

	By   string // who asks for the replay, for the record
	Note string // why, for the record

	// Progress, if set, is called after every change. It must return quickly. Plan calls it while
	// it asks the ledger, with a Replay that has the counts so far and no number.
	Progress func(Replay)

	// Logger gets what an operator may have to act on; slog.Default when nil.
	Logger *slog.Logger
}

// ReplayHeader is the header of a replayed message with the number of the replay. A message without
// room for another header has none.
const ReplayHeader = "replay"

// Limits of a replay.
const (
	rateMax     = 10_000
	rateUsual   = 50
	aheadUsual  = 1000
	looksAtOnce = 8
	looksPerSec = 500  // at the ledger, at any rate of messages
	replaysMax  = 1000 // earlier replays whose generations are looked up in the ledger

	// The size of a page of messages starts small, and grows while messages are small.
	pageFirst, pageMax   = 8, 200
	pageSmall, pageLarge = 1 << 20, 4 << 20 // bytes
	retriedFor           = 2 * time.Minute
	endedMax             = 2000
)

// A Replayer sends past messages again:
//
//	replayer, err := outbox.NewReplayer(outbox.ReplayConfig{
//		Box:    box,
//		Source: outbox.Source{From: time.Now().AddDate(0, 0, -7), To: time.Now(), Queues: []string{"transcode"}},
//		Note:   "wrong gain",
//	})
//	if err != nil {
//		return err
//	}
//	plan, err := replayer.Plan(ctx, 5) // how many, and a few of them
//	...
//	done, err := replayer.Run(ctx) // when it is interrupted: Continue(ctx, done.Number), from any process
//
// It writes rows for the relays to send, and records its progress in the same transactions. So it
// can be stopped or killed at any moment and continue later: it leaves out no message, and writes
// no message of a work and generation twice.
type Replayer struct {
	cfg    ReplayConfig
	runner string

	later  []int          // result of generations, or nil
	latest map[string]int // generation of the works that the source has in a later one than 0
	page   int            // number of messages to read at once
	next   time.Time      // no writes before
	since  int            // rows written since the due rows were counted; -1 before the first count
	full   bool           // too many rows were due, and that has been logged
}

// NewReplayer returns a Replayer, or an error if the configuration contradicts itself.
func NewReplayer(cfg ReplayConfig) (*Replayer, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Progress == nil {
		cfg.Progress = func(Replay) {}
	}
	var bad invalid.Fields
	bad.Add(cfg.Box == nil, "ReplayConfig.Box is missing: set it to the outbox (packages pgoutbox, sqliteoutbox)")
	bad.Add(cfg.MissingOnly && cfg.Ledger == nil,
		"MissingOnly needs a Ledger to ask what is completed")
	bad.Add(cfg.MissingOnly && cfg.Generation != 0,
		"MissingOnly keeps generations: leave Generation out")
	bad.Add(!(cfg.Rate >= 0 && cfg.Rate <= rateMax), "Rate is %v: it must be more than 0 and at most %d",
		cfg.Rate, rateMax)
	bad.Add(cfg.Ahead < 0, "Ahead is %d: it must be at least 1", cfg.Ahead)
	bad.Add(cfg.Generation < 0, "Generation is %d: it must be at least 1", cfg.Generation)
	if err := bad.Err("outbox: replay"); err != nil {
		return nil, err
	}
	return &Replayer{cfg: cfg, runner: relayName(), page: pageFirst, since: -1}, nil
}

// Run begins a replay and carries it out. It returns when all rows are written, or when the replay
// is cancelled, which its state says. It returns an error when ctx ends, the database cannot be
// used for two minutes, or another process has taken over the replay (ErrMoved). If the replay that
// it returns with the error has a number, Continue can continue it.
func (r *Replayer) Run(ctx context.Context) (Replay, error) {
	c := r.cfg
	if err := c.Source.Check(); err != nil {
		return Replay{}, fmt.Errorf("outbox: replay: %w", err)
	}
	r.later, r.latest = nil, nil
	// Look reads in a read-only transaction, which refuses SQL that would write.
	if _, err := patiently(ctx, r, func() (int, error) {
		count, _, err := c.Box.Look(ctx, c.Source, 0)
		return count, err
	}); err != nil {
		return Replay{}, fmt.Errorf("outbox: begin a replay: %w", err)
	}
	record, err := c.Box.BeginReplay(ctx, Replay{
		State: Preparing, Source: c.Source, MissingOnly: c.MissingOnly, Lane: c.Lane,
		Rate: cmp.Or(c.Rate, rateUsual), Ahead: cmp.Or(c.Ahead, aheadUsual),
		Generation: c.Generation, By: c.By, Note: c.Note, Runner: r.runner,
	})
	if err != nil {
		return Replay{}, fmt.Errorf("outbox: begin a replay: %w", err)
	}
	return r.carryOut(ctx, record)
}

// Continue continues a replay that has not ended, with its original configuration except for Rate
// and Ahead, if they are set here. A process that still runs it stops. A MissingOnly replay needs
// the Ledger.
func (r *Replayer) Continue(ctx context.Context, number int64) (Replay, error) {
	record, err := r.cfg.Box.Replay(ctx, number)
	switch {
	case err != nil:
		return Replay{}, fmt.Errorf("outbox: continue replay %d: %w", number, err)
	case record.AtEnd():
		return record, fmt.Errorf("outbox: replay %d is %s: begin another one", number,
			record.State)
	case record.MissingOnly && r.cfg.Ledger == nil:
		return record, fmt.Errorf("outbox: replay %d sends only what is missing: set Ledger, to ask what is completed", number)
	}
	record.Runner = r.runner
	record.Rate = cmp.Or(r.cfg.Rate, record.Rate)
	record.Ahead = cmp.Or(r.cfg.Ahead, record.Ahead)
	taken, err := r.cfg.Box.StepReplay(ctx, record, nil)
	if err != nil {
		return record, fmt.Errorf("outbox: continue replay %d: %w", number, err)
	}
	return r.carryOut(ctx, taken)
}

// CancelReplay ends a replay that has not ended. A process that runs it stops before it writes
// more. Relays still send the rows that are in the outbox. Why is for the record.
func CancelReplay(ctx context.Context, box History, number int64, why string) (Replay, error) {
	for {
		record, err := box.Replay(ctx, number)
		switch {
		case err != nil:
			return Replay{}, fmt.Errorf("outbox: cancel replay %d: %w", number, err)
		case record.AtEnd():
			return record, fmt.Errorf("outbox: replay %d is %s already", number, record.State)
		}
		record.State, record.Ended = Cancelled, why
		if record, err = box.StepReplay(ctx, record, nil); !errors.Is(err, ErrMoved) {
			return record, err
		}
	}
}
