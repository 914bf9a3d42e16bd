package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// How often the usual redriver is let call the sick warehouse for each dead letter, and how often each poison message
// is let go round, which it would park after usualLimit redrives.
const (
	UsualTimes  = 10
	UsualRounds = 2*usualLimit + 1

	usualLimit = 5
	usualMax   = time.Minute
)

// A usualRedriver brings back what is in the dead-letter queue when it is there. It counts redrives by message
// id, and that the queue took a message is a success to it.
type usualRedriver struct {
	*demo
	count     map[string]int // by message id
	successes int
	parked    int
}

// runUsual runs the first part.
func (d *demo) runUsual(ctx context.Context, out *Outcome) (err error) {
	d.Say("%d dead letters to a redriver as it is usually written, and the warehouse is down", d.Scale.Usual)
	orders := names("usual", d.Scale.Usual)
	poison := poisonOf(orders, d.rng(1))
	w, err := newWarehouse(poison)
	if err != nil {
		return err
	}
	defer w.close()
	worker, err := d.startWorker(ctx, d.Usual, w, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, worker.end()) }()
	if err := d.sendAll(ctx, d.Usual.Work, orders, nil); err != nil {
		return err
	}
	u := &usualRedriver{demo: d, count: make(map[string]int)}
	_, err = u.until(ctx, func() bool {
		sick := 0
		w.look(func(_ string, a account) { sick += a.sick })
		d.Line("the usual redriver: %d calls of the sick warehouse", sick)
		out.Usual.Sick = sick
		return sick >= UsualTimes*d.Scale.Usual
	})
	if err != nil {
		return err
	}
	d.Say("it called the sick warehouse %d times, and %d sends were successes to it; the warehouse is up again", out.Usual.Sick, u.successes)
	w.open()
	_, err = u.until(ctx, func() bool {
		out.Usual.Booked, out.Usual.Rounds = 0, 0
		first := true
		w.look(func(order string, a account) {
			switch rounds := a.calls - a.sick; {
			case poison[order] == "":
				out.Usual.Booked += min(1, a.booked)
			case first || rounds < out.Usual.Rounds:
				out.Usual.Rounds, first = rounds, false
			}
		})
		d.Line("the usual redriver: %d of %d orders booked, poison went round %d times", out.Usual.Booked, d.Scale.Usual, out.Usual.Rounds)
		return out.Usual.Rounds >= UsualRounds && out.Usual.Booked == d.Scale.Usual-len(poison)
	})
	out.Usual.Parked = u.parked
	d.Say("each of its three poison messages went round %d times, and it has parked %d", out.Usual.Rounds, u.parked)
	return err
}

// until redrives until something has happened.
func (u *usualRedriver) until(ctx context.Context, happened func() bool) (bool, error) {
	return until(ctx, usualMax, func() (bool, error) {
		if happened() {
			return true, nil
		}
		return false, u.run(ctx)
	})
}

// run is the code as it is usually written.
func (u *usualRedriver) run(ctx context.Context) error {
	for range u.Scale.Usual / 10 {
		got, err := u.API.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &u.Usual.Dead, MaxNumberOfMessages: 10})
		if err != nil || len(got.Messages) == 0 {
			return err
		}
		for _, m := range got.Messages {
			to := u.Usual.Work
			if u.count[*m.MessageId]++; u.count[*m.MessageId] > usualLimit {
				to = u.Usual.Parking
				u.parked++
			}
			if _, err := u.API.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &to, MessageBody: m.Body}); err != nil {
				return fmt.Errorf("redrive: %w", err)
			}
			u.successes++
			if _, err := u.API.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &u.Usual.Dead, ReceiptHandle: m.ReceiptHandle}); err != nil {
				return fmt.Errorf("redrive: %w", err)
			}
		}
	}
	return nil
}
