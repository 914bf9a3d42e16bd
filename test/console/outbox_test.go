package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// An outbox is in the menu and on its page when its relay reports, and its page says how to begin
// before that. [V1-18]
func TestOutbox(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := s.open(t, "#/outbox")
	b.sees("No relay of an outbox reports to this server")
	if strings.Contains(b.text(".places"), "Outbox") {
		t.Error("the menu has an outbox")
	}
	b.judged("no-outbox")
	now := time.Now()
	s.tell("Tenaq/Outbox", "Outbox", "shop", "OldestDueAge", now, 41)
	for name, n := range map[string]int{"ParkedRows": 2, "PendingRows": 1120, "DueRows": 14} {
		s.tell("Tenaq/Outbox", "Outbox", "shop", name, now, n)
	}
	s.tell("Tenaq/Outbox", "Outbox", "app.db", "OldestDueAge", now.Add(-3*time.Hour), 0)
	b.press("r")
	b.sees("1,120")
	b.sees("has not reported for")
	b.until("the menu has it", `[...document.querySelectorAll(".places a")].some((e) => e.innerText.includes("Outbox") && e.innerText.includes("2"))`)
	b.judged("outbox")
	b.sees("No relay has reported them")
	b.press("c")
	b.sees("Commands for this screen")
	b.sees("tenaq outbox parked list")
	b.press("\x1b")
	b.closes()
	var rows []object
	for i, line := range append([]string{"The group is missing", "The queue takes messages of at most 262144 bytes"}, corpus(t)...) {
		line = line[:min(len(line), 900)]
		row := object{"id": fmt.Sprintf("018f3a5e-0000-7000-8000-%012d", i), "queue": "orders", "attempts": 10, "reason": line, "parkedAt": now.Add(time.Duration(i) * time.Second)}
		if i > 1 {
			row["queue"], row["key"], row["type"] = line, line, line
		}
		rows = append(rows, row)
	}
	s.ask("/v1/outbox/shop/parked", object{"rows": rows[:2], "more": true}, nil)
	b.press("r")
	b.sees("The queue takes messages of at most 262144 bytes")
	b.sees("Others were set aside later")
	b.sees("tenaq outbox parked release --queue orders --run")
	b.press("j")
	b.until("the first row has the focus", `document.activeElement.innerText === "app.db"`)
	b.press("\r")
	b.until("its page is open", `location.hash === "#/outbox/app.db"`)
	b.sees("There are none.")
	b.press("g", "o")
	b.click(".places a", "Outbox")
	b.click("a[data-row]", "shop")
	b.until("its page is open", `location.hash === "#/outbox/shop"`)
	b.click("main details summary", "Commands")
	b.sees("tenaq outbox parked release 018f3a5e-0000-7000-8000-000000000000")
	b.judged("outbox-rows")
	if eval[bool](b, `!!document.querySelector("main .list button:not(.commands button)")`) {
		t.Error("the page has a button for what only a command can do")
	}
	for i, row := range rows[2:] { // with buttons for ids that no relay makes
		row["id"] = fmt.Sprintf("%d %s", i, row["reason"])
	}
	for i := range slices.Chunk(rows, 50) {
		s.ask("/v1/outbox/shop/parked", object{"rows": i, "orders": []string{"release", "discard"}}, nil)
		b.press("r")
		b.until("the rows are there", fmt.Sprintf(`document.querySelectorAll("main section tbody tr").length === %d`, len(i)))
		b.harmless("rows of an outbox")
	}
}
