package outbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tenaq/claims"
	"tenaq/internal/backoff"
)

// A ReplayConfig says what is replayed and how. Box and Source are needed; the rest has defaults.
//
// Consumers that do a work once skip a message about work that they have completed. So a replay has to say which
// of two things it is:
//
//   - Do it again, which is the default: messages get a new generation, and with it new effect keys (see
//     claims.EffectKey). Consumers really run, and what they do outside happens again.
//   - Fill the gaps, with MissingOnly: the ledger of the consumers is asked, and only what they never completed
//     is sent, as what it was.
type ReplayConfig struct {
	Box    History
	Source Source

	// MissingOnly leaves out what Ledger knows to be completed. The rest keeps its generation.
	MissingOnly bool
	Ledger      *claims.Ledger

	// Lane, if set, is the queue that all of it goes to, so that other consumers can work on it, beside those
	// of the live messages. It is a name as rows have it.
	Lane string

	// Rate is how many messages per second are sent at most: 50 when zero.
	Rate float64

	// Ahead is how many rows may be due in the outbox: 1,000 when zero. While there are more, the replay writes
	// none, so that live messages do not have to wait behind it.
	Ahead int

	// Generation is what messages get at least; the number of the replay when zero, which does unless the
	// database has been restored from before an earlier one.
	Generation int

	By   string // who asks for it, for the record
	Note string // why

	// Progress, if set, is called after every change. It must return quickly.
	Progress func(Replay)

	// Logger is told what a person may have to act on; slog.Default when nil.
	Logger *slog.Logger
}

// ReplayHeader is the header of a message that was replayed, with the number of the replay. It is left out where
// there is no room for one more.
const ReplayHeader = "replay"

// Limits of a replay.
const (
	rateMax      = 10_000
	batchOfRows  = 200
	looksAtOnce  = 8
	plannedLooks = 1000
	retriedFor   = 2 * time.Minute
	endedMax     = 2000
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
// It writes rows, with the messages that were sent once, for the relays to send. It keeps up
// to date how far it is in the same transactions, so that it can be stopped at any moment, or killed, and go on
// later: no message is left out, and none of a work and generation written twice.
type Replayer struct {
	cfg    ReplayConfig
	runner string

	next  time.Time // before it nothing may be written
	ahead int       // rows that were written since it was last looked how many are due
	full  bool      // they were too many, and it has been said
}

// NewReplayer returns a Replayer, or an error when the configuration contradicts itself. Source and what follows
// it may be left out by who only wants to continue a replay.
func NewReplayer(cfg ReplayConfig) (*Replayer, error) {
	cfg.Ahead = cmp.Or(cfg.Ahead, 1000)
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
	refuse(cfg.MissingOnly && cfg.Ledger == nil, "MissingOnly needs a Ledger to ask what is completed")
	refuse(cfg.MissingOnly && cfg.Generation != 0, "MissingOnly keeps generations: leave Generation out")
	refuse(!(cfg.Rate >= 0 && cfg.Rate <= rateMax), "Rate is %v: it is more than 0 and at most %d", cfg.Rate, rateMax)
	refuse(cfg.Ahead < 1, "Ahead is %d: it is at least 1", cfg.Ahead)
	refuse(cfg.Generation < 0, "Generation is %d: it is at least 1", cfg.Generation)
	if len(bad) > 0 {
		return nil, fmt.Errorf("outbox: replay: %w", errors.Join(bad...))
	}
	return &Replayer{cfg: cfg, runner: relayName(), ahead: cfg.Ahead}, nil
}

// A Plan is what a replay would do.
type Plan struct {
	Count int    // of messages
	First []Past // a few of them

	// With MissingOnly: how many of the first Asked ones are completed.
	Asked, Completed int
}

// Plan looks what there is to replay, and changes nothing. The samples are as many as are asked for at most.
func (r *Replayer) Plan(ctx context.Context, samples int) (Plan, error) {
	if err := r.cfg.Source.Check(); err != nil {
		return Plan{}, fmt.Errorf("outbox: replay: %w", err)
	}
	few := samples
	if r.cfg.MissingOnly {
		few = max(few, plannedLooks)
	}
	count, first, err := r.cfg.Box.Look(ctx, r.cfg.Source, few)
	if err != nil {
		return Plan{}, fmt.Errorf("outbox: look what there is to replay: %w", err)
	}
	p := Plan{Count: count, First: first[:min(samples, len(first))]}
	record := Replay{Number: 1, MissingOnly: r.cfg.MissingOnly, Lane: r.cfg.Lane}
	messages := make([]Message, len(first))
	for i, past := range first {
		messages[i] = past.Message
		m := record.again(past.Message)
		if err := m.Check(); err != nil {
			return Plan{}, fmt.Errorf("outbox: replay: %w: message %d of %d cannot be sent: %w", ErrSource, i+1, count, err)
		}
	}
	if r.cfg.MissingOnly {
		done, err := r.completed(ctx, messages)
		if err != nil {
			return Plan{}, err
		}
		p.Asked = len(first)
		for _, is := range done {
			if is {
				p.Completed++
			}
		}
	}
	return p, nil
}

// Run begins a replay and carries it out. It returns when all rows are written, which the relays send then, when
// the replay is cancelled (its state says so), or with an error when ctx ends, the database cannot be used for
// two minutes, or another process has taken it over (ErrMoved). The replay that it returns in those cases, if
// its number is not zero, can be continued.
func (r *Replayer) Run(ctx context.Context) (Replay, error) {
	c := r.cfg
	if err := c.Source.Check(); err != nil {
		return Replay{}, fmt.Errorf("outbox: replay: %w", err)
	}
	record, err := c.Box.BeginReplay(ctx, Replay{
		State: Preparing, Source: c.Source, MissingOnly: c.MissingOnly, Lane: c.Lane, Rate: cmp.Or(c.Rate, 50),
		Generation: c.Generation, By: c.By, Note: c.Note, Runner: r.runner,
	})
	if err != nil {
		return Replay{}, fmt.Errorf("outbox: begin a replay: %w", err)
	}
	return r.carryOut(ctx, record)
}

// Continue goes on with a replay that is not at its end, as it was begun, but for Rate if that is set here. A
// process that is still at it stops. With a MissingOnly replay it needs the Ledger.
func (r *Replayer) Continue(ctx context.Context, number int64) (Replay, error) {
	record, err := r.cfg.Box.Replay(ctx, number)
	switch {
	case err != nil:
		return Replay{}, fmt.Errorf("outbox: continue replay %d: %w", number, err)
	case record.AtEnd():
		return record, fmt.Errorf("outbox: replay %d is %s: begin another one", number, record.State)
	case record.MissingOnly && r.cfg.Ledger == nil:
		return record, fmt.Errorf("outbox: replay %d sends what is missing only, and needs a Ledger to ask", number)
	}
	record.Runner = r.runner
	record.Rate = cmp.Or(r.cfg.Rate, record.Rate)
	taken, err := r.cfg.Box.StepReplay(ctx, record, nil)
	if err != nil {
		return record, fmt.Errorf("outbox: continue replay %d: %w", number, err)
	}
	return r.carryOut(ctx, taken)
}

// CancelReplay ends a replay that is not at its end: a process that is at it stops before it writes more. What is
// in the outbox already is sent. Who and why is for the record.
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

// carryOut takes a replay to its end. One that can never begin is cancelled.
func (r *Replayer) carryOut(ctx context.Context, record Replay) (Replay, error) {
	record, err := r.prepare(ctx, record)
	if errors.Is(err, ErrSource) && record.Read == 0 {
		if cancelled, failed := CancelReplay(ctx, r.cfg.Box, record.Number, cut(err.Error(), endedMax)); failed == nil {
			record = cancelled
		}
	}
	if err != nil {
		return record, fmt.Errorf("outbox: begin replay %d: %w", record.Number, err)
	}
	for !record.AtEnd() {
		next, err := r.step(ctx, record)
		if next.Number != 0 {
			record = next
			r.cfg.Progress(record)
		}
		if err != nil {
			return record, fmt.Errorf("outbox: replay %d, %d of %d done: %w", record.Number, record.Read, record.Found, err)
		}
	}
	return record, nil
}

// prepare has noted what there is to send, and makes sure that all of it can be sent.
func (r *Replayer) prepare(ctx context.Context, record Replay) (Replay, error) {
	if record.State == Preparing {
		staged, err := patiently(ctx, r, func() (Replay, error) { return r.cfg.Box.StageReplay(ctx, record.Number) })
		if err != nil {
			return record, err
		}
		record = staged
		r.cfg.Progress(record)
		if record.AtEnd() {
			return record, nil
		}
		if record.Runner != r.runner {
			return record, ErrMoved
		}
	}
	return record, r.check(ctx, record)
}

// check looks at all before the first is sent: a query may return anything, and another queue may need what the
// first one did not.
func (r *Replayer) check(ctx context.Context, record Replay) error {
	if record.Source.Query == "" && record.Lane == "" {
		return nil // it has been sent before
	}
	for place, n := record.Place, record.Read; ; {
		staged, err := patiently(ctx, r, func() ([]Staged, error) {
			return r.cfg.Box.Staged(ctx, record.Number, place, batchOfRows)
		})
		if err != nil || len(staged) == 0 {
			return err
		}
		for _, s := range staged {
			n++
			if s.Gone {
				continue
			}
			m := record.again(s.Message)
			if err := m.Check(); err != nil {
				return fmt.Errorf("%w: message %d of %d cannot be sent: %w", ErrSource, n, record.Found, err)
			}
		}
		place = staged[len(staged)-1].Place
	}
}

// step writes the next few rows. The replay that it returns is the zero one when it is not known.
func (r *Replayer) step(ctx context.Context, record Replay) (Replay, error) {
	batch := int(min(batchOfRows, max(1, record.Rate/2)))
	staged, err := patiently(ctx, r, func() ([]Staged, error) {
		return r.cfg.Box.Staged(ctx, record.Number, record.Place, batch)
	})
	if err != nil {
		return Replay{}, err
	}
	next := record
	rows, err := r.rows(ctx, &next, staged)
	if err != nil {
		return Replay{}, err
	}
	if len(staged) == 0 {
		next.State = Done
	}
	if len(rows) > 0 {
		if moved, err := r.wait(ctx, record); err != nil || moved.Number != 0 {
			return moved, err
		}
		r.next = time.Now().Add(time.Duration(float64(len(rows)) / record.Rate * float64(time.Second)))
		r.ahead += len(rows)
	}
	return patiently(ctx, r, func() (Replay, error) {
		stepped, err := r.cfg.Box.StepReplay(ctx, next, rows)
		if !errors.Is(err, ErrMoved) {
			return stepped, err
		}
		return r.moved(ctx, record)
	})
}

// moved finds out why a replay is not as it was. That it has been cancelled is no error, nor is that this process
// has written itself and did not hear of it.
func (r *Replayer) moved(ctx context.Context, record Replay) (Replay, error) {
	found, err := r.cfg.Box.Replay(ctx, record.Number)
	switch {
	case err != nil:
		return Replay{}, err
	case found.State == Cancelled || found.Runner == r.runner:
		return found, nil
	}
	return found, fmt.Errorf("%w: %s is at it", ErrMoved, cmp.Or(found.Runner, "another process"))
}

// rows are what is to be written of what is staged. It counts the rest.
func (r *Replayer) rows(ctx context.Context, record *Replay, staged []Staged) (rows []Message, err error) {
	var there []Message
	for _, s := range staged {
		record.Place, record.Read = s.Place, record.Read+1
		if s.Gone {
			record.Gone++
			continue
		}
		there = append(there, s.Message)
	}
	done := make([]bool, len(there))
	if record.MissingOnly {
		if done, err = r.completed(ctx, there); err != nil {
			return nil, err
		}
	}
	for i, m := range there {
		if done[i] {
			record.Completed++
			continue
		}
		m = record.again(m)
		if err := m.Check(); err != nil { // which none is that was sent before
			return nil, fmt.Errorf("%w: the message about %q cannot be sent: %w", ErrSource, m.Dedup, err)
		}
		rows = append(rows, m)
	}
	return rows, nil
}

// completed asks the ledger which of the messages are about completed work.
func (r *Replayer) completed(ctx context.Context, messages []Message) ([]bool, error) {
	done, errs := make([]bool, len(messages)), make([]error, len(messages))
	var asking sync.WaitGroup
	turn := make(chan struct{}, looksAtOnce)
	for i := range messages {
		asking.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			row := Row{Message: messages[i]}
			entry, err := patiently(ctx, r, func() (claims.Entry, error) {
				entry, err := r.cfg.Ledger.Entry(ctx, claims.EffectKey(row.work(), row.Generation))
				if errors.Is(err, claims.ErrNoEntry) {
					return claims.Entry{}, nil
				}
				return entry, err
			})
			done[i], errs[i] = err == nil && entry.Key != "" && entry.State == claims.Completed, err
		})
	}
	asking.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("ask the ledger what is completed: %w", errs[slices.IndexFunc(errs, func(err error) bool { return err != nil })])
	}
	return done, nil
}

// again is a message as the replay sends it: about the same work, in a generation of its own unless only what is
// missing is sent. Its ID follows from all that, so that it is written once.
func (r *Replay) again(m Message) Message {
	row := Row{Message: m}
	m.Dedup = row.work()
	if !r.MissingOnly {
		m.Generation = max(cmp.Or(r.Generation, int(r.Number)), m.Generation+1)
	}
	if r.Lane != "" {
		if strings.HasSuffix(m.Queue, ".fifo") {
			m.Group = cmp.Or(m.Group, m.Key)
		}
		m.Queue = r.Lane
	}
	m.After = time.Time{}
	if number := strconv.FormatInt(r.Number, 10); len(m.Headers) < HeadersMax-1 || m.Headers[ReplayHeader] != "" {
		m.Headers = maps.Clone(m.Headers)
		if m.Headers == nil {
			m.Headers = make(map[string]string)
		}
		m.Headers[ReplayHeader] = number
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "tenaq replay %d\n%q\n%q\n%d", r.Number, m.Queue, m.Dedup, m.Generation))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8
	text := hex.EncodeToString(sum[:16])
	m.ID = text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
	return m
}

// wait returns when rows may be written: at the rate of the replay, and while not too many are due. The replay that
// it returns, if its number is not zero, is one that has been cancelled or taken over in the meantime.
func (r *Replayer) wait(ctx context.Context, record Replay) (Replay, error) {
	if err := sleep(ctx, time.Until(r.next)); err != nil {
		return Replay{}, err
	}
	for r.ahead > r.cfg.Ahead/2 { // not every time: it may be a long look
		stats, err := patiently(ctx, r, func() (Stats, error) { return r.cfg.Box.Stats(ctx) })
		if err != nil {
			return Replay{}, err
		}
		if stats.Due <= r.cfg.Ahead {
			r.full, r.ahead = false, 0
			break
		}
		if !r.full {
			r.full = true
			r.cfg.Logger.Warn("the replay waits: too many rows of the outbox are due; see that its relays run and keep up",
				"replay", record.Number, "due", stats.Due, "ahead", r.cfg.Ahead, "oldest", stats.Oldest)
		}
		if err := sleep(ctx, time.Second); err != nil {
			return Replay{}, err
		}
		found, err := patiently(ctx, r, func() (Replay, error) { return r.cfg.Box.Replay(ctx, record.Number) })
		if err != nil {
			return Replay{}, err
		}
		if found.Version != record.Version {
			return r.moved(ctx, record)
		}
	}
	return Replay{}, nil
}

// patiently calls something again and again while the database, or whatever it asks, cannot be used. What has an
// answer of its own is not repeated.
func patiently[T any](ctx context.Context, r *Replayer, call func() (T, error)) (T, error) {
	until := time.Now().Add(retriedFor)
	for n := 1; ; n++ {
		answer, err := call()
		switch {
		case err == nil || errors.Is(err, ErrMoved) || errors.Is(err, ErrNoReplay) || errors.Is(err, ErrSchema) ||
			errors.Is(err, ErrSource) || time.Now().After(until):
			return answer, err
		case ctx.Err() != nil:
			return answer, ctx.Err()
		}
		if n == 1 {
			r.cfg.Logger.Warn("the replay cannot go on for now, and tries again", "error", err, "for", retriedFor)
		}
		if failed := sleep(ctx, backoff.Full(n, 250*time.Millisecond, 10*time.Second, rand.Float64())); failed != nil {
			return answer, failed
		}
	}
}

// sleep lets d pass, or returns why the context ended before.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
