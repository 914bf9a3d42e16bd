package budget

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/bench"
	"tenaq/internal/cli"
)

// Bodies of the line bytes, and how long a message waits that is not deleted at once.
const (
	writtenSize = 4 << 10
	writtenRate = 1000 // per second
	writtenWait = 5 * time.Second
)

// measureBytes measures how much the server writes to disk for the bodies that it is sent. Log,
// flushes and compactions count, also those that come after the last request. Bodies are random
// text, no two alike.
func measureBytes(ctx context.Context, e *env) (found []measure, err error) {
	many := e.count(100_000, 8_000)
	most := bench.Load{Clients: 256}
	for _, l := range []struct {
		what     string
		work     bench.Work
		load     bench.Load
		messages int64
	}{
		{"sends only", bench.Work{Kind: bench.Send, Batch: 10}, most, many},
		{"deletes at once", bench.Work{Kind: bench.Life, Batch: 10}, most, many},
		{"deletes after 5 s",
			bench.Work{Kind: bench.Life, Batch: 10,
				Depth: writtenRate * int64(writtenWait.Seconds())},
			bench.Load{Rate: writtenRate / 10, Round: e.seconds(30, 5)}, 0},
	} {
		l.work.Size, l.work.Random = writtenSize, true
		m, err := e.written(ctx, l.work, l.load, l.messages)
		if err != nil {
			return found, err
		}
		m.what = l.what
		found = append(found, m)
	}
	return found, nil
}

// written measures a workload on a server of its own: rounds of it until there were as many
// messages as asked for, at least one.
func (e *env) written(
	ctx context.Context, w bench.Work, load bench.Load, messages int64,
) (m measure, err error) {
	if err := e.empty(); err != nil {
		return m, err
	}
	if _, err := e.own.Server.Start(ctx); err != nil {
		return m, err
	}
	c, err := bench.New(e.work(w))
	if err != nil {
		return m, err
	}
	defer c.Close()
	if err := c.Prepare(ctx, e.telling("prepare")); err != nil {
		return m, err
	}
	before, err := e.bytesWritten()
	if err != nil {
		return m, err
	}
	var total bench.Tally
	for total.Messages < messages || total.Messages == 0 {
		e.tell(string(w.Kind), float64(total.Messages)/float64(max(messages, 1)))
		t, err := c.Round(ctx, load)
		if err != nil {
			return m, err
		}
		total.Add(&t)
		if total.Messages == 0 {
			return m, fmt.Errorf("no message was handled within %s", cli.ShortDuration(t.Took))
		}
	}
	after, err := e.settled(ctx)
	if err != nil {
		return m, err
	}
	if after == before {
		return m, fmt.Errorf("the file system of %s does not count what is written: pass another directory to --dir", e.own.Temporary)
	}
	bodies := total.Messages * writtenSize
	m.value = float64(after-before) / float64(bodies)
	m.note = fmt.Sprintf("%s for %s of bodies, %.0f/s", cli.HumanSize(after-before),
		cli.HumanSize(bodies), total.Rate())
	return m, nil
}

// How flushes and compactions are found to have ended: less than settledBytes are written within
// three seconds. The short form, which judges gross deviations, waits for one second. settleMax is
// how long that is waited for.
const (
	settledBytes = 64 << 10
	settleMax    = time.Minute
)

// settled waits until the server writes no more, and returns what it has written.
func (e *env) settled(ctx context.Context) (bytes int64, err error) {
	e.tell("wait for flushes and compactions", 0)
	began := time.Now()
	for {
		before, err := e.bytesWritten()
		if err != nil {
			return 0, err
		}
		if err := rest(ctx, e.seconds(3, 1)); err != nil {
			return 0, err
		}
		if bytes, err = e.bytesWritten(); err != nil || bytes-before < settledBytes {
			return bytes, err
		}
		if time.Since(began) > settleMax {
			return 0, fmt.Errorf("the server still writes %s after the last request: use a faster disk", cli.ShortDuration(settleMax))
		}
	}
}

// bytesWritten returns how many bytes the server has written to disk since it was started.
func (e *env) bytesWritten() (int64, error) {
	text, err := os.ReadFile(e.proc("io"))
	if err != nil {
		return 0, err
	}
	return writtenOf(string(text))
}

// writtenOf parses /proc/PID/io.
func writtenOf(io string) (int64, error) {
	_, rest, _ := strings.Cut(io, "\nwrite_bytes: ")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.60q does not report the bytes that the server writes; this needs Linux", io)
	}
	return n, nil
}
