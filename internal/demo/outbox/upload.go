package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"sync"

	box "tenaq/outbox"
)

// A work is the body of a message: all that the transcoder needs, so that it looks nothing up that may have
// changed since.
type work struct {
	Job     string `json:"job"`
	Video   string `json:"video"`
	Version int    `json:"version"`
}

func (w work) body() string {
	text, _ := json.Marshal(w) // nothing in it can fail to be encoded
	return string(text)
}

// Names of the queues, as rows have them.
const (
	plainQueue   = "transcode"
	orderedQueue = "transcode.fifo"
)

// atOnce is how many uploads are under way in a process.
const atOnce = 4

// upload is the upload service. What it is asked for a second time, because nobody knows what became of the first
// time, it does not do again.
func (t *Task) upload(ctx context.Context, db *database) error {
	todo := make(chan upload)
	var all sync.WaitGroup
	errs := make([]error, atOnce)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range atOnce {
		all.Go(func() {
			for u := range todo {
				if err := t.uploadOne(ctx, db, u); err != nil {
					errs[i] = err
					cancel()
					return
				}
			}
		})
	}
	for _, u := range t.Uploads {
		select {
		case todo <- u:
		case <-ctx.Done():
		}
	}
	close(todo)
	all.Wait()
	return errors.Join(errs...)
}

// errEnough ends a transaction that is to be rolled back.
var errEnough = errors.New("the upload is rolled back")

// uploadOne writes a job and the message about it, both or none.
func (t *Task) uploadOne(ctx context.Context, db *database, u upload) error {
	at := func(p point, fates ...fate) {
		for _, f := range fates {
			if u.Fate == f {
				t.tell(ctx, report{Point: p, Upload: &u})
			}
		}
	}
	id := box.NewID()
	waits := func() {
		if u.Fate == late {
			t.tell(ctx, report{Point: pointLate, Upload: &u, Row: id})
		}
	}
	if !db.server { // there is one writer at a time: the row is named now and written later
		waits()
	}
	err := db.within(ctx, func(tx *sql.Tx) error {
		w := work{Job: u.Job, Video: u.Video}
		// The row of the video is locked until the end, so its versions are committed in their order.
		if err := tx.QueryRowContext(ctx, `INSERT INTO videos (video_id, versions) VALUES ($1, 1)
			ON CONFLICT (video_id) DO UPDATE SET versions = videos.versions + 1 RETURNING versions`, u.Video).Scan(&w.Version); err != nil {
			return err
		}
		inserted, err := tx.ExecContext(ctx, `INSERT INTO jobs (job_id, video_id, version, status) VALUES ($1, $2, $3, 'pending')
			ON CONFLICT (job_id) DO NOTHING`, u.Job, u.Video, w.Version)
		if err != nil {
			return err
		}
		if n, err := inserted.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errEnough) // it was uploaded before
		}
		at(pointRow, diesRow)
		m := box.Message{ID: id, Queue: plainQueue, Key: u.Video, Type: "transcode_requested", Body: w.body(), Dedup: u.Job}
		if u.Ordered {
			m.Queue = orderedQueue
		}
		if err := db.enqueue(ctx, tx, m); err != nil {
			return err
		}
		at(pointOutbox, diesOutbox)
		switch {
		case u.Fate == rolledBack:
			return errEnough
		case db.server:
			waits()
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	at(pointCommit, diesCommit, plain, late)
	return nil
}
