package demo

import (
	"slices"
	"testing"

	"tenaq/internal/demo/outbox"
)

// soundOutbox is what a run finds in which everything holds.
func soundOutbox() *outbox.Outcome {
	const all, window = 113, 29
	o := &outbox.Outcome{
		Scale: outbox.Full, Uploaded: all, UploadDeaths: outbox.UploadDeaths, WorkerDeaths: outbox.WorkerDeaths,
		RelayDeaths: slices.Repeat([]int{outbox.Full.RelayDeaths}, 4), Late: outbox.Lates, Copies: 1, RolledBack: 8,
		Window: window, WindowWrong: window, UsualSent: outbox.Full.Window, Planned: window, ReplayDeaths: outbox.ReplayDeaths,
		Replayed: window, Redone: window, Begun: window,
		GapLookedAt: all + window, GapRows: outbox.GapSize, GapReceived: outbox.GapSize, GapDone: outbox.GapSize,
		Recorded: all, Completed: all,
	}
	o.Usual.Unsent, o.Usual.Unrecorded = 1, 1
	return o
}

// Every promise has a row that fails when it is broken.
func TestOutboxRowsShowEveryPromise(t *testing.T) {
	failed := func(o *outbox.Outcome, broken outbox.Breakage) (n int) {
		for _, row := range outboxRows(o, broken, true) {
			if row.OK == rowFailed {
				n++
			}
		}
		return n
	}
	for _, broken := range []outbox.Breakage{outbox.Nothing, outbox.Leases} {
		if n := failed(soundOutbox(), broken); n != 0 {
			t.Errorf("sound run, without %q: got %d rows that fail, want none", broken, n)
		}
	}
	for what, harm := range map[string]func(o *outbox.Outcome){
		"row first does no harm":      func(o *outbox.Outcome) { o.Usual.Unsent = 0 },
		"message first does no harm":  func(o *outbox.Outcome) { o.Usual.Unrecorded = 0 },
		"no upload service killed":    func(o *outbox.Outcome) { o.UploadDeaths = 0 },
		"no relay after a claim":      func(o *outbox.Outcome) { o.RelayDeaths[1] = 0 },
		"no relay at all":             func(o *outbox.Outcome) { o.RelayDeaths = []int{2, 2, 2} },
		"no worker killed":            func(o *outbox.Outcome) { o.WorkerDeaths = 2 },
		"nobody late":                 func(o *outbox.Outcome) { o.Late-- },
		"half an upload":              func(o *outbox.Outcome) { o.Halves++ },
		"rolled back and done":        func(o *outbox.Outcome) { o.Ghosts++ },
		"no copy":                     func(o *outbox.Outcome) { o.Copies = 0 },
		"a copy without a reason":     func(o *outbox.Outcome) { o.Unexcused++ },
		"a copy in the FIFO queue":    func(o *outbox.Outcome) { o.FIFOCopies++ },
		"out of order":                func(o *outbox.Outcome) { o.Disorder++ },
		"wrong in the storm":          func(o *outbox.Outcome) { o.StormyWrong++ },
		"not all done in the window":  func(o *outbox.Outcome) { o.Window-- },
		"the wrong transcoder is not": func(o *outbox.Outcome) { o.WindowWrong-- },
		"the usual replay sends none": func(o *outbox.Outcome) { o.UsualSent = 0 },
		"the usual replay works":      func(o *outbox.Outcome) { o.UsualMended++ },
		"the plan is wrong":           func(o *outbox.Outcome) { o.Planned++ },
		"no replay killed":            func(o *outbox.Outcome) { o.ReplayDeaths = 0 },
		"replayed twice":              func(o *outbox.Outcome) { o.Replayed++ },
		"one not done again":          func(o *outbox.Outcome) { o.Redone-- },
		"one done again by nobody":    func(o *outbox.Outcome) { o.Begun-- },
		"again out of order":          func(o *outbox.Outcome) { o.Disordered++ },
		"wrong still":                 func(o *outbox.Outcome) { o.StillWrong++ },
		"another day was touched":     func(o *outbox.Outcome) { o.Touched++ },
		"more than the gap":           func(o *outbox.Outcome) { o.GapRows++ },
		"more received than the gap":  func(o *outbox.Outcome) { o.GapReceived++ },
		"the gap is there":            func(o *outbox.Outcome) { o.GapDone-- },
		"a job lost":                  func(o *outbox.Outcome) { o.Recorded-- },
		"the ledger does not know":    func(o *outbox.Outcome) { o.Completed-- },
		"a job not done":              func(o *outbox.Outcome) { o.Undone++ },
		"a row not sent":              func(o *outbox.Outcome) { o.Pending++ },
		"a wrong file":                func(o *outbox.Outcome) { o.Wrong++ },
		"left":                        func(o *outbox.Outcome) { o.Left++ },
		"did not end":                 func(o *outbox.Outcome) { o.Unclean++ },
	} {
		o := soundOutbox()
		harm(o)
		if n := failed(o, outbox.Nothing); n != 1 {
			t.Errorf("%s: got %d rows that fail, want 1", what, n)
		}
	}

	// What other servers do with a FIFO queue is not judged.
	o := soundOutbox()
	o.FIFOCopies, o.Disorder = 1, 1
	for _, row := range outboxRows(o, outbox.Nothing, false) {
		if row.OK == rowFailed {
			t.Errorf("on another server: got %v, want no row that fails", row)
		}
	}
}
