package monitor

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/observe/series"
	"tenaq/internal/testing/proof"
)

// sum is a statistic of a metric of a queue over the last minutes; -1 when there is no data.
func (w *world) stat(namespace, name, queue string, stat series.Stat, minutes int64) float64 {
	to := w.minute()
	points := w.Series().Points(ofQueue(namespace, name, queue), stat, 60*minutes, to-minutes*series.Minute, to)
	if len(points) == 0 {
		return -1
	}
	return points[0].Value
}

// The metrics of a minute match what random clients did in it. [METRIC-1]
func TestCountsAreExact(t *testing.T) {
	seed := proof.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	bubble(t, Config{NoShipped: true}, func(w *world) {
		w.create("orders")
		w.minutes(1)
		var held []engine.Handle
		for minute := range 20 {
			want := map[string]float64{}
			size := series.Set{}
			for range rng.IntN(30) {
				time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
				switch rng.IntN(3) {
				case 0:
					body := fmt.Sprintf("%0*d", 1+rng.IntN(3000), minute)
					w.send("orders", body)
					want[nameSent]++
					size = size.Merge(series.One(float64(len(body))))
				case 1:
					res := do(w, &engine.ReceiveMessage{Queue: queueNamed("orders"), Wait: engine.Int{Set: true}, Visibility: engine.Int{Value: int64(rng.IntN(100)), Set: true}}).Received
					if len(res.Messages) == 0 {
						want["NumberOfEmptyReceives"]++
					}
					for _, m := range res.Messages {
						want[nameReceived]++
						if m.Receives > 1 {
							want[nameRedelivered]++
						}
						held = append(held, engine.Handle{Text: "x", Valid: true, Incarnation: res.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation})
					}
				case 2:
					if len(held) > 0 {
						before := do(w, &engine.GetQueueAttributes{Queue: queueNamed("orders"), Names: []string{"All"}}).Attributes
						w.remove("orders", held[rng.IntN(len(held))])
						after := do(w, &engine.GetQueueAttributes{Queue: queueNamed("orders"), Names: []string{"All"}}).Attributes
						want[nameDeleted]++
						if waits(before) > waits(after) {
							want[nameRemoved]++
						}
					}
				}
			}
			w.minutes(1)
			for name := range map[string]bool{nameSent: true, nameReceived: true, "NumberOfEmptyReceives": true, nameDeleted: true} {
				if got := w.stat(awsSQS, name, "orders", series.Sum, 1); got != want[name] {
					t.Errorf("minute %d: %s is %v, want %v", minute, name, got, want[name])
				}
			}
			for _, name := range []string{nameRedelivered, nameRemoved} {
				if got := w.stat(tenaqSQS, name, "orders", series.Sum, 1); got != want[name] {
					t.Errorf("minute %d: %s is %v, want %v", minute, name, got, want[name])
				}
			}
			if size.Count == 0 {
				size = series.Set{Min: -1, Max: -1, Sum: -1, Count: -1} // no data
			}
			for stat, want := range map[series.Stat]float64{series.Sum: size.Sum, series.SampleCount: size.Count, series.Minimum: size.Min, series.Maximum: size.Max} {
				if got := w.stat(awsSQS, "SentMessageSize", "orders", stat, 1); got != want {
					t.Errorf("minute %d: %s of the sizes is %v, want %v", minute, stat, got, want)
				}
			}
			// The messages in the queue now were there at the end of the minute.
			if got, want := w.stat(awsSQS, "ApproximateNumberOfMessagesVisible", "orders", series.Average, 1)+w.stat(awsSQS, nameInFlight, "orders", series.Average, 1),
				waits(do(w, &engine.GetQueueAttributes{Queue: queueNamed("orders"), Names: []string{"All"}}).Attributes); got != want {
				t.Errorf("minute %d: %v messages at its end, want %v", minute, got, want)
			}
		}
	})
}

// waits is how many messages the attributes of a queue tell of.
func waits(attributes map[string]string) float64 {
	visible, inFlight := 0.0, 0.0
	fmt.Sscan(attributes["ApproximateNumberOfMessages"], &visible)
	fmt.Sscan(attributes["ApproximateNumberOfMessagesNotVisible"], &inFlight)
	return visible + inFlight
}

// A peak between two ends of minutes shows in the extremes, not in the average. [METRIC-4]
func TestExtremesOfGauges(t *testing.T) {
	bubble(t, Config{NoShipped: true}, func(w *world) {
		w.create("orders")
		w.minutes(1)
		for range 3 {
			w.send("orders", "x")
		}
		time.Sleep(20 * time.Second)
		for range 2 {
			w.remove("orders", w.take("orders", 60))
		}
		w.minutes(1)
		got := [3]float64{
			w.stat(awsSQS, "ApproximateNumberOfMessagesVisible", "orders", series.Maximum, 1),
			w.stat(awsSQS, "ApproximateNumberOfMessagesVisible", "orders", series.Minimum, 1),
			w.stat(awsSQS, "ApproximateNumberOfMessagesVisible", "orders", series.Sum, 1),
		}
		if want := [3]float64{3, 1, 1}; got != want {
			t.Errorf("maximum, minimum and sum are %v, want %v", got, want)
		}
	})
}

// Only a fair queue has metrics of its groups. [METRIC-16]
func TestQuietGroups(t *testing.T) {
	bubble(t, Config{NoShipped: true}, func(w *world) {
		w.create("plain")
		w.create("orders")
		do(w, &engine.TagQueue{Queue: queueNamed("orders"), Tags: []engine.Tag{{Key: "tenaq:fair", Value: "true"}}})
		text := func(s string) engine.Text { return engine.Text{Value: s, Set: s != ""} }
		send := func(group string, n int) {
			for range n {
				do(w, &engine.SendMessage{Queue: queueNamed("orders"),
					Draft: engine.NewDraft(engine.Entry{Body: text("x"), Group: text(group)})})
			}
		}
		send("noisy", 60)
		send("small", 12)
		send("", 3)
		for range 6 { // 28 of noisy, all of the others, and 17 more of noisy
			do(w, &engine.ReceiveMessage{Queue: queueNamed("orders"), Max: engine.Int{Value: 10, Set: true},
				Visibility: engine.Int{Value: 600, Set: true}})
		}
		send("small", 5)
		w.minutes(1)
		for name, want := range map[string]float64{
			"ApproximateNumberOfNoisyGroups":                     1,
			"ApproximateNumberOfMessagesVisibleInQuietGroups":    5,
			"ApproximateNumberOfMessagesNotVisibleInQuietGroups": 15,
			"ApproximateNumberOfMessagesDelayedInQuietGroups":    0,
		} {
			if got := w.stat(awsSQS, name, "orders", series.Average, 1); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
			if got := w.stat(awsSQS, name, "plain", series.Average, 1); got != -1 {
				t.Errorf("%s of a queue that is not fair is %v, want none", name, got)
			}
		}
	})
}

// A queue has data while it has messages, and for six hours after something has happened to it.
// [METRIC-2]
func TestActive(t *testing.T) {
	bubble(t, Config{NoShipped: true}, func(w *world) {
		w.create("orders")
		w.minutes(1)
		has := func() bool { return w.stat(awsSQS, nameSent, "orders", series.Sum, 1) >= 0 }
		if !has() {
			t.Error("a queue that was just created has no data")
		}
		w.minutes(6 * 60)
		if has() {
			t.Error("a queue that nobody has used for six hours has data")
		}
		w.send("orders", "x")
		w.minutes(8 * 60)
		if !has() {
			t.Error("a queue with a message has no data")
		}
		w.remove("orders", w.take("orders", 60))
		w.minutes(5 * 60)
		if !has() {
			t.Error("a queue that was used five hours ago has no data")
		}
		w.minutes(61)
		if has() {
			t.Error("a queue that was used six hours ago has data")
		}
		w.do(&engine.ReceiveMessage{Queue: queueNamed("orders"), Wait: engine.Int{Set: true}})
		w.minutes(1)
		if got := w.stat(awsSQS, "NumberOfEmptyReceives", "orders", series.Sum, 1); got != 1 {
			t.Errorf("a queue that is used again has %v empty receives, want 1", got)
		}
	})
}

// A new queue of the same name starts from zero.
func TestRecreated(t *testing.T) {
	bubble(t, Config{NoShipped: true}, func(w *world) {
		w.create("orders")
		for range 5 {
			w.send("orders", "x")
		}
		w.minutes(1)
		w.do(&engine.DeleteQueue{Queue: queueNamed("orders")})
		time.Sleep(61 * time.Second)
		w.create("orders")
		w.send("orders", "x")
		w.minutes(1)
		if got := w.stat(awsSQS, nameSent, "orders", series.Sum, 1); got != 1 {
			t.Errorf("got %v sent, want 1", got)
		}
	})
}
