package outbox

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tenaq/claims"
)

// An Outcome is what the demo has found: in the database, the ledger, the queues and the files, but for who was
// killed where.
type Outcome struct {
	Scale Scale

	// Of the usual uploads.
	Usual struct {
		Unsent     int // jobs that are recorded, and of which there is no message
		Unrecorded int // jobs that were done, and of which there is no record
	}

	// Of the storm.
	Uploaded     int // uploads that were not rolled back, until the end
	RolledBack   int // uploads that were rolled back
	Ghosts       int // of these, those of which there is a job, a row, a message or a file
	Halves       int // jobs without a row in the outbox, and rows without a job
	Late         int // uploads that were committed after younger rows were sent
	UploadDeaths int
	RelayDeaths  []int // before a claim, after it, after a send, after that was written down
	WorkerDeaths int

	Copies      int // messages beyond one for each job, sent again because a relay had died
	Unexcused   int // and for no such reason
	FIFOCopies  int // messages beyond one for each job, in the FIFO queue
	Disorder    int // versions of films that were transcoded before an earlier one
	StormyWrong int // files that are not as they should be

	// Of the time when the transcoder was wrong, and of the replay.
	Window       int // jobs
	WindowWrong  int // files that were wrong, all of them recorded as done
	UsualSent    int // messages of the usual replay that the workers received
	UsualMended  int // files that were right after it
	Planned      int // messages, said the plan
	ReplayDeaths int
	Replayed     int // rows that the replay wrote
	Redone       int // jobs of the window that were transcoded once more, and not more often
	Begun        int // times that a worker began with them again
	Disordered   int // versions of the film that were transcoded again before an earlier one
	StillWrong   int // files of the window that are not as they should be
	Touched      int // files outside of it that were written again

	// Of the gap.
	GapLookedAt int // rows that were ever sent
	GapRows     int // written by the replay of what is missing
	GapReceived int // messages that the workers received then
	GapDone     int // jobs whose messages had been lost, and that are done

	// In the end.
	Pending   int // rows that are not sent
	Undone    int // jobs that are not done
	Recorded  int // jobs
	Completed int // jobs that the ledger knows to be done
	Wrong     int // files that are not as they should be
	Left      int // messages in the queues
	Unclean   int // processes that did not end as they should when they were told to
}

// countStorm counts when everything is done and nothing is replayed.
func (d *demo) countStorm(uploads []upload) (err error) {
	o := d.out
	o.UploadDeaths, o.WorkerDeaths = d.stage.killed(roleUpload), d.stage.killed(roleWorker)
	o.RelayDeaths = d.stage.diedAt(pointClaiming, pointClaimed, pointSent, pointSettled)
	o.Late = d.stage.late()
	if o.Halves, err = d.db.count(d.ctx, `SELECT
		(SELECT count(*) FROM jobs WHERE job_id NOT IN (SELECT dedup_id FROM outbox)) +
		(SELECT count(*) FROM outbox WHERE dedup_id NOT IN (SELECT job_id FROM jobs))`); err != nil {
		return err
	}
	for _, u := range uploads {
		if u.Fate == rolledBack {
			o.RolledBack++
			n, err := d.db.count(d.ctx, `SELECT (SELECT count(*) FROM jobs WHERE job_id = $1) + (SELECT count(*) FROM outbox WHERE dedup_id = $1) +
				(SELECT count(*) FROM deliveries WHERE job_id = $1)`, u.Job)
			if err != nil {
				return err
			}
			if _, err := os.Stat(d.result(u.Job)); n > 0 || !errors.Is(err, fs.ErrNotExist) {
				o.Ghosts++
			}
		}
	}
	if err := d.countCopies(); err != nil {
		return err
	}
	if o.Disorder, err = d.disorder("= 0"); err != nil {
		return err
	}
	all, err := d.works(allWorks)
	if err != nil {
		return err
	}
	o.StormyWrong, err = d.wrong(all)
	return err
}

// countCopies counts what the queues gave more than once, under another message id.
func (d *demo) countCopies() error {
	rows, err := d.db.QueryContext(d.ctx, `SELECT job_id, ordered, count(*) FROM deliveries GROUP BY job_id, ordered`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var job string
		var ordered bool
		var messages int
		if err := rows.Scan(&job, &ordered, &messages); err != nil {
			return err
		}
		copies, excused := messages-1, d.stage.excuses(job)
		switch {
		case ordered:
			d.out.FIFOCopies += copies
		default:
			d.out.Copies += min(copies, excused)
			d.out.Unexcused += max(0, copies-excused)
		}
	}
	return rows.Err()
}

// disorder counts versions of films that were transcoded before an earlier one of the same generation.
func (d *demo) disorder(generations string) (int, error) {
	return d.db.count(d.ctx, `SELECT count(*) FROM transcodes AS later WHERE generation `+generations+` AND EXISTS (SELECT 1 FROM transcodes AS early
		WHERE early.video_id = later.video_id AND early.generation = later.generation AND early.n < later.n AND early.version > later.version)`)
}

func (d *demo) result(job string) string { return resultFile(filepath.Join(d.Dir, resultsDir), job) }

// works are the jobs that a query returns.
func (d *demo) works(query string, args ...any) (all []work, err error) {
	rows, err := d.db.QueryContext(d.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var w work
		if err := rows.Scan(&w.Job, &w.Video, &w.Version); err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, rows.Err()
}

// wrong counts the files of jobs that are not as they should be, or not there.
func (d *demo) wrong(all []work) (wrong int, err error) {
	for _, w := range all {
		want, err := transcode(firstVersion, tone(w.Video, w.Version))
		if err != nil {
			return 0, err
		}
		got, err := os.ReadFile(d.result(w.Job))
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return 0, err
		case !bytes.Equal(got, want):
			wrong++
		}
	}
	return wrong, nil
}

const allWorks = `SELECT job_id, video_id, version FROM jobs`

// countReplay counts when the window has been replayed, and before the gap is filled.
func (d *demo) countReplay() (err error) {
	o := d.out
	if o.Replayed, err = d.db.count(d.ctx, `SELECT count(*) FROM outbox WHERE generation > 0`); err != nil {
		return err
	}
	for _, w := range d.week.window {
		n, err := d.db.count(d.ctx, `SELECT count(*) FROM transcodes WHERE job_id = $1 AND generation > 0`, w.Job)
		if err != nil {
			return err
		}
		if n == 1 {
			o.Redone++
		}
	}
	entries, err := d.db.ledger.List(d.ctx, "job-", "", 0)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if jobOf(e.Key) != e.Key {
			o.Begun += e.Attempts
		}
	}
	if o.Disordered, err = d.disorder("> 0"); err != nil {
		return err
	}
	o.StillWrong, err = d.wrong(d.week.window)
	return err
}

// countEnd counts in the end.
func (d *demo) countEnd() (err error) {
	o := d.out
	if o.Pending, o.Undone, err = d.db.unfinished(d.ctx); err != nil {
		return err
	}
	all, err := d.works(allWorks)
	if err != nil {
		return err
	}
	o.Recorded = len(all)
	if o.Wrong, err = d.wrong(all); err != nil {
		return err
	}
	for job, before := range d.week.outside {
		now, err := os.Stat(d.result(job))
		if err != nil || !os.SameFile(before, now) || !before.ModTime().Equal(now.ModTime()) {
			o.Touched++
		}
	}
	entries, err := d.db.ledger.List(d.ctx, "job-", "", 0)
	if err != nil {
		return err
	}
	done := make(map[string]bool)
	for _, e := range entries {
		if e.State == claims.Completed {
			done[jobOf(e.Key)] = true
		}
	}
	o.Completed = len(done)
	o.Left, err = d.messagesIn(d.ctx, d.Queues.Plain, d.Queues.Ordered)
	return err
}

// jobOf is the job of a key in the ledger, which is one of a generation.
func jobOf(effect string) string {
	job, _, _ := strings.Cut(effect, "#")
	return job
}
