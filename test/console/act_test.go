package console_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// logged waits until the action log has an entry, and returns its text.
func (s *server) logged(name, about string) {
	s.t.Helper()
	var list struct {
		Actions []struct{ Action, About, By, Text string }
	}
	s.ask("/v1/actions?limit=100", nil, &list)
	for _, a := range list.Actions {
		if a.Action == name && a.About == about {
			return
		}
	}
	s.t.Errorf("the action log has no %s of %s: %+v", name, about, list.Actions)
}

// shows fails unless the dialog shows a command. [CONSOLE-15]
func (b *tab) shows(command string) {
	b.t.Helper()
	eval[bool](b, `(document.querySelector("dialog[open] details.same").open = true)`)
	b.until("the dialog shows "+command, fmt.Sprintf(`document.querySelector("dialog[open] .commands")?.innerText.includes(%s)`, quoted(command)))
}

// depth is how many messages a queue has in each state.
func (s *server) depth(queue string) string {
	s.t.Helper()
	var q struct{ Visible, InFlight, Delayed int }
	s.ask("/v1/queues/"+queue, nil, &q)
	return fmt.Sprint(q.Visible, q.InFlight, q.Delayed)
}

// From an empty server to a message in a queue, and the same again, changed. [CONSOLE-15]
func TestCreateAndSend(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := s.open(t, "")
	b.sees("There is no queue yet")
	b.asks("main button", "Create a queue", "Create a queue")
	b.fill("Name", "orders")
	b.shows("tenaq queue create orders --dead-letter orders-dlq --max-receives 5")
	b.judged("create")
	b.submit()
	b.sees("After 5 receives")
	s.logged("CreateQueue", "orders")
	s.logged("CreateQueue", "orders-dlq")
	b.asks("button", "Send a message", "Send a message to orders")
	body := `{"id": ` + exact + `, "text": "it's"}`
	b.fill("Body", body)
	b.sees("valid JSON")
	b.click("dialog[open] button", "Add an attribute")
	eval[bool](b, `(() => { const [n, v] = document.querySelectorAll("dialog[open] .attr input"); for (const [e, t] of [[n, "tenant"], [v, "7"]]) { e.value = t; e.dispatchEvent(new Event("input", {bubbles: true})) } return true })()`)
	b.shows("--attribute 'tenant=7'")
	b.judged("send")
	b.submit()
	b.sees("Sent to orders")
	b.click(".toast a", "Show the message")
	b.sees(exact)
	b.sees("tenant")
	s.logged("SendMessage", "orders")
	b.asks("button", "Send like this", "Send a message to orders")
	eval[bool](b, fmt.Sprintf(`(() => { const t = document.querySelector("dialog[open] textarea"); if (t.value !== %s) throw new Error(t.value); return true })()`, quoted(body)))
	b.submit()
	// The toast of the first send may still be there, so the queue says when the second has come.
	got := s.receive("orders", object{"MessageAttributeNames": []string{"All"}})
	for end := time.Now().Add(time.Minute); len(got) < 2 && time.Now().Before(end); {
		got = append(got, s.receive("orders", object{"MessageAttributeNames": []string{"All"}, "WaitTimeSeconds": 1})...)
	}
	if len(got) != 2 || got[0].Body != body || got[1].Body != body {
		t.Errorf("the queue has %+v, want two of %s", got, body)
	}
}

// An empty server takes a first message and shows it. A refusal says how far that came, and another
// try continues from there. [CONSOLE-15]
func TestFirstMessage(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := s.open(t, "")
	queues := func(want ...string) {
		t.Helper()
		if got := s.queues(); !slices.Equal(got, want) {
			t.Errorf("there are the queues %v, want %v", got, want)
		}
	}
	refused := func(want string) {
		t.Helper()
		b.submit()
		b.until("it is refused with "+want, fmt.Sprintf(`document.querySelector("dialog[open] .problem")?.innerText.includes(%s)`, quoted(want)))
	}
	unready := func(field string) {
		t.Helper()
		was := eval[string](b, fmt.Sprintf(`[...document.querySelectorAll("dialog[open] label.field")].find((l) => l.innerText.startsWith(%s)).querySelector("input, textarea").value`, quoted(field)))
		b.fill(field, "")
		b.until("it cannot be sent without "+field, `document.querySelector("dialog[open] button[type=submit]").disabled`)
		b.fill(field, was)
	}
	b.asks("main button", "Send a message", "Send a message")
	b.until("typing goes to the body", `document.activeElement.matches("dialog[open] textarea")`)
	unready("Queue")
	unready("Body")
	b.shows("tenaq queue create orders --endpoint-url")
	b.shows(`tenaq send orders '{"id": 1}'`)
	b.judged("first-message")
	b.fill("Queue", "no such/name")
	refused("alphanumeric")
	queues()
	b.fill("Queue", "jobs")
	b.fill("Body", "\x01")
	refused("The queue jobs is there now, but the message was not sent: ")
	queues("jobs")
	b.fill("Body", `{"order": 42}`)
	b.submit()
	b.until("its body is shown", `document.querySelector(".message pre")?.innerText.includes('"order": 42')`)
	b.click(".toast a", "Show the queue")
	b.until("the queue is shown", `location.hash === "#/q/jobs"`)
	queues("jobs")
	s.logged("SendMessage", "jobs")
	var log struct {
		Actions []struct{ Action, About string }
	}
	s.ask("/v1/actions?limit=100", nil, &log)
	made := 0
	for _, a := range log.Actions {
		if a.Action == "CreateQueue" && a.About == "jobs" {
			made++
		}
	}
	if made != 1 {
		t.Errorf("the queue was created %d times: %+v", made, log.Actions)
	}

	s.ask("DeleteQueue", object{"QueueUrl": s.url("jobs")}, nil)
	b.goTo("#/")
	b.asks("main button", "Send a message", "Send a message")
	b.fill("Queue", "late.fifo")
	b.sees("Messages of a group arrive in order")
	unready("Message group")
	b.shows("tenaq queue create late.fifo --attribute 'ContentBasedDeduplication=true'")
	b.shows(`tenaq send late.fifo '{"id": 1}' --group customer-7`)
	b.judged("first-message-fifo")
	b.fill("Body", "\x01")
	refused("The queue late.fifo is there now")
	b.fill("Body", "x")
	b.submit()
	b.until("its body is shown", `document.querySelector(".message pre")?.innerText === "x"`)
	b.sees("customer-7")
	b.content()
}

// A body with other line ends than a browser has is sent again as it was, and a body that the
// server refuses stays in the dialog with the reason. [CONSOLE-6]
func TestSendLikeThis(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("lines.fifo", object{"FifoQueue": "true", "ContentBasedDeduplication": "false"}, nil)
	const body = "a\r\nb\rc\n\u202e"
	id := s.send("lines.fifo", body, object{"MessageGroupId": "g", "MessageDeduplicationId": "1",
		"MessageAttributes": object{"raw": object{"DataType": "Binary.x", "BinaryValue": "AAEC/w=="}}})
	b := s.open(t, "#/m/"+id)
	b.asks("button", "Send like this", "Send a message to lines.fifo")
	b.submit()
	b.sees("ContentBasedDeduplication") // refused, because it needs an id
	b.fill("Deduplication id", "2")
	b.submit()
	b.sees("Sent to lines.fifo")
	for _, m := range s.receive("lines.fifo", nil) {
		if m.Body != body {
			t.Errorf("%s has the body %q, want %q", m.MessageId, m.Body, body)
		}
	}
	if got := s.depth("lines.fifo"); got != "0 2 0" {
		t.Errorf("the queue has %s", got)
	}
}

// A queue is paused, resumed, changed, tagged, purged and deleted. Actions that cannot be undone
// ask for the name of the queue. [CONSOLE-15, CONSOLE-16]
func TestQueueActions(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.ask("TagQueue", object{"QueueUrl": s.url("returns"), "Tags": object{"tenaq:paused": "true"}}, nil)
	b := s.blank(t)
	b.waits(10*time.Second, time.Hour) // with Undo, which the test presses later
	b.visit(s.URL() + "/console/#/?only=paused")
	b.until("the paused queue is marked, and no other is shown", `document.querySelectorAll("a[data-row]").length === 1 && document.querySelector("a[data-row]").parentElement.innerText.replace(/\s+/g, "") === "returnspaused"`)
	b.goTo("#/q/mails")
	var shown struct{ Paused bool }
	b.click("button", "Pause delivery")
	b.sees("delivery is paused")
	if got := s.receive("mails", nil); len(got) > 0 {
		t.Errorf("a paused queue delivers %d messages", len(got))
	}
	b.judged("paused")
	s.ask("/v1/queues/mails", nil, &shown)
	if !shown.Paused {
		t.Error("GET /v1/queues/mails does not say that the queue is paused")
	}
	b.click(".toast button", "Undo")
	b.until("it is resumed", `!document.body.innerText.includes("delivery is paused") && [...document.querySelectorAll("button")].some((e) => e.innerText === "Pause delivery")`)
	s.logged("TagQueue", "mails")
	s.logged("UntagQueue", "mails")

	b.goTo("#/q/mails/settings")
	b.asks("button", "Change", "Settings of mails")
	b.fill("VisibilityTimeout", "77")
	b.shows("tenaq queue set mails --attribute 'VisibilityTimeout=77'")
	b.submit()
	b.sees("(77 s)")
	b.asks("button", "Set a tag", "Set a tag of mails")
	b.fill("Key", "a=b")
	eval[bool](b, `(document.querySelector("dialog[open] details.same").open = true)`)
	b.sees("The command does not take a key that contains an equals sign.")
	b.fill("Key", "tenaq:history")
	b.shows("tenaq queue tag mails 'tenaq:history='")
	b.fill("Value", "nonsense")
	b.submit()
	b.until("a refusal stays in the dialog", `document.querySelector("dialog[open] .problem")`)
	b.fill("Value", "7d")
	b.submit()
	b.sees("Set the tag tenaq:history")
	b.asks("button", "Set a tag", "Set a tag of mails")
	b.fill("Key", "tenaq:history")
	b.fill("Value", "8d")
	b.submit()
	b.until("the tag has another value", `document.querySelector("main").innerText.includes("8d")`)
	b.click(".toast button", "Undo")
	b.until("the tag has its earlier value", `document.querySelector("main").innerText.includes("7d")`)

	b.goTo("#/q/mails")
	b.asks("button", "Purge", "Purge mails")
	b.sees("12 messages")
	b.shows("tenaq queue purge mails --yes")
	disabled := `document.querySelector("dialog[open] button[type=submit]").disabled`
	b.fill("To confirm", "mail")
	if !eval[bool](b, disabled) {
		t.Error("a wrong name purges the queue")
	}
	b.judged("purge")
	b.press("\x1b")
	b.closes()
	if got := s.depth("mails"); got != "12 0 0" {
		t.Errorf("before a purge the queue has %s", got)
	}
	b.asks("button", "Purge", "Purge mails")
	b.fill("To confirm", "mails")
	b.submit()
	b.sees("Purged mails")
	if got := s.depth("mails"); got != "0 0 0" {
		t.Errorf("after a purge the queue has %s", got)
	}
	b.asks("button", "Delete", "Delete mails")
	b.fill("To confirm", "mails")
	b.submit()
	b.sees("Deleted mails")
	s.logged("PurgeQueue", "mails")
	s.logged("DeleteQueue", "mails")
	b.goTo("#/log")
	b.sees("DeleteQueue")
}

// Dead letters of one kind go back, are parked, moved, corrected and deleted: first they are
// counted, and then a task takes no more than that. [CONSOLE-15, CONSOLE-16]
func TestTriage(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.open(t, "#/q/orders-dlq/dead")
	kind := func(text string) {
		t.Helper()
		b.goTo("#/q/orders-dlq/dead")
		b.until("the kind is there", fmt.Sprintf(`[...document.querySelectorAll(".kindhead")].some((e) => e.innerText.includes(%s))`, quoted(text)))
		if !eval[bool](b, fmt.Sprintf(`[...document.querySelectorAll(".kindhead")].find((e) => e.innerText.includes(%s)).getAttribute("aria-expanded") === "true"`, quoted(text))) {
			b.click(".kindhead", text)
		}
	}
	counted := func(text string) {
		t.Helper()
		b.until("it counts "+text, fmt.Sprintf(`document.querySelector("dialog[open] .counted")?.innerText.startsWith(%s)`, quoted(text)))
	}
	kind("CardDeclined")
	b.judged("triage")
	b.picture("console")
	b.asks(".kindbody button", "Edit and send one", "Edit and send")
	b.sees("You have not changed anything yet")
	if !eval[bool](b, `document.querySelector("dialog[open] button[type=submit]").disabled`) {
		t.Error("a message is replaced by the same one")
	}
	b.fill("Body", `{"order": 1}`)
	b.shows("tenaq dead edit orders-dlq")
	b.judged("edit")
	b.submit()
	b.sees("the original is gone")

	n := 5
	for _, m := range s.receive("orders", nil) { // so that there is time to pause the task
		s.nack("orders", m.ReceiptHandle, "poison", "CardDeclined", "card declined: code 51, order 49")
		n++
	}
	s.receive("orders", object{"MaxNumberOfMessages": 1}) // moves what is poison
	kind("CardDeclined")
	b.asks(".kindbody button", "Send back", "Send back")
	counted(fmt.Sprint(n, " messages"))
	b.until("there are samples", `document.querySelectorAll("dialog[open] .samples li").length === 3`)
	b.shows("--rate 10 --yes")
	b.judged("dry-run")
	b.fill("Messages per second", "1")
	b.fill("Note", "the bank is back")
	b.submit()
	b.sees("left")
	b.click("button", "Pause")
	b.sees("paused")
	b.judged("task-paused")
	b.asks("button", "Change the rate", "Rate of")
	b.fill("Messages per second", "100")
	b.submit()
	b.sees("Changed the rate")
	b.click("main button", "Resume")
	b.sees("completed")
	b.sees("the bank is back")

	kind("Timeout")
	b.asks(".kindbody button", "Park", "Park")
	counted("3 messages")
	b.sees("There is no queue orders-parking")
	b.click("dialog[open] button", "Create it")
	b.until("it is there", `!document.querySelector("dialog[open]").innerText.includes("There is no queue")`)
	b.shows("tenaq dead park orders-dlq --kind")
	b.submit()
	b.sees("completed")
	if got := s.depth("orders-parking"); got != "3 0 0" {
		t.Errorf("the parking queue has %s", got)
	}
	if got := s.depth("orders-dlq"); got != "0 0 0" {
		t.Errorf("the dead-letter queue has %s", got)
	}

	b.goTo("#/q/orders-parking/dead")
	b.asks(".triage button", "Delete all", "Delete")
	counted("3 messages")
	s.send("orders-parking", "it comes later", nil)
	b.fill("To confirm", "4")
	if !eval[bool](b, `document.querySelector("dialog[open] button[type=submit]").disabled`) {
		t.Error("a wrong count deletes")
	}
	b.fill("To confirm", "3")
	b.shows("--confirm 3 --yes")
	b.submit()
	b.sees("completed")
	if got := s.depth("orders-parking"); got != "1 0 0" {
		t.Errorf("after three were deleted the queue has %s", got)
	}
	b.goTo("#/q/orders-parking/dead")
	b.asks(".triage button", "Move all to", "Move")
	counted("1 message")
	b.fill("Queue", "returns")
	b.fill("Messages per second", "1")
	b.submit()
	b.sees("completed")
	s.logged("StartTask", "orders-parking:5")
	b.goTo("#/log")
	b.sees("the bank is back")
}

// A running task is cancelled: the messages that it took stay moved, and the others stay in place.
// [CONSOLE-15]
func TestCancelTask(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("orders", nil, nil)
	for i := range 30 {
		s.send("orders", fmt.Sprint(i), nil)
	}
	s.create("later", nil, nil)
	b := s.open(t, "#/q/orders/dead")
	b.asks(".triage button", "Move all to", "Move")
	b.fill("Queue", "later")
	b.fill("Messages per second", "1")
	b.submit()
	b.until("some have moved", `document.querySelector(".progress")?.innerText.match(/^[1-9]/)`)
	b.click("button", "Cancel the task")
	b.sees("cancelled")
	var t1 struct{ Done int }
	s.ask("/v1/tasks/orders:1", nil, &t1)
	if here, there := s.depth("orders"), s.depth("later"); here != fmt.Sprintf("%d 0 0", 30-t1.Done) || there != fmt.Sprintf("%d 0 0", t1.Done) {
		t.Errorf("%d of 30 were moved: %s and %s are left", t1.Done, here, there)
	}
}

// Two people decide about the same letters: the second is refused, reads why and what to do, and
// what the page has asked for can be sent again when the first task has ended. [TASK-10]
func TestTwoDecide(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for _, queue := range []string{"letters", "first", "second"} {
		s.create(queue, nil, nil)
	}
	const n = 30
	for i := range n {
		s.send("letters", fmt.Sprint(i), nil)
	}
	var tabs []*tab
	for _, to := range []string{"first", "second"} {
		b := s.open(t, "#/q/letters/dead")
		b.asks(".triage button", "Move all to", "Move")
		b.until("it counts", `document.querySelector("dialog[open] .counted")?.innerText.startsWith("30 messages")`)
		b.fill("Queue", to)
		tabs = append(tabs, b)
	}
	tabs[0].fill("Messages per second", "1")
	tabs[0].submit()
	tabs[0].sees("left")
	s.ask("/v1/tasks/letters:1/pause", object{}, nil)
	tabs[1].submit()
	tabs[1].until("it is refused", `document.querySelector("dialog[open] .problem")?.innerText === "The task letters:1 of this queue has not ended. A queue has one task at a time: wait for its end, or cancel it."`)
	if status := eval[int](tabs[1], `performance.getEntriesByType("resource").findLast((r) => r.name.endsWith("/v1/tasks")).responseStatus`); status != http.StatusConflict {
		t.Errorf("it is refused with %d", status)
	}
	if got := s.depth("second"); got != "0 0 0" {
		t.Errorf("after a refusal the queue has %s", got)
	}
	tabs[0].click("button", "Cancel the task")
	tabs[0].sees("cancelled")
	tabs[1].submit()
	tabs[1].sees("completed")
	var first struct{ Done int }
	s.ask("/v1/tasks/letters:1", nil, &first)
	if left, one, two := s.depth("letters"), s.depth("first"), s.depth("second"); left != "0 0 0" || one != fmt.Sprintf("%d 0 0", first.Done) || two != fmt.Sprintf("%d 0 0", n-first.Done) {
		t.Errorf("the first task moved %d of %d: the queues have %s, %s and %s", first.Done, n, left, one, two)
	}
}

// Two people edit the same letter: the first edit takes its place, and the second is refused, keeps
// what was written, and says what to do. [TASK-17, CONSOLE-15]
func TestTwoEdit(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	before := s.depth("orders")
	var tabs []*tab
	for _, body := range []string{"first", "second"} {
		b := s.open(t, "#/m/"+s.dead)
		b.asks("button", "Edit and send", "Edit and send")
		b.fill("Body", body)
		b.fill("Queue", "mails")
		tabs = append(tabs, b)
	}
	tabs[0].submit()
	tabs[0].sees("the original is gone")
	tabs[1].submit()
	tabs[1].until("it is refused", `document.querySelector("dialog[open] .problem")?.innerText === "The message is gone: it was replaced, moved or deleted, or has expired. Find it by its lineage id, or list the messages of the queue again."`)
	if status := eval[int](tabs[1], `performance.getEntriesByType("resource").findLast((r) => r.name.endsWith("/v1/replace")).responseStatus`); status != http.StatusConflict {
		t.Errorf("it is refused with %d", status)
	}
	if body := eval[string](tabs[1], `document.querySelector("dialog[open] textarea").value`); body != "second" {
		t.Errorf("the refused body is now %q", body)
	}
	if dead, mails, orders := s.depth("orders-dlq"), s.depth("mails"), s.depth("orders"); dead != "8 0 0" || mails != "13 0 0" || orders != before {
		t.Errorf("after one edit of two the queues have %s, %s and %s", dead, mails, orders)
	}
}

// An alarm is acknowledged, and silenced with a way back. [CONSOLE-15]
func TestAlarmActions(t *testing.T) {
	t.Parallel()
	// A minute without numbers ends an alarm and its acknowledgement. Ten seconds are longer than a
	// machine pauses.
	s := serve(t, nil, "--alarm-minute", "10s", "--alarm-pages", "https://docs.example.com/{kind}.html")
	s.create("orders-dlq", nil, nil)
	s.create("orders", object{"RedrivePolicy": redriveTo("orders-dlq", 1), "VisibilityTimeout": "0"}, nil)
	s.send("orders", "x", nil)
	s.receive("orders", nil)
	s.receive("orders", nil)
	b := s.open(t, "#/alarms")
	b.until("there is an alarm", `document.querySelector(".alarmbox.raised")`)
	b.until("it leads to its page", `document.querySelector('.alarmbox a[href="https://docs.example.com/dead-letters.html"]')`)
	b.judged("alarm")
	b.asks("button", "Silence", "Silence alarms")
	b.fill("For", "90m")
	b.fill("Reason", "the bank is down")
	b.shows("tenaq alarms silence orders-dlq/dead-letters --for 90m --reason 'the bank is down'")
	b.submit()
	b.sees("silenced until")
	b.click(".toast button", "Undo")
	b.until("the silence has ended", `!document.body.innerText.includes("silenced until")`)

	// A silence that another one replaced comes back, and so does one that was ended.
	s.ask("/v1/alarms/silence", object{"match": "mails/*", "for": "3h", "reason": "the first one"}, nil)
	b.sees("the first one")
	b.asks("button", "Silence", "Silence alarms")
	b.fill("Alarms", "mails/*")
	b.fill("For", "90m")
	b.fill("Reason", "the second one")
	b.submit()
	b.sees("the second one")
	b.click(".toast button", "Undo")
	b.sees("the first one")
	b.click("button", "End")
	b.until("the silence has ended", `!document.body.innerText.includes("the first one")`)
	b.click(".toast button", "Undo")
	b.sees("the first one")

	const acknowledged = `[...document.querySelectorAll(".alarmbox .tag")].some((e) => e.innerText === "acknowledged")`
	b.click("button", "Acknowledge")
	b.until("it is acknowledged", acknowledged)
	b.click(".toast button", "Undo")
	b.until("it is no longer acknowledged", "!"+acknowledged)

	// Elsewhere, a link follows the button.
	b.click("button", "Acknowledge")
	b.goTo("#/log")
	b.until("a link follows Undo", `document.querySelector(".toast a") && ![...document.querySelectorAll(".toast button")].some((e) => e.innerText === "Undo")`)
	b.click(".toast a", "Show the alarms")
	b.until("it is acknowledged", acknowledged)
	b.judged("acknowledged")
	b.click("button", "End the acknowledgement")
	b.until("it is no longer acknowledged", "!"+acknowledged)

	// A note says who looks at it. The way back leads to the note before, and then to none.
	note := func(button, text, want string) {
		t.Helper()
		b.asks("button", button, "Acknowledge orders-dlq/dead-letters")
		b.until("it cannot be sent unchanged", `document.querySelector("dialog[open] button[type=submit]").disabled`)
		b.fill("Note", text)
		b.shows("tenaq alarms ack orders-dlq/dead-letters --note")
		b.submit()
		b.closes()
		b.sees("Note by unsigned, ")
		b.sees(want)
	}
	noted := func(text string) {
		t.Helper()
		b.until("the note is "+text, fmt.Sprintf(`([...document.querySelectorAll(".alarmbox .why")].map((e) => e.innerText).find((t) => t.startsWith("Note by"))?.split(": ").at(-1) ?? "") === %s`, quoted(text)))
	}
	note("Acknowledge with a note…", "Ann looks", "Ann looks")
	b.until("it is acknowledged", acknowledged)
	b.judged("acknowledged-note")
	note("Note…", "Ann asks the bank", "Ann asks the bank")
	b.click(".toast button", "Undo")
	noted("Ann looks")
	b.until("it is acknowledged", acknowledged)
	b.click("button", "End the acknowledgement")
	b.until("it is no longer acknowledged", "!"+acknowledged)
	noted("")
	b.asks("button", "Acknowledge with a note…", "Acknowledge orders-dlq/dead-letters")
	b.fill("Note", strings.Repeat("é", 251))
	b.submit()
	b.until("it is too long", `document.querySelector("dialog[open] .problem[role=alert]")?.innerText.includes("502 bytes, and at most 500")`)
	b.press("\x1b")
	b.closes()
	s.logged("SilenceAlarms", "orders-dlq/dead-letters")
	s.logged("AcknowledgeAlarm", "orders-dlq/dead-letters")
	b.goTo("#/log")
	b.sees("the bank is down")
	b.sees("ended")
}

// The search finds work by a message id, a lineage id and a key, and shows its life.
func TestTrace(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.open(t, "")
	b.sees("invoices.fifo")
	find := func(text string) {
		t.Helper()
		b.press("/")
		b.until("the search has the focus", `document.activeElement.id === "search"`)
		eval[bool](b, fmt.Sprintf(`(document.activeElement.value = %s, true)`, quoted(text)))
		b.press("\r")
	}
	find(s.dead)
	b.sees("What happened")
	b.sees("dead letter")
	b.sees("in orders-dlq")
	b.judged("trace")
	id := s.fails("order-42", "{}")
	find("order-42")
	b.sees("Life of order-42")
	b.until("its message is there", `document.querySelector('main a[href="#/m/`+id+`"]')`)
	b.sees("card declined: code 51")
	find("nothing-has-this-key")
	b.sees("Nothing is known of this work")
	find("orders")
	b.sees("2 of 6 queues")
}

// The five jobs of the console are done with the keyboard alone: keys are pressed, and nothing is
// clicked.
func TestActByKeyboard(t *testing.T) {
	t.Parallel()
	s := newShop(t, "--alarm-minute", "10s") // no shorter, as in TestAlarmActions
	b := s.open(t, "#/q/mails")
	// on moves the focus with Tab until it is on what has a text
	on := func(text string) {
		t.Helper()
		for range 80 {
			if eval[bool](b, fmt.Sprintf(`document.activeElement !== document.body && document.activeElement.id !== "main" && (document.activeElement.innerText || document.activeElement.closest("label")?.innerText || "").includes(%s)`, quoted(text))) {
				return
			}
			b.press("\t")
		}
		t.Fatalf("Tab does not reach %s", text)
	}
	b.sees("Send a message")
	on("Send a message")
	b.press("\r")
	b.until("the dialog is open", `document.querySelector("dialog[open] textarea")`)
	on("Body")
	b.do(chromedp.KeyEvent("x"))
	for range 4 {
		b.press("\t")
	}
	on("Send")
	b.until("Send has the focus", `document.activeElement.type === "submit" || document.activeElement.innerText.includes("Send")`)
	b.press("\r")
	b.sees("Sent to mails")
	on("Pause delivery")
	b.press("\r")
	b.sees("delivery is paused")
	b.press("g", "d")
	b.until("dead letters", `document.querySelector("[data-row]")?.innerText === "orders-dlq"`)
	b.press("j", "\r")
	b.sees("CardDeclined")
	b.press("j", "\r")
	on("Delete…")
	b.press("\r")
	b.until("it counts", `document.querySelector("dialog[open] .counted")?.innerText.startsWith("6 messages")`)
	on("To confirm")
	b.press("6")
	on("Delete 6 messages")
	b.press("\r")
	b.sees("completed")
	if got := s.depth("orders-dlq"); got != "3 0 0" {
		t.Errorf("the dead-letter queue has %s", got)
	}

	// what is in flight comes first
	b.press("g", "o")
	on("In flight")
	b.press("\r")
	b.until("the list is sorted", `location.hash === "#/?sort=inFlight" && [...document.querySelectorAll(".tall .row a[data-row]")].slice(0, 2).map((e) => e.innerText).join() === "orders,invoices.fifo"`)
	b.press("\r")
	b.until("it is sorted the other way", `location.hash === "#/?sort=inFlight&asc=1" && [...document.querySelectorAll(".tall .row a[data-row]")].slice(-2).map((e) => e.innerText).join() === "invoices.fifo,orders"`)

	// a piece of work is found by its key, and sent again
	id := s.fails("order-42", `{"order": 42}`)
	b.press("/")
	b.until("the search has the focus", `document.activeElement.id === "search"`)
	b.press(kb.Backspace) // a key of a keyboard is not typed when the page has used it
	b.press(strings.Split("order-42", "")...)
	b.press("\r")
	b.sees("Life of order-42")
	b.sees("card declined: code 51")
	b.until("its message is there", `document.querySelector('main a[href="#/m/`+id+`"]')`)
	on(id[:8])
	b.press("\r")
	b.until("the message is open", `document.querySelector(".message .id")?.innerText === `+quoted(id))
	on("Send like this…")
	b.press("\r")
	b.until("the dialog is open", `document.activeElement.matches("dialog[open] textarea") && document.activeElement.value === '{"order": 42}'`)
	on("Send")
	b.press("\r")
	b.sees("Sent to orders-dlq")
	if got := s.depth("orders-dlq"); got != "5 0 0" {
		t.Errorf("after one more letter was sent again the dead-letter queue has %s", got)
	}

	// an alarm is acknowledged
	b.press("g", "a")
	b.until("there is an alarm", `document.querySelector(".alarmbox.raised")`)
	on("Acknowledge")
	b.press("\r")
	b.until("it is acknowledged", `[...document.querySelectorAll(".alarmbox:not(.raised) .tag")].some((e) => e.innerText === "acknowledged")`)
	s.logged("AcknowledgeAlarm", "orders-dlq/dead-letters")
}
