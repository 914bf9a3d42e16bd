package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/testing/pgtest"
)

const (
	written  = 550                   // rows of a latency run
	unheeded = 50                    // of them, the first ones, for all connections to be there
	writeGap = 40 * time.Millisecond // between two rows at most, half of that as a rule
	ears     = 4                     // consumers

	settling = 15 * time.Second // until a relay looks as rarely as it ever does
	idle     = time.Minute
)

// ways of rows that come one by one.
var slowWays = []way{
	{"direct", func(d *desk) carrier { return &direct{desk: d} }},
	{"relay", func(d *desk) carrier { return &ours{desk: d} }},
	{"loop-1s", func(d *desk) carrier { return &byHand{desk: d, sleep: time.Second} }},
	{"loop-100ms", func(d *desk) carrier { return &byHand{desk: d, sleep: 100 * time.Millisecond} }},
}

// BenchmarkOutboxLatency writes about 50 rows a second, each in a transaction of its own and at
// random times, and has them received with long polls. It reports, for the relay and for loops with
// a sleep of 1 s and of 100 ms, how long it takes from the begin of the INSERT to the receipt of
// its message, as the median and the 99th percentile of all rounds. Direct is a message that the
// program sends itself instead: what the queue and its consumers take.
//
// It also reports how many statements each makes for a row at that rate, BEGIN and COMMIT included,
// beside the INSERT. All take turns.
//
//	go test ./test/bench -run '^$' -bench OutboxLatency -benchtime 3x
func BenchmarkOutboxLatency(b *testing.B) {
	db, a := pgtest.New(b), newArena(b, 0)
	delays := make(map[string][]time.Duration)
	statements := make(map[string]int64)
	b.ResetTimer()
	for b.Loop() {
		for _, w := range slowWays {
			d := newDesk(b, db, a)
			took, n := d.delays(b, w)
			delays[w.name] = append(delays[w.name], took...)
			statements[w.name] += n
			d.close(b)
		}
	}
	b.StopTimer()
	for _, w := range slowWays {
		of := delays[w.name]
		slices.Sort(of)
		for _, percent := range []int{50, 99} {
			at := of[(len(of)-1)*percent/100]
			b.ReportMetric(float64(at)/float64(time.Millisecond), fmt.Sprintf("%s-p%d-ms", w.name, percent))
		}
		if w.name != "direct" {
			b.ReportMetric(float64(statements[w.name])/float64(b.N*written), w.name+"-statements/row")
		}
	}
}

// delays writes rows one by one. It returns how long each takes to be received, and how many
// statements the carrier made meanwhile.
func (d *desk) delays(b *testing.B, w way) (all []time.Duration, statements int64) {
	b.Helper()
	c := w.over(d)
	if err := c.prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	stop := d.start(b, c)
	ctx, cancel := context.WithTimeout(b.Context(), runMax)
	defer cancel()
	got := make(chan time.Duration, written)
	var listening sync.WaitGroup
	for range ears {
		listening.Go(func() {
			if err := d.listen(ctx, got); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
	time.Sleep(time.Second)
	before := d.statements.n.Load()
	for range written {
		if err := c.write(ctx, fmt.Sprint(time.Now().UnixNano(), " ", body)); err != nil {
			b.Fatal(err)
		}
		time.Sleep(rand.N(writeGap))
	}
	for len(all) < written && ctx.Err() == nil {
		select {
		case delay := <-got:
			all = append(all, delay)
		case <-ctx.Done():
			b.Fatalf("%s: %d of %d messages have come", w.name, len(all), written)
		}
	}
	statements = d.statements.n.Load() - before
	cancel()
	listening.Wait()
	stop()
	return all[unheeded:], statements
}

// listen receives messages, says how old each is by what it says itself, and deletes them.
func (d *desk) listen(ctx context.Context, got chan<- time.Duration) error {
	for ctx.Err() == nil {
		out, err := d.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &d.url, MaxNumberOfMessages: 10, WaitTimeSeconds: 20})
		if err != nil {
			return err
		}
		now := time.Now()
		var done []types.DeleteMessageBatchRequestEntry
		for _, m := range out.Messages {
			text, _, _ := strings.Cut(*m.Body, " ")
			at, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return err
			}
			got <- now.Sub(time.Unix(0, at))
			done = append(done, types.DeleteMessageBatchRequestEntry{Id: m.MessageId, ReceiptHandle: m.ReceiptHandle})
		}
		if len(done) > 0 {
			if _, err := d.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &d.url, Entries: done}); err != nil {
				return err
			}
		}
	}
	return nil
}

// BenchmarkOutboxIdle counts what a relay and loops ask of a database to which nothing is written:
// statements a minute, BEGIN and COMMIT included, and for how many milliseconds of it they wait for
// an answer. All of them are there at once. A statement of a relay is a function that has several
// in it, so the second number says more.
//
//	go test ./test/bench -run '^$' -bench OutboxIdle -benchtime 1x
func BenchmarkOutboxIdle(b *testing.B) {
	db, a := pgtest.New(b), newArena(b, 0)
	ways := slowWays[1:]
	sums := make(map[string]*[2]int64)
	for _, w := range ways {
		sums[w.name] = new([2]int64)
	}
	b.ResetTimer()
	for b.Loop() {
		desks, stops := make([]*desk, len(ways)), make([]func(), len(ways))
		for i, w := range ways {
			desks[i] = newDesk(b, db, a)
			c := w.over(desks[i])
			if err := c.prepare(b.Context()); err != nil {
				b.Fatal(err)
			}
			stops[i] = desks[i].start(b, c)
		}
		count := func(sign int64) {
			for i, w := range ways {
				sums[w.name][0] += sign * desks[i].statements.n.Load()
				sums[w.name][1] += sign * desks[i].statements.busy.Load()
			}
		}
		time.Sleep(settling)
		count(-1)
		time.Sleep(idle)
		count(1)
		for i, d := range desks {
			stops[i]()
			d.close(b)
		}
	}
	b.StopTimer()
	minutes := float64(b.N) * idle.Minutes()
	for name, sum := range sums {
		b.ReportMetric(float64(sum[0])/minutes, name+"-statements/min")
		b.ReportMetric(float64(sum[1])/1e6/minutes, name+"-ms/min")
	}
}
