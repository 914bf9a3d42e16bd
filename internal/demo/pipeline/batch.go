package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/producer"
)

// A batch is what the producer knows.
type batch struct {
	messages []producer.Message
	receipts []producer.Receipt // one for each call, duplicates too: the list of what is expected
	ids      map[string]string  // message ids by file, from the receipts

	otherBatch  int // new messages for the same file in another batch
	differs     int // of those calls that were told so
	replayed    int // new messages of the batch run again at once
	bySendOnce  int // new messages, in place of a producer that died
	bySweep     int
	sweepsFound int // registrations that the sweep had to send
}

// register lets two producers die between registering and sending, and registers the batch.
func (d *demo) register(ctx context.Context) error {
	if err := d.loseProducers(ctx); err != nil {
		return err
	}
	for _, f := range d.plan.Files {
		if f.Kind != unsent && f.Kind != unswept {
			d.batch.messages = append(d.batch.messages, f.message(batchID))
		}
	}
	again := d.others()
	d.batch.ids = make(map[string]string)
	for i, r := range d.producer.SendAll(ctx, slices.Concat(d.batch.messages, again)) {
		other := i >= len(d.batch.messages)
		differs := errors.Is(r.Err, producer.ErrDiffers)
		if r.Err != nil && !(other && differs) {
			return r.Err
		}
		d.expect(r.Receipt)
		if other {
			d.batch.otherBatch += countNew(r.Receipt)
			if differs {
				d.batch.differs++
			}
		}
	}
	d.Say("%d files registered", len(d.batch.ids))
	return nil
}

// others are two files that come again, in another batch.
func (d *demo) others() (again []producer.Message) {
	for _, id := range []string{fileAmidTask, fileNotYet} {
		f, _ := d.plan.file(id)
		again = append(again, f.message(batchID+1))
	}
	return again
}

// expect puts a receipt on the list.
func (d *demo) expect(r producer.Receipt) {
	d.batch.receipts = append(d.batch.receipts, r)
	d.batch.ids[r.Key] = r.MessageID
}

func countNew(r producer.Receipt) int {
	if r.New {
		return 1
	}
	return 0
}

// loseProducers runs a producer for each of the files whose producer is to die.
func (d *demo) loseProducers(ctx context.Context) error {
	path, err := d.settings.write("producers.json")
	if err != nil {
		return err
	}
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		failed  error
	)
	for _, id := range []string{fileUnsent, fileUnswept} {
		running.Go(func() {
			err := d.loseProducer(path, id)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	running.Wait()
	return errors.Join(failed, context.Cause(ctx))
}

// loseProducer runs a producer that dies.
func (d *demo) loseProducer(settings, id string) error {
	cmd, err := d.Part(PartProducer, settings, id)
	if err != nil {
		return err
	}
	out, err := cmd.CombinedOutput()
	if !isKill(cmd.ProcessState) {
		return fmt.Errorf("the producer of %s was to die: %w: %s", id, err, out)
	}
	return nil
}

// replay runs the batch again at once. Some of it also goes past the register, by a producer that has none: there
// SQS itself has to drop it.
func (d *demo) replay(ctx context.Context) error {
	for _, r := range d.producer.SendAll(ctx, d.batch.messages) {
		if r.Err != nil {
			return r.Err
		}
		d.batch.replayed += countNew(r.Receipt)
	}
	for _, id := range []string{fileBeforeClaim, fileAmidTask, fileAmidWorker} {
		if _, err := d.sendPast(ctx, id, id); err != nil {
			return err
		}
	}
	return nil
}

// sendPast sends the message of a file without asking the register.
func (d *demo) sendPast(ctx context.Context, id, deduplicationID string) (messageID string, err error) {
	f, _ := d.plan.file(id)
	out, err := d.Client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: &d.queues.url, MessageBody: aws.String(f.body(batchID)),
		MessageGroupId: &f.Group, MessageDeduplicationId: &deduplicationID,
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.MessageId), nil
}

// revive sends what the dead producers have left: one file because it is registered again, the other one because a
// sweep finds it.
func (d *demo) revive(ctx context.Context) error {
	f, _ := d.plan.file(fileUnsent)
	receipt, err := d.producer.SendOnce(ctx, f.message(batchID)) // it waits for the end of the dead one's lease
	if err != nil {
		return err
	}
	d.expect(receipt)
	d.batch.bySendOnce = countNew(receipt)

	ctx, cancel := context.WithTimeoutCause(ctx, settledMax, errors.New("the sweep found nothing"))
	defer cancel()
	for {
		stuck, err := d.producer.Stuck(ctx, leaseDoomed)
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		// What was sent and has to wait for a worker is none of its business here.
		stuck = slices.DeleteFunc(stuck, func(r producer.Registration) bool { return r.State == claims.Completed })
		for _, r := range stuck {
			receipt, err := d.producer.Resend(ctx, r)
			if err != nil {
				return err
			}
			d.expect(receipt)
			d.batch.sweepsFound++
			d.batch.bySweep += countNew(receipt)
		}
		if len(stuck) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}
