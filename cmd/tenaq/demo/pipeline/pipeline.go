// Package pipeline runs the program of examples/pipeline on a batch of files, while producers,
// workers and tasks die at the worst moments. A worker starts one task per message, as "tenaq pipe"
// does, and the task downloads the file.
//
// Each death is at a chosen point: after the receive and before the claim, in the middle of a
// download, between the write and the exit. The outcome is judged from outside: by the receipts of
// the producer, what the processes reported, the files that were written, and the queues.
package pipeline

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/pipeline/download"
	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
	"tenaq/internal/work/trail"
	"tenaq/producer"
	"tenaq/records/sqliterecords"
)

// Scenario is this scenario.
var Scenario = stage.Scenario{
	Name: "pipeline",
	Text: "files downloaded once, while producers, workers and tasks die",
	Run:  run,
	Roles: map[string]stage.Role{
		"producer": stage.RoleOf(produce), "worker": stage.RoleOf(work), "task": runTask,
	},
	Breaks: []stage.Break{{Name: "claim", Text: "workers do not claim the files"}},
}

// Times and counts. The lease is as short as a busy machine allows, because each death of a worker
// takes one.
const (
	lease       = 3 * time.Second
	leaseDoomed = 3 * time.Second // of the registrations of producers that die
	attempts    = 3
	batchID     = "31"
	dedupPrefix = "once/" // of the deduplication ids of package producer
)

// A play is a run of the scenario.
type play struct {
	*stage.Crew
	messages map[string]producer.Message // by file
	source   *source
	store    *sqliterecords.Store
	ledger   *claims.Ledger
	producer *producer.Producer
	url      string // of the queue
	deadURL  string
	out      *outcome
}

func outDir(dir string) string { return filepath.Join(dir, "out") }

func run(c *stage.Crew) []stage.Row {
	p := &play{Crew: c, messages: make(map[string]producer.Message), out: &outcome{
		Files: plan(c.Env), Most: make(map[string]int),
	}}
	p.prepare()
	defer p.store.Close()
	p.Play(func() {
		p.register()
		p.replay()
		p.work()
		p.count()
		p.again()
		p.replayLate()
	})
	p.out.Outcome = p.Outcome()
	p.out.Reports = p.out.without(p.out.Reports)
	return p.out.rows()
}

// prepare makes the queues, the files and the ledger.
func (p *play) prepare() {
	p.out.Encrypted = p.createQueues(true) == nil
	if !p.out.Encrypted { // an emulator may not take the key
		p.Must(p.createQueues(false))
	}
	p.keepHistory()
	originals := filepath.Join(p.Dir, "originals")
	p.Must(os.Mkdir(originals, 0o700))
	p.Must(os.Mkdir(outDir(p.Dir), 0o700))
	p.source = newSource(p, originals)
	for _, f := range p.out.Files {
		m, err := download.Message(batchID, filepath.Join(originals, f.ID))
		p.Must(err)
		m.Group = f.Group
		p.messages[f.ID] = m
	}
	p.Plan(deaths(p.out.Files)...)
	p.Line = p.progress
	p.store, p.ledger = p.OpenRecords(p.Dir, lease)
	p.newProducer()
}

func (p *play) createQueues(encrypted bool) (err error) {
	dead := map[string]string{
		"FifoQueue": "true", "ContentBasedDeduplication": "true",
		"MessageRetentionPeriod": redrivehost.RetentionMost,
	}
	if encrypted {
		dead["KmsMasterKeyId"] = "alias/aws/sqs"
	}
	work := maps.Clone(dead)
	work["VisibilityTimeout"] = "3600" // for consumers that do not renew; a worker does
	p.url, p.deadURL, err = p.CreatePair("data-download-queue.fifo", "data-download-dlq.fifo", work,
		dead)
	return err
}

// newProducer makes the producer for the queue.
func (p *play) newProducer() {
	var err error
	p.producer, err = producer.New(producer.Config{Client: p.API, Store: p.store, QueueURL: p.url,
		Work: p.ledger})
	p.Must(err)
}

// produce lets a process, or its successor, register and send a file.
func (p *play) produce(file string) {
	p.Finish("producer", task{QueueURL: p.url, Message: p.messages[file]})
}

// register registers the batch. The producers of two files die between registering and sending. One
// is started again; a sweep has to find what the other one left.
func (p *play) register() {
	p.produce(fileUnswept)
	var batch []producer.Message
	for _, f := range p.out.Files {
		if f.Death != beforeSend {
			batch = append(batch, p.messages[f.ID])
		}
	}
	p.sendAll(batch, p.out.receipt)
	for _, id := range []string{fileAmidTask, fileNotYet} { // again, in another batch
		m, err := download.Message("32", filepath.Join(p.Dir, "originals", id))
		p.Must(err)
		m.Group = id
		receipt, err := p.producer.SendOnce(p.Ctx, m)
		differs := errors.Is(err, producer.ErrDiffers)
		if !differs {
			p.Must(err)
		}
		p.out.Others++
		p.out.OtherBatch += stage.One(receipt.New)
		p.out.Differs += stage.One(differs)
	}
}

// sendAll sends messages unless they were sent before.
func (p *play) sendAll(messages []producer.Message, see func(producer.Receipt)) {
	for _, r := range p.producer.SendAll(p.Ctx, messages) {
		p.Must(r.Err)
		see(r.Receipt)
	}
}

// replay runs the batch again at once. Some messages also bypass the register, under the same
// deduplication ids; SQS itself has to drop these.
func (p *play) replay() {
	p.sendAll(p.sent(), func(r producer.Receipt) { p.out.Replayed += stage.One(r.New) })
	for _, id := range []string{fileBeforeClaim, fileAmidTask, fileAmidWorker} {
		p.sendPast(id, dedupPrefix+id)
	}
}

// sent are the messages that were sent so far.
func (p *play) sent() (all []producer.Message) {
	for _, f := range p.out.Files {
		if p.out.IDs[f.ID] != "" {
			all = append(all, p.messages[f.ID])
		}
	}
	return all
}

// sendPast sends the message of a file without asking the register, and returns its id.
func (p *play) sendPast(id, deduplicationID string) string {
	m := p.messages[id]
	out, err := p.API.SendMessage(p.Ctx, &sqs.SendMessageInput{
		QueueUrl: &p.url, MessageBody: &m.Body, MessageGroupId: &m.Group,
		MessageDeduplicationId: &deduplicationID,
	})
	p.Must(err)
	return aws.ToString(out.MessageId)
}

// work lets workers handle the batch until every file has come to its end.
func (p *play) work() {
	for range p.Scale(4, 3) {
		p.Hire("worker", task{QueueURL: p.url, Lease: lease})
	}
	p.produce(fileUnsent)
	for _, r := range stage.At(p.Reports(), pointProduced) {
		p.out.receipt(producer.Receipt{Key: r.Key, New: r.Number == 1, MessageID: r.Message})
		p.out.BySendOnce += r.Number
	}
	p.Until("the sweep", p.sweep)
	p.Until("the batch", func() bool {
		return p.settled() == len(p.out.Files) && p.Left(p.url) == 0
	})
	p.Dismiss("worker")
}

// sweep sends what a dead producer has registered and not sent.
func (p *play) sweep() bool {
	stuck, err := p.producer.Stuck(p.Ctx, leaseDoomed)
	p.Must(err)
	for _, r := range stuck {
		if r.State == claims.Completed {
			continue // what was sent and waits for a worker is not the sweep's business
		}
		receipt, err := p.producer.Resend(p.Ctx, r)
		p.Must(err)
		p.out.receipt(receipt)
		p.out.Swept++
	}
	return p.out.Swept > 0
}

func (p *play) progress() {
	n := p.settled()
	p.Progress.Line("%s %d of %d files", cli.Bar(n, len(p.out.Files)), n, len(p.out.Files))
}

// settled is how many files are done or dead.
func (p *play) settled() (n int) {
	seen := make(map[string]bool)
	for _, r := range p.Reports() {
		if r.Point == pointCompleted || r.Point == pointDead {
			seen[r.Key] = true
		}
	}
	return len(seen)
}

// count looks at what is left.
func (p *play) count() {
	o := p.out
	o.Left, o.Letters = p.Left(p.url), make(map[string]trail.Trail)
	p.Until("read the dead letters", func() bool {
		got := p.Receive(p.deadURL, 10)
		for _, m := range got {
			t, err := trail.Of(m.MessageAttributes)
			p.Must(err)
			o.Letters[t.Key] = t
		}
		return len(o.Letters) > 1 && len(got) == 0
	})
	entries, err := p.ledger.List(p.Ctx, "", "", 0)
	p.Must(err)
	o.Entries = len(entries)
	o.Held = stage.Count(entries, func(e claims.Entry) bool { return e.State == claims.Held })

	written, err := os.ReadDir(outDir(p.Dir))
	p.Must(err)
	for _, f := range written {
		if strings.HasPrefix(f.Name(), ".part-") {
			continue // of a task that was killed
		}
		got, err := os.ReadFile(filepath.Join(outDir(p.Dir), f.Name()))
		p.Must(err)
		identical := string(got) == p.source.texts[f.Name()]
		o.Identical += stage.One(identical)
		o.Strange += stage.One(!identical)
	}
}

// lateScale is how fast time passes in the long form, so that the five minutes of deduplication end
// within seconds. lateLease is a lease that is long enough at that speed.
const (
	lateScale = "100"
	lateLease = time.Hour
)

// replayLate runs the batch again when deduplication has forgotten it. The long form lets time pass
// for that; otherwise another deduplication id has the same effect.
func (p *play) replayLate() {
	t, id := task{QueueURL: p.url, Lease: lease}, dedupPrefix+fileLate+"-again"
	if p.Long && p.Server != nil {
		p.Say("time passes %s times as fast, until the queue has forgotten", lateScale)
		p.Restart("--time-scale", lateScale)
		name := p.url[strings.LastIndexByte(p.url, '/')+1:]
		at, err := p.API.GetQueueUrl(p.Ctx, &sqs.GetQueueUrlInput{QueueName: &name})
		p.Must(err)
		p.url, id = *at.QueueUrl, dedupPrefix+fileLate
		t = task{QueueURL: p.url, Lease: lateLease}
	}
	p.newProducer()
	p.sendAll(p.sent(), func(r producer.Receipt) {
		p.out.Late += stage.One(r.New)
		p.out.LateCompleted += stage.One(r.Work == claims.Completed)
	})
	p.Until("the queue still drops what is sent", func() bool {
		sent := p.sendPast(fileLate, id)
		if sent != p.out.IDs[fileLate] {
			p.out.LateID = sent
		}
		return p.out.LateID != ""
	})
	p.Hire("worker", t)
	p.Until("the message that was sent late", func() bool {
		return p.Left(p.url) == 0 && slices.ContainsFunc(p.Reports(), func(r stage.Report) bool {
			return r.Message == p.out.LateID &&
				(r.Point == pointDuplicate || r.Point == pointCompleted)
		})
	})
	p.Dismiss()
}
