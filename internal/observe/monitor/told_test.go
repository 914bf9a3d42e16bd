package monitor

import (
	"strings"
	"testing"
	"time"

	"tenaq/internal/observe/series"
)

// tells has a program tell a number, as PutMetricData does.
func (w *world) tells(by Teller, name, about string, v float64) {
	w.t.Helper()
	if err := w.Series().Put(by.Metric(name, about), w.Now().UnixMilli(), series.One(v), ""); err != nil {
		w.t.Fatal(err)
	}
}

// The server notices when a redriver stops reporting, and when it is back. [ALARM-51]
func TestSilentRedriver(t *testing.T) {
	bubble(t, toQueue(), func(w *world) {
		w.create(noticeQueue)
		w.create("orders-dlq")
		w.minutes(1)
		for range 15 {
			w.tells(Redrivers, StepFailed, "orders-dlq", 0)
			w.minutes(1)
		}
		w.wantChanges("")
		w.minutes(8)
		w.wantChanges("")
		w.minutes(4)
		w.wantChanges("orders-dlq/redriver-silent=ALARM")
		if all := w.notices(); len(all) != 1 || !strings.Contains(all[0], "tenaq redrive status orders-dlq") {
			t.Errorf("got %q, want a notice with a command", all)
		}
		w.minutes(200) // it stays silent, and the alarm stays
		w.wantChanges("orders-dlq/redriver-silent=ALARM")
		w.tells(Redrivers, StepFailed, "orders-dlq", 0)
		w.minutes(1)
		w.wantChanges("orders-dlq/redriver-silent=ALARM orders-dlq/redriver-silent=OK")
	})
}

// One that fails, or whose breaker stays open, is noticed too; a short outage is not.
func TestSickRedriver(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.create("orders-dlq")
		w.minutes(1)
		for minute := range 60 {
			w.tells(Redrivers, BreakerState, "orders-dlq", float64(oneOf(minute > 5 && minute < 20 || minute > 25)))
			w.tells(Redrivers, StepFailed, "orders-dlq", float64(oneOf(minute == 3 || minute > 50)))
			w.minutes(1)
		}
		w.wantChanges("orders-dlq/redriver-fails=ALARM orders-dlq/breaker-open=ALARM")
	})
}

func oneOf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// A relay that cannot keep up, gives rows up, or is gone.
func TestRelay(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.minutes(1)
		for minute := range 12 {
			w.tells(Relays, DueAge, "app", float64(minute*60))
			w.tells(Relays, ParkedRows, "app", float64(oneOf(minute > 3)))
			w.minutes(1)
		}
		w.wantChanges("app/rows-parked=ALARM app/relay-late=ALARM")
		w.minutes(13)
		if !strings.HasSuffix(w.changes(), "app/relay-silent=ALARM") && !strings.Contains(w.changes(), "app/relay-silent=ALARM ") {
			t.Errorf("got %s, want the relay to be missed", w.changes())
		}
	})
}

// Silence counts from the start of the server: reports to the earlier server are unknown, and not
// missed.
func TestToldBeforeRestart(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.minutes(1)
		for range 5 {
			w.tells(Redrivers, StepFailed, "orders-dlq", 0)
			w.minutes(1)
		}
		w.restart()
		time.Sleep(time.Hour)
		w.wantChanges("")
	})
}

// An alarm about a program that has gone for good ends by itself, a day after its last report.
func TestRetiredRedriver(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.create("orders-dlq")
		w.minutes(1)
		for range 3 {
			w.tells(Redrivers, StepFailed, "orders-dlq", 0)
			w.minutes(1)
		}
		w.minutes(24 * 60)
		w.wantChanges("orders-dlq/redriver-silent=ALARM")
		w.minutes(3 * 60)
		w.wantChanges("orders-dlq/redriver-silent=ALARM orders-dlq/redriver-silent=OK")
	})
}
