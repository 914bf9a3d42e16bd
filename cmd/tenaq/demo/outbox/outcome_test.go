package outbox

import (
	"maps"
	"slices"
	"testing"

	"tenaq/cmd/tenaq/demo/stage"
)

// perfect is an outcome in which every check passes.
func perfect() *outcome {
	o := &outcome{
		Outcome: stage.Outcome{Ours: true}, Uploaded: 9, RolledBack: 1, Late: 1, Copies: 1, Window: 3, WindowWrong: 3, UsualSent: 3, Planned: 3,
		Replayed: 3, GapRows: gap, GapDone: gap, Recorded: 9, Completed: 9,
	}
	o.Usual.Unsent, o.Usual.Unrecorded = 1, 2
	for _, kill := range []struct{ role, point string }{
		{"upload", pointJob}, {"upload", pointRow}, {"upload", pointCommit},
		{"relay", pointClaiming}, {"relay", pointClaimed}, {"relay", pointSent}, {"relay", pointSettled},
		{"worker", stage.Begun}, {"worker", pointWritten}, {"worker", pointRecorded},
		{"replay", pointStepped}, {"replay", pointStepping},
	} {
		o.Reports = append(o.Reports, stage.Report{Role: kill.role, Point: stage.Killed, Text: kill.point})
	}
	for i, key := range []string{"job-1", "job-2", "job-3"} {
		for generation := range 2 {
			o.Reports = append(o.Reports, stage.Report{Point: pointRecorded, Key: key, Text: "film-1", Generation: generation})
		}
		o.Reports = append(o.Reports, stage.Report{At: float64(i), Point: pointStepping, From: "replay-1", Keys: []string{key}})
	}
	return o
}

// Each check fails for the fault that it is about, and for no other.
func TestRows(t *testing.T) {
	if red := stage.Red(perfect().rows()); len(red) > 0 {
		t.Fatalf("%q fail although all is well", red)
	}
	kills := []string{"upload services killed between their statements", "relays killed before a claim",
		"relays killed after a claim, before they sent", "relays killed after a send, before they noted it",
		"relays killed after they noted it", "workers killed with a job", "processes killed that replayed"}
	each := func(point string, change func(i int, r *stage.Report)) func(*outcome) {
		return func(o *outcome) {
			for i := range o.Reports {
				if o.Reports[i].Point == point {
					change(i, &o.Reports[i])
				}
			}
		}
	}
	for _, tt := range []struct {
		what string
		do   func(o *outcome)
		red  []string
	}{
		{"usual uploads do no harm", func(o *outcome) { o.Usual.Unsent, o.Usual.Unrecorded = 0, 0 },
			[]string{"as usual, row first: jobs without a message", "as usual, message first: jobs done without a record"}},
		{"no process was killed", each(stage.Killed, func(_ int, r *stage.Report) { r.Point = "" }), kills},
		{"no upload came late", func(o *outcome) { o.Late = 0 }, []string{"uploads committed after younger ones were sent"}},
		{"a job without a row", func(o *outcome) { o.Halves = 1 }, []string{"jobs without a row in the outbox, rows without a job"}},
		{"a job of a rolled back upload", func(o *outcome) { o.Ghosts = 1 },
			[]string{"of these, such as have a job, a row, a message or a file"}},
		{"two relays send", func(o *outcome) { o.Unexcused = 1 }, []string{"messages sent again for no such reason"}},
		{"a FIFO queue takes a copy", func(o *outcome) { o.FIFOCopies = 1 }, []string{"messages sent again that the FIFO queue took"}},
		{"a version too early", each(pointRecorded, func(_ int, r *stage.Report) {
			r.Key = map[string]string{"job-1": "job-2", "job-2": "job-1", "job-3": "job-3"}[r.Key]
		}), []string{"versions of films transcoded before an earlier one", "versions of the film transcoded before an earlier one"}},
		{"the replay keeps the generation", func(o *outcome) {
			o.Replayed, o.StillWrong = 0, 3
			each(pointRecorded, func(_ int, r *stage.Report) { r.Generation = 0 })(o)
		}, []string{"rows that they wrote with a new generation", "jobs transcoded once more, and not twice", "files of those days that are wrong now"}},
		{"a replay of two generations", func(o *outcome) {
			o.Reports = append(o.Reports, stage.Report{Point: pointRecorded, Key: "job-1", Text: "film-1", Generation: 2})
		}, []string{"jobs transcoded once more, and not twice"}},
		{"the replay has no rate", each(pointStepping, func(_ int, r *stage.Report) { r.At = 0 }), []string{"of these, shorter than its rate allows"}},
		{"the replay takes one step", each(pointStepping, func(i int, r *stage.Report) { r.From = r.Keys[0] }),
			[]string{"pauses between steps of the replay that were judged"}},
		{"the usual replay works", func(o *outcome) { o.UsualRight = 1 }, []string{"as usual: files that are right now"}},
		{"other files were written", func(o *outcome) { o.Touched = 1 }, []string{"files of other days that were written again"}},
		{"the gap is not filled", func(o *outcome) { o.GapRows, o.GapDone = 0, 0 },
			[]string{"jobs whose messages were lost, sent again", "and done"}},
		{"a job is lost", func(o *outcome) { o.Recorded-- }, []string{"jobs, one for each upload"}},
		{"a job is not done", func(o *outcome) { o.Completed--; o.Undone, o.Wrong, o.Left, o.Pending = 1, 1, 1, 1 }, []string{
			"jobs that the ledger has as done", "jobs that are not done", "rows that are not sent", "files that are missing or wrong",
			"messages left in the queues"}},
		{"a process does not end", func(o *outcome) { o.Unclean = 1 }, []string{"processes that did not end when told to"}},
	} {
		o := perfect()
		tt.do(o)
		if red := stage.Red(o.rows()); !slices.Equal(red, tt.red) {
			t.Errorf("%s: got %q, want %q", tt.what, red, tt.red)
		}
	}
}

// A copy is excused once for each relay that was killed between a send and its record, that got no
// answer, or that lost its lease.
func TestExcused(t *testing.T) {
	at := func(from, point string, jobs ...string) stage.Report {
		return stage.Report{From: from, Role: "relay", Point: point, Keys: jobs}
	}
	got := excused([]stage.Report{
		at("relay-1", pointSending, "settled", "killed", "twice"),
		at("relay-2", pointSending, "of another", "doubtful"),
		at("relay-1", pointSettled, "settled"),
		at("relay-1", stage.Killed),
		at("relay-2", pointDoubt, "doubtful"),
		at("relay-2", pointSettled, "of another"),
		at("relay-3", pointLost, "lost", "twice"),
	})
	if want := map[string]int{"killed": 1, "twice": 2, "doubtful": 1, "lost": 1}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
