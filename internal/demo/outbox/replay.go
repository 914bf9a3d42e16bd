package outbox

import (
	"context"
	"slices"
	"time"

	box "tenaq/outbox"
)

// A replay is what a process is told that replays.
type replay struct {
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	MissingOnly bool      `json:"missing_only"`
}

// replayRate is low, so that a replay takes several steps.
const replayRate = 12

func (r replay) config(h box.History, db *database) box.ReplayConfig {
	cfg := box.ReplayConfig{
		Box: h, Source: box.Source{From: r.From, To: r.To}, Rate: replayRate,
		By: "the demo", Note: "a version of the transcoder was wrong",
	}
	if r.MissingOnly {
		cfg.MissingOnly, cfg.Ledger, cfg.Note = true, db.ledger, "messages were lost"
	}
	return cfg
}

// replay begins a replay, or goes on with the one that a process before it has begun.
func (t *Task) replay(ctx context.Context, db *database) error {
	watched := &watchedHistory{db.box, t}
	r, err := box.NewReplayer(t.Replay.config(watched, db))
	if err != nil {
		return err
	}
	newest, err := watched.Replays(ctx, 1)
	if err != nil {
		return err
	}
	if len(newest) > 0 && !newest[0].AtEnd() {
		_, err = r.Continue(ctx, newest[0].Number)
	} else {
		_, err = r.Run(ctx)
	}
	return err
}

// A watchedHistory tells the stage what a replay writes, before and after.
type watchedHistory struct {
	box.History
	t *Task
}

// StepReplay writes rows.
func (h *watchedHistory) StepReplay(ctx context.Context, r box.Replay, rows []box.Message) (box.Replay, error) {
	if len(rows) == 0 {
		return h.History.StepReplay(ctx, r, rows)
	}
	var jobs []string
	rows = slices.Clone(rows)
	for i := range rows {
		jobs = append(jobs, rows[i].Dedup)
		if h.t.Break == Generations {
			rows[i].Generation = 0
		}
	}
	h.t.tell(ctx, report{Point: pointStepping, Jobs: jobs})
	next, err := h.History.StepReplay(ctx, r, rows)
	if err == nil {
		h.t.tell(ctx, report{Point: pointStepped, Jobs: jobs})
	}
	return next, err
}
