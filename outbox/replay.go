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

	// Generation is what messages get: the number of the replay when zero, which does unless the database has
	// been restored from before an earlier one. It is more where one of them has as much already.
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
	rateUsual    = 50
	aheadUsual   = 1000
	looksAtOnce  = 8
	looksPerSec  = 500 // at the ledger, whatever the rate of messages
	plannedLooks = 200
	replaysMax   = 1000 // that are remembered when the ledger is asked

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
// It writes rows, with the messages that were sent once, for the relays to send. It keeps up
// to date how far it is in the same transactions, so that it can be stopped at any moment, or killed, and go on
// later: no message is left out, and none of a work and generation written twice.
type Replayer struct {
	cfg    ReplayConfig
	runner string

	later []int     // what generations returned; nil when it was not called
	page  int       // how many messages are read at once
	next  time.Time // before it nothing may be written
	since int       // rows that were written since it was last looked how many are due; -1 when nobody has looked
	full  bool      // they were too many, and it has been said
}

// NewReplayer returns a Replayer, or an error when the configuration contradicts itself. Source and what follows
// it may be left out by who only wants to continue a replay.
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
	refuse(cfg.MissingOnly && cfg.Ledger == nil, "MissingOnly needs a Ledger to ask what is completed")
	refuse(cfg.MissingOnly && cfg.Generation != 0, "MissingOnly keeps generations: leave Generation out")
	refuse(!(cfg.Rate >= 0 && cfg.Rate <= rateMax), "Rate is %v: it is more than 0 and at most %d", cfg.Rate, rateMax)
	refuse(cfg.Ahead < 0, "Ahead is %d: it is at least 1", cfg.Ahead)
	refuse(cfg.Generation < 0, "Generation is %d: it is at least 1", cfg.Generation)
	if len(bad) > 0 {
		return nil, fmt.Errorf("outbox: replay: %w", errors.Join(bad...))
	}
	return &Replayer{cfg: cfg, runner: relayName(), page: pageFirst, since: -1}, nil
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
	samples = max(samples, 0)
	few := samples
	if r.cfg.MissingOnly {
		few = max(few, plannedLooks)
	}
	count, first, err := r.cfg.Box.Look(ctx, r.cfg.Source, few)
	if err != nil {
		return Plan{}, fmt.Errorf("outbox: look what there is to replay: %w", err)
	}
	p := Plan{Count: count, First: first[:min(samples, len(first))]}
	record := Replay{Number: 1, Generation: 1, MissingOnly: r.cfg.MissingOnly, Lane: r.cfg.Lane}
	messages := make([]Message, len(first))
	for i, past := range first {
		messages[i] = past.Message
		m := record.again(past.Message)
		if err := m.Check(); err != nil {
			return Plan{}, fmt.Errorf("outbox: replay: %w: message %d of %d cannot be sent: %w", ErrSource, i+1, count, err)
		}
	}
	if r.cfg.MissingOnly {
		fates, err := r.known(ctx, messages)
		if err != nil {
			return Plan{}, err
		}
		p.Asked = len(first)
		for _, f := range fates {
			if f == completed {
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
	if _, err := patiently(ctx, r, func() (int, error) { // what can only read refuses SQL that would write
		count, _, err := c.Box.Look(ctx, c.Source, 0)
		return count, err
	}); err != nil {
		return Replay{}, fmt.Errorf("outbox: begin a replay: %w", err)
	}
	record, err := c.Box.BeginReplay(ctx, Replay{
		State: Preparing, Source: c.Source, MissingOnly: c.MissingOnly, Lane: c.Lane, Rate: cmp.Or(c.Rate, rateUsual), Ahead: cmp.Or(c.Ahead, aheadUsual),
		Generation: c.Generation, By: c.By, Note: c.Note, Runner: r.runner,
	})
	if err != nil {
		return Replay{}, fmt.Errorf("outbox: begin a replay: %w", err)
	}
	return r.carryOut(ctx, record)
}

// Continue goes on with a replay that is not at its end, as it was begun, but for Rate and Ahead if they are set here. A
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
	record.Ahead = cmp.Or(r.cfg.Ahead, record.Ahead)
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
	if record.Read > 0 {
		return record, nil
	}
	return r.settleGeneration(ctx, record)
}

// settleGeneration looks at all messages before the first is sent. It makes sure that each can be sent, since a query
// may return anything, and another queue may need what the first one did not; and it gives the replay a generation
// that is later than that of any of them, so that a work that is there in several of them is done once.
func (r *Replayer) settleGeneration(ctx context.Context, record Replay) (Replay, error) {
	generation := cmp.Or(record.Generation, int(record.Number))
	for place := int64(0); !record.MissingOnly; {
		staged, err := r.staged(ctx, record.Number, place, pageMax)
		if err != nil {
			return record, err
		}
		if len(staged) == 0 {
			break
		}
		for _, s := range staged {
			generation = max(generation, s.Generation+1)
		}
		place = staged[len(staged)-1].Place
	}
	checked := record
	if !record.MissingOnly {
		checked.Generation = generation
	}
	for place, n := int64(0), 0; ; {
		staged, err := r.staged(ctx, record.Number, place, pageMax)
		if err != nil {
			return record, err
		}
		if len(staged) == 0 {
			break
		}
		for _, s := range staged {
			n++
			if s.Gone {
				continue
			}
			m := checked.again(s.Message)
			if err := m.Check(); err != nil {
				return record, fmt.Errorf("%w: message %d of %d cannot be sent: %w", ErrSource, n, record.Found, err)
			}
		}
		place = staged[len(staged)-1].Place
	}
	if checked.Generation == record.Generation {
		return record, nil
	}
	settled, err := r.write(ctx, checked, nil)
	if settled.Number == 0 {
		settled = record
	}
	return settled, err
}

// staged reads what comes next, a few messages when they are large.
func (r *Replayer) staged(ctx context.Context, number, place int64, most int) ([]Staged, error) {
	staged, err := patiently(ctx, r, func() ([]Staged, error) { return r.cfg.Box.Staged(ctx, number, place, min(most, r.page)) })
	bytes := 0
	for i := range staged {
		bytes += len(staged[i].Body)
		if bytes > pageLarge && i > 0 {
			staged = staged[:i]
			break
		}
	}
	switch {
	case bytes > pageLarge:
		r.page = max(1, r.page/2)
	case bytes < pageSmall:
		r.page = min(pageMax, 2*r.page)
	}
	return staged, err
}

// step writes the next few rows. The replay that it returns is the zero one when it is not known.
func (r *Replayer) step(ctx context.Context, record Replay) (Replay, error) {
	most := int(min(pageMax, max(1, record.Rate/2)))
	if record.MissingOnly {
		most = pageMax // most of which is left out, as a rule
	}
	staged, err := r.staged(ctx, record.Number, record.Place, most)
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
	} else if err := sleep(ctx, time.Until(r.next)); err != nil {
		return Replay{}, err
	}
	seconds := float64(len(rows)) / record.Rate
	if record.MissingOnly {
		seconds = max(seconds, float64(len(staged))/looksPerSec)
	}
	r.next = time.Now().Add(time.Duration(seconds * float64(time.Second)))
	r.since += len(rows)
	return r.write(ctx, next, rows)
}

// write takes a step, or finds out that somebody else has.
func (r *Replayer) write(ctx context.Context, next Replay, rows []Message) (Replay, error) {
	return patiently(ctx, r, func() (Replay, error) {
		stepped, err := r.cfg.Box.StepReplay(ctx, next, rows)
		if !errors.Is(err, ErrMoved) {
			return stepped, err
		}
		return r.moved(ctx, next)
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
	fates := make([]fate, len(there))
	if record.MissingOnly {
		if fates, err = r.known(ctx, there); err != nil {
			return nil, err
		}
	}
	for i, m := range there {
		if fates[i] == completed {
			record.Completed++
		}
		if fates[i] != missing {
			continue
		}
		m = record.again(m)
		if err := m.Check(); err != nil { // which none is that was looked at before
			return nil, fmt.Errorf("%w: the message about %q cannot be sent: %w", ErrSource, m.Dedup, err)
		}
		rows = append(rows, m)
	}
	return rows, nil
}

// A fate is what the ledger knows about the work of a message.
type fate int

const (
	missing   fate = iota // nobody has completed it
	completed             // somebody has, in its generation or a later one
	elsewhere             // a later generation of it has begun, or a person has to decide about it
)

// known asks the ledger about the work of messages, several at once.
func (r *Replayer) known(ctx context.Context, messages []Message) ([]fate, error) {
	later, err := r.generations(ctx)
	if err != nil {
		return nil, err
	}
	fates, errs := make([]fate, len(messages)), make([]error, len(messages))
	var asking sync.WaitGroup
	turn := make(chan struct{}, looksAtOnce)
	for i := range messages {
		asking.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			fates[i], errs[i] = r.fate(ctx, &Row{Message: messages[i]}, later)
		})
	}
	asking.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("ask the ledger what is completed: %w", err)
		}
	}
	return fates, nil
}

// generations are those that earlier replays gave to their messages, the latest first.
func (r *Replayer) generations(ctx context.Context) ([]int, error) {
	if r.later != nil {
		return r.later, nil
	}
	all, err := patiently(ctx, r, func() ([]Replay, error) { return r.cfg.Box.Replays(ctx, replaysMax) })
	if err != nil {
		return nil, err
	}
	r.later = []int{}
	for _, other := range all {
		if !other.MissingOnly && other.Written > 0 {
			r.later = append(r.later, other.Generation)
		}
	}
	slices.Sort(r.later)
	r.later = slices.Compact(r.later)
	slices.Reverse(r.later)
	return r.later, nil
}

// fate asks about the work of one message: first whether a replay has taken it up since.
func (r *Replayer) fate(ctx context.Context, row *Row, later []int) (fate, error) {
	for _, generation := range append(slices.Clone(later), row.Generation) {
		if generation < row.Generation {
			continue
		}
		entry, err := patiently(ctx, r, func() (claims.Entry, error) {
			entry, err := r.cfg.Ledger.Entry(ctx, claims.EffectKey(row.work(), generation))
			if errors.Is(err, claims.ErrNoEntry) {
				return claims.Entry{}, nil
			}
			return entry, err
		})
		switch {
		case err != nil:
			return missing, err
		case entry.State == claims.Completed && entry.Key != "":
			return completed, nil
		case entry.Key != "" && (generation > row.Generation || entry.State == claims.Parked):
			return elsewhere, nil
		}
	}
	return missing, nil
}

// again is a message as the replay sends it: about the same work, in a generation of its own unless only what is
// missing is sent. Its ID follows from all that, so that it is written once.
func (r *Replay) again(m Message) Message {
	row := Row{Message: m}
	m.Dedup = row.work()
	if !r.MissingOnly {
		m.Generation = r.Generation
	}
	queue := m.Queue // of which the work is
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
	sum := sha256.Sum256(fmt.Appendf(nil, "tenaq replay %d\n%q\n%q\n%d", r.Number, queue, m.Dedup, m.Generation))
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
	for r.since < 0 || r.since > record.Ahead/2 { // not every time: it may be a long look
		stats, err := patiently(ctx, r, func() (Stats, error) { return r.cfg.Box.Stats(ctx) })
		if err != nil {
			return Replay{}, err
		}
		if stats.Due <= record.Ahead {
			r.full, r.since = false, 0
			break
		}
		if !r.full {
			r.full = true
			r.cfg.Logger.Warn("the replay waits: too many rows of the outbox are due; see that relays run and that all queues take messages, or let more be due",
				"replay", record.Number, "due", stats.Due, "ahead", record.Ahead, "oldest", stats.Oldest)
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
