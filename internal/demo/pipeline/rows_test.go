package pipeline

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tenaq/claims"
	"tenaq/producer"
	"tenaq/records/recordstest"
)

// sound returns a run as it should have been.
func sound(t *testing.T) *demo {
	d := &demo{plan: newPlan(1), history: &history{}, source: &source{texts: make(map[string][]byte), met: make(chan struct{}), most: make(map[string]int)}}
	d.settings.Dir = t.TempDir()
	var err error
	if d.ledger, err = claims.New(recordstest.NewMemory(), claims.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(d.settings.Dir, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.queues.encrypted = true
	d.batch.ids = make(map[string]string)
	for _, f := range d.plan.Files {
		d.expect(producer.Receipt{Key: f.ID, MessageID: "of " + f.ID, New: true})
		if f.Kind != unsent && f.Kind != unswept {
			d.batch.messages = append(d.batch.messages, f.message(batchID))
		}
		d.live(t, f)
	}
	for _, m := range d.others() {
		d.expect(producer.Receipt{Key: m.Key, MessageID: "of " + m.Key, Differs: true})
	}
	d.batch.differs, d.batch.bySendOnce, d.batch.bySweep, d.batch.sweepsFound = 2, 1, 1, 1
	d.rest.letters = map[string]letter{
		fileDamaged:   {3, "exit code 1: cipher: message authentication failed"},
		fileWithdrawn: {1, "exit code 65: it was withdrawn"},
	}
	d.rest.entries = len(d.plan.Files)
	d.source.most[orderedGroup] = 1
	close(d.source.met)
	d.late = late{completed: len(d.batch.messages) - 2, messageID: "late"}
	d.history.events = append(d.history.events,
		event{What: received, File: fileLate, Message: "late"}, event{What: duplicate, File: fileLate, Message: "late"})
	return d
}

// live writes the life of a file into the history.
func (d *demo) live(t *testing.T, f file) {
	happens := func(ws ...what) {
		for _, w := range ws {
			d.history.events = append(d.history.events, event{What: w, File: f.ID, Message: "of " + f.ID, TakenOver: w == started})
		}
	}
	happens(received)
	if x, ok := d.plan.Deaths[f.ID]; ok {
		switch x.Moment {
		case amidTask, amidWorker:
			happens(started)
		case afterWrite:
			happens(started, wrote)
		case afterComplete:
			happens(started, wrote, completed)
		}
		happens(died)
		happens(received)
	}
	switch {
	case f.Kind == damaged:
		happens(started, failed, started, failed, started, failed, deadLettered)
		return
	case f.Kind == withdrawn:
		happens(started, failed, deadLettered)
		return
	case f.Kind == notYet:
		happens(started, givenBack, started, givenBack, started, wrote, completed)
	case d.plan.Deaths[f.ID].Moment == afterWrite:
		happens(started, found, completed)
	case d.plan.Deaths[f.ID].Moment == afterComplete:
		happens(duplicate)
	default:
		happens(started, wrote, completed)
	}
	d.source.texts[f.ID] = []byte(f.ID)
	if err := os.WriteFile(d.settings.outFile(f.ID), []byte(f.ID), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rowsOf(t *testing.T, d *demo) []Row {
	t.Helper()
	rows, err := d.rows()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func failing(rows []Row) (checks []string) {
	for _, r := range rows {
		if r.OK == notOK {
			checks = append(checks, strings.TrimSpace(r.Check))
		}
	}
	return checks
}

// Whatever goes wrong, a row says so, and every row has something that makes it fail.
func TestRows(t *testing.T) {
	if got := failing(rowsOf(t, sound(t))); len(got) != 0 {
		t.Fatalf("a sound run fails %q", got)
	}
	add := func(w what, file, message string) func(*demo) {
		return func(d *demo) {
			d.history.events = append(d.history.events, event{What: w, File: file, Message: message})
		}
	}
	without := func(w what, file string) func(*demo) {
		return func(d *demo) {
			d.history.events = slices.DeleteFunc(d.history.events, func(e event) bool { return e.What == w && e.File == file })
		}
	}
	write := func(file string) func(*demo) {
		return func(d *demo) { os.WriteFile(d.settings.outFile(file), []byte("?"), 0o600) }
	}
	unmet := make(chan struct{})
	failed := make(map[string]bool)
	for want, wrong := range map[string]func(*demo){
		"same file, other batch: new messages":                     func(d *demo) { d.batch.otherBatch = 1 },
		"same file, other batch: told that it differs":             func(d *demo) { d.batch.differs = 1 },
		"batch run again at once: new messages":                    func(d *demo) { d.batch.replayed = 1 },
		"sent past the register, same deduplication id: delivered": add(received, fileAmidTask, "stray"),
		"producer died before the send, next run sends":            func(d *demo) { d.batch.bySendOnce = 0 },
		"producer died before the send, a sweep sends":             func(d *demo) { d.batch.sweepsFound = 2 },
		"worker dies before its claim":                             without(completed, fileBeforeClaim),
		"task dies in its download":                                add(started, fileAmidTask, "of it"),
		"worker dies, its task downloading":                        add(deadLettered, fileAmidWorker, "of it"),
		"its claim was taken over":                                 without(started, fileAmidWorker),
		"task dies between writing and exit":                       add(started, fileAfterWrite, "of it"),
		"what the second found and did not write":                  without(found, fileAfterWrite),
		"worker dies between completion and delete":                add(started, fileAfterComplete, "of it"),
		"its redelivery was deleted and did nothing":               without(duplicate, fileAfterComplete),
		"deaths in all (kill -9)":                                  without(died, fileAmidTask),
		"cannot be decrypted (exit 1)":                             add(started, fileDamaged, "of it"),
		"attempts its dead letter tells of":                        func(d *demo) { d.rest.letters[fileDamaged] = letter{4, "message authentication failed"} },
		"its reason says what was wrong":                           func(d *demo) { d.rest.letters[fileDamaged] = letter{3, "?"} },
		"withdrawn for good (exit 65)":                             add(started, fileWithdrawn, "of it"),
		"its reason says so":                                       func(d *demo) { d.rest.letters[fileWithdrawn] = letter{1, "?"} },
		"not there yet (exit 75)":                                  add(started, fileNotYet, "of it"),
		"of these tasks, counted as attempts":                      without(givenBack, fileNotYet),
		"one group: completed as sent, a dead worker included":     add(completed, "balances-2026-02-01", "of it"),
		"one group: downloads at once":                             func(d *demo) { d.source.most[orderedGroup] = 2 },
		"a group for each file: downloads at once":                 func(d *demo) { d.source.met = unmet },
		"batch run again, the window over: new messages":           func(d *demo) { d.late.replayed = 1 },
		"batch run again, the window over: told of completed work": func(d *demo) { d.late.completed-- },
		"sent past the register, the window over: delivered":       func(d *demo) { d.late.messageID = "another" },
		"tasks begun for it":                                       add(started, fileLate, "late"),
		"deleted because the work was completed":                   without(duplicate, fileLate),
		"expected, from the receipts":                              func(d *demo) { d.expect(producer.Receipt{New: true}) },
		"completed + failed":                                       without(completed, "trades-2026-02-01"),
		"files written, identical to their originals":              write("trades-2026-02-01"),
		"files that are anything else":                             write("trades-2026-02-99"),
		"files written twice":                                      add(wrote, "trades-2026-02-01", "of it"),
		"claims that are still held":                               func(d *demo) { d.rest.held = 1 },
		"left in the queue":                                        func(d *demo) { d.rest.messages = 1 },
		"dead letters":                                             func(d *demo) { d.rest.letters["trades-2026-02-01"] = letter{} },
	} {
		d := sound(t)
		wrong(d)
		got := failing(rowsOf(t, d))
		if !slices.Contains(got, want) {
			t.Errorf("%s: not among the rows that fail, %q", want, got)
		}
		failed[want] = true
	}
	for _, r := range rowsOf(t, sound(t)) {
		if r.OK == ok && !failed[strings.TrimSpace(r.Check)] {
			t.Errorf("nothing makes %q fail", r.Check)
		}
	}
}

// Without a ledger what only a ledger knows is skipped, and said to be.
func TestRowsWithoutALedger(t *testing.T) {
	d := sound(t)
	d.ledger = nil
	skips := 0
	for _, r := range rowsOf(t, d) {
		if r.OK == skipped {
			skips++
		}
	}
	if skips != 3 {
		t.Errorf("%d rows skipped, want 3", skips)
	}
}
