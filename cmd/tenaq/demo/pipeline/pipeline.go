// Package pipeline runs the program of examples/pipeline on a batch of files, while producers,
// workers and tasks die at the worst moments. A worker starts one task per message, as "tenaq pipe"
// does, and the task downloads the file.
//
// Each death is at a chosen point: after the receive and before the claim, in the middle of a
// download, between the write and the exit. The outcome is judged from outside: by the receipts of
// the producer, what the processes reported, the files that were written, and the queues.
package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"tenaq/internal/work/trail"
	"tenaq/producer"
	"tenaq/records/sqliterecords"
)

// Scenario is this scenario.
var Scenario = stage.Scenario{
	Name: "pipeline",
	Text: "files downloaded once, while producers, workers and tasks die",
	Run:  run, Child: child,
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
	env      *stage.Env
	sqs      *stage.SQS
	crew     *stage.Crew
	files    []file
	messages map[string]producer.Message // by file
	source   *source
	store    *sqliterecords.Store
	ledger   *claims.Ledger
	producer *producer.Producer
	url      string // of the queue
	deadURL  string
	out      *outcome
}

// A task is what workers, their tasks and producers are told.
type task struct {
	QueueURL string
	Source   string
	Lease    time.Duration
	Message  producer.Message // of a producer
}

func recordsFile(dir string) string { return filepath.Join(dir, "records.db") }
func outDir(dir string) string      { return filepath.Join(dir, "out") }

func run(ctx context.Context, env *stage.Env) (rows []stage.Row, err error) {
	s, err := env.OpenSQS(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	p := &play{env: env, sqs: s, files: plan(env),
		out: &outcome{Broken: env.Broken, Encrypted: true}}
	p.out.Files = p.files
	if p.crew, err = stage.NewCrew(ctx, s); err != nil {
		return nil, err
	}
	defer p.crew.Close()
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	defer p.store.Close()
	for _, step := range []func(context.Context) error{p.register, p.replay, p.work, p.count,
		p.replayLate} {
		if err = step(p.crew.Ctx); err != nil {
			break
		}
	}
	p.out.Reports, p.out.Unclean = p.crew.Reports(), p.crew.Unclean()
	return p.out.rows(), err
}

// prepare makes the queues, the files and the ledger.
func (p *play) prepare(ctx context.Context) (err error) {
	attributes := map[string]string{
		"FifoQueue": "true", "ContentBasedDeduplication": "true",
		"MessageRetentionPeriod": "1209600",
		"KmsMasterKeyId":         "alias/aws/sqs",
	}
	create := func() error {
		work := maps.Clone(attributes)
		work["VisibilityTimeout"] = "3600" // for consumers that do not renew; a worker does
		p.url, p.deadURL, err = p.sqs.CreatePair(ctx, "data-download-queue.fifo",
			"data-download-dlq.fifo", work, attributes)
		return err
	}
	if create() != nil { // an emulator may not take the key
		p.out.Encrypted = false
		delete(attributes, "KmsMasterKeyId")
		if err := create(); err != nil {
			return err
		}
	}
	originals := filepath.Join(p.env.Dir, "originals")
	for _, dir := range []string{originals, outDir(p.env.Dir)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if p.source, err = newSource(p, originals); err != nil {
		return err
	}
	p.messages = make(map[string]producer.Message)
	for _, f := range p.files {
		m, err := download.Message(batchID, filepath.Join(originals, f.ID))
		if err != nil {
			return err
		}
		m.Group = f.Group
		p.messages[f.ID] = m
	}
	p.crew.On = p.on
	p.store, err = sqliterecords.New(sqliterecords.Config{Path: recordsFile(p.env.Dir)})
	if err != nil {
		return err
	}
	if p.ledger, err = claims.New(p.store, claims.Config{Lease: lease}); err != nil {
		return err
	}
	return p.newProducer()
}

// newProducer makes the producer for the queue.
func (p *play) newProducer() (err error) {
	p.producer, err = producer.New(producer.Config{Client: p.sqs.API, Store: p.store,
		QueueURL: p.url, Work: p.ledger})
	return err
}

func (p *play) task(message producer.Message, lease time.Duration) task {
	return task{QueueURL: p.url, Source: p.crew.URL, Lease: lease, Message: message}
}

// register registers the batch. The producers of two files die between registering and sending: one
// is started again, and for the other one a sweep has to find what it left.
func (p *play) register(ctx context.Context) error {
	if err := p.crew.Finish("producer", p.task(p.messages[fileUnswept], lease),
		func() {}); err != nil {
		return err
	}
	var batch []producer.Message
	for _, f := range p.files {
		if f.Death != beforeSend {
			batch = append(batch, p.messages[f.ID])
		}
	}
	for _, r := range p.producer.SendAll(ctx, batch) {
		if r.Err != nil {
			return r.Err
		}
		p.out.receipt(r.Receipt)
	}
	for _, r := range p.producer.SendAll(ctx, p.others()) { // two files again, in another batch
		if r.Err != nil && !errors.Is(r.Err, producer.ErrDiffers) {
			return r.Err
		}
		p.out.Others++
		p.out.OtherBatch += count(r.New)
		p.out.Differs += count(errors.Is(r.Err, producer.ErrDiffers))
	}
	return nil
}

// others are two files that come again in another batch.
func (p *play) others() (again []producer.Message) {
	for _, id := range []string{fileAmidTask, fileNotYet} {
		m, _ := download.Message("32", filepath.Join(p.env.Dir, "originals", id))
		m.Group = id
		again = append(again, m)
	}
	return again
}

// replay runs the batch again at once. Some of it also goes past the register, under the
// deduplication ids that the producer gave it: there SQS itself has to drop it.
func (p *play) replay(ctx context.Context) error {
	for _, r := range p.producer.SendAll(ctx, p.sent()) {
		if r.Err != nil {
			return r.Err
		}
		p.out.Replayed += count(r.New)
	}
	for _, id := range []string{fileBeforeClaim, fileAmidTask, fileAmidWorker} {
		if _, err := p.sendPast(ctx, id, dedupPrefix+id); err != nil {
			return err
		}
	}
	return nil
}

// sent are the messages that were sent so far.
func (p *play) sent() (all []producer.Message) {
	for _, f := range p.files {
		if p.out.IDs[f.ID] != "" {
			all = append(all, p.messages[f.ID])
		}
	}
	return all
}

// sendPast sends the message of a file without asking the register.
func (p *play) sendPast(
	ctx context.Context, id, deduplicationID string,
) (messageID string, err error) {
	m := p.messages[id]
	out, err := p.sqs.API.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: &p.url, MessageBody: &m.Body, MessageGroupId: &m.Group,
		MessageDeduplicationId: &deduplicationID,
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.MessageId), nil
}

// work lets workers handle the batch until every file has come to its end.
func (p *play) work(ctx context.Context) error {
	for range p.env.Scale(4, 3) {
		if err := p.crew.Hire("worker", p.task(producer.Message{}, lease)); err != nil {
			return err
		}
	}
	err := p.crew.Finish("producer", p.task(p.messages[fileUnsent], lease), p.progress)
	if err != nil {
		return err
	}
	for _, r := range stage.At(p.crew.Reports(), pointProduced) {
		p.out.receipt(producer.Receipt{Key: r.Key, New: r.Number == 1, MessageID: r.Message})
		p.out.BySendOnce += r.Number
	}
	if err := p.crew.Until("the sweep", func() (bool, error) { return p.sweep(ctx) }); err != nil {
		return err
	}
	if err := p.crew.Until("the batch", func() (bool, error) {
		p.progress()
		if p.settled() < len(p.files) {
			return false, nil
		}
		left, err := p.sqs.Left(ctx, p.url)
		return left == 0, err
	}); err != nil {
		return err
	}
	p.crew.Dismiss("worker")
	return nil
}

// sweep sends what a dead producer has registered and not sent.
func (p *play) sweep(ctx context.Context) (bool, error) {
	stuck, err := p.producer.Stuck(ctx, leaseDoomed)
	if err != nil {
		return false, err
	}
	// What was sent and waits for a worker is not the sweep's business.
	stuck = slices.DeleteFunc(stuck, func(r producer.Registration) bool {
		return r.State == claims.Completed
	})
	for _, r := range stuck {
		receipt, err := p.producer.Resend(ctx, r)
		if err != nil {
			return false, err
		}
		p.out.receipt(receipt)
		p.out.Swept++
	}
	return len(stuck) > 0, nil
}

func (p *play) progress() {
	n := p.settled()
	p.env.Progress.Line("%s %d of %d files", cli.Bar(n, len(p.files)), n, len(p.files))
}

// settled is how many files are done or dead.
func (p *play) settled() (n int) {
	seen := make(map[string]bool)
	for _, r := range p.crew.Reports() {
		if r.Point == pointCompleted || r.Point == pointDead {
			seen[r.Key] = true
		}
	}
	return len(seen)
}

// count looks at what is left.
func (p *play) count(ctx context.Context) (err error) {
	o := p.out
	if o.Left, err = p.sqs.Left(ctx, p.url); err != nil {
		return err
	}
	o.Letters = make(map[string]trail.Trail)
	err = p.crew.Until("read the dead letters", func() (bool, error) {
		got, err := p.sqs.API.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &p.deadURL, MaxNumberOfMessages: 10, VisibilityTimeout: 30,
			MessageAttributeNames: []string{"All"},
		})
		if err != nil {
			return false, err
		}
		for _, m := range got.Messages {
			t, err := trail.Of(m.MessageAttributes)
			if err != nil {
				return false, err
			}
			o.Letters[t.Key] = t
		}
		return len(o.Letters) > 1 && len(got.Messages) == 0, nil
	})
	if err != nil {
		return err
	}
	entries, err := p.ledger.List(ctx, "", "", 0)
	for _, e := range entries {
		o.Held += count(e.State == claims.Held)
	}
	o.Entries = len(entries)
	return errors.Join(err, p.compare())
}

// compare compares what was written with the originals.
func (p *play) compare() error {
	written, err := os.ReadDir(outDir(p.env.Dir))
	if err != nil {
		return err
	}
	for _, f := range written {
		if strings.HasPrefix(f.Name(), ".part-") {
			continue // of a task that was killed
		}
		got, err := os.ReadFile(filepath.Join(outDir(p.env.Dir), f.Name()))
		if err != nil {
			return err
		}
		if want, ok := p.source.texts[f.Name()]; ok && string(got) == want {
			p.out.Identical++
		} else {
			p.out.Strange++
		}
	}
	return nil
}

// lateScale is how fast time passes in the long form, so that the five minutes of deduplication end
// within seconds, and lateLease the lease that is long enough then.
const (
	lateScale = "100"
	lateLease = time.Hour
)

// replayLate runs the batch again when deduplication has forgotten it. In the long form time is
// made to pass for that; otherwise another deduplication id does the same.
func (p *play) replayLate(ctx context.Context) error {
	long, id := p.env.Long && p.sqs.Server != nil, dedupPrefix+fileLate+"-again"
	t := p.task(producer.Message{}, lease)
	if long {
		p.env.Say("time passes %s times as fast, until the queue has forgotten", lateScale)
		if err := p.sqs.Restart(ctx, "--time-scale", lateScale); err != nil {
			return err
		}
		name := p.url[strings.LastIndexByte(p.url, '/')+1:]
		at, err := p.sqs.API.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
		if err != nil {
			return fmt.Errorf("find the queue again: %w", err)
		}
		p.url, id = *at.QueueUrl, dedupPrefix+fileLate
		t = p.task(producer.Message{}, lateLease)
	}
	if err := p.newProducer(); err != nil {
		return err
	}
	for _, r := range p.producer.SendAll(ctx, p.sent()) {
		if r.Err != nil {
			return r.Err
		}
		p.out.Late += count(r.New)
		p.out.LateCompleted += count(r.Work == claims.Completed)
	}
	if err := p.crew.Until("the queue still drops what is sent", func() (bool, error) {
		sent, err := p.sendPast(ctx, fileLate, id)
		if sent != p.out.IDs[fileLate] {
			p.out.LateID = sent
		}
		return p.out.LateID != "", err
	}); err != nil {
		return err
	}
	if err := p.crew.Hire("worker", t); err != nil {
		return err
	}
	err := p.crew.Until("the message that was sent late", func() (bool, error) {
		left, err := p.sqs.Left(ctx, p.url)
		done := slices.ContainsFunc(p.crew.Reports(), func(r stage.Report) bool {
			return r.Message == p.out.LateID &&
				(r.Point == pointDuplicate || r.Point == pointCompleted)
		})
		return left == 0 && done, err
	})
	p.crew.Dismiss()
	return err
}

// child is a producer, a worker or a task.
func child(ctx context.Context, c *stage.Child) error {
	var t task
	if err := json.Unmarshal(c.Task, &t); err != nil {
		return err
	}
	switch c.Role {
	case "producer":
		return produce(ctx, c, t)
	case "worker":
		return work(ctx, c, t)
	}
	return runTask(ctx, c, t)
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
