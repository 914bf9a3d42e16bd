package console_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/evanw/esbuild/pkg/api"

	"tenaq/internal/testing/built"
	"tenaq/internal/testing/proof"
)

// manyQueues is how many queues the list has. A short test has room for fewer.
func manyQueues() int {
	if testing.Short() {
		return 3_000
	}
	return 100_000
}

// The list of very many queues is searched, sorted and paged in the server: a page of it has few
// nodes, and its end is one jump away.
func TestManyQueues(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	n := manyQueues()
	s.createMany(n)
	for i := range 3 {
		for range i + 1 {
			s.send(many(n-1-i), "x", nil)
		}
	}
	s.waits(n)
	b := s.open(t, "#/?sort=visible")
	row := func(i int) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".tall .row a[data-row]")][%d]?.innerText`, i)
	}
	b.until("the fullest is first", row(0)+" === "+quoted(many(n-3)))
	b.shoot("many")
	b.goTo("#/?sort=name")
	b.until("the first is there", row(0)+" === "+quoted(many(0)))
	eval[bool](b, `(document.querySelector(".scroller").scrollTop = 1e9, true)`)
	b.until("the last is there", `document.querySelector(".scroller").innerText.includes(`+quoted(many(n-1))+`)`)
	eval[[]float64](b, fmt.Sprintf(jumps, 60))
	if nodes := eval[int](b, `document.querySelectorAll("*").length`); nodes > 1500 {
		t.Errorf("the page has %d nodes", nodes)
	}
	b.goTo("#/?text=" + many(n / 2)[6:])
	b.sees("1 of ")
	b.until("it is found", row(0)+" === "+quoted(many(n/2)))
}

// jumps jumps about in the list, and returns how long each frame took.
const jumps = `(async () => { const s = document.querySelector(".scroller"), all = []; let at = performance.now();
	for (let i = 0; i < %d; i++) { s.scrollTop = (i * 7919 * 32) %% s.scrollHeight; await new Promise(requestAnimationFrame); all.push(performance.now() - at); at = performance.now(); } return all })()`

// hurried makes the page that is opened next read its list twenty times as often.
func (b *tab) hurried() {
	b.t.Helper()
	b.waits(5*time.Second, 250*time.Millisecond)
}

// waits makes the pages that are opened next wait for another time.
func (b *tab) waits(before, after time.Duration) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: fmt.Sprintf(`{ const wait = setTimeout; window.setTimeout = (what, ms, ...more) => wait(what, ms === %d ? %d : ms, ...more) }`,
			before.Milliseconds(), after.Milliseconds())})
	if err != nil {
		b.t.Fatal(err)
	}
}

// points moves the pointer to the middle of an element, or away from all if there is no selector.
func (b *tab) points(selector string) {
	b.t.Helper()
	at := []float64{0, 0}
	if selector != "" {
		at = eval[[]float64](b, fmt.Sprintf(`(() => { const r = document.querySelector(%q).getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()`, selector))
	}
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, at[0], at[1]))
}

// Under the pointer the rows of the list keep their order while their numbers change. Without it
// they are sorted again.
func TestOrderUnderThePointer(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--alarm-minute", "6s") // the server looks twice a second
	for i, queue := range []string{"mails", "orders"} {
		s.create(queue, nil, nil)
		for range i + 1 {
			s.send(queue, "x", nil)
		}
	}
	b := s.blank(t)
	b.hurried()
	b.visit(s.URL() + "/console/#/?sort=visible")
	const rows = `[...document.querySelectorAll(".tall .row")].map((r) => r.querySelector("a[data-row]").innerText + " " + r.querySelector(".number").innerText).join()`
	b.until("the fullest is first", rows+` === "orders 2,mails 1"`)
	b.points(".scroller")
	for range 4 {
		s.send("mails", "x", nil)
	}
	b.until("the numbers change", rows+`.includes("mails 5")`)
	if got := eval[string](b, rows); got != "orders 2,mails 5" {
		t.Errorf("under the pointer the rows are %s", got)
	}
	b.points("")
	b.until("they are sorted again", rows+` === "mails 5,orders 2"`)
}

// While queues come and go, a list that is scrolled repeats none and has each in its place, under
// the pointer too, and what is shown never makes way for rows without a name.
func TestQueuesComeAndGo(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--alarm-minute", "2s") // so the server forgets a snapshot within a second
	const n = 240
	s.createMany(n)
	s.waits(n)
	b := s.blank(t)
	b.hurried()
	b.visit(s.URL() + "/console/#/?sort=name")
	const (
		rows   = `[...document.querySelectorAll(".tall .row")].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((r) => r.querySelector("a[data-row]")?.innerText ?? "")`
		filled = `((names) => names.length > 20 && names.every((n) => n))(` + rows + `)`
	)
	scroll := func(row int) {
		t.Helper()
		eval[bool](b, fmt.Sprintf(`(document.querySelector(".scroller").scrollTop = %d * 32, true)`, row))
		b.until(fmt.Sprintf("the rows from %d are there", row), fmt.Sprintf(`document.querySelector('.row[aria-rowindex="%d"]') && `, row+2)+filled)
	}
	b.until("the first are there", filled)
	// whatever the page shows is in order
	eval[bool](b, `(window.wrong = [], window.gaps = 0, new MutationObserver(() => { const names = `+rows+`, known = names.filter((n) => n);
		if (known.some((n, i) => i > 0 && n <= known[i - 1])) wrong.push(names.join(" ")); gaps += names.length - known.length })
		.observe(document.querySelector(".tall"), {childList: true, subtree: true, characterData: true}), true)`)
	b.points(".scroller")
	for i := range 10 {
		s.create(fmt.Sprintf("new-%d", i), nil, nil)
		s.ask("DeleteQueue", object{"QueueUrl": s.url(many(170 + i))}, nil)
		scroll(20 * i)
	}
	b.points("")
	b.until("no queue that has gone is shown", rows+`.every((n) => !n.startsWith("queue-00017"))`)

	scroll(90) // rows of two pages
	const middle = `document.querySelector('.row[aria-rowindex="102"]')?.innerText.startsWith("%s")`
	b.until("all ten are there", fmt.Sprintf(middle, many(90)))
	eval[bool](b, `(gaps = 0, true)`)
	for i := 10; i < 14; i++ {
		s.create(fmt.Sprintf("new-%d", i), nil, nil)
	}
	b.until("the list has moved on by four", fmt.Sprintf(middle, many(86)))
	if gaps := eval[int](b, "gaps"); gaps > 0 {
		t.Errorf("%d times a row that was shown had no name", gaps)
	}
	for _, names := range eval[[]string](b, "wrong") {
		t.Errorf("the page showed these rows: %s", names)
	}
	scroll(0)
	b.until("the first are there", rows+`[0] === "new-0"`)
}

// A message is read as it was sent, by a link to it, in few clicks; receives are not counted.
// [CONSOLE-8]
func TestMessage(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.open(t, "#/q/orders/messages?state=delayed")
	b.click("a[data-row]", "")
	for _, text := range []string{`"id": ` + exact, `"amount": 1e400`, `"half": 0.10`, `grüße 🎉`, `\u202e`, "tenant", "00 01 02 ff"} {
		b.sees(text)
	}
	link := eval[string](b, `document.querySelector(".message header a").getAttribute("href")`)
	b.goTo(link)
	b.sees(exact)
	b.do()
	b.click(".choices button", "Hex")
	b.sees("00000000  7b 22 69 64")
	// a dead letter, as for a person who was woken up: from its alarm or list to the reason and the
	// command
	b.goTo("#/")
	b.click("a.dead", "9 dead letters")  // one
	b.click(".kindhead", "CardDeclined") // two
	b.sees("tenaq dead redrive orders-dlq --kind")
	b.goTo("#/q/orders/history?outcome=dead_lettered&text=4203")
	b.click("a[data-row]", "")
	b.sees("dead lettered, to orders-dlq")
	b.goTo("#/q/orders/messages?text=4225")
	b.sees("1 of 17 messages loaded")
	b.click("button", "Search the bodies of the whole queue")
	b.sees("1 message of the queue has this text")
}

// A search of all bodies says how far it is, and ends in the server when it is stopped or its page
// is left. What was found stays, and the search goes on from there. [CONSOLE-18]
func TestStopSearch(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	n := proof.Count(20_000, 50_000, 50_000, 1_000_000)
	s.create("orders", nil, nil)
	first := s.send("orders", "the needle", nil)
	s.sendMany("orders", n-2)
	last := s.send("orders", "the other needle", nil)
	b := s.open(t, "#/q/orders/messages?text=needle")
	b.sees("1 of 50 messages loaded")
	eval[bool](b, `(performance.setResourceTimingBufferSize(10_000), true)`)
	// asked is how often the page has asked the server, at a time when it asks nothing more
	asked := func() int {
		t.Helper()
		return eval[int](b, `(async () => { for (let i = 0; i < 30; i++) await new Promise(requestAnimationFrame);
			return performance.getEntriesByType("resource").filter((r) => r.name.endsWith("/tasks/count")).length })()`)
	}
	// early does something as soon as the page says how far it is
	early := func(do string) {
		t.Helper()
		eval[bool](b, `(new MutationObserver((_, own) => { if (document.querySelector(".search").innerText.includes("Scanned")) { own.disconnect(); `+do+` } })
			.observe(document.querySelector(".search"), {childList: true, subtree: true, characterData: true}), true)`)
		b.click(".search button", "Search")
	}
	early(`document.querySelector(".search button").click()`)
	b.until("it has stopped", `document.querySelector(".search button")?.innerText === "Search further"`)
	found := b.text(".search")
	if !strings.Contains(found, "of about") || !strings.Contains(found, "At least 1 message of the queue has this text") || !strings.Contains(found, first[:8]) {
		t.Errorf("the search that was stopped says %q", found)
	}
	b.judged("search")
	parts := n / 3072
	stopped := asked()
	if stopped < 1 || stopped >= parts {
		t.Errorf("the search that was stopped asked %d times, want fewer than %d", stopped, parts)
	}
	if again := asked(); again != stopped || b.text(".search") != found {
		t.Errorf("after its end the search asked %d times more and says %q", again-stopped, b.text(".search"))
	}
	b.click(".search button", "Search further")
	b.sees(fmt.Sprintf("Scanned %s messages. 2 messages of the queue have this text in the body.", grouped(n)))
	if found := b.text(".search"); !strings.Contains(found, last[:8]) || strings.Contains(found, "Stop") {
		t.Errorf("at its end the search says %q", found)
	}
	b.fill("Contains", "no such text")
	b.sees("0 of 50 messages loaded")
	whole := asked()
	early(`location.hash = "#/"`)
	b.until("the page is left", `document.querySelector(".tall .row")`)
	left := asked()
	if left <= whole || left-whole >= parts {
		t.Errorf("the page that was left asked %d times, want at least once and fewer than %d", left-whole, parts)
	}
	if again := asked(); again != left {
		t.Errorf("the page that was left asked %d times more", again-left)
	}
}

// grouped is a number as a page shows it.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// A message whose body is outside the queue says where, and shows the pointer as it is. The
// attribute alone changes nothing.
func TestElsewhereBody(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("orders", nil, nil)
	big := object{"MessageAttributes": object{"ExtendedPayloadSize": object{"DataType": "Number", "StringValue": "2097152"}}}
	id := s.send("orders", `["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"orders-bodies","s3Key":"work/<b>17</b>"}]`, big)
	b := s.open(t, "#/m/"+id)
	b.sees("This is a pointer. The body of 2.0 MiB is stored outside the queue, as work/<b>17</b> in orders-bodies.")
	b.sees(`"s3Key": "work/<b>17</b>"`)
	b.judged("pointer")
	for _, body := range []string{"null", `{"s3Key":7}`, "[]", "plain text"} {
		b.goTo("#/m/" + s.send("orders", body, big))
		b.until("the page has "+body, fmt.Sprintf(`document.querySelector(".message pre")?.innerText.replace(/\s+/g, "") === %s`, quoted(strings.ReplaceAll(body, " ", ""))))
		if strings.Contains(b.text("main"), "pointer") {
			t.Errorf("%s is shown as a pointer", body)
		}
	}
}

// The charts and figures follow what happens, without a reload.
func TestLive(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("orders", nil, nil)
	b := s.open(t, "#/q/orders")
	b.until("it is live", `document.querySelector(".connection.good")`)
	for i := range 20 {
		s.send("orders", fmt.Sprint(i), nil)
	}
	b.until("they are counted", `document.querySelector(".figure .value")?.innerText === "20"`)
	b.click("summary", "")
	b.until("the table has them", `[...document.querySelectorAll(".numbers tbody tr")].some((r) => Number(r.cells[1].innerText) > 0)`)
	b.press(" ")
	b.sees("Live updates are paused")
	s.send("orders", "more", nil)
	time.Sleep(1500 * time.Millisecond) // longer than a tick
	if got := b.text(".figure .value"); got != "20" {
		t.Errorf("a paused page shows %s", got)
	}
	b.press(" ")
	b.until("it goes on", `document.querySelector(".figure .value")?.innerText === "21"`)
	b.press("t")
	b.sees("UTC")
}

// Only a tab that is seen holds a live stream, so any number of tabs can be open. A browser has six
// connections to a server, and each stream takes one. [V1-13]
func TestTabs(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("orders", nil, nil)
	s.send("orders", "one", nil)
	sees := func(b *tab, messages string) {
		t.Helper()
		b.until("it is live", `document.querySelector(".connection.good")`)
		b.until("it has "+messages, `document.querySelector(".figure .value")?.innerText === `+quoted(messages))
	}
	tabs := []*tab{s.blank(t)}
	for len(tabs) < 8 {
		tabs = append(tabs, tabs[0].beside())
	}
	for i, b := range tabs {
		b.visit(s.URL() + "/console/#/q/orders")
		sees(b, "1")
		if i < len(tabs)-1 {
			b.hide()
		}
	}
	streams := -1
	for end := time.Now().Add(time.Minute); streams != 1; time.Sleep(25 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("eight tabs, of which one is seen, hold %d streams", streams)
		}
		streams = s.streams()
	}
	s.send("orders", "two", nil)
	sees(tabs[7], "2")
}

// hide does what a person does who turns to another tab.
func (b *tab) hide() {
	b.t.Helper()
	// Hiding freezes it as well, which a browser does later.
	for _, state := range []page.SetWebLifecycleStateState{page.SetWebLifecycleStateStateFrozen, page.SetWebLifecycleStateStateActive} {
		if _, err := chromedp.Call(b.ctx, page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: state}); err != nil {
			b.t.Fatal(err)
		}
	}
	b.until("the tab is hidden", "document.hidden")
}

// streams is how many live streams this machine holds: how many fewer than eight it can add.
func (s *server) streams() int {
	s.t.Helper()
	for added := 0; ; added++ {
		res, err := client.Get(s.URL() + "/v1/live")
		if err != nil {
			s.t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusTooManyRequests {
			return 8 - added
		}
	}
}

// begin is where the first line of a chart begins, as a part of its width.
const begin = `(() => { const c = document.querySelectorAll(".plot canvas")[%d]; if (!c) return -1;
	const x = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, near = (p) => [31, 111, 159].every((v, k) => Math.abs(x[p + k] - v) < 25) && x[p + 3] > 200;
	for (let i = 0; i < c.width; i++) for (let j = 0; j < c.height; j++) if (near(4 * (j * c.width + i))) return i / c.width;
	return -1 })()`

// The charts of a queue begin with the minutes before the page was opened, and the list shows those
// of each queue. A time without data is a gap and no zero. [V1-19]
func TestMinutes(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--alarm-minute", "2s")
	// knows waits until the server has some minutes of a queue.
	knows := func(queue string, minutes int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			var list struct {
				Queues map[string]struct{ Visible []*float64 }
			}
			s.ask("/v1/series?queues="+queue, nil, &list)
			known := 0
			for _, v := range list.Queues[queue].Visible {
				if v != nil {
					known++
				}
			}
			if known >= minutes {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the server knows %d minutes of %s, want %d", known, queue, minutes)
			}
		}
	}
	s.create("orders", nil, nil)
	for i := range 20 {
		s.send("orders", fmt.Sprint(i), nil)
	}
	knows("orders", 3)
	s.create("mails", nil, nil)
	knows("mails", 1)

	b := s.open(t, "#/?sort=name")
	b.until("each queue has its line", `document.querySelectorAll(".spark").length === 2`)
	if lines := eval[[]float64](b, `[...document.querySelectorAll(".spark path")].map((p) => Number(/^M([0-9]+) [^M]*$/.exec(p.getAttribute("d"))?.[1] ?? -1))`); lines[1] <= 0 || lines[0] <= lines[1] {
		t.Errorf("the lines of mails and of orders begin at %v", lines)
	}
	if label := eval[string](b, `document.querySelectorAll(".spark")[1].getAttribute("aria-label")`); label != "visible: 20, at most 20" {
		t.Errorf("the line of orders is named %s", label)
	}
	b.judged("overview-minutes")
	b.goTo("#/q/orders")
	for chart := range 2 {
		from := fmt.Sprintf(begin, chart)
		b.until("the chart has its lines", from+" > 0")
		if got := eval[float64](b, from); got < 0.3 {
			t.Errorf("chart %d has a line from %.2f of its width, where the server has no data", chart, got)
		}
	}
	b.click("summary", "The numbers as a table")
	// what is sent now is 0, so it is a minute that has them
	b.until("the table has the minutes", `[...document.querySelectorAll(".numbers tbody tr")].some((r) => Number(r.cells[1].innerText) > 0 && r.cells[4].innerText === "20")`)
	b.until("the table has the gap", `[...document.querySelectorAll(".numbers tbody tr")].at(-1).innerText.match(/–/g).length === 6`)
	b.judged("queue-minutes")
	for last, rows := range map[string]int{"24h": 288, "6h": 360} {
		eval[bool](b, fmt.Sprintf(`(() => { const s = document.querySelector(".filters select"); s.value = %q; return s.dispatchEvent(new Event("change", {bubbles: true})) })()`, last))
		b.until("the address has the span", `location.hash === "#/q/orders?last=`+last+`"`)
		b.until("the table is longer", `document.querySelectorAll(".numbers tbody tr").length > 200`)
		b.do(chromedp.Reload()) // the table has no minutes since the page was opened
		b.click("summary", "The numbers as a table")
		b.until("the table has the span", fmt.Sprintf(`Math.abs(document.querySelectorAll(".numbers tbody tr").length - 5 - %d) <= 5`, rows))
	}
	// the chart goes on
	s.send("orders", "more", nil)
	b.until("it is counted", `document.querySelectorAll(".legend b")[3].innerText === "21"`)

	if os.Getenv("TENAQ_SCREENSHOTS") != "" { // half a minute of a shop, for the README
		shop := newShop(t, "--alarm-minute", "2s")
		for i := range 30 {
			shop.send("mails", fmt.Sprint(i), nil)
			if i%3 == 0 {
				shop.receive("orders", nil)
			}
			time.Sleep(time.Second)
		}
		b := shop.open(t, "")
		b.until("queues have their lines", `document.querySelectorAll(".spark").length >= 4`)
		b.picture("console-overview")
	}
}

// The charts show a known load, live and minute by minute. Counts are compared over the time in
// which the load was made, however long that was.
func TestKnownLoad(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--alarm-minute", "2s")
	s.create("orders", object{"VisibilityTimeout": "900"}, nil)
	b := s.blank(t)
	// seen sums the rows of the table that are later than those of the beginning
	const (
		streams = `performance.getEntriesByType("resource").filter((r) => r.name.includes("/v1/live")).length`
		collect = `(() => { const body = document.querySelector(".numbers tbody"), at = (r) => r.querySelector("time").dateTime, from = at(body.rows[0]), rows = new Map();
			const look = () => { for (const r of body.rows) if (at(r) > from) rows.set(at(r), [1, 2, 3].map((i) => Number(r.cells[i].innerText))); };
			new MutationObserver(look).observe(body, {childList: true, subtree: true, characterData: true});
			globalThis.seen = () => [...rows.values()].reduce((sum, r) => sum.map((n, i) => n + r[i]), [0, 0, 0]); return true })()`
		minutes = `[...document.querySelectorAll(".numbers tbody tr")].reduce((sum, r) => sum.map((n, i) => n + 2 * (Number(r.cells[i + 1].innerText.replace(",", "")) || 0)), [0, 0, 0])`
	)
	const load = 1200
	near := func(sums string, want int) string {
		return fmt.Sprintf(`%s.every((n) => Math.abs(n - %d) <= %[2]d * 0.05)`, sums, want)
	}
	loads := 0
	for whole := false; !whole; {
		if loads == 5 {
			t.Fatal("in five loads the stream never lasted")
		}
		b.visit("about:blank")
		b.visit(s.URL() + "/console/#/q/orders")
		b.until("it is live", `document.querySelector(".legend b") && document.querySelector(".legend b").innerText !== "–"`)
		b.click("summary", "The numbers as a table")
		b.until("the table is there", `document.querySelector(".numbers tbody tr time")`)
		before := eval[int](b, streams)
		eval[bool](b, collect)
		s.load("orders", load)
		loads++
		// a stream that breaks on a busy machine leaves a gap, which the chart shows as one
		b.until("the load has been shown, or there is a gap", near("seen()", load)+` || `+streams+fmt.Sprintf(" > %d", before))
		whole = eval[int](b, streams) == before
	}
	// what was before the first tick is in the minutes, which are rates of two seconds here
	want := loads * load
	for tries := 0; ; tries++ {
		b.visit("about:blank")
		b.visit(s.URL() + "/console/#/q/orders")
		b.until("it is live", `document.querySelector(".legend b") && document.querySelector(".legend b").innerText !== "–"`)
		b.click("summary", "The numbers as a table")
		b.until("the table has minutes", `document.querySelectorAll(".numbers tbody tr").length > 20`)
		sums := eval[[]float64](b, minutes)
		if eval[bool](b, near(minutes, want)) {
			t.Logf("%d loads of %d messages; the minutes show %v", loads, load, sums)
			break
		}
		if tries == 10 {
			t.Fatalf("the minutes show %v, want each about %d", sums, want)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// load sends, receives and deletes so many messages.
func (s *server) load(queue string, n int) {
	s.t.Helper()
	for range n / 10 {
		var entries []object
		for i := range 10 {
			entries = append(entries, object{"Id": fmt.Sprint(i), "MessageBody": "x"})
		}
		s.ask("SendMessageBatch", object{"QueueUrl": s.url(queue), "Entries": entries}, nil)
	}
	for left := n; left > 0; {
		var deletes []object
		for i, m := range s.receive(queue, nil) {
			deletes = append(deletes, object{"Id": fmt.Sprint(i), "ReceiptHandle": m.ReceiptHandle})
		}
		if len(deletes) == 0 {
			s.t.Fatalf("%d of %d messages are missing", left, n)
		}
		s.ask("DeleteMessageBatch", object{"QueueUrl": s.url(queue), "Entries": deletes}, nil)
		left -= len(deletes)
	}
}

// Workers that keep messages for longer than the visibility timeout make the page warn, with the
// timeout to set. Others do not, whatever the machine does. [CONSOLE-17, V1-22]
func TestSlowWorkers(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("quick", object{"VisibilityTimeout": "900"}, nil)
	s.create("slow", object{"VisibilityTimeout": "1"}, nil)
	const warning = `document.querySelector("section .problem")`
	s.load("quick", 10)
	b := s.blank(t)
	b.hurried()
	b.visit(s.URL() + "/console/#/q/quick")
	b.sees("Deletes are measured from now on.")
	b.until("the bucket is there", `/^(at most|between|over) \S+ \S+/.test(document.querySelectorAll("section .figure .value")[2].innerText)`)
	s.load("quick", 20)
	b.sees("20 messages since")
	b.until("the times are there", `/^[0-9.]+ (ms|s|min)/.test(document.querySelectorAll("section .figure .value")[2].innerText)`)
	if eval[bool](b, "!!"+warning) || strings.Contains(b.text("main"), "done twice") {
		t.Errorf("workers that are quick enough have a warning: %s", b.text("main"))
	}

	b.goTo("#/q/slow")
	b.sees("0 messages since")
	s.send("slow", "x", nil)
	held := s.receive("slow", nil)
	for end := time.Now().Add(time.Minute); s.depth("slow") != "1 0 0"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("another consumer cannot receive it: %s", s.depth("slow"))
		}
	}
	s.ask("DeleteMessage", object{"QueueUrl": s.url("slow"), "ReceiptHandle": held[0].ReceiptHandle}, nil)
	b.until("the page warns", warning)
	b.sees("Workers take longer than the visibility timeout: work is done twice.")
	timeout := eval[int](b, `Number(/Set it to (\d+) s or more/.exec(`+warning+`.innerText)?.[1] ?? 0)`)
	if timeout < 2 {
		t.Errorf("the page says to set a timeout of %d s: %s", timeout, b.text("section .problem"))
	}
	b.judged("slow")
	b.press("c")
	b.sees(fmt.Sprintf("VisibilityTimeout=%d", timeout))
}

// A server that dies leaves a banner, and the page is right again by itself when the server is
// back. [CONSOLE-9]
func TestRestart(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("orders", nil, nil)
	s.send("orders", "one", nil)
	b := s.blank(t)
	// The page notes how long it would pause between two attempts to reach the server, at most, and
	// pauses for a tenth of that. It notes which attempts were answered.
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `{ const wait = setTimeout, ask = fetch, isPause = (ms) => ms % 1 > 0; window.pauses = []; window.attempts = []; Math.random = () => 1 - 1e-9;
			window.setTimeout = (what, ms, ...more) => { if (isPause(ms)) pauses.push(ms); return wait(what, isPause(ms) ? ms / 10 : ms, ...more) };
			window.fetch = (url, ...more) => { const answer = ask(url, ...more), note = (ok) => url.endsWith("/v1/session") && attempts.push(ok); answer.then(() => note(true), () => note(false)); return answer } }`}); err != nil {
		t.Fatal(err)
	}
	b.visit(s.URL() + "/console/#/q/orders")
	b.until("it is live", `document.querySelector(".connection.good")`)
	b.until("the charts are there", "document.querySelectorAll('.plot canvas').length === 2")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	b.sees("Not connected for")
	b.shoot("banner")
	if got := b.text(".figure .value"); got != "1" {
		t.Errorf("without a server the page shows %s visible", got)
	}
	b.until("it has tried for long", "pauses.length >= 6")
	if _, err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.send("orders", "two", nil)
	before := eval[int](b, "attempts.length")
	b.until("the banner has gone", `!document.querySelector(".banner") && document.querySelector(".connection.good")`)
	b.until("the numbers are right", `document.querySelector(".figure .value")?.innerText === "2"`)
	// The first attempt after the server's return is answered, unless it began before that. So the
	// numbers are right after one pause. They must be within 5 s.
	if failed := eval[int](b, fmt.Sprintf("attempts.slice(%d).filter((ok) => !ok).length", before)); failed > 1 {
		t.Errorf("after the server's return the page failed %d times to reach it", failed)
	}
	if longest := eval[float64](b, "Math.max(...pauses)"); longest < 1000 || longest > 4000 {
		t.Errorf("the page pauses for %.0f ms between attempts, want at most 4 s", longest)
	}
	b.goTo("#/health")
	b.sees("Restarts since the page was opened")
	if err := s.Stop(); err != nil { // with an open stream
		t.Fatal(err)
	}
}

// Everything is reached by the keyboard alone.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.open(t, "")
	b.sees("invoices.fifo")
	b.press("/")
	b.until("the search has the focus", `document.activeElement.id === "search"`)
	// a key of a keyboard is not typed when the page has used it, but one of the protocol is
	eval[bool](b, `(document.activeElement.value = "", true)`)
	b.press("o", "r", "d", "e", "r", "s", "\r")
	b.until("the list is searched", `location.hash === "#/?text=orders"`)
	b.sees("2 of 5 queues")
	b.press("j", "j", "k", "\r")
	b.until("a queue is open", `location.hash.startsWith("#/q/orders")`)
	b.press("g", "d")
	b.until("dead letters", `document.querySelector("h1")?.innerText === "Dead letters" && document.querySelector("[data-row]")?.innerText === "orders-dlq"`)
	b.press("j", "\r")
	b.sees("CardDeclined")
	b.press("j", "\r")
	b.sees("dead park orders-dlq")
	b.press("c")
	b.until("commands", `document.querySelector("dialog[open]")`)
	b.press("g", "a") // not behind a dialog
	b.press("\x1b")
	b.closes()
	for key, hash := range map[string]string{"a": "#/alarms", "t": "#/tasks", "l": "#/log", "h": "#/health", "o": "#/"} {
		b.press("g", key)
		b.until("g "+key, `location.hash === `+quoted(hash))
	}
	// the end of the time of an earlier g does not forget a later one
	if at := eval[string](b, `(() => { const wait = setTimeout, forget = clearTimeout, ends = [];
		window.setTimeout = (what, ms, ...more) => (ms === 1500 ? -ends.push(what) : wait(what, ms, ...more));
		window.clearTimeout = (id) => (id < 0 ? delete ends[-id - 1] : forget(id));
		for (const key of ["g", "h", "g", "", "a"]) key ? document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true})) : ends[0]?.();
		window.setTimeout = wait; window.clearTimeout = forget; return location.hash })()`); at != "#/alarms" {
		t.Errorf("g h g a leads to %s", at)
	}
	before := eval[string](b, "location.hash")
	b.press("?")
	b.until("keys", `document.querySelector("dialog[open]")`)
	b.click("dialog[open] input", "")
	b.press("\x1b", "g", "d")
	time.Sleep(100 * time.Millisecond)
	if at := eval[string](b, "location.hash"); at != before {
		t.Errorf("single keys are switched off, and g d went from %s to %s", before, at)
	}
	b.press("\t")
	b.until("Tab goes on", `document.activeElement !== document.body`)
}

// A page with charts has the most scripts. Their bounds, and those of all files, are in the tests
// of internal/console/build.
func TestScripts(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("orders", nil, nil)
	b := s.open(t, "#/q/orders")
	b.until("the charts are there", "document.querySelectorAll('.plot canvas').length === 2")
	if size := eval[float64](b, `performance.getEntriesByType("resource").filter((r) => r.name.endsWith(".js")).reduce((n, r) => n + r.decodedBodySize, 0)`); size > 150<<10 || size < 10<<10 {
		t.Errorf("a page with charts has %.0f bytes of scripts, at most %d", size, 150<<10)
	}
}

// tenaq demo --serve leaves a shop to look around in: queues in use, and dead letters with reasons.
func TestDemo(t *testing.T) {
	t.Parallel()
	chromium(t)
	demo := exec.Command(built.Program(t), "demo", "--serve")
	demo.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := demo.StdoutPipe()
	if err == nil {
		err = demo.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(demo.Process.Signal(os.Interrupt), demo.Wait()); err != nil {
			t.Errorf("the demo ended with %v", err)
		}
	})
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSpace(strings.TrimPrefix(said, "console"))
	b := blank(t, strings.TrimSuffix(address, "/console/"))
	b.visit(address)
	for _, queue := range []string{"orders", "mails", "invoices.fifo", "reports"} {
		b.until("there is "+queue, fmt.Sprintf(`[...document.querySelectorAll("a[data-row]")].some((e) => e.innerText === %q)`, queue))
	}
	b.click("a.dead", "dead letters")
	b.click(".kindhead", "no such article: order-#")
	b.sees("dead park orders-dlq")
	b.until("there is a letter", `document.querySelector(".kindbody a[href^='#/m/']")`)
}

// indented documents of JSON are the documents, but for white space. [CONSOLE-6]
func TestJSON(t *testing.T) {
	s := serve(t, nil)
	b := s.open(t, "")
	web, err := filepath.Abs("../../internal/console/web")
	if err != nil {
		t.Fatal(err)
	}
	result := api.Build(api.BuildOptions{AbsWorkingDir: web, EntryPoints: []string{"json.ts"}, Bundle: true, Format: api.FormatIIFE, GlobalName: "json", TsconfigRaw: "{}"})
	if len(result.Errors) > 0 {
		t.Fatal(result.Errors)
	}
	eval[bool](b, string(result.OutputFiles[0].Contents)+";(globalThis.json = json, true)")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	var texts []string
	for range 2_000 {
		texts = append(texts, document(random, 4))
	}
	texts = append(texts, strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000), `"`+long+`"`)
	wrong := eval[[]string](b, fmt.Sprintf(`%s.filter((text) => { const p = json.indent(text); if (!p) return true;
		const bare = (t) => t.replace(/"(?:[^"\\]|\\.)*"|\s+/g, (m) => (m[0] === '"' ? m : ""));
		return bare(p.map((x) => x.text).join("")) !== bare(text) }).map((t) => t.slice(0, 300))`, must(json.Marshal(texts))))
	for _, text := range wrong {
		t.Errorf("changed: %s", text)
	}
	no := []string{"", "{", "}", "[1,]", "[,1]", `{"a"}`, `{"a":}`, `{a:1}`, "01", "1.", ".5", "+1", "tru", "truex", "1 2", `"a`, "'a'", "NaN", "[1}", `{"a":1,}`, `{"a" 1}`, "\"\t\"", `"\x"`, "[[]", "nul", "1e", "--1"}
	if taken := eval[[]string](b, fmt.Sprintf(`%s.filter((t) => json.indent(t))`, must(json.Marshal(no)))); len(taken) > 0 {
		t.Errorf("taken for JSON: %q", taken)
	}
}

// document makes a document of JSON, with white space and numbers of all forms.
func document(r *rand.Rand, depth int) string {
	space := func() string { return []string{"", "", " ", "\n", "\t ", "\r\n"}[r.IntN(6)] }
	kind := r.IntN(7)
	if depth == 0 {
		kind %= 5
	}
	text := ""
	switch kind {
	case 0:
		text = []string{"true", "false", "null"}[r.IntN(3)]
	case 1, 2:
		text = []string{exact, "-0", "0.10", "1e400", "-1.5E+07", "123456789012345678901234567890.000", "0"}[r.IntN(7)]
	case 3, 4:
		text = []string{`""`, `"a\"b\\"`, `"\u202e\/"`, `"{,:]"`, `"grüße 🎉"`, `"\ud800"`, `"a b  c"`}[r.IntN(7)]
	default:
		var parts []string
		for range r.IntN(4) {
			part := document(r, depth-1)
			if kind == 6 {
				part = space() + []string{`"k"`, `"__proto__"`, `""`, `"a:b"`}[r.IntN(4)] + space() + ":" + part
			}
			parts = append(parts, part)
		}
		text = []string{"[", "{"}[kind-5] + space() + strings.Join(parts, ",") + space() + []string{"]", "}"}[kind-5]
	}
	return space() + text + space()
}
