package monitor

import (
	"fmt"
	"testing"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/series"
)

// Only a bounded number of unused queues have data, and those that alarms are about. The others
// have all metrics from their first use. [METRIC-2]
func TestUnused(t *testing.T) {
	bubble(t, Config{NoShipped: true}, func(w *world) {
		name := func(i int) string { return fmt.Sprintf("queue-%04d", i) }
		for i := range unusedMax + 5 {
			w.create(name(i))
		}
		const busy, watched, full, idle = unusedMax, unusedMax + 1, unusedMax + 2, unusedMax + 3
		with := func() (n int) {
			return len(w.Series().List(series.Filter{Name: nameSent, Since: w.minute() - series.Minute}))
		}
		want := func(queue int, name string, stat series.Stat, value float64) {
			t.Helper()
			if got := w.stat(awsSQS, name, fmt.Sprintf("queue-%04d", queue), stat, 1); got != value {
				t.Errorf("queue %d: %s of %s is %v, want %v", queue, stat, name, got, value)
			}
		}
		rule := above(alarm.Query{Metric: ofQueue(awsSQS, nameSent, name(watched)), Stat: series.Sum, Period: 60}, 5, 1, 1)
		rule.Missing = alarm.TreatBreaching
		if err := w.Put(Definition{Name: "watched", Rule: rule}); err != nil {
			t.Fatal(err)
		}
		w.minutes(2)
		if got := with(); got != unusedMax+1 {
			t.Errorf("%d queues have data, want %d", got, unusedMax+1)
		}
		w.wantChanges("watched=OK")
		want(watched, nameSent, series.Sum, 0)
		want(idle, nameSent, series.Sum, -1)

		time.Sleep(30 * time.Second)
		w.send(name(busy), "gone before the next look")
		w.remove(name(busy), w.take(name(busy), 60))
		w.send(name(full), "this stays")
		w.send(name(full), "so does this")
		w.minutes(1)
		for _, queue := range []int{busy, full} {
			want(queue, nameVisible, series.Minimum, 0)
			want(queue, nameVisible, series.SampleCount, 1)
		}
		want(busy, nameVisible, series.Maximum, 0)
		want(busy, nameSent, series.Sum, 1)
		want(busy, nameDeleted, series.Sum, 1)
		want(full, nameVisible, series.Maximum, 2)
		want(full, nameVisible, series.Sum, 2)
		want(full, nameSent, series.Sum, 2)
		want(idle, nameSent, series.Sum, -1)

		// A queue that is deleted, and one that is used, make room for new ones.
		w.do(&engine.DeleteQueue{Queue: queueNamed(name(0))})
		w.send(name(1), "x")
		w.minutes(1)
		for i := range 3 {
			w.create("new-" + name(i))
		}
		w.minutes(1)
		if got, want := with(), unusedMax+1+2+1; got != want {
			t.Errorf("%d queues have data, want %d", got, want)
		}
	})
}
