package pipeline

import (
	"slices"
	"strings"
	"testing"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/internal/work/trail"
	"tenaq/producer"
)

// perfect is an outcome in which every check passes.
func perfect() *outcome {
	o := &outcome{
		Encrypted: true, Files: plan(&stage.Env{Seed: 7}), Others: 2, Differs: 2, BySendOnce: 1, Swept: 1, LateID: "late",
		Most: map[string]int{orderedGroup: 1}, Met: true,
		Letters: map[string]trail.Trail{
			fileDamaged: {Attempts: attempts, Reason: "exit status 1: its checksum is x"}, fileWithdrawn: {Reason: "it was withdrawn"},
		},
	}
	at := func(f file, points ...string) {
		for _, point := range points {
			o.Reports = append(o.Reports, stage.Report{Point: point, Key: f.ID, Message: "message-" + f.ID})
		}
	}
	for _, f := range o.Files {
		o.receipt(producer.Receipt{Key: f.ID, New: true, MessageID: "message-" + f.ID})
		if f.Death != none {
			at(f, stage.Killed)
		}
		at(f, stage.Received, stage.Begun)
		switch {
		case f.Kind == damaged:
			at(f, stage.Begun, stage.Begun, pointDead)
			continue
		case f.Kind == withdrawn:
			at(f, pointDead)
			continue
		case f.Kind == notYet:
			at(f, pointLater, stage.Begun, pointLater, stage.Begun)
		case f.Death == amidTask, f.Death == amidWorker:
			at(f, stage.TakenOver, stage.Begun)
		case f.Death == afterWrite:
			at(f, stage.Begun, pointWrote, pointFound)
		}
		at(f, pointCompleted)
		if f.Death == afterComplete {
			at(f, pointDuplicate)
		}
	}
	done, dead := fates(o.Files)
	o.Identical, o.Entries, o.LateCompleted = done, done+dead, done
	o.Reports = append(o.Reports,
		stage.Report{Point: stage.Received, Key: fileLate, Message: "late"}, stage.Report{Point: pointDuplicate, Key: fileLate, Message: "late"})
	o.Ours = true
	for _, f := range o.Files {
		if f.Group == orderedGroup {
			o.Again, o.Stored = append(o.Again, stage.Report{Point: pointDownload, Key: f.ID}), o.Stored+1
		}
	}
	for generation, life := range []string{
		"registered sent received returned received claimed completed deleted", "replayed received claimed completed deleted",
	} {
		for what := range strings.FieldsSeq(life) {
			o.Trace = append(o.Trace, event{What: what, Generation: uint64(generation), Key: fileTraced,
				Text: "killed by SIGKILL"})
		}
	}
	return o
}

// Each check fails for the fault that it is about, and for no other.
func TestRows(t *testing.T) {
	if red := stage.Red(perfect().rows()); len(red) > 0 {
		t.Fatalf("%q fail although all is well", red)
	}
	add := func(point, key, message string) func(*outcome) {
		return func(o *outcome) {
			o.Reports = append(o.Reports, stage.Report{Point: point, Key: key, Message: message})
		}
	}
	gone := func(point, key string) func(*outcome) {
		return func(o *outcome) {
			o.Reports = slices.DeleteFunc(o.Reports, func(r stage.Report) bool { return r.Point == point && r.Key == key })
		}
	}
	forget := func(what string, generation uint64) func(*outcome) {
		return func(o *outcome) {
			o.Trace = slices.DeleteFunc(o.Trace, func(e event) bool { return e.What == what && e.Generation == generation })
		}
	}
	for _, tt := range []struct {
		what string
		do   func(o *outcome)
		red  []string
	}{
		{"the other batch is sent", func(o *outcome) { o.OtherBatch, o.Differs = 2, 0 },
			[]string{"same file, other batch: new messages", "same file, other batch: told that it differs"}},
		{"the batch is sent again", func(o *outcome) { o.Replayed = 1 }, []string{"batch run again at once: new messages"}},
		{"SQS takes a duplicate", add(stage.Received, fileAmidTask, "another"),
			[]string{"sent past the register, same deduplication id: delivered"}},
		{"a registration without a message", func(o *outcome) { o.BySendOnce, o.Swept = 0, 0 },
			[]string{"producer died before the send: the next run sends", "producer died before the send: a sweep sends"}},
		{"a file begun twice", add(stage.Begun, fileBeforeClaim, ""), []string{"worker dies before its claim"}},
		{"no claim was taken over", gone(stage.TakenOver, fileAmidWorker), []string{"  its claim was taken over"}},
		{"a task that writes again", func(o *outcome) { gone(pointFound, fileAfterWrite)(o); add(pointWrote, fileAfterWrite, "")(o) },
			[]string{"  what the second found and did not write", "files written twice"}},
		{"a completed file done again", func(o *outcome) {
			gone(pointDuplicate, fileAfterComplete)(o)
			add(stage.Begun, fileAfterComplete, "")(o)
		}, []string{"worker dies between completion and delete", "  its redelivery was deleted and did nothing"}},
		{"a process that was to die", gone(stage.Killed, fileUnsent), []string{"deaths in all (kill -9)"}},
		{"attempts that are not counted", add(stage.Begun, fileDamaged, ""), []string{"wrong checksum (exit 1)"}},
		{"a dead letter without a reason", func(o *outcome) { clear(o.Letters) }, []string{"  attempts that its dead letter reports",
			"  its reason names the checksum", "  its reason says so", "dead letters"}},
		{"poison tried again", add(stage.Begun, fileWithdrawn, ""), []string{"withdrawn for good (exit 65)"}},
		{"later counts as an attempt", gone(pointLater, fileNotYet), []string{"  of these tasks, counted as attempts"}},
		{"a group out of order", add(pointCompleted, "balances-2026-02-01", ""),
			[]string{"one group: completed as sent, a dead worker included"}},
		{"a group at once", func(o *outcome) { o.Most[orderedGroup] = 2 }, []string{"one group: downloads at once"}},
		{"groups one by one", func(o *outcome) { o.Met = false }, []string{"a group for each file: downloads at once"}},
		{"the register forgets", func(o *outcome) { o.Late, o.LateCompleted = 1, 0 },
			[]string{"batch run again later: new messages", "batch run again later: reported as completed"}},
		{"the late one is done again", func(o *outcome) {
			o.Reports = slices.DeleteFunc(o.Reports, func(r stage.Report) bool { return r.Point == pointDuplicate && r.Message == "late" })
			add(stage.Begun, fileLate, "late")(o)
		}, []string{"  tasks begun for it", "  deleted because the work was completed"}},
		{"a receipt is missing", func(o *outcome) { o.New-- }, []string{"expected, from the receipts"}},
		{"a file is damaged", func(o *outcome) { o.Identical--; o.Strange++ },
			[]string{"files written, identical to their originals", "files that are anything else"}},
		{"a claim is held", func(o *outcome) { o.Held = 1 }, []string{"claims that are still held"}},
		{"a message is left", func(o *outcome) { o.Left = 1 }, []string{"left in the queue"}},
		{"a file is not replayed", func(o *outcome) { o.Again, o.Stored = o.Again[1:], o.Stored-1 },
			[]string{"one group replayed: its files downloaded once more", "  stored under the effect key of generation 1"}},
		{"a file is replayed twice", func(o *outcome) { o.Again = append(o.Again, o.Again[0]) },
			[]string{"one group replayed: its files downloaded once more"}},
		{"another file is replayed", func(o *outcome) {
			o.Again = append(o.Again, stage.Report{Point: pointDownload, Key: fileLate})
		}, []string{"  other files downloaded"}},
		{"what is completed is missing", func(o *outcome) { o.Missing = []stage.Report{{Point: stage.Received, Key: fileLate}} },
			[]string{"then what is missing replayed: delivered"}},
		{"the trace forgets a delivery", forget("received", 0), []string{"trace of one file"}},
		{"the trace forgets a failure", forget("returned", 0), []string{"trace of one file", "  why its first task failed"}},
		{"the trace forgets the replay", forget("replayed", 1), []string{"  its generation 1"}},
		{"the trace forgets a completion", forget("completed", 0), []string{"  completed under"}},
		{"the trace makes up receives", func(o *outcome) { o.Trace = append(o.Trace, event{What: "received", Count: 1 << 40}) },
			[]string{"  receives whose times are not known"}},
		{"a process does not end", func(o *outcome) { o.Unclean = 1 }, []string{"processes that did not end when told to"}},
	} {
		o := perfect()
		tt.do(o)
		if red := stage.Red(o.rows()); !slices.Equal(red, tt.red) {
			t.Errorf("%s: got %q, want %q", tt.what, red, tt.red)
		}
	}
}
