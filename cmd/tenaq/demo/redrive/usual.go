package redrive

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/internal/cli"
	"tenaq/worker"
)

// usualLimit is how often the usual redriver brings a message back before it parks it: it would.
const usualLimit = 5

// A usualRedriver is the program as it is usually written: at every tick of a schedule it sends up
// to a batch of dead letters back. It counts redrives by message id, and takes it for a success
// that the queue took a message.
type usualRedriver struct {
	api    *sqs.Client
	queues queues
	count  map[string]int // by message id
}

// Times of the usual part: the schedule, how long the warehouse is down, and how long the redriver
// then goes on.
const (
	usualEvery  = 200 * time.Millisecond
	usualOutage = 3 * time.Second
	usualAfter  = 4 * time.Second
)

// usual lets it work on dead letters of its own and counts the calls of its warehouse.
func (p *play) usual(ctx context.Context) error {
	if p.env.Broken != "" { // shown without what is usual
		return nil
	}
	q, err := p.create(ctx, "redrive-usual")
	if err != nil {
		return err
	}
	orders := names("usual", 20)
	w, err := newWarehouse(orders, p.env.RNG(2))
	if err != nil {
		return err
	}
	defer w.close()
	stop, err := p.startWorker(ctx, q, w, nil, worker.Events{})
	if err != nil {
		return err
	}
	if err := p.send(ctx, q.Work, orders, ""); err != nil {
		return err
	}
	u := &usualRedriver{p.sqs.API, q, make(map[string]int)}
	began := time.Now()
	for err == nil && ctx.Err() == nil && time.Since(began) < usualOutage+usualAfter {
		if time.Since(began) > usualOutage {
			w.open()
		}
		err = u.redrive(ctx, q.Dead, q.Work, q.Parking)
		stage.Pause(ctx, usualEvery)
	}
	if errStop := stop(); err == nil {
		err = errStop
	}
	p.out.Usual.Orders, p.out.Usual.Rounds = len(orders), -1
	w.each(func(order string, a *account) {
		p.out.Usual.Sick += a.sick
		if rounds := a.calls - a.sick; !w.isHealthy(order) &&
			(p.out.Usual.Rounds < 0 || rounds < p.out.Usual.Rounds) {
			p.out.Usual.Rounds = rounds
		}
	})
	if err == nil {
		p.out.Usual.Parked, err = p.sqs.Left(ctx, q.Parking)
	}
	p.env.Say("as usual: %d calls of the sick warehouse, poison went round %s",
		p.out.Usual.Sick, cli.Counted(p.out.Usual.Rounds, "time", "times"))
	return err
}

// redrive is one run of the schedule.
func (u *usualRedriver) redrive(ctx context.Context, dead, work, parking string) error {
	for range 2 {
		got, err := u.api.ReceiveMessage(ctx,
			&sqs.ReceiveMessageInput{QueueUrl: &dead, MaxNumberOfMessages: 10})
		if err != nil {
			return err
		}
		for _, m := range got.Messages {
			to := work
			if u.count[*m.MessageId]++; u.count[*m.MessageId] > usualLimit {
				to = parking
			}
			if _, err := u.api.SendMessage(ctx,
				&sqs.SendMessageInput{QueueUrl: &to, MessageBody: m.Body}); err != nil {
				return err
			}
			if _, err := u.api.DeleteMessage(ctx,
				&sqs.DeleteMessageInput{QueueUrl: &dead,
					ReceiptHandle: m.ReceiptHandle}); err != nil {
				return err
			}
		}
	}
	return nil
}
