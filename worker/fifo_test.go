package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/internal/testing/sqstest"
	"tenaq/records/recordstest"
	"tenaq/worker"
)

// bodies are the second words of lines.
func bodies(lines []string) (b []string) {
	for _, l := range lines {
		b = append(b, strings.Fields(l)[1])
	}
	return b
}

// A message that fails holds its group back, in order, and no other group.
func TestLanes(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		for i := range 4 {
			r.send(fmt.Sprintf("x%d", i), "group=x")
			r.send(fmt.Sprintf("y%d", i), "group=y")
		}
		r.run(r.config(func(_ context.Context, m *worker.Message) error {
			if m.Body == "x1" && m.Attempt() < 3 {
				return errSick
			}
			return nil
		}))
		r.sleep(time.Hour)
		var x, y []string
		for _, b := range bodies(r.lines("done")) {
			if b[0] == 'x' {
				x = append(x, b)
			} else {
				y = append(y, b)
			}
		}
		if !slices.Equal(x, []string{"x0", "x1", "x2", "x3"}) || !slices.Equal(y, []string{"y0", "y1", "y2", "y3"}) {
			t.Errorf("done %q and %q", x, y)
		}
		// The whole of y was done before the second attempt of x1.
		lines := bodies(r.lines("started"))
		if slices.Index(lines, "y3") > slices.Index(lines, "x2") {
			t.Errorf("y waited for x: %q", lines)
		}
		r.wantCount(r.url, 0)
	})
}

// Once a message is with the dead letters its group continues.
func TestLaneAfterDeadLetter(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		for _, body := range []string{"a", "bad", "c"} {
			r.send(body)
		}
		r.run(r.config(func(_ context.Context, m *worker.Message) error {
			if m.Body == "bad" {
				return errSick
			}
			return nil
		}))
		r.sleep(time.Hour)
		r.wantLines([]string{"done a 0s", "dead bad sick", "done c 0s"}, "done", "dead")
		m := r.receive(r.dead)
		if got := m.Attributes["MessageGroupId"]; got != "g" {
			t.Errorf("group %q, want g", got)
		}
	})
}

// Messages that were received after one that is not settled do not wait for the end of a lease.
func TestRestOfLaneIsGivenBack(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		for _, body := range []string{"a", "b", "c"} {
			r.send(body)
		}
		cfg := r.config(func(_ context.Context, m *worker.Message) error {
			if m.Body == "a" && m.Receives == 1 {
				return worker.Later(5*time.Second, "not yet")
			}
			return nil
		})
		cfg.Client = plain(r.client)
		r.run(cfg)
		r.sleep(10 * time.Second)
		if got := bodies(r.lines("done")); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("done %q within ten seconds", got)
		}
	})
}

// A batch function as a Handler.
type batchFunc func(ctx context.Context, batch []*worker.Message) error

func (f batchFunc) Handle(context.Context, *worker.Message) error { panic("one by one") }
func (f batchFunc) HandleBatch(ctx context.Context, batch []*worker.Message) error {
	return f(ctx, batch)
}

// Usual: a handler of a batch fails as a whole, so one bad message takes nine good ones along, and
// a few throttled receives are as good as attempts. Ours: of a batch that fails in part the rest is
// done.
func TestPartialBatch_FB16(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for i := range 10 {
			r.send(fmt.Sprint(i))
		}
		cfg := r.config(nil)
		largest := 0
		cfg.Handler = batchFunc(func(_ context.Context, batch []*worker.Message) error {
			largest = max(largest, len(batch))
			failures := make(worker.Failures)
			for _, m := range batch {
				switch m.Body {
				case "3":
					failures[m.ID] = errSick
				case "7":
					failures[m.ID] = worker.Poison(errors.New("no sense"))
				}
			}
			if len(failures) > 0 {
				return fmt.Errorf("some: %w", failures)
			}
			return nil
		})
		r.run(cfg)
		r.sleep(time.Hour)
		done := bodies(r.lines("done"))
		slices.Sort(done)
		if !slices.Equal(done, []string{"0", "1", "2", "4", "5", "6", "8", "9"}) || largest != 10 {
			t.Errorf("done %q, largest batch %d", done, largest)
		}
		if got := bodies(r.lines("failed")); len(got) != 4 {
			t.Errorf("failed %q, want 3 three times and 7 once", got)
		}
		r.wantCount(r.dead, 2)
	})
}

// Another error of a batch is one of all of its messages, and so is a panic.
func TestWholeBatchFails(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for i := range 6 {
			r.send(fmt.Sprint(i))
		}
		cfg := r.config(nil)
		n := 0
		cfg.BatchSize, cfg.Concurrency = 3, 1
		cfg.Handler = batchFunc(func(_ context.Context, batch []*worker.Message) error {
			if len(batch) > 3 {
				t.Errorf("%d messages in a batch, want at most 3", len(batch))
			}
			switch n++; n {
			case 1:
				return errSick
			case 2:
				panic("oh")
			}
			return nil
		})
		r.run(cfg)
		r.sleep(time.Hour)
		if got := r.lines("failed"); len(got) != 6 {
			t.Errorf("failed %q, want each once", got)
		}
		if got := r.lines("done"); len(got) != 6 {
			t.Errorf("done %q, want each", got)
		}
	})
}

// In a batch of one group too, nothing overtakes a message that is not settled.
func TestBatchOfGroupStopsAtBusy(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		for _, body := range []string{"a", "b", "c"} {
			r.send(body)
		}
		other, err := r.ledger().Acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		cfg := r.config(nil)
		cfg.Handler = batchFunc(func(context.Context, []*worker.Message) error { return nil })
		r.run(cfg)
		r.sleep(10 * time.Second)
		if got := bodies(r.lines("done")); !slices.Equal(got, []string{"a"}) {
			t.Errorf("done %q while b was busy, want a", got)
		}
		if err := other.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.sleep(2 * time.Minute)
		if got := bodies(r.lines("done")); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("done %q, want all in order", got)
		}
	})
}

// A receive whose answer is lost is repeated under the same attempt, and brings the same messages
// at once.
func TestReceiveIsRepeated(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		r.send("a")
		lost := false
		r.client.SetFault(func(operation string) sqstest.Fault {
			if operation == "ReceiveMessage" && !lost {
				lost = true
				return sqstest.Unanswered
			}
			return sqstest.None
		})
		r.run(r.config(func(context.Context, *worker.Message) error { return nil }))
		r.sleep(5 * time.Second)
		if got := r.lines("done"); len(got) != 1 {
			t.Errorf("done %q within seconds", got)
		}
	})
}

// A handler does not begin with a claim that has run out while those of its batch were acquired.
func TestBatchOutlivesClaim(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		slow := 0
		r.store = &recordstest.Faulty{Store: r.store, Fault: func(c recordstest.Call) (f recordstest.Fault) {
			if c.Op == recordstest.Put && strings.HasSuffix(c.Key, "c") && slow < 1 {
				slow++
				f.Delay = time.Minute
			}
			return f
		}}
		for _, body := range []string{"a", "b", "c"} {
			r.send(body)
		}
		cfg := r.config(nil)
		cfg.BatchSize = 3
		cfg.Handler = batchFunc(func(ctx context.Context, messages []*worker.Message) error {
			for _, m := range messages {
				if late := time.Since(m.Claim().Deadline()); late > 0 {
					t.Errorf("%s began %v after the end of its claim", m.Body, late)
				}
			}
			return nil
		})
		r.run(cfg)
		r.sleep(time.Hour)
		if got := bodies(r.lines("done")); !slices.Equal(got, []string{"a", "b", "c"}) || slow == 0 {
			t.Errorf("done %q, want all in order after a slow claim", got)
		}
	})
}
