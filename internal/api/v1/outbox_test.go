package v1

import (
	"testing"
	"time"

	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/series"
)

// Outboxes are listed as their relays reported last. [V1-18]
func TestOutboxes(t *testing.T) {
	w := newWorld(t)
	if status, text := w.ask("GET", "/v1/outbox", "", ""); status != 404 {
		t.Errorf("without alarms: got %d %s", status, text)
	}
	m := w.useMonitor(t)
	var list outboxList
	w.json(t, "GET", "/outbox", "", 200, &list)
	if len(list.Outboxes) != 0 {
		t.Errorf("got %+v", list)
	}
	minute := m.Now().UnixMilli() / series.Minute * series.Minute
	tell := func(name, about string, ago time.Duration, value float64) {
		t.Helper()
		if err := m.Series().Put(monitor.Relays.Metric(name, about), minute-ago.Milliseconds(), series.One(value), ""); err != nil {
			t.Fatal(err)
		}
	}
	for i, ago := range []time.Duration{3 * time.Minute, time.Minute} {
		tell(monitor.DueAge, "shop", ago, float64(41-i))
		tell(monitor.ParkedRows, "shop", ago, float64(2+i))
		tell(monitor.PendingRows, "shop", ago, float64(120-i))
		tell(monitor.DueRows, "shop", ago, float64(14-i))
	}
	tell(monitor.DueAge, "app.db", 23*time.Hour, 0)
	tell(monitor.ParkedRows, "app.db", 23*time.Hour, 0)
	tell(monitor.PendingRows, "app.db", 24*time.Hour, 7) // by an earlier relay
	tell(monitor.DueAge, "old", 24*time.Hour+30*time.Minute, 1)
	tell(monitor.DueAge, "no name", time.Minute, 1)
	w.json(t, "GET", "/outbox", "", 200, &list)
	if len(list.Outboxes) != 2 {
		t.Fatalf("got %+v, want app.db and shop", list)
	}
	quiet, shop := list.Outboxes[0], list.Outboxes[1]
	if shop.Name != "shop" || *shop.Reported != *timeText(minute - series.Minute) || shop.OldestDueMS != 40_000 || *shop.Parked != 3 || *shop.Pending != 119 || *shop.Due != 13 {
		t.Errorf("got %+v", shop)
	}
	if quiet.Name != "app.db" || quiet.OldestDueMS != 0 || *quiet.Parked != 0 || quiet.Pending != nil || quiet.Due != nil {
		t.Errorf("got %+v", quiet)
	}
}
