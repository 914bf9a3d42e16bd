package pipeline

import (
	"context"
	"errors"
	"time"

	"tenaq/claims"
)

// A late is what came of the batch when it was run again the next day.
type late struct {
	replayed  int    // new messages
	completed int    // duplicates that were told that the work is completed
	messageID string // of a send past the register
}

// fileLate is sent again when SQS has forgotten it.
const fileLate = fileBeforeClaim

// lateScale is how fast time passes then: the five minutes of deduplication are over in three seconds. Then
// lateLease is half a minute.
const (
	lateScale = "100"
	lateLease = time.Hour
)

// replayLate runs the batch again when deduplication has forgotten it. On a server of its own the demo lets time
// pass for that; on another one it takes another deduplication id, which comes to the same.
func (d *demo) replayLate(ctx context.Context) error {
	settings, deduplicationID := d.settings, fileLate+"-again"
	if d.Restart != nil {
		d.Say("letting time pass %s times as fast, until the queue has forgotten", lateScale)
		var err error
		if d.Client, err = d.Restart(ctx, lateScale); err != nil {
			return err
		}
		if err := d.queues.move(ctx, d.Client); err != nil {
			return err
		}
		settings.QueueURL, settings.Lease, deduplicationID = d.queues.url, lateLease, fileLate
	}
	p, err := settings.newProducer(d.Client, d.store, d.ledger)
	if err != nil {
		return err
	}
	for _, r := range p.SendAll(ctx, d.batch.messages) {
		if r.Err != nil {
			return r.Err
		}
		d.late.replayed += countNew(r.Receipt)
		if r.Work == claims.Completed {
			d.late.completed++
		}
	}
	if err := d.sendLate(ctx, deduplicationID); err != nil {
		return err
	}
	return d.workLate(ctx, settings)
}

// sendLate sends past the register until the queue takes the message for a new one.
func (d *demo) sendLate(ctx context.Context, deduplicationID string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settledMax, errors.New("the queue still drops what it was sent"))
	defer cancel()
	for {
		id, err := d.sendPast(ctx, fileLate, deduplicationID)
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if id != d.batch.ids[fileLate] {
			d.late.messageID = id
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// workLate lets a worker receive what was sent.
func (d *demo) workLate(ctx context.Context, settings Settings) error {
	crew, err := d.startCrew(ctx, settings, 1)
	if err != nil {
		return err
	}
	defer crew.stop()
	ctx, cancel := context.WithTimeoutCause(ctx, settledMax, errors.New("the message that was sent late was not received"))
	defer cancel()
	for left := 1; left > 0 || !d.lateEvents().has(duplicate, completed); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-crew.failed:
			return err
		case <-time.After(50 * time.Millisecond):
		}
		if err := d.history.read(); err != nil {
			return err
		}
		if left, err = d.queues.left(ctx, d.Client); err != nil {
			return err
		}
	}
	return crew.stop()
}

// lateEvents are those of the message that was sent late.
func (d *demo) lateEvents() (some events) {
	for _, e := range d.history.of(fileLate) {
		if e.Message == d.late.messageID {
			some = append(some, e)
		}
	}
	return some
}
