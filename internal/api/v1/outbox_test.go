package v1

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
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
	for metric, bad := range map[string]float64{monitor.DueAge: 1e300, monitor.ParkedRows: -1, monitor.PendingRows: 1e300, monitor.DueRows: math.MaxFloat64} {
		if err := m.Series().Put(monitor.Relays.Metric(metric, "strange"), minute, series.One(bad), ""); err != nil {
			t.Fatal(err)
		}
	}
	w.json(t, "GET", "/outbox", "", 200, &list)
	if n := len(list.Outboxes); n == 3 {
		if strange := list.Outboxes[2]; strange.Name != "strange" || strange.OldestDueMS != countMax || strange.Parked != nil || strange.Pending != nil || strange.Due != nil {
			t.Errorf("numbers that are no counts: got %+v", strange)
		}
		list.Outboxes = list.Outboxes[:2]
	}
	if len(list.Outboxes) != 2 || list.More {
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

// More than 500 outboxes are not shown, and the answer says so. [V1-18]
func TestManyOutboxes(t *testing.T) {
	w := newWorld(t)
	m := w.useMonitor(t)
	minute := m.Now().UnixMilli() / series.Minute * series.Minute
	for n := range 501 {
		if err := m.Series().Put(monitor.Relays.Metric(monitor.DueAge, fmt.Sprintf("box-%03d", n)), minute, series.One(1), ""); err != nil {
			t.Fatal(err)
		}
		if n < 499 {
			continue
		}
		var list outboxList
		w.json(t, "GET", "/outbox", "", 200, &list)
		if len(list.Outboxes) != 500 || list.More != (n == 500) {
			t.Errorf("of %d: got %d outboxes, more %t", n+1, len(list.Outboxes), list.More)
		}
	}
}

// A relay reports which rows were set aside, and the latest report is shown for a day. What is too
// much is refused with what to do instead. [V1-21]
func TestParkedRows(t *testing.T) {
	w := newWorld(t)
	w.useMonitor(t)
	row := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"queue":"orders","key":"order-42","type":"placed","attempts":10,"reason":"The group is missing","parkedAt":"2026-11-02T03:04:05.678Z"}`, id)
	}
	rows := func(n int) string {
		return `{"rows":[` + strings.TrimSuffix(strings.Repeat(row("a")+",", n), ",") + `]}`
	}
	var list asideList
	w.json(t, "GET", "/outbox/shop/parked", "", 200, &list)
	if list.Reported != nil || list.Outbox != "shop" || len(list.Rows) != 0 {
		t.Errorf("before a report: got %+v", list)
	}
	w.json(t, "POST", "/outbox/shop/parked", `{"rows":[`+row("a")+","+row("b")+`],"more":true}`, 200, &struct{}{})
	w.json(t, "GET", "/outbox/shop/parked", "", 200, &list)
	if list.Reported == nil || len(list.Rows) != 2 || !list.More || list.Rows[1].ID != "b" || list.Rows[0].Reason != "The group is missing" || list.Rows[0].ParkedAt.Format(time.RFC3339Nano) != "2026-11-02T03:04:05.678Z" {
		t.Errorf("got %+v", list)
	}
	for _, tt := range []struct{ path, body, part string }{
		{"shop", rows(asideRowsMax + 1), "101 rows were reported, and 100 are allowed. Report the earliest"},
		{"shop", `{"rows":[` + strings.Replace(row("a"), "The group", strings.Repeat("x", asideTextMax), 1) + `]}`, "The reason of a row has 1035 bytes, and 1024 are allowed"},
		{"shop", `{"rows":[` + row("") + `]}`, "A row has no id"},
		{"shop", `{"rows":[{"id":"a","body":"secret"}]}`, "body"},
		{"no%20name", `{"rows":[]}`, "The name of an outbox has"},
		{strings.Repeat("x", 101), `{"rows":[]}`, "The name of an outbox has"},
	} {
		if status, text := w.ask("POST", "/v1/outbox/"+tt.path+"/parked", "application/json", tt.body); status != 400 || !strings.Contains(text, tt.part) {
			t.Errorf("%s %.60s: got %d %s, want %s", tt.path, tt.body, status, text, tt.part)
		}
	}
	w.json(t, "GET", "/outbox/shop/parked", "", 200, &list)
	if len(list.Rows) != 2 {
		t.Errorf("a refused report has changed what is known: %+v", list)
	}
	for n := range asideBoxesMax - 1 {
		w.json(t, "POST", fmt.Sprintf("/outbox/box-%d/parked", n), rows(asideRowsMax), 200, &struct{}{})
	}
	if status, text := w.ask("POST", "/v1/outbox/late/parked", "application/json", rows(1)); status != 409 || !strings.Contains(text, "TooManyOutboxes") || !strings.Contains(text, "tenaq outbox parked list") {
		t.Errorf("one outbox too many: got %d %s", status, text)
	}
	w.json(t, "POST", "/outbox/shop/parked", rows(0), 200, &struct{}{}) // which is known
}

// Rows that relays stop reporting are dropped after a day. [V1-21]
func TestParkedRowsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsides()
		report := func(outbox string) bool {
			now := time.Now()
			return a.put(asideList{Outbox: outbox, Reported: &now, Rows: []AsideRow{{ID: "a"}}}, nil)
		}
		for n := range asideBoxesMax {
			if !report(fmt.Sprint(n)) {
				t.Fatalf("outbox %d is refused", n)
			}
		}
		time.Sleep(asideKeep)
		if len(a.get("0").Rows) != 1 || report("late") {
			t.Error("rows are forgotten too early")
		}
		time.Sleep(time.Second)
		if got := a.get("0"); len(got.Rows) != 0 || got.Reported != nil || !report("late") {
			t.Errorf("after a day: got %+v", got)
		}
	})
}

// Only a key with the right to report can report, and reports are visible to the account of the
// server. [V1-21]
func TestParkedRowsRights(t *testing.T) {
	k := newKeyed(t, `{"id": "TQRELAY1", "secret": "the-secret-of-TQRELAY1", "allow": ["tenaq:ReportOutbox"]}`, `{"id": "TQLOOKS1", "secret": "the-secret-of-TQLOOKS1", "allow": ["tenaq:View*"]}`,
		`{"id": "TQOTHER1", "secret": "the-secret-of-TQOTHER1", "allow": ["*"], "account": "111111111111"}`)
	k.useMonitor(t)
	for _, tt := range []struct {
		who, method string
		status      int
	}{{"TQLOOKS1", "POST", 403}, {"TQOTHER1", "POST", 403}, {"TQRELAY1", "POST", 200}, {"TQRELAY1", "GET", 403}, {"TQOTHER1", "GET", 403}, {"TQLOOKS1", "GET", 200}} {
		body := ""
		if tt.method == "POST" {
			body = `{"rows":[]}`
		}
		if status, text := k.as(t, "key "+tt.who, tt.method, "/v1/outbox/shop/parked", body); status != tt.status || !json.Valid([]byte(text)) {
			t.Errorf("%s %s: got %d %s, want %d", tt.who, tt.method, status, text, tt.status)
		}
	}
}
