package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tenaq/claims"
)

// A ReplayConfig says what is replayed and how. Box and Source are needed; the rest has defaults.
//
// Consumers that do a work once skip a message about work that they have completed. So a replay has
// to say which of two things it is:
//
//   - Do it again, which is the default: messages get a new generation, and with it new effect keys
//     (see claims.EffectKey). Consumers really run, and what they do outside happens again.
//   - Fill the gaps, with MissingOnly: the ledger of the consumers is asked, and only what they
//     never completed is sent, as what it was.
type ReplayConfig struct {
	Box    History
	Source Source

	// MissingOnly leaves out what Ledger knows to be completed. The rest keeps its generation.
	MissingOnly bool
	Ledger      *claims.Ledger

	// Lane, if set, is the queue that all of it goes to, so that other consumers can work on it,
	// beside those of the live messages. It is a name as rows have it.
	Lane string

	// Rate is how many messages per second are sent at most: 50 when zero.
	Rate float64

	// Ahead is how many rows may be due in the outbox: 1,000 when zero. While there are more, the
	// replay writes none, so that live messages do not have to wait behind it.
	Ahead int

	// Generation is what messages get: the number of the replay when zero, which does unless the
	// database has been restored from before an earlier one. It is more where one of them has as
	// much already.
	Generation int

	By   string // who asks for it, for the record
	Note string // why

	// Progress, if set, is called after every change. It must return quickly. A Plan calls it while
	// it asks the ledger, with a Replay that has the counts so far and no number.
	Progress func(Replay)

	// Logger is told what a person may have to act on; slog.Default when nil.
	Logger *slog.Logger
}

// ReplayHeader is the header of a message that was replayed, with the number of the replay. It is
// left out where there is no room for one more.
const ReplayHeader = "replay"

// Limits of a replay.
const (
	rateMax     = 10_000
	rateUsual   = 50
	aheadUsual  = 1000
	looksAtOnce = 8
	looksPerSec = 500  // at the ledger, whatever the rate of messages
	replaysMax  = 1000 // that are remembered when the ledger is asked

	// Messages are read a few at a time at first, and more when they are small.
	pageFirst, pageMax   = 8, 200
	pageSmall, pageLarge = 1 << 20, 4 << 20 // bytes
	retriedFor           = 2 * time.Minute
	endedMax             = 2000
)

// A Replayer replays:
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
// It writes rows, with the messages that were sent once, for the relays to send. It keeps up to
// date how far it is in the same transactions, so that it can be stopped at any moment, or killed,
// and go on later: no message is left out, and none of a work and generation written twice.
type Replayer struct {
	cfg    ReplayConfig
	runner string

	later []int     // what generations returned; nil when it was not called
	page  int       // how many messages are read at once
	next  time.Time // before it nothing may be written
	// rows that were written since it was last looked how many are due; -1 when nobody has looked
	since int
	full  bool // they were too many, and it has been said
}

// NewReplayer returns a Replayer, or an error when the configuration contradicts itself. Source and
// what follows it may be left out by who only wants to continue a replay.
func NewReplayer(cfg ReplayConfig) (*Replayer, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Progress == nil {
		cfg.Progress = func(Replay) {}
	}
	var bad []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	refuse(cfg.Box == nil, "Box is missing")
	refuse(cfg.MissingOnly && cfg.Ledger == nil,
		"MissingOnly needs a Ledger to ask what is completed")
	refuse(cfg.MissingOnly && cfg.Generation != 0,
		"MissingOnly keeps generations: leave Generation out")
	refuse(!(cfg.Rate >= 0 && cfg.Rate <= rateMax), "Rate is %v: it is more than 0 and at most %d",
		cfg.Rate, rateMax)
	refuse(cfg.Ahead < 0, "Ahead is %d: it is at least 1", cfg.Ahead)
	refuse(cfg.Generation < 0, "Generation is %d: it is at least 1", cfg.Generation)
	if len(bad) > 0 {
		return nil, fmt.Errorf("outbox: replay: %w", errors.Join(bad...))
	}
	return &Replayer{cfg: cfg, runner: relayName(), page: pageFirst, since: -1}, nil
}

// Run begins a replay and carries it out. It returns when all rows are written, which the relays
// send then, when the replay is cancelled (its state says so), or with an error when ctx ends, the
// database cannot be used for two minutes, or another process has taken it over (ErrMoved). The
// replay that it returns in those cases, if its number is not zero, can be continued.
func (r *Replayer) Run(ctx context.Context) (Replay, error) {
	c := r.cfg
	if err := c.Source.Check(); err != nil {
		return Replay{}, fmt.Errorf("outbox: replay: %w", err)
	}
	r.later = nil
	// what can only read refuses SQL that would write
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

// Continue goes on with a replay that is not at its end, as it was begun, but for Rate and Ahead if
// they are set here. A process that is still at it stops. With a MissingOnly replay it needs the
// Ledger.
func (r *Replayer) Continue(ctx context.Context, number int64) (Replay, error) {
	record, err := r.cfg.Box.Replay(ctx, number)
	switch {
	case err != nil:
		return Replay{}, fmt.Errorf("outbox: continue replay %d: %w", number, err)
	case record.AtEnd():
		return record, fmt.Errorf("outbox: replay %d is %s: begin another one", number,
			record.State)
	case record.MissingOnly && r.cfg.Ledger == nil:
		return record, fmt.Errorf("outbox: replay %d sends what is missing only, and needs a Ledger to ask", number)
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

// CancelReplay ends a replay that is not at its end: a process that is at it stops before it writes
// more. What is in the outbox already is sent. Who and why is for the record.
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
