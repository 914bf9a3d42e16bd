package broker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/internal/engine"
)

// aMillion is how many messages the move task of BenchmarkMoveTask has to move.
const aMillion = 1_000_000

// BenchmarkMoveTask measures how fast a task without a rate moves a million messages to another
// queue, and what it does to requests at the same time: the rate of whole lives on a third queue
// before the task is started and while it runs. One iteration is one task: run it with -large
// -benchtime 1x.
func BenchmarkMoveTask(b *testing.B) {
	needsLarge(b, aMillion)
	for range b.N {
		r := start(b, newConfig(b, openDisk(b)))
		r.create("dead")
		r.create("jobs", "RedrivePolicy", `{"deadLetterTargetArn":"arn:aws:sqs:elsewhere:000000000000:dead","maxReceiveCount":3}`)
		r.create("live")
		r.load("dead", aMillion)
		const watch = 3 * time.Second
		before := r.livesFor(watch)
		began := time.Now()
		r.do(&engine.StartMessageMoveTask{
			Account:     "000000000000",
			Source:      text("arn:aws:sqs:elsewhere:000000000000:dead"),
			Destination: text("arn:aws:sqs:elsewhere:000000000000:jobs"),
		})
		during := r.livesFor(watch)
		beside := float64(r.moved()) / time.Since(began).Seconds()
		rest, resumed := aMillion-r.moved(), time.Now()
		for r.moved() < aMillion {
			time.Sleep(20 * time.Millisecond)
		}
		b.ReportMetric(before, "lives/s-before")
		b.ReportMetric(during/before, "of-that-during")
		b.ReportMetric(beside, "moved/s-beside-lives")
		b.ReportMetric(float64(rest)/time.Since(resumed).Seconds(), "moved/s-alone")
		r.stop()
	}
}

// load sends n messages in batches.
func (r *rig) load(queue string, n int) {
	op := &engine.SendMessageBatch{Queue: named(queue), Given: true}
	for i := range 10 {
		op.Drafts = append(op.Drafts, engine.NewDraft(engine.Entry{ID: text(string(rune('0' + i))), Body: text(aBody)}))
	}
	var left atomic.Int64
	left.Store(int64(n / 10))
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				one := *op
				if err := r.Do(context.Background(), &one); err != nil {
					r.t.Errorf("send: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
}

// livesFor lets messages live on the queue named live for a while and returns their rate per
// second.
func (r *rig) livesFor(d time.Duration) float64 {
	var lives atomic.Int64
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	began := time.Now()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := r.live(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					r.t.Error(err)
					return
				}
				lives.Add(1)
			}
		})
	}
	all.Wait()
	return float64(lives.Load()) / time.Since(began).Seconds()
}

// live sends, receives and deletes one message.
func (r *rig) live(ctx context.Context) error {
	if err := r.Do(ctx, sendOp("live", aBody)); err != nil {
		return err
	}
	op := receiveOp("live", 0)
	if err := r.Do(ctx, op); err != nil || len(op.Messages) == 0 {
		return err
	}
	return r.Do(ctx, deleteOp("live", handleOf(op.Received, 0)))
}

// moved is how many messages the latest task of the queue named dead has moved.
func (r *rig) moved() int {
	res := do(r, &engine.ListMessageMoveTasks{Account: "000000000000", Source: text("arn:aws:sqs:elsewhere:000000000000:dead")})
	return int(res.Tasks[0].Moved)
}
