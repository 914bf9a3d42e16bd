package outbox

import (
	"database/sql"
	"encoding/json"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	box "tenaq/outbox"
)

// A week is what happens after the storm, and what has to be known of it.
type week struct {
	begin    time.Time // of everything
	from, to time.Time // between these the transcoder was wrong

	window  []work                 // jobs of that time
	lost    map[string]bool        // jobs whose messages were lost
	outside map[string]os.FileInfo // files of other jobs, before anything is replayed
}

// bug is day 3 to day 10: the transcoder is wrong, and nobody notices.
func (d *demo) bug() (err error) {
	if d.week.from, err = d.db.now(d.ctx); err != nil {
		return err
	}
	if err := d.deploy(wrongVersion); err != nil {
		return err
	}
	uploads := d.plainUploads(d.Scale.Window)
	for range d.Scale.Versions {
		uploads = append(uploads, d.filmUpload("film-of-the-week"))
	}
	d.Say("days 3 to 10: %d uploads, and a version of the transcoder that is wrong", len(uploads))
	if err := d.upload(uploads); err != nil {
		return err
	}
	if err := d.settled("the days of the wrong transcoder", 0); err != nil {
		return err
	}
	if d.week.to, err = d.db.now(d.ctx); err != nil {
		return err
	}
	if d.week.window, err = d.works(`SELECT job_id, video_id, version FROM jobs WHERE transcoder = $1`, wrongVersion); err != nil {
		return err
	}
	d.out.Window = len(d.week.window)
	d.out.WindowWrong, err = d.wrong(d.week.window)
	return err
}

// GapSize is how many messages are lost, and ReplayDeaths how many processes die that replay.
const (
	GapSize      = 4
	ReplayDeaths = 2
)

// repair is day 10: the transcoder is mended. Before its workers run a program that somebody tries receives some
// messages, does nothing and deletes them.
func (d *demo) repair() error {
	if err := d.crew.dismiss(roleWorker); err != nil {
		return err
	}
	if err := d.upload(d.plainUploads(d.Scale.After)); err != nil {
		return err
	}
	if err := d.until("send what was uploaded", func() (bool, error) {
		rows, _, err := d.db.unfinished(d.ctx)
		return rows == 0, err
	}); err != nil {
		return err
	}
	if err := d.lose(); err != nil {
		return err
	}
	if err := d.deploy(nextVersion); err != nil {
		return err
	}
	d.Say("day 10: the transcoder is mended, %d files are wrong, and %d messages were lost by mistake", d.out.WindowWrong, len(d.week.lost))
	if err := d.settled("the jobs after the repair", GapSize); err != nil {
		return err
	}
	return d.remember()
}

// lose takes messages out of the queue.
func (d *demo) lose() error {
	d.week.lost = make(map[string]bool)
	return d.until("lose messages", func() (bool, error) {
		got, err := d.API.ReceiveMessage(d.ctx, &sqs.ReceiveMessageInput{QueueUrl: &d.Queues.Plain, MaxNumberOfMessages: 1})
		if err != nil {
			return false, err
		}
		for _, m := range got.Messages {
			var w work
			if err := json.Unmarshal([]byte(aws.ToString(m.Body)), &w); err != nil {
				return false, err
			}
			d.week.lost[w.Job] = true
			if _, err := d.API.DeleteMessage(d.ctx, &sqs.DeleteMessageInput{QueueUrl: &d.Queues.Plain, ReceiptHandle: m.ReceiptHandle}); err != nil {
				return false, err
			}
		}
		return len(d.week.lost) == GapSize, nil
	})
}

// remember notes which files there are outside of the window.
func (d *demo) remember() error {
	others, err := d.works(`SELECT job_id, video_id, version FROM jobs WHERE status = 'done' AND transcoder <> $1`, wrongVersion)
	if err != nil {
		return err
	}
	d.week.outside = make(map[string]os.FileInfo)
	for _, w := range others {
		if d.week.outside[w.Job], err = os.Stat(d.result(w.Job)); err != nil {
			return err
		}
	}
	return nil
}

// replayAsUsual writes the same jobs into the outbox again.
func (d *demo) replayAsUsual() error {
	received := func() (int, error) { return d.db.count(d.ctx, `SELECT count(*) FROM deliveries`) }
	before, err := received()
	if err != nil {
		return err
	}
	err = d.db.within(d.ctx, func(tx *sql.Tx) error {
		for _, w := range d.week.window {
			m := box.Message{Queue: plainQueue, Key: w.Video, Type: "transcode_requested", Body: w.body(), Dedup: w.Job}
			if w.film() {
				m.Queue = orderedQueue
			}
			if err := d.db.enqueue(d.ctx, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := d.settled("the usual replay", GapSize); err != nil {
		return err
	}
	after, err := received()
	if err != nil {
		return err
	}
	wrong, err := d.wrong(d.week.window)
	d.out.UsualSent, d.out.UsualMended = after-before, d.out.Window-wrong
	d.Say("the same jobs again, as usual: %d messages came to the workers, and %d files are right", d.out.UsualSent, d.out.UsualMended)
	return err
}

// redo replays the jobs of the window, with processes that are killed on the way.
func (d *demo) redo() error {
	r := replay{From: d.week.from, To: d.week.to}
	replayer, err := box.NewReplayer(r.config(d.db.box, d.db))
	if err != nil {
		return err
	}
	plan, err := replayer.Plan(d.ctx, 1)
	if err != nil {
		return err
	}
	d.out.Planned = plan.Written
	d.stage.expectReplay(pointStepped, pointStepping)
	if err := d.replayed(r); err != nil {
		return err
	}
	d.out.ReplayDeaths = d.stage.killed(roleReplay)
	if err := d.settled("the replay", GapSize); err != nil {
		return err
	}
	if err := d.countReplay(); err != nil {
		return err
	}
	d.Say("replayed %d jobs; %d files are wrong", d.out.Replayed, d.out.StillWrong)
	return nil
}

// replayed has a process replay, and those that take its place.
func (d *demo) replayed(r replay) error {
	m, err := d.crew.hire(Task{Role: roleReplay, Replay: &r})
	if err != nil {
		return err
	}
	return d.until("replay", func() (bool, error) { return d.crew.over(m), nil })
}

// fill replays what is missing of all that was ever sent.
func (d *demo) fill() error {
	now, err := d.db.now(d.ctx)
	if err != nil {
		return err
	}
	rows := func() (int, error) { return d.db.count(d.ctx, `SELECT count(*) FROM outbox`) }
	received := func() (int, error) { return d.db.count(d.ctx, `SELECT count(*) FROM deliveries`) }
	rowsBefore, err := rows()
	if err != nil {
		return err
	}
	before, err := received()
	if err != nil {
		return err
	}
	if err := d.replayed(replay{From: d.week.begin, To: now, MissingOnly: true}); err != nil {
		return err
	}
	if err := d.settled("the replay of what is missing", 0); err != nil {
		return err
	}
	rowsAfter, err := rows()
	if err != nil {
		return err
	}
	after, err := received()
	if err != nil {
		return err
	}
	d.out.GapLookedAt, d.out.GapRows = rowsBefore, rowsAfter-rowsBefore
	d.out.GapReceived = after - before
	for job := range d.week.lost {
		n, err := d.db.count(d.ctx, `SELECT count(*) FROM transcodes WHERE job_id = $1 AND generation = 0`, job)
		if err != nil {
			return err
		}
		d.out.GapDone += n
	}
	d.Say("looked at %d rows for what was never done, and sent %d again", d.out.GapLookedAt, d.out.GapRows)
	return nil
}

// film reports whether the job is about a film, whose versions are in the FIFO queue.
func (w work) film() bool { return w.Video != videoOf(w.Job) }
