package outbox

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"tenaq/claims"
	"tenaq/cmd/tenaq/demo/stage"
)

// An outcome is what the scenario has found. Its rows are a function of it alone.
type outcome struct {
	stage.Outcome

	// Of the usual uploads: jobs that are recorded and have no message, and jobs that were done
	// without a record.
	Usual struct{ Unsent, Unrecorded int }

	// Of the storm.
	Uploaded    int // uploads that were not rolled back, until the end
	RolledBack  int
	Ghosts      int // of these, uploads that have a job, a row, a message or a file
	Halves      int // jobs without a row in the outbox, and rows without a job
	Late        int // uploads that were committed after younger rows were sent
	Copies      int // messages sent again because a relay had died
	Unexcused   int // messages sent again for no such reason
	FIFOCopies  int
	StormyWrong int // files

	// Of the days on which the transcoder was wrong, and of the replays.
	Window, WindowWrong   int // jobs, files
	UsualSent, UsualRight int // messages of the usual replay, and files that were right after it
	Planned, Replayed     int // messages
	StillWrong, Touched   int // files of the window, and others that were written again
	GapRows, GapDone      int

	// In the end.
	Pending, Undone, Recorded, Completed, Wrong, Left int
}

// received are the messages of a generation that workers received, and their jobs.
func received(reports []stage.Report, generation int) map[string]string {
	all := make(map[string]string)
	for _, r := range stage.At(reports, stage.Received) {
		if r.Generation == generation {
			all[r.Message] = r.Key
		}
	}
	return all
}

// countStorm counts when everything is done and nothing is replayed.
func (p *play) countStorm() {
	o := p.out
	o.Halves = p.number(`SELECT
		(SELECT count(*) FROM jobs WHERE job_id NOT IN (SELECT dedup_id FROM outbox)) +
		(SELECT count(*) FROM outbox WHERE dedup_id NOT IN (SELECT job_id FROM jobs))`)
	messages, excused := make(map[string]int), excused(p.Reports())
	for _, job := range received(p.Reports(), 0) {
		messages[job]++
	}
	for job, u := range p.uploads {
		copies := max(0, messages[job]-1)
		switch {
		case u.Fate == rolledBack:
			n := p.number(`SELECT (SELECT count(*) FROM jobs WHERE job_id = $1) +
				(SELECT count(*) FROM outbox WHERE dedup_id = $1)`, job)
			_, err := os.Stat(p.result(job))
			o.Ghosts += stage.One(n+messages[job] > 0 || !errors.Is(err, fs.ErrNotExist))
			continue
		case u.ordered():
			o.FIFOCopies += copies
		default:
			o.Copies += min(copies, excused[job])
			o.Unexcused += max(0, copies-excused[job])
		}
		o.StormyWrong += p.wrong(job)
	}
}

// excused is how often jobs may have been sent again: their relay had begun to send them and was
// killed before it noted it, got no answer, or lost its lease.
func excused(reports []stage.Report) map[string]int {
	excused, unsettled := make(map[string]int), make(map[string]map[string]bool)
	for _, r := range reports {
		if unsettled[r.From] == nil {
			unsettled[r.From] = make(map[string]bool) // by relay: jobs
		}
		if r.Point == stage.Killed {
			for job := range unsettled[r.From] {
				excused[job]++
			}
		}
		for _, job := range r.Keys {
			switch r.Point {
			case pointSending:
				unsettled[r.From][job] = true
			case pointSettled:
				delete(unsettled[r.From], job)
			case pointDoubt, pointLost:
				excused[job]++
			}
		}
	}
	return excused
}

// countEnd counts in the end. Outside has files that were not to be written again.
func (p *play) countEnd(outside map[string]os.FileInfo) {
	o, jobs := p.out, p.allJobs()
	o.Pending, o.Undone, o.Left = p.pending(), p.number(undone), p.left()
	o.Recorded, o.Wrong = len(jobs), p.wrong(jobs...)
	for job, before := range outside {
		now, err := os.Stat(p.result(job))
		o.Touched += stage.One(err != nil || !os.SameFile(before, now) ||
			!before.ModTime().Equal(now.ModTime()))
	}
	entries, err := p.ledger.List(p.Ctx, "job-", "", 0)
	p.Must(err)
	done := make(map[string]bool)
	for _, e := range entries {
		if job, _, _ := strings.Cut(e.Key, "#"); e.State == claims.Completed {
			done[job] = true
		}
	}
	o.Completed = len(done)
}

// rows judges the outcome.
func (o *outcome) rows() []stage.Row {
	killed := func(role, point string) int {
		return stage.Count(o.At(stage.Killed), func(r stage.Report) bool {
			return r.Role == role && (point == "" || r.Text == point)
		})
	}
	onOurs := func(check string, got int) stage.Row {
		if o.Ours {
			return stage.Want(check, 0, got)
		}
		// moto forgets a deduplication id when its message is deleted, and of two messages of a
		// group whose visibility timeouts have ended it gives out the second one first.
		return stage.Show(check, got)
	}
	judged, hasty := o.pace()
	return append(o.Outcome.Usual(
		stage.AtLeast("as usual, row first: jobs without a message", 1, o.Usual.Unsent),
		stage.AtLeast("as usual, message first: jobs done without a record", 2, o.Usual.Unrecorded)),

		stage.AtLeast("upload services killed between their statements", 3, killed("upload", "")),
		stage.AtLeast("relays killed before a claim", 1, killed("relay", pointClaiming)),
		stage.AtLeast("relays killed after a claim, before they sent", 1,
			killed("relay", pointClaimed)),
		stage.AtLeast("relays killed after a send, before they noted it", 1,
			killed("relay", pointSent)),
		stage.AtLeast("relays killed after they noted it", 1, killed("relay", pointSettled)),
		stage.AtLeast("workers killed with a job", 3, killed("worker", "")),
		stage.AtLeast("uploads committed after younger ones were sent", 1, o.Late),
		stage.Want("jobs without a row in the outbox, rows without a job", 0, o.Halves),
		stage.Show("uploads rolled back", o.RolledBack),
		stage.Want("of these, such as have a job, a row, a message or a file", 0, o.Ghosts),
		stage.AtLeast("messages sent again because a relay had died", 1, o.Copies),
		stage.Want("messages sent again for no such reason", 0, o.Unexcused),
		onOurs("messages sent again that the FIFO queue took", o.FIFOCopies),
		onOurs("versions of films transcoded before an earlier one", o.disorder(0)),
		stage.Want("files that are wrong after all that", 0, o.StormyWrong),

		stage.Want("files that are wrong, though the jobs are done", o.Window, o.WindowWrong),
		stage.AtLeast("as usual, the same jobs again: messages", o.Window/2, o.UsualSent),
		stage.Want("as usual: files that are right now", 0, o.UsualRight),
		stage.Want("messages that the plan of the replay counts", o.Window, o.Planned),
		stage.AtLeast("processes killed that replayed", 2, killed("replay", "")),
		stage.Want("rows that they wrote with a new generation", o.Window, o.Replayed),
		stage.AtLeast("pauses between steps of the replay that were judged", 1, judged),
		stage.Want("of these, shorter than its rate allows", 0, hasty),
		stage.Want("jobs transcoded once more, and not twice", o.Window, o.redone()),
		onOurs("versions of the film transcoded before an earlier one", o.disorder(1)),
		stage.Want("files of those days that are wrong now", 0, o.StillWrong),
		stage.Want("files of other days that were written again", 0, o.Touched),
		stage.Want("jobs whose messages were lost, sent again", gap, o.GapRows),
		stage.Want("and done", gap, o.GapDone),

		stage.Want("jobs, one for each upload", o.Uploaded, o.Recorded),
		stage.Want("jobs that the ledger has as done", o.Uploaded, o.Completed),
		stage.Want("jobs that are not done", 0, o.Undone),
		stage.Want("rows that are not sent", 0, o.Pending),
		stage.Want("files that are missing or wrong", 0, o.Wrong),
		stage.Want("messages left in the queues", 0, o.Left),
		o.Ended(),
	)
}

// disorder counts versions of films that were recorded before an earlier version, in one
// generation. Jobs are numbered in the order of their uploads.
func (o *outcome) disorder(generation int) (n int) {
	latest := make(map[string]string)
	seen := make(map[string]bool)
	for _, r := range o.At(pointRecorded) {
		if r.Generation != generation || !strings.HasPrefix(r.Text, "film-") || seen[r.Key] {
			continue
		}
		seen[r.Key] = true
		if r.Key < latest[r.Text] {
			n++
		}
		latest[r.Text] = max(latest[r.Text], r.Key)
	}
	return n
}

// redone counts jobs that were done in one later generation, and in no other.
func (o *outcome) redone() (n int) {
	generation := make(map[string]int)
	for _, r := range o.At(pointRecorded) {
		switch was := generation[r.Key]; {
		case r.Generation == 0 || was == r.Generation || was < 0:
		case was == 0:
			generation[r.Key] = r.Generation
			n++
		default:
			generation[r.Key] = -1
			n--
		}
	}
	return n
}

// pace judges the pauses between two steps of one process that replays: how many there were, and
// how many were shorter than the rows of the first step take at the rate of the replay. A report
// may come late, so not the whole time is asked for.
func (o *outcome) pace() (judged, hasty int) {
	steps := o.At(pointStepping)
	for i, r := range steps {
		next := slices.IndexFunc(steps[i+1:], func(later stage.Report) bool {
			return later.From == r.From
		})
		if next < 0 {
			continue
		}
		judged++
		if steps[i+1+next].At-r.At < 0.6*float64(len(r.Keys))/replayRate {
			hasty++
		}
	}
	return judged, hasty
}
