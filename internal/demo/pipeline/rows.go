package pipeline

import (
	"fmt"
	"slices"
	"strings"
)

// A Row is one finding: what must be, what is, and whether that is fine.
type Row struct{ Check, Want, Got, OK string }

// What the last field of a Row says.
const (
	ok      = "yes"
	notOK   = "no"
	shown   = "-"
	skipped = "skipped"
)

// findings are rows in the making.
type findings []Row

func (fs *findings) want(check string, want, got any) {
	r := Row{check, fmt.Sprint(want), fmt.Sprint(got), notOK}
	if r.Want == r.Got {
		r.OK = ok
	}
	*fs = append(*fs, r)
}

func (fs *findings) show(check string, got any) {
	*fs = append(*fs, Row{check, "-", fmt.Sprint(got), shown})
}

func (fs *findings) skip(check, why string) { *fs = append(*fs, Row{check, "-", why, skipped}) }

// rows are the findings of a run.
func (d *demo) rows() ([]Row, error) {
	fs := &findings{}
	d.producerRows(fs)
	d.deathRows(fs)
	d.failureRows(fs)
	d.orderRows(fs)
	d.lateRows(fs)
	err := d.countRows(fs)
	return *fs, err
}

// producerRows are about what was sent.
func (d *demo) producerRows(fs *findings) {
	b := &d.batch
	again := len(d.others())
	fs.want("same file, other batch: new messages", 0, b.otherBatch)
	fs.want("same file, other batch: told that it differs", again, b.differs)
	fs.want("batch run again at once: new messages", 0, b.replayed)
	fs.want("sent past the register, same deduplication id: delivered", 0, d.strangers())
	fs.want("producer died before the send, next run sends", 1, b.bySendOnce)
	fs.want("producer died before the send, a sweep sends", "1 of 1 found", fmt.Sprintf("%d of %d found", b.bySweep, b.sweepsFound))
}

// strangers is how many messages were received that are on no receipt, the one that was sent late aside.
func (d *demo) strangers() (n int) {
	seen := make(map[string]bool)
	for _, e := range d.history.events {
		if e.What == received && e.Message != d.batch.ids[e.File] && e.Message != d.late.messageID && !seen[e.Message] {
			seen[e.Message] = true
			n++
		}
	}
	return n
}

// deathRows are about files that were completed although somebody died.
func (d *demo) deathRows(fs *findings) {
	fs.want("worker dies before its claim", "completed by task 1", d.endOf(fileBeforeClaim))
	fs.want("task dies in its download", "completed by task 2", d.endOf(fileAmidTask))
	fs.want("worker dies, its task downloading", "completed by task 2", d.endOf(fileAmidWorker))
	if d.ledger == nil {
		fs.skip("  its claim was taken over", noLedger)
	} else {
		fs.want("  its claim was taken over", "yes", yes(d.history.of(fileAmidWorker).takenOver()))
	}
	fs.want("task dies between writing and exit", "completed by task 2", d.endOf(fileAfterWrite))
	fs.want("  what the second found and did not write", 1, d.history.of(fileAfterWrite).count(found))
	fs.want("worker dies between completion and delete", "completed by task 1", d.endOf(fileAfterComplete))
	fs.want("  its redelivery was deleted and did nothing", "yes", yes(d.history.of(fileAfterComplete).has(duplicate)))
	fs.want("deaths in all (kill -9)", len(d.plan.Deaths), d.history.count(died))
	fs.show("  of these, producers, workers, tasks", d.victims())
}

// victims counts who died.
func (d *demo) victims() string {
	n := make(map[string]int)
	for _, e := range d.history.events {
		if e.What == died {
			who, _, _ := strings.Cut(e.Why, ",")
			n[who]++
		}
	}
	return fmt.Sprintf("%d, %d, %d", n["producer"], n["worker"], n["task"])
}

const noLedger = "no ledger"

// endOf says how a file ended, and with which of its tasks.
func (d *demo) endOf(id string) string {
	es := d.history.of(id)
	if id == fileLate {
		es = slices.DeleteFunc(es, func(e event) bool { return e.Message == d.late.messageID })
	}
	switch {
	case es.has(deadLettered):
		return fmt.Sprintf("dead after task %d", es.count(started))
	case es.has(completed):
		return fmt.Sprintf("completed by task %d", es.tasks())
	}
	return "lost"
}

// failureRows are about files that cannot be had, or not yet.
func (d *demo) failureRows(fs *findings) {
	bad, gone := d.rest.letters[fileDamaged], d.rest.letters[fileWithdrawn]
	fs.want("cannot be decrypted (exit 1)", fmt.Sprintf("dead after task %d", attempts), d.endOf(fileDamaged))
	fs.want("  attempts its dead letter tells of", attempts, bad.attempts)
	fs.want("  its reason says what was wrong", "yes", yes(strings.Contains(bad.reason, "message authentication failed")))
	fs.want("withdrawn for good (exit 65)", "dead after task 1", d.endOf(fileWithdrawn))
	fs.want("  its reason says so", "yes", yes(strings.Contains(gone.reason, "was withdrawn")))
	fs.want("not there yet (exit 75)", fmt.Sprintf("completed by task %d", notYetFor+1), d.endOf(fileNotYet))
	fs.want("  of these tasks, counted as attempts", 1, d.history.of(fileNotYet).tasks()-d.history.of(fileNotYet).count(givenBack))
}

// orderRows are about groups.
func (d *demo) orderRows(fs *findings) {
	sent := d.plan.inGroup(orderedGroup)
	var done []string
	for _, e := range d.history.events {
		if e.What == completed && slices.Contains(sent, e.File) {
			done = append(done, e.File)
		}
	}
	fs.want("one group: completed as sent, a dead worker included", "yes", yes(slices.Equal(sent, done)))
	fs.want("one group: downloads at once", 1, d.source.mostOf(orderedGroup))
	fs.want("a group for each file: downloads at once", "yes", yes(d.source.hasMet()))
}

// lateRows are about the next day.
func (d *demo) lateRows(fs *findings) {
	_, dead := d.plan.fates()
	const what = "batch run again, the window over: "
	fs.want(what+"new messages", 0, d.late.replayed)
	if d.ledger == nil {
		fs.skip(what+"told of completed work", noLedger)
	} else {
		fs.want(what+"told of completed work", len(d.batch.messages)-dead, d.late.completed)
	}
	fs.want("sent past the register, the window over: delivered", 1, min(1, d.lateEvents().count(received)))
	fs.want("  tasks begun for it", 0, d.lateEvents().count(started))
	fs.want("  deleted because the work was completed", "yes", yes(d.lateEvents().has(duplicate)))
}

// countRows account for every file.
func (d *demo) countRows(fs *findings) error {
	fresh := 0
	for _, r := range d.batch.receipts {
		fresh += countNew(r)
	}
	done, dead := d.ended()
	wantDone, wantDead := d.plan.fates()
	fs.want("expected, from the receipts", fmt.Sprintf("%d, and %d duplicates", len(d.plan.Files), len(d.others())),
		fmt.Sprintf("%d, and %d duplicates", fresh, len(d.batch.receipts)-fresh))
	fs.want("completed + failed", fmt.Sprintf("%d + %d", wantDone, wantDead), fmt.Sprintf("%d + %d", done, dead))
	identical, others, err := d.written()
	if err != nil {
		return err
	}
	fs.want("files written, identical to their originals", wantDone, identical)
	fs.want("files that are anything else", 0, others)
	fs.want("files written twice", 0, d.writtenTwice())
	if d.ledger == nil {
		fs.skip("claims that are still held", noLedger)
	} else {
		fs.want("claims that are still held", fmt.Sprintf("0 of %d", len(d.plan.Files)), fmt.Sprintf("%d of %d", d.rest.held, d.rest.entries))
	}
	fs.want("left in the queue", 0, d.rest.messages)
	fs.want("dead letters", wantDead, len(d.rest.letters))
	fs.show(fmt.Sprintf("maxReceiveCount, with room above %d attempts", attempts), maxReceives)
	fs.show("leases lost because this machine stood still", d.history.count(lost))
	if !d.queues.encrypted {
		fs.skip("KmsMasterKeyId", "the server does not take it")
	}
	return nil
}

// ended is how many files were completed and how many failed.
func (d *demo) ended() (done, dead int) {
	for _, f := range d.plan.Files {
		es := d.history.of(f.ID)
		if es.has(completed) {
			done++
		}
		if es.has(deadLettered) {
			dead++
		}
	}
	return done, dead
}

// writtenTwice is how many files were put in their place more than once.
func (d *demo) writtenTwice() (n int) {
	for _, f := range d.plan.Files {
		if d.history.of(f.ID).count(wrote) > 1 {
			n++
		}
	}
	return n
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
