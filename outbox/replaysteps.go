package outbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/internal/work/clip"
	"tenaq/internal/work/queuename"
)

// This file carries out a replay, step by step.

// carryOut runs a replay to its end. It cancels one that can never begin.
func (r *Replayer) carryOut(ctx context.Context, record Replay) (Replay, error) {
	record, err := r.prepare(ctx, record)
	if errors.Is(err, ErrSource) && record.Read == 0 {
		if cancelled, failed := CancelReplay(ctx, r.cfg.Box, record.Number,
			clip.To(err.Error(), endedMax)); failed == nil {
			record = cancelled
		}
	}
	if err != nil {
		return record, fmt.Errorf("outbox: begin replay %d: %w", record.Number, err)
	}
	if record.MissingOnly && !record.AtEnd() {
		r.latest = make(map[string]int)
		if err := r.eachStaged(ctx, record.Number, func(s Staged) error {
			r.seen(s.Message)
			return nil
		}); err != nil {
			return record, fmt.Errorf("outbox: replay %d: %w", record.Number, err)
		}
	}
	for !record.AtEnd() {
		next, err := r.step(ctx, record)
		if next.Number != 0 {
			record = next
			r.cfg.Progress(record)
		}
		if err != nil {
			return record, fmt.Errorf("outbox: replay %d, %d of %d done: %w", record.Number,
				record.Read, record.Found, err)
		}
	}
	return record, nil
}

// prepare stages the messages and makes sure that all of them can be sent.
func (r *Replayer) prepare(ctx context.Context, record Replay) (Replay, error) {
	if record.State == Preparing {
		staged, err := patiently(ctx, r, func() (Replay, error) {
			return r.cfg.Box.StageReplay(ctx, record.Number)
		})
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

// settleGeneration reads all messages before the first is sent. It makes sure that each can be
// sent, because a query may return anything, and a lane may need more than the original queue. And
// it gives the replay a generation that is later than that of any message, so that work which is
// there in several generations is done once.
func (r *Replayer) settleGeneration(ctx context.Context, record Replay) (Replay, error) {
	checked := record
	if !record.MissingOnly {
		checked.Generation = cmp.Or(record.Generation, int(record.Number))
		if err := r.eachStaged(ctx, record.Number, func(s Staged) error {
			checked.Generation = max(checked.Generation, s.Generation+1)
			return nil
		}); err != nil {
			return record, err
		}
	}
	n := 0
	if err := r.eachStaged(ctx, record.Number, func(s Staged) error {
		n++
		m := checked.again(s.Message)
		if err := m.Check(); err != nil && !s.Gone {
			return fmt.Errorf("%w: message %d of %d cannot be sent: %w", ErrSource, n, record.Found,
				err)
		}
		return nil
	}); err != nil {
		return record, err
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

// eachStaged calls do for all staged messages of a replay.
func (r *Replayer) eachStaged(ctx context.Context, number int64, do func(Staged) error) error {
	for place := int64(0); ; {
		staged, err := r.staged(ctx, number, place, pageMax)
		if err != nil || len(staged) == 0 {
			return err
		}
		for _, s := range staged {
			if err := do(s); err != nil {
				return err
			}
		}
		place = staged[len(staged)-1].Place
	}
}

// staged reads the next messages, fewer if they are large.
func (r *Replayer) staged(ctx context.Context, number, place int64, most int) ([]Staged, error) {
	staged, err := patiently(ctx, r, func() ([]Staged, error) {
		return r.cfg.Box.Staged(ctx, number, place, min(most, r.page))
	})
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

// step writes the next few rows. It returns the zero Replay if the result is unknown.
func (r *Replayer) step(ctx context.Context, record Replay) (Replay, error) {
	most := int(min(pageMax, max(1, record.Rate/2)))
	if record.MissingOnly {
		most = pageMax // most of them are usually left out
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
	} else if err := backoff.Sleep(ctx, time.Until(r.next)); err != nil {
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

// write stores a step, or finds out that another process has changed the replay.
func (r *Replayer) write(ctx context.Context, next Replay, rows []Message) (Replay, error) {
	return patiently(ctx, r, func() (Replay, error) {
		stepped, err := r.cfg.Box.StepReplay(ctx, next, rows)
		if !errors.Is(err, ErrMoved) {
			return stepped, err
		}
		return r.moved(ctx, next)
	})
}

// moved finds out why a replay has changed. It is not an error if it was cancelled, or if this
// process changed it and did not get the answer.
func (r *Replayer) moved(ctx context.Context, record Replay) (Replay, error) {
	found, err := r.cfg.Box.Replay(ctx, record.Number)
	switch {
	case err != nil:
		return Replay{}, err
	case found.State == Cancelled || found.Runner == r.runner:
		return found, nil
	}
	return found, fmt.Errorf("%w: %s runs it", ErrMoved, cmp.Or(found.Runner, "another process"))
}

// rows returns the rows to write for staged messages, and counts the rest.
func (r *Replayer) rows(
	ctx context.Context, record *Replay, staged []Staged,
) (rows []Message, err error) {
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
		if fates[i] != missing {
			record.count(fates[i])
			continue
		}
		m = record.again(m)
		if err := m.Check(); err != nil { // settleGeneration has not seen it
			return nil, fmt.Errorf("%w: the message about %q cannot be sent: %w", ErrSource,
				m.Dedup, err)
		}
		rows = append(rows, m)
	}
	return rows, nil
}

// again returns a message as the replay sends it: about the same work, in the generation of the
// replay unless that is MissingOnly. Its ID is derived from these, so that it is written once.
func (r *Replay) again(m Message) Message {
	row := Row{Message: m}
	m.Dedup = row.work()
	if !r.MissingOnly {
		m.Generation = r.Generation
	}
	queue := m.Queue // before the lane
	if r.Lane != "" {
		if queuename.IsFIFO(m.Queue) {
			m.Group = cmp.Or(m.Group, m.Key)
		}
		m.Queue = r.Lane
	}
	m.After = time.Time{}
	if number := strconv.FormatInt(r.Number, 10); len(m.Headers) < HeadersMax-1 ||
		m.Headers[ReplayHeader] != "" {
		m.Headers = maps.Clone(m.Headers)
		if m.Headers == nil {
			m.Headers = make(map[string]string)
		}
		m.Headers[ReplayHeader] = number
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "tenaq replay %d\n%q\n%q\n%d", r.Number, queue, m.Dedup,
		m.Generation))
	sum[6] = sum[6]&0x0f | 0x80 // a UUID of version 8
	m.ID = uuidText([16]byte(sum[:16]))
	return m
}

// wait returns when rows may be written: at the rate of the replay, and while not too many rows are
// due. If it returns a Replay with a number, that has been cancelled or taken over meanwhile.
func (r *Replayer) wait(ctx context.Context, record Replay) (Replay, error) {
	if err := backoff.Sleep(ctx, time.Until(r.next)); err != nil {
		return Replay{}, err
	}
	for r.since < 0 || r.since > record.Ahead/2 { // not every time, because counting takes long
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
			r.cfg.Logger.Warn("the replay waits: too many rows of the outbox are due; check that relays run and that all queues accept messages, or raise --ahead",
				"replay", record.Number, "due", stats.Due, "ahead", record.Ahead, "oldest",
				stats.Oldest)
		}
		if err := backoff.Sleep(ctx, time.Second); err != nil {
			return Replay{}, err
		}
		found, err := patiently(ctx, r, func() (Replay, error) {
			return r.cfg.Box.Replay(ctx, record.Number)
		})
		if err != nil {
			return Replay{}, err
		}
		if found.Version != record.Version {
			return r.moved(ctx, record)
		}
	}
	return Replay{}, nil
}

// patiently repeats a call while the database or the ledger cannot be used, for up to retriedFor.
func patiently[T any](ctx context.Context, r *Replayer, call func() (T, error)) (T, error) {
	until := time.Now().Add(retriedFor)
	for n := 1; ; n++ {
		answer, err := call()
		switch {
		case err == nil || errors.Is(err, ErrMoved) || errors.Is(err, ErrNoReplay) ||
			errors.Is(err, ErrSchema) ||
			errors.Is(err, ErrSource) || time.Now().After(until):
			return answer, err
		case ctx.Err() != nil:
			return answer, ctx.Err()
		}
		if n == 1 {
			r.cfg.Logger.Warn("the replay cannot continue, trying again", "error", err,
				"for", retriedFor)
		}
		if failed := backoff.Sleep(ctx,
			backoff.Full(n, 250*time.Millisecond, 10*time.Second, rand.Float64())); failed != nil {
			return answer, failed
		}
	}
}
