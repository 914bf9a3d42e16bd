package v1

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const asideAt = "2026-11-02T03:04:05.678901Z"

// seenRows is the JSON of rows that were set aside at a time.
func seenRows(at string, ids ...string) string {
	var rows []map[string]any
	for _, id := range ids {
		rows = append(rows, map[string]any{"id": id, "parkedAt": at})
	}
	text, _ := json.Marshal(rows)
	return string(text)
}

// A report is the JSON of what a relay reports.
func report(takes, at string, ids ...string) string {
	var rows []map[string]any
	for _, id := range ids {
		rows = append(rows, map[string]any{"id": id, "queue": "orders", "attempts": 1, "reason": "r", "parkedAt": at})
	}
	text, _ := json.Marshal(append([]map[string]any{}, rows...))
	return fmt.Sprintf(`{"rows":%s,"orders":[%s]}`, text, takes)
}

func (w *world) ordersOf(t *testing.T, outbox string) (all []string) {
	t.Helper()
	var got AsideOrders
	w.json(t, "GET", "/outbox/"+outbox+"/orders", "", 200, &got)
	for _, o := range got.Orders {
		all = append(all, o.Do+" "+o.ID+" "+o.ParkedAt.Format(time.RFC3339Nano))
	}
	return all
}

// An order about rows as they were reported is given to relays, again and again, until a report
// does not have the row as it was. To repeat an order changes nothing. [V1-27]
func TestOrders(t *testing.T) {
	w := newWorld(t)
	w.useMonitor(t)
	var got AsideOrders
	const takes = `"release","discard"`
	w.json(t, "POST", "/outbox/shop/parked", report(takes, asideAt, "a", "b", "c"), 200, &got)
	if got.Orders == nil || len(got.Orders) != 0 {
		t.Errorf("a report is answered %+v before any order", got)
	}
	var made placed
	order := func(do, at string, ids ...string) {
		t.Helper()
		w.json(t, "POST", "/outbox/shop/parked/"+do, `{"rows":`+seenRows(at, ids...)+`}`, 200, &made)
	}
	order("release", asideAt, "a", "b")
	if made.Rows != 2 || made.Outbox != "shop" || time.Until(made.Until) < 9*time.Minute {
		t.Errorf("the order is answered %+v", made)
	}
	order("release", asideAt, "b", "a", "b")
	order("discard", "2026-11-02T04:04:05.678901+01:00", "c") // the same time
	want := fmt.Sprint([]string{"release a " + asideAt, "release b " + asideAt, "discard c 2026-11-02T04:04:05.678901+01:00"})
	for range 2 { // the first answer may be lost
		if got := fmt.Sprint(w.ordersOf(t, "shop")); got != want {
			t.Errorf("relays get %s, want %s", got, want)
		}
	}
	var list asideList
	w.json(t, "GET", "/outbox/shop/parked", "", 200, &list)
	if len(list.Orders) != 3 || list.Orders[0].By != "unsigned" || time.Since(list.Orders[0].Ordered) > time.Minute || fmt.Sprint(list.Takes) != "[release discard]" {
		t.Errorf("the list says %+v", list)
	}
	// b is gone, and c was set aside again. A second relay, of an earlier version, takes no orders.
	w.json(t, "POST", "/outbox/shop/parked", report("", asideAt, "a"), 200, &got)
	if len(got.Orders) != 1 || got.Orders[0].ID != "a" {
		t.Errorf("a report is answered %+v, want the order that is left", got)
	}
	w.json(t, "POST", "/outbox/shop/parked", report(takes, "2026-11-02T03:04:05.678902Z", "a", "c"), 200, &got)
	if len(got.Orders) != 0 || len(w.ordersOf(t, "shop")) != 0 {
		t.Errorf("orders about rows that were set aside again: %+v", got)
	}
	order("release", "2026-11-02T03:04:05.678902Z", "a")
	// A report that has not all rows ends no order about a later one.
	short := strings.Replace(report(takes, asideAt, "b"), `{`, `{"more":true,`, 1)
	w.json(t, "POST", "/outbox/shop/parked", short, 200, &got)
	if len(got.Orders) != 1 || got.Orders[0].ID != "a" {
		t.Errorf("a short report is answered %+v, want the order about a later row", got)
	}
	if got := w.ordersOf(t, "other"); len(got) != 0 {
		t.Errorf("another outbox has the orders %q", got)
	}
	if got := fmt.Sprint(logged(t, w)); !strings.HasPrefix(got, "[ManageOutbox shop: release a ManageOutbox shop: discard c ManageOutbox shop: release b a b ManageOutbox shop: release a b") {
		t.Errorf("the action log has %s", got)
	}
}

func logged(t *testing.T, w *world) (all []string) {
	t.Helper()
	var list struct{ Actions []Action }
	w.json(t, "GET", "/actions", "", 200, &list)
	for _, a := range list.Actions {
		all = append(all, a.Action+" "+a.About+": "+a.Text)
	}
	return all
}

// The action log has the id of each row of an order. [V1-27]
func TestOrderLogsAllRows(t *testing.T) {
	w := newWorld(t)
	w.useMonitor(t)
	var ids []string
	for i := range asideRowsMax {
		ids = append(ids, fmt.Sprintf("018f3a5e-0000-7000-8000-%012d", i))
	}
	w.json(t, "POST", "/outbox/shop/parked", report(`"discard"`, asideAt, ids...), 200, &AsideOrders{})
	w.json(t, "POST", "/outbox/shop/parked/discard", `{"rows":`+seenRows(asideAt, ids...)+`}`, 200, &placed{})
	text := fmt.Sprint(logged(t, w))
	for _, id := range ids {
		if !strings.Contains(text, id) {
			t.Errorf("the action log lacks %s", id)
		}
	}
	if got := w.ordersOf(t, "shop"); len(got) != asideRowsMax {
		t.Errorf("there are %d orders", len(got))
	}
}

// What cannot be ordered is refused, with what to do instead, and changes nothing. [V1-27]
func TestOrdersRefused(t *testing.T) {
	w := newWorld(t)
	w.useMonitor(t)
	hostile := "\u202e'; DROP TABLE outbox; -- \x00 ../../%2F<script>"
	w.json(t, "POST", "/outbox/shop/parked", report(`"release"`, asideAt, "a", "b", hostile), 200, &AsideOrders{})
	w.json(t, "POST", "/outbox/mute/parked", report("", asideAt, "a"), 200, &AsideOrders{})
	w.json(t, "POST", "/outbox/both/parked", report(`"release","discard"`, asideAt, "a"), 200, &AsideOrders{})
	w.json(t, "POST", "/outbox/both/parked/release", `{"rows":`+seenRows(asideAt, "a")+`}`, 200, &placed{})
	many := make([]string, asideRowsMax+1)
	for i := range many {
		many[i] = "a"
	}
	for _, tt := range []struct {
		path, body string
		status     int
		part       string
	}{
		{"shop/parked/release", `{"rows":[]}`, 400, "The order is about 0 rows. Name 1 to 100."},
		{"shop/parked/release", `{}`, 400, "Name 1 to 100"},
		{"shop/parked/release", `{"rows":` + seenRows(asideAt, many...) + `}`, 400, "about 101 rows"},
		{"shop/parked/release", `{"rows":` + seenRows(asideAt, "a") + `,"all":true}`, 400, "all"},
		{"shop/parked/release", `{"rows":[{"id":"a","parkedAt":"yesterday"}]}`, 400, "parsing time"},
		{"shop/parked/release", `{"rows":[{"id":"a"}]}`, 409, "RowChanged"},
		{"shop/parked/release", `{"rows":` + seenRows(asideAt, "a", "nobody") + `}`, 409, `The row \"nobody\" is not reported as set aside at that time: read the list again`},
		{"shop/parked/release", `{"rows":` + seenRows("2026-11-02T03:04:05.678Z", "a") + `}`, 409, "RowChanged"},
		{"shop/parked/discard", `{"rows":` + seenRows(asideAt, "a") + `}`, 409, "takes orders to discard rows. Use tenaq outbox parked discard where its database is, or run a relay with --orders all"},
		{"mute/parked/release", `{"rows":` + seenRows(asideAt, "a") + `}`, 409, "NoRelayTakesOrder"},
		{"none/parked/release", `{"rows":` + seenRows(asideAt, "a") + `}`, 404, "UnknownOutbox"},
		{"both/parked/discard", `{"rows":` + seenRows(asideAt, "a") + `}`, 409, `unsigned has ordered to release the row`},
		{"shop/parked", report(`"purge"`, asideAt), 400, "a list of release and discard"},
	} {
		if status, text := w.ask("POST", "/v1/outbox/"+tt.path, "application/json", tt.body); status != tt.status || !strings.Contains(text, tt.part) || !json.Valid([]byte(text)) {
			t.Errorf("%s %.80s: got %d %s, want %d %s", tt.path, tt.body, status, text, tt.status, tt.part)
		}
	}
	for _, name := range []string{"shop", "mute", "none"} {
		if got := w.ordersOf(t, name); len(got) != 0 {
			t.Errorf("%s: what was refused is ordered: %q", name, got)
		}
	}
	w.json(t, "POST", "/outbox/shop/parked/release", `{"rows":`+seenRows(asideAt, hostile)+`}`, 200, &placed{})
	if got := w.ordersOf(t, "shop"); len(got) != 1 || got[0] != "release "+hostile+" "+asideAt {
		t.Errorf("a strange id is ordered as %q", got)
	}
}

// An order ends after ten minutes, and none is placed when no relay has reported for three. [V1-27]
func TestOrdersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsides()
		row := AsideRow{ID: "a", ParkedAt: time.Now()}
		put := func(takes ...string) {
			now := time.Now()
			a.put(asideList{Outbox: "shop", Reported: &now, Rows: []AsideRow{row}}, takes)
		}
		order := func(do string) string {
			if err := a.order("shop", do, "ops", []AsideSeen{row.seen()}, time.Now()); err != nil {
				return err.(*Error).Code
			}
			return ""
		}
		put(OrderRelease)
		time.Sleep(orderTaken)
		if got := order(OrderRelease); got != "" {
			t.Fatalf("an order is refused with %s", got)
		}
		time.Sleep(time.Second)
		if got := order(OrderRelease); got != "NoRelayTakesOrder" {
			t.Errorf("with a relay that has not reported lately, an order is answered %q", got)
		}
		put() // of a relay that takes none
		if got := order(OrderRelease); got != "NoRelayTakesOrder" {
			t.Errorf("with a relay that takes no orders, one is answered %q", got)
		}
		time.Sleep(orderKeep - time.Second)
		put(OrderRelease, OrderDiscard)
		if got := a.ordersFor("shop"); len(got) != 1 || order(OrderDiscard) != "OtherOrder" {
			t.Errorf("after ten minutes: %+v", got)
		}
		time.Sleep(time.Millisecond)
		if got := a.ordersFor("shop"); len(got) != 0 || len(a.get("shop").Orders) != 0 {
			t.Errorf("the order has not ended: %+v", got)
		}
		if got := order(OrderDiscard); got != "" {
			t.Errorf("after an order has ended, another is refused with %s", got)
		}
	})
}

// To order needs the right to manage, and relays get orders with the right to report. Both are for
// the account of the server. [V1-27]
func TestOrdersRights(t *testing.T) {
	key := func(id, more string) string {
		return fmt.Sprintf(`{"id": %q, "secret": "the-secret-of-%s", %s}`, id, id, more)
	}
	k := newKeyed(t, key("TQRELAY1", `"allow": ["tenaq:ReportOutbox"]`), key("TQLOOKS1", `"allow": ["tenaq:View*"]`),
		key("TQOPS1", `"allow": ["tenaq:ManageOutbox"], "name": "ops"`), key("TQOTHER1", `"allow": ["*"], "account": "111111111111"`))
	k.useMonitor(t)
	for _, tt := range []struct {
		who, method, path string
		status            int
	}{
		{"TQRELAY1", "POST", "/parked", 200}, {"TQRELAY1", "POST", "/parked/release", 403}, {"TQLOOKS1", "POST", "/parked/release", 403}, {"TQLOOKS1", "POST", "/parked/discard", 403},
		{"TQOTHER1", "POST", "/parked/discard", 403}, {"TQOPS1", "POST", "/parked", 403}, {"TQOPS1", "GET", "/orders", 403}, {"TQLOOKS1", "GET", "/orders", 403}, {"TQOTHER1", "GET", "/orders", 403},
		{"TQOPS1", "POST", "/parked/release", 200}, {"TQRELAY1", "GET", "/orders", 200},
	} {
		body := map[string]string{"/parked": report(`"release"`, asideAt, "a")}[tt.path]
		if body == "" && tt.method == "POST" {
			body = `{"rows":` + seenRows(asideAt, "a") + `}`
		}
		status, text := k.as(t, "key "+tt.who, tt.method, "/v1/outbox/shop"+tt.path, body)
		if status != tt.status {
			t.Errorf("%s %s %s: got %d %s, want %d", tt.who, tt.method, tt.path, status, text, tt.status)
		}
		if tt.path == "/orders" && status == http.StatusOK && !strings.Contains(text, `"by":"ops"`) {
			t.Errorf("the relay is told %s", text)
		}
	}
}
