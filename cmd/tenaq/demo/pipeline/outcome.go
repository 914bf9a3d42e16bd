package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/internal/work/trail"
	"tenaq/producer"
	"tenaq/worker"
)

// An outcome is what the scenario has found. Its rows are a function of it alone.
type outcome struct {
	stage.Outcome
	Encrypted bool // the server took the name of a key
	Files     []file

	// Of producers: receipts of new messages, message ids by file, and what came of sending the
	// same files in another batch, of the batch again, and of the two files whose producer died.
	New                         int
	IDs                         map[string]string
	Others, OtherBatch, Differs int
	Replayed, BySendOnce, Swept int
	Late, LateCompleted         int
	LateID                      string
	Most                        map[string]int // downloads at once, by group
	Met                         bool           // files of different groups were downloaded at once
	Left, Held, Entries         int
	Letters                     map[string]trail.Trail
	Identical, Strange          int // files that were written
	second
}

func (o *outcome) receipt(r producer.Receipt) {
	if o.IDs == nil {
		o.IDs = make(map[string]string)
	}
	o.New += stage.One(r.New)
	o.IDs[r.Key] = r.MessageID
}

// rows judges the outcome.
func (o *outcome) rows() []stage.Row {
	done, dead := fates(o.Files)
	deaths := stage.Count(o.Files, func(f file) bool { return f.Death != none })
	bad, gone := o.Letters[fileDamaged], o.Letters[fileWithdrawn]
	rows := []stage.Row{
		stage.Want("same file, other batch: new messages", 0, o.OtherBatch),
		stage.Want("same file, other batch: told that it differs", o.Others, o.Differs),
		stage.Want("batch run again at once: new messages", 0, o.Replayed),
		stage.Want("sent past the register, same deduplication id: delivered", 0, o.strangers()),
		stage.Want("producer died before the send: the next run sends", 1, o.BySendOnce),
		stage.Want("producer died before the send: a sweep sends", 1, o.Swept),

		stage.Want("worker dies before its claim", "completed by task 1", o.end(fileBeforeClaim)),
		stage.Want("task dies in its download", "completed by task 2", o.end(fileAmidTask)),
		stage.Want("worker dies, its task downloading", "completed by task 2",
			o.end(fileAmidWorker)),
		o.ledgered(stage.AtLeast("  its claim was taken over", 1,
			o.seen(fileAmidWorker, stage.TakenOver))),
		stage.Want("task dies between writing and exit", "completed by task 2",
			o.end(fileAfterWrite)),
		stage.Want("  what the second found and did not write", 1,
			o.seen(fileAfterWrite, pointFound)),
		stage.Want("worker dies between completion and delete", "completed by task 1",
			o.end(fileAfterComplete)),
		stage.AtLeast("  its redelivery was deleted and did nothing", 1,
			o.seen(fileAfterComplete, pointDuplicate)),
		stage.Want("deaths in all (kill -9)", deaths, len(o.At(stage.Killed))),

		stage.Want("wrong checksum (exit 1)", fmt.Sprintf("dead after task %d", attempts),
			o.end(fileDamaged)),
		stage.Want("  attempts that its dead letter reports", attempts, bad.Attempts),
		stage.True("  its reason names the checksum",
			strings.Contains(bad.Reason, "its checksum is ")),
		stage.Want("withdrawn for good (exit 65)", "dead after task 1", o.end(fileWithdrawn)),
		stage.True("  its reason says so", strings.Contains(gone.Reason, "was withdrawn")),
		stage.Want("not there yet (exit 75)", fmt.Sprintf("completed by task %d", notYetFor+1),
			o.end(fileNotYet)),
		stage.Want("  of these tasks, counted as attempts", 1,
			o.tasks(fileNotYet)-o.seen(fileNotYet, pointLater)),

		stage.True("one group: completed as sent, a dead worker included", o.inOrder()),
		stage.Want("one group: downloads at once", 1, o.Most[orderedGroup]),
		stage.True("a group for each file: downloads at once", o.Met),

		stage.Want("batch run again later: new messages", 0, o.Late),
		o.ledgered(stage.Want("batch run again later: reported as completed", done,
			o.LateCompleted)),
		stage.True("sent past the register later: delivered", o.late(stage.Received) > 0),
		stage.Want("  tasks begun for it", 0, o.late(stage.Begun)),
		stage.AtLeast("  deleted because the work was completed", 1, o.late(pointDuplicate)),

		stage.Want("expected, from the receipts", len(o.Files), o.New),
		stage.Want("completed + failed", fmt.Sprint(done, " + ", dead), o.ended()),
		stage.Want("files written, identical to their originals", done, o.Identical),
		stage.Want("files that are anything else", 0, o.Strange),
		stage.Want("files written twice", 0, o.writtenTwice()),
		o.ledgered(stage.Want("claims that are still held", fmt.Sprint("0 of ", len(o.Files)),
			fmt.Sprint(o.Held, " of ", o.Entries))),
		stage.Want("left in the queue", 0, o.Left),
		stage.Want("dead letters", dead, len(o.Letters)),
		o.Ended(),
	}
	rows = slices.Insert(rows, len(rows)-1, o.seconds()...)
	if !o.Encrypted {
		rows = append(rows, stage.Skip("KmsMasterKeyId", "the server does not take it"))
	}
	return rows
}

// ledgered skips a row about the ledger if there is none.
func (o *outcome) ledgered(r stage.Row) stage.Row {
	return stage.Unless(o.Broken == "claim", "no ledger", r)[0]
}

// strangers is how many messages were received that are on no receipt, the one that was sent late
// aside.
func (o *outcome) strangers() int {
	seen := make(map[string]bool)
	for _, r := range o.At(stage.Received) {
		if r.Message != o.IDs[r.Key] && r.Message != o.LateID {
			seen[r.Message] = true
		}
	}
	return len(seen)
}

// seen is how often a point was reported of a file, without the message that was sent late.
func (o *outcome) seen(id, point string) int {
	return stage.Count(o.Reports, func(r stage.Report) bool {
		return r.Key == id && r.Point == point && (r.Message == "" || r.Message != o.LateID)
	})
}

// late is how often a point was reported of the message that was sent late.
func (o *outcome) late(point string) int {
	return stage.Count(o.Reports, func(r stage.Report) bool {
		return r.Point == point && r.Message == o.LateID && r.Message != ""
	})
}

// tasks is how often the work of a file was begun, without the times that ended because this
// machine paused for longer than a lease.
func (o *outcome) tasks(id string) int {
	return o.seen(id, stage.Begun) - o.seen(id, string(worker.Lost))
}

// end says how a file ended, and with which of its tasks.
func (o *outcome) end(id string) string {
	switch {
	case o.seen(id, pointDead) > 0:
		return fmt.Sprintf("dead after task %d", o.seen(id, stage.Begun))
	case o.seen(id, pointCompleted) > 0:
		return fmt.Sprintf("completed by task %d", o.tasks(id))
	}
	return "lost"
}

// ended is how many files were completed and how many failed.
func (o *outcome) ended() string {
	reached := func(point string) int {
		return stage.Count(o.Files, func(f file) bool { return o.seen(f.ID, point) > 0 })
	}
	return fmt.Sprint(reached(pointCompleted), " + ", reached(pointDead))
}

// inOrder reports whether the files of the group were completed as they were sent.
func (o *outcome) inOrder() bool {
	var sent, done []string
	for _, f := range o.Files {
		if f.Group == orderedGroup {
			sent = append(sent, f.ID)
		}
	}
	for _, r := range o.At(pointCompleted) {
		if slices.Contains(sent, r.Key) {
			done = append(done, r.Key)
		}
	}
	return slices.Equal(sent, done)
}

// writtenTwice is how many files were put in their place more than once.
func (o *outcome) writtenTwice() int {
	return stage.Count(o.Files, func(f file) bool { return o.seen(f.ID, pointWrote) > 1 })
}
