package budget

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tenaq/internal/bench"
	"tenaq/internal/cli"
)

// measureStart measures how long it takes from the start of a server on an empty directory to the
// answer to the first send, with the queue that is created for it.
func measureStart(ctx context.Context, e *env) ([]measure, error) {
	n := int(e.choose(20, 5))
	times := make([]float64, n)
	for i := range times {
		e.tell("start", float64(i)/float64(n))
		if err := e.empty(); err != nil {
			return nil, err
		}
		began := time.Now()
		_, err := e.own.Server.Start(ctx)
		if err == nil {
			one := e.work(bench.Work{Kind: bench.Send, Depth: 1})
			_, err = bench.Fill(ctx, one, func(float64) {})
		}
		if err != nil {
			return nil, err
		}
		times[i] = float64(time.Since(began)) / float64(time.Millisecond)
	}
	return []measure{{"first send answered", bench.Median(times), fmt.Sprintf(
		"median of %d starts, %.0f to %.0f ms", n, slices.Min(times), slices.Max(times))}}, nil
}

// measureIdle measures what the server needs for unused queues and for polls that find nothing.
func measureIdle(ctx context.Context, e *env) ([]measure, error) {
	before, err := e.memory(false)
	if err != nil {
		return nil, err
	}
	queues, clients := e.count(100_000, 2_000), int(e.count(10_000, 500))
	err = bench.Each(ctx, e.endpoint, "CreateQueue", queues, e.telling("create queues"),
		func(i int64) string { return fmt.Sprintf(`{"QueueName":"idle-%d"}`, i) })
	if err != nil {
		return nil, err
	}
	url, err := bench.Fill(ctx, e.work(bench.Work{Kind: bench.Send}),
		e.telling("create the polled queue"))
	if err != nil {
		return nil, err
	}
	e.tell("connect the long polls", 0)
	polls, err := bench.Poll(ctx, e.endpoint, url, clients)
	if err != nil {
		return nil, err
	}
	defer polls.Stop()
	// A minute after the queues have come their metrics are written for the first time.
	e.tell("let a minute end", 0)
	if err := rest(ctx, e.seconds(70, 1)); err != nil {
		return nil, err
	}
	// The polls end every 20 seconds, all together, and begin again. That is work, and not what
	// most seconds are like.
	e.tell("do nothing", 0)
	shares, err := e.processorShares(ctx, int(e.choose(60, 1)))
	if err != nil {
		return nil, err
	}
	all := 0.0
	for _, share := range shares {
		all += share / float64(len(shares))
	}
	now, err := e.memory(false)
	return []measure{
		{"more memory", now - before, fmt.Sprintf("%.0f MiB after %.0f MiB, %d queues and %d polls",
			now, before, queues, clients)},
		{"processor", bench.Median(shares),
			fmt.Sprintf("in half of the seconds; %.1f %% on the average, with the polls that end and begin again", all)},
	}, errors.Join(err, polls.Err())
}

// processorShares returns the CPU time of the server in each of n seconds, in percent of a core.
func (e *env) processorShares(ctx context.Context, n int) (shares []float64, err error) {
	before, err := bench.CPUTime(e.own.Server.PID())
	for began := time.Now(); len(shares) < n && err == nil; {
		if err = rest(ctx, time.Second); err != nil {
			break
		}
		var after time.Duration
		after, err = bench.CPUTime(e.own.Server.PID())
		shares = append(shares, 100*(after-before).Seconds()/time.Since(began).Seconds())
		before, began = after, time.Now()
	}
	return shares, err
}

// dueBatch is the number of delayed messages per request.
const dueBatch = 10

// measureDue makes delayed messages fall due in the same second, and measures the effect on another
// queue.
func measureDue(ctx context.Context, e *env) ([]measure, error) {
	url, err := bench.Fill(ctx, e.work(bench.Work{Kind: bench.Send}), e.telling("create the queue"))
	if err != nil {
		return nil, err
	}
	n := e.count(1_000_000, 20_000)
	due := time.Now().Add(e.seconds(240, 9)).Truncate(time.Second).Add(time.Second)
	began := time.Now()
	if err := e.delay(ctx, url, n, due); err != nil {
		return nil, err
	}
	filled := time.Since(began)
	load := bench.Load{Clients: 64, Round: 500 * time.Millisecond}
	const rounds = 4
	if left := time.Until(due); left < (rounds+4)*load.Round {
		return nil, fmt.Errorf("%d messages were sent in %s, and fell due before anything could be measured: use a faster or an idle machine", n, cli.ShortDuration(filled))
	}
	// The nearer both are to each other, the less else differs.
	if err := rest(ctx, time.Until(due)-(rounds+3)*load.Round); err != nil {
		return nil, err
	}
	c, err := e.warm(ctx, bench.Work{Kind: bench.Life}, load)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	before, _, err := medianRate(ctx, c, load, rounds)
	if err != nil {
		return nil, err
	}
	first := make(chan dueReceive, 1)
	go func() { first <- receiveDue(ctx, e.endpoint, url, due) }()
	if err := rest(ctx, time.Until(due)); err != nil {
		return nil, err
	}
	during, _, err := medianRate(ctx, c, load, rounds)
	if err != nil {
		return nil, err
	}
	got := <-first
	return []measure{
		{"life", during / max(before, 1e-9),
			fmt.Sprintf("%.0f/s against %.0f/s before, %d messages fall due", during, before, n)},
		{"first received after", got.after.Seconds(), ""},
	}, got.err
}

// delay sends n messages that fall due within the second that begins at due.
func (e *env) delay(ctx context.Context, url string, n int64, due time.Time) error {
	return bench.Each(ctx, e.endpoint, "SendMessageBatch", (n+dueBatch-1)/dueBatch,
		e.telling("send delayed messages"), func(int64) string {
			seconds := int64((max(0, time.Until(due)) + time.Second - 1) / time.Second)
			body := fmt.Appendf(nil, `{"QueueUrl":%q,"Entries":[`, url)
			for i := range dueBatch {
				if i > 0 {
					body = append(body, ',')
				}
				body = fmt.Appendf(body, `{"Id":"%d","MessageBody":"due","DelaySeconds":%d}`, i, seconds)
			}
			return string(append(body, "]}"...))
		})
}

// A dueReceive is the receive of the first delayed message.
type dueReceive struct {
	after time.Duration // the moment at which they begin to fall due
	err   error
}

// receiveDue waits for the first message of a queue whose messages begin to fall due at a moment.
func receiveDue(
	ctx context.Context, endpoint bench.Endpoint, url string, due time.Time,
) dueReceive {
	for time.Since(due) < 20*time.Second {
		answer, err := bench.Call(ctx, endpoint, "ReceiveMessage", fmt.Sprintf(`{"QueueUrl":%q,"WaitTimeSeconds":20}`, url))
		if err != nil {
			return dueReceive{err: err}
		}
		if bytes.Contains(answer, []byte(`"ReceiptHandle"`)) {
			after := time.Since(due)
			if after < 0 {
				return dueReceive{err: fmt.Errorf("a message was received %s before it was due",
					cli.ShortDuration(-after))}
			}
			return dueReceive{after: after}
		}
	}
	return dueReceive{err: errors.New("none of the messages that fell due was received within 20 s")}
}
