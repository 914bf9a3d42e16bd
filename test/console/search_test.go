package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

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
	b.click("button", "Search the whole queue")
	b.sees("1 message of the queue has this text")
	// a link stays right when its message moves, and says so when it is gone [ID-9]
	s.create("late-dlq", nil, nil)
	s.create("late", object{"RedrivePolicy": redriveTo("late-dlq", 3)}, nil)
	id := s.send("late", `{"order": 17}`, nil)
	b.goTo("#/m/" + id)
	in := func(queue string) {
		t.Helper()
		b.until("the message is in "+queue, fmt.Sprintf(`document.querySelector(".facts a[href='#/q/%s']") && document.querySelector(".message pre").innerText.includes('"order": 17')`, queue))
	}
	in("late")
	s.nack("late", s.receive("late", nil)[0].ReceiptHandle, "poison", "CardDeclined", "card declined")
	s.receive("late", nil) // moves what is poison
	b.do(chromedp.Reload())
	in("late-dlq")
	b.sees("Why it failed")
	s.ask("DeleteMessage", object{"QueueUrl": s.url("late-dlq"), "ReceiptHandle": s.receive("late-dlq", nil)[0].ReceiptHandle}, nil)
	b.do(chromedp.Reload())
	b.sees("No queue has this message now")
	b.until("its body is not shown", `!document.querySelector(".message")`)
}

// A message is shown in each of its states, in the list and by itself, and the list is filtered by
// them. [PEEK-2]
func TestStates(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("dead.fifo", object{"FifoQueue": "true"}, nil)
	s.create("orders.fifo", object{"FifoQueue": "true", "ContentBasedDeduplication": "true", "RedrivePolicy": redriveTo("dead.fifo", 9), "VisibilityTimeout": "900"},
		object{"tenaq:fifo-on-dead-letter": "hold-group"})
	s.create("orders", nil, nil)
	send := func(group, body string) string { return s.send("orders.fifo", body, object{"MessageGroupId": group}) }
	send("withdrawn", "poison")
	held := send("withdrawn", "behind the dead letter")
	s.nack("orders.fifo", s.receive("orders.fifo", object{"MaxNumberOfMessages": 1})[0].ReceiptHandle, "poison", "", "no such account")
	s.receive("orders.fifo", nil) // moves what is poison
	inFlight := send("busy", "first")
	s.receive("orders.fifo", nil)
	blocked := send("busy", "second")
	visible := send("free", "alone")
	delayed := s.send("orders", "later", object{"DelaySeconds": 900})
	const rows = `[...document.querySelectorAll("a[data-row]")].map((e) => e.title).join()`
	b := s.open(t, "")
	b.sees("orders.fifo")
	for _, m := range []struct{ state, shown, id, queue, timeline string }{
		{"visible", "visible", visible, "orders.fifo", ""},
		{"in_flight", "in flight", inFlight, "orders.fifo", "visible again, unless its consumer deletes it"},
		{"blocked", "blocked", blocked, "orders.fifo", "can be received when its group is free"},
		{"held", "held", held, "orders.fifo", "can be received when its group is free"},
		{"delayed", "delayed", delayed, "orders", "can be received"},
	} {
		const badge = `document.querySelector("%s .badge")?.innerText.replace(/^. /, "") === %q`
		b.goTo("#/q/" + m.queue + "/messages")
		b.fill("State", m.state)
		b.until("the list has the one that is "+m.shown, rows+" === "+quoted(m.id)+" && "+fmt.Sprintf(badge, ".master td", m.shown))
		b.click("a[data-row]", "")
		b.until("it is "+m.shown+" beside the list", fmt.Sprintf(badge, ".message header", m.shown))
		b.goTo("#/m/" + m.id)
		b.until("it is "+m.shown+" on its page", fmt.Sprintf(badge, "h1 + .message header", m.shown)+` && document.querySelector(".message .id").innerText === `+quoted(m.id))
		ends := eval[string](b, `[...document.querySelectorAll(".message .timeline li span")].map((e) => e.innerText).find((text) => !/entered|first received/.test(text)) ?? ""`)
		if m.timeline == "" && ends != "" || !strings.HasPrefix(ends, m.timeline) || m.state == "delayed" && ends != m.timeline {
			t.Errorf("the timeline of the message that is %s ends with %q, want %q", m.shown, ends, m.timeline)
		}
	}
	// an answer that comes when the filter has changed is not shown
	eval[bool](b, `(() => { const ask = fetch; window.late = []; window.fetch = async (...all) => { const answer = await ask(...all);
		if (all[0].includes("/orders.fifo/messages") && !all[0].includes("state=")) await new Promise((go) => late.push(go)); return answer }; return true })()`)
	b.goTo("#/q/orders.fifo/messages")
	b.until("the whole list is late", "late.length")
	b.fill("State", "held")
	b.until("the list is filtered", rows+" === "+quoted(held))
	if got := eval[string](b, `(async () => { late.forEach((go) => go()); for (let i = 0; i < 30; i++) await new Promise(requestAnimationFrame); return `+rows+` })()`); got != held {
		t.Errorf("after a late answer the list has %s, want %s", got, held)
	}
}

// Of very many groups of a FIFO queue the one that is locked is first, whatever its name and age.
// The page shows a part of the list and continues with the next.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	n := proof.Count(1_000, 10_000, 10_000, 10_000)
	s.create("many.fifo", object{"FifoQueue": "true", "ContentBasedDeduplication": "true"}, nil)
	for _, group := range []string{"a", "z"} {
		s.send("many.fifo", group, object{"MessageGroupId": group})
	}
	both := s.receive("many.fifo", object{"VisibilityTimeout": 900})
	if len(both) != 2 || both[1].Body != "z" {
		t.Fatalf("received %+v, want the first of both groups", both)
	}
	s.ask("ChangeMessageVisibility", object{"QueueUrl": s.url("many.fifo"), "ReceiptHandle": both[0].ReceiptHandle, "VisibilityTimeout": 0}, nil)
	s.send("many.fifo", "behind", object{"MessageGroupId": "z"})
	s.sendMany("many.fifo", n-2)
	b := s.open(t, "#/q/many.fifo/groups")
	const rows = `[...document.querySelectorAll("main tbody tr")].map((r) => [...r.cells].slice(0, 4).map((c) => c.innerText))`
	listed := func(want int, more bool) {
		t.Helper()
		b.until(fmt.Sprintf("there are %d groups", want), fmt.Sprintf(`document.querySelectorAll("main tbody tr").length === %d`, want))
		got := eval[[][]string](b, rows)
		if first := got[0]; first[0] != "z" || !strings.HasSuffix(first[1], "in flight") || first[3] != "1" {
			t.Errorf("the first of %d groups is %q, want the locked one", want, first)
		}
		names := make(map[string]bool)
		for i, row := range got {
			if names[row[0]] || i > 0 && row[2] != "open" {
				t.Errorf("group %d of %d is %q", i, want, row)
			}
			names[row[0]] = true
		}
		if has := eval[bool](b, `!!document.querySelector("main .more button")`); has != more {
			t.Errorf("with %d of %d groups on the page, there are more: %v", want, n, has)
		}
		if nodes := eval[int](b, `document.querySelectorAll("*").length`); nodes > 500+20*want {
			t.Errorf("with %d groups the page has %d nodes", want, nodes)
		}
	}
	listed(100, true)
	for i := range 3 {
		b.click("main .more button", "More groups")
		listed(200+100*i, true)
	}
	b.fill("Show", "locked")
	listed(1, false)
	b.press("c")
	b.sees("tenaq group release many.fifo z")
	b.press("\x1b")
	b.closes()
	b.click("main tbody a", "") // to what locks it
	b.until("its message is there", `document.querySelector(".message pre")?.innerText === "z"`)
}

// The whole body of a message is copied as it was sent, also while the page has only its beginning,
// and a page that cannot have more says so. [CONSOLE-6]
func TestCopy(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("orders", nil, object{"tenaq:history": "7d"})
	const head, tail = `{"id":` + exact + `, "pad":"`, `", "end": [` + exact + `]}`
	body := head + strings.Repeat("x", 1<<20-len(head)-len(tail)) + tail
	id := s.send("orders", body, nil)
	b := s.blank(t)
	b.hasClipboard()
	b.visit(s.URL() + "/console/#/m/" + id)
	const button = ".body .bar > button"
	copies := func(label, want string) {
		t.Helper()
		b.until("there is "+label, fmt.Sprintf(`document.querySelector(%q)?.innerText === %q`, button, label))
		b.click(button, label)
		b.until("it has copied", fmt.Sprintf(`document.querySelector(%q)?.innerText === "Copied"`, button))
		if got := eval[string](b, "navigator.clipboard.readText()"); got != want {
			t.Errorf("%s: %d bytes that end with %q, want %d that end with %q", b.text("h1"), len(got), got[max(0, len(got)-len(tail)):], len(want), want[len(want)-len(tail):])
		}
		eval[bool](b, `navigator.clipboard.writeText("").then(() => true)`)
	}
	b.sees("Only the beginning is shown")
	if shown := eval[int](b, `document.querySelector(".message pre").textContent.length`); shown != 1<<16 {
		t.Errorf("the page begins with %d bytes", shown)
	}
	copies("Copy", body)
	b.click("button", "Show up to 1 MiB")
	b.until("the end is there", `document.querySelector(".message pre")?.textContent.endsWith(`+quoted("\"end\": [\n    "+exact+"\n  ]\n}")+`)`)
	if strings.Contains(b.text("main"), "Only the beginning") {
		t.Error("the page says that it has only the beginning")
	}
	copies("Copy", body)
	b.goTo("#/q/orders/messages")
	b.click("a[data-row]", "")
	b.sees("Only the beginning is shown")
	copies("Copy", body)
	b.click(".choices button", "Hex") // the way to show it changes nothing
	copies("Copy", body)
	b.judged("large")
	s.ask("DeleteMessage", object{"QueueUrl": s.url("orders"), "ReceiptHandle": s.receive("orders", nil)[0].ReceiptHandle}, nil)
	b.click(button, "Copy")
	b.until("nothing is copied", fmt.Sprintf(`document.querySelector(%q)?.innerText === "Not copied"`, button))
	b.goTo("#/q/orders/history?open=" + id)
	copies("Copy the beginning", body[:1<<14])
}

// hasClipboard lets the pages of a tab read and write the clipboard, and gives them the focus that
// it needs.
func (b *tab) hasClipboard() {
	b.t.Helper()
	profile := chromedp.FromContext(b.ctx).BrowserContextID
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		if _, err := chromedp.Call(b.ctx, browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: name}, Setting: browser.PermissionSettingGranted, BrowserContextID: profile,
		}); err != nil {
			b.t.Fatal(err)
		}
	}
	if _, err := chromedp.Call(b.ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		b.t.Fatal(err)
	}
}

// A search of all bodies says how far it is, and ends in the server when it is stopped or its page
// is left. The results stay, and the search continues from there. [CONSOLE-18]
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

// A search of claims in a state says how far it is, ends in the server when it is stopped, and
// continues from there. [CONSOLE-18]
func TestStopClaims(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	const part = 4096 // that one request looks at
	n := proof.Count(4*part, 6*part, 6*part, 24*part)
	s.addManyClaims(n)
	b := s.open(t, "#/claims")
	b.until("there are 50", `document.querySelectorAll("main tbody tr").length === 50`)
	b.fill("State", "parked")
	b.sees("No claim matches among the first " + grouped(part) + " claims.")
	eval[bool](b, `(performance.setResourceTimingBufferSize(10_000), true)`)
	// asked is how often the search has asked the server, at a time when it asks nothing more
	asked := func() int {
		t.Helper()
		return eval[int](b, `(async () => { for (let i = 0; i < 30; i++) await new Promise(requestAnimationFrame);
			return performance.getEntriesByType("resource").filter((r) => r.name.includes("/claims?") && r.name.includes("state=parked") && r.name.includes("after=")).length })()`)
	}
	eval[bool](b, `(new MutationObserver((_, own) => { const more = document.querySelector("main .more button");
		if (more?.innerText === "Stop" && document.querySelector("main").innerText.includes("first `+grouped(2*part)+` claims")) { own.disconnect(); more.click(); } })
		.observe(document.querySelector("main"), {childList: true, subtree: true, characterData: true}), true)`)
	b.click("main .more button", "Search further")
	b.until("it has stopped", `document.querySelector("main .more button")?.innerText === "Search further"`)
	b.sees("No claim matches among the first " + grouped(2*part) + " claims.")
	b.judged("search-claims")
	stopped := asked()
	if stopped < 1 || stopped > 2 { // the one that was under way when it was stopped
		t.Errorf("the search that was stopped asked %d times", stopped)
	}
	if again := asked(); again != stopped {
		t.Errorf("after its end the search asked %d times more", again-stopped)
	}
	b.click("main .more button", "Search further")
	b.until("it is found", `document.querySelectorAll("main tbody tr").length === 1 && document.querySelector("main tbody tr").innerText.includes("a holder was lost") && !document.querySelector("main .more")`)
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
