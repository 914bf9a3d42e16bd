package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tenaq/internal/work/backoff"
)

// A Plan says what a replay would do.
type Plan struct {
	Count int // rows of the source
	Works int // pieces of work of those rows, in any generation

	// Tally has the final numbers of a run over the same rows and the same ledger.
	Tally

	First []Past // a few of the rows whose messages a run would send
}

// A planned is a message that a replay would send.
type planned struct {
	name             string
	generation, rows int // of its rows
	id               string
	left             bool // left out because of its fate
}

// Plan says what Run would do, and changes nothing. It reads all rows that Run would read and, with
// MissingOnly, asks the ledger about each piece of work, at the pace of Run. It returns up to
// samples messages that Run would send. Like Run, it returns ErrSource for a row that cannot be
// sent.
func (r *Replayer) Plan(ctx context.Context, samples int) (Plan, error) {
	if err := r.cfg.Source.Check(); err != nil {
		return Plan{}, fmt.Errorf("outbox: replay: %w", err)
	}
	r.later, r.latest = nil, make(map[string]int)
	plan, works, err := r.walk(ctx, samples)
	if err == nil && !r.cfg.MissingOnly {
		plan.Read, plan.Written = plan.Count, len(works)
	}
	if err == nil && r.cfg.MissingOnly {
		err = r.askAll(ctx, &plan, works)
		if err == nil {
			plan.First, err = r.sample(ctx, works, samples)
		}
	}
	switch {
	case errors.Is(err, ErrSource):
		return Plan{}, fmt.Errorf("outbox: replay: %w", err)
	case err != nil:
		return Plan{}, fmt.Errorf("outbox: plan a replay: %w", err)
	}
	return plan, nil
}

// walk reads the source once. The works are in the order in which Run would write them.
func (r *Replayer) walk(ctx context.Context, samples int) (plan Plan, works []planned, err error) {
	type work struct{ queue, name string }
	named := make(map[work]bool)
	placeOf := make(map[string]int) // in works, by the id that Run would give to the row
	err = r.cfg.Box.Walk(ctx, r.cfg.Source, func(past Past) error {
		plan.Count++
		// Run sends rows with the same ID once. Which rows these are does not depend on the number
		// and the generation of the replay.
		again := r.preview(past)
		if err := again.Check(); err != nil {
			return fmt.Errorf("%w: message %d cannot be sent: %w", ErrSource, plan.Count, err)
		}
		named[work{past.Queue, again.Dedup}] = true
		r.seen(past.Message)
		place, known := placeOf[again.ID]
		if !known {
			place = len(works)
			placeOf[again.ID] = place
			works = append(works, planned{name: again.Dedup, generation: past.Generation,
				id: again.ID})
			if !r.cfg.MissingOnly && len(plan.First) < samples {
				plan.First = append(plan.First, past)
			}
		}
		works[place].rows++
		return nil
	})
	plan.Works = len(named)
	return plan, works, err
}

// errEnough ends a walk.
var errEnough = errors.New("enough rows were read")

// sample returns the first rows of a few missing messages. It reads no further than the last of
// them.
func (r *Replayer) sample(
	ctx context.Context, works []planned, most int,
) (first []Past, err error) {
	wanted := make(map[string]bool)
	for _, w := range works {
		if !w.left && len(wanted) < most {
			wanted[w.id] = true
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	err = r.cfg.Box.Walk(ctx, r.cfg.Source, func(past Past) error {
		if id := r.preview(past).ID; wanted[id] {
			delete(wanted, id)
			first = append(first, past)
		}
		if len(wanted) == 0 {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return first, err
}

// preview returns the message that Run would make of a row, except for the number of the replay.
func (r *Replayer) preview(past Past) Message {
	record := Replay{Number: 1, Generation: max(1, r.cfg.Generation),
		MissingOnly: r.cfg.MissingOnly, Lane: r.cfg.Lane}
	again := record.again(past.Message)
	if !r.cfg.MissingOnly {
		// Run gives all messages this generation or a larger one.
		again.Generation = max(again.Generation, past.Generation+1)
	}
	return again
}

// askAll asks the ledger which works are missing.
func (r *Replayer) askAll(ctx context.Context, plan *Plan, works []planned) error {
	for len(works) > 0 {
		part := works[:min(pageMax, len(works))]
		works = works[len(part):]
		messages := make([]Message, len(part))
		for i, w := range part {
			messages[i] = Message{Dedup: w.name, Generation: w.generation}
		}
		next := time.Now().Add(time.Duration(len(part)) * time.Second / looksPerSec)
		fates, err := r.known(ctx, messages)
		if err != nil {
			return err
		}
		for i, w := range part {
			plan.Read += w.rows
			if part[i].left = fates[i] != missing; !part[i].left {
				plan.Written++
			}
			for range w.rows {
				plan.count(fates[i])
			}
		}
		r.cfg.Progress(Replay{Found: plan.Count, Tally: plan.Tally})
		if len(works) == 0 {
			break
		}
		if err := backoff.Sleep(ctx, time.Until(next)); err != nil {
			return err
		}
	}
	return nil
}
