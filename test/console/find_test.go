package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
)

// Messages are found by an attribute, a group, their receives and a text: those on the page, and
// then those of the whole queue, with which something can be done. [CONSOLE-18, TASK-1]
func TestFind(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("jobs", object{"VisibilityTimeout": "900"}, nil)
	tenant := func(n int) object {
		return object{"MessageAttributes": object{"tenant": object{"DataType": "Number", "StringValue": fmt.Sprint(n)}}}
	}
	const n = 120 // the page begins with 50
	for i := range n {
		s.send("jobs", fmt.Sprintf("job %d of tenant %d", i, i%4), tenant(i%4))
	}
	b := s.open(t, "#/q/jobs/messages")
	b.sees("50 messages loaded")
	b.fill("Attribute", "tenant=3")
	b.sees("12 of 50 messages loaded")
	b.until("each has the attribute", `[...document.querySelectorAll(".messages .preview")].every((e) => e.innerText.endsWith("of tenant 3"))`)
	b.click(".search button", "Search the whole queue")
	b.sees(fmt.Sprintf("%d messages of the queue match.", n/4))
	b.judged("found")
	// a second part narrows the search
	b.fill("Contains", "job 7 of")
	b.until("another search begins", `document.querySelector(".search button")?.innerText === "Search the whole queue"`)
	b.click(".search button", "Search the whole queue")
	b.sees("1 message of the queue matches, with the text in the body.")
	b.asks(".search .triage button", "Delete these", `Delete: "job 7 of", tenant=3`)
	b.until("it counts", `document.querySelector("dialog[open] .counted")?.innerText.startsWith("1 message ")`)
	b.shows(`tenaq dead delete jobs --text 'job 7 of' --attribute 'tenant=3' --limit 1 --confirm 1 --yes`)
	b.fill("To confirm", "1")
	b.submit()
	b.sees("completed")
	if got := s.depth("jobs"); got != fmt.Sprint(n-1, " 0 0") {
		t.Errorf("after one was deleted the queue has %s", got)
	}
	// those that are in flight match, and stay
	s.create("kept", nil, nil)
	taken := len(s.receive("jobs", nil))
	b.goTo("#/q/jobs/messages?receives=1")
	b.sees(fmt.Sprintf("%d of 50 messages loaded", taken))
	b.click(".search button", "Search the whole queue")
	b.sees(fmt.Sprintf("%d messages of the queue match, %d of them hidden now.", taken, taken))
	b.asks(".search .triage button", "Move these to", "Move to another queue: at least 1 receive")
	b.until("it counts none", `document.querySelector("dialog[open] .counted")?.innerText.startsWith("0 messages ")`)
	b.fill("Queue", "kept")
	if !eval[bool](b, `document.querySelector("dialog[open] button[type=submit]").disabled`) {
		t.Error("a task that would take nothing can be started")
	}
	b.press("\x1b")
	b.closes()
	// what is found is in all states, so nothing is offered beside a list of one state
	b.goTo("#/q/jobs/messages?state=visible&attribute=tenant%3D2")
	b.click(".search button", "Search the whole queue")
	b.sees("whatever their state: show all states to act on them")
	if eval[bool](b, `!!document.querySelector(".search .triage")`) {
		t.Error("messages in other states than those shown can be acted on")
	}
	b.goTo("#/q/jobs/messages?attribute=tenant")
	b.sees("Type the attribute as name=value")
	// a link has the filter
	b.goTo("#/q/jobs/messages?attribute=tenant%3D2")
	b.sees("of 50 messages loaded")
	b.click("a[data-row]", "")
	b.until("the message is beside the list", `document.querySelector(".message pre")?.innerText.endsWith("of tenant 2")`)
	if at := eval[string](b, "location.hash"); !strings.Contains(at, "attribute=tenant%3D2") {
		t.Errorf("beside the message the address is %s", at)
	}
}

// Groups of a FIFO queue are found too. [CONSOLE-18]
func TestFindGroup(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("jobs.fifo", object{"FifoQueue": "true", "ContentBasedDeduplication": "true"}, nil)
	for i := range 9 {
		s.send("jobs.fifo", fmt.Sprint(i), object{"MessageGroupId": fmt.Sprint("customer-", i%3)})
	}
	b := s.open(t, "#/q/jobs.fifo/messages")
	b.sees("9 messages loaded")
	b.fill("Group", "customer-1")
	b.sees("3 of 9 messages loaded")
	b.click(".search button", "Search the whole queue")
	b.sees("3 messages of the queue match.")
	b.asks(".search .triage button", "Delete these", "Delete: group customer-1")
	b.until("it counts", `document.querySelector("dialog[open] .counted")?.innerText.startsWith("3 messages ")`)
	b.fill("To confirm", "3")
	b.submit()
	b.sees("completed")
	if got := s.depth("jobs.fifo"); got != "6 0 0" {
		t.Errorf("after a group was deleted the queue has %s", got)
	}
}

// A text that names no queue and no work is searched in the bodies of all queues. [CONSOLE-18]
func TestSearchEverywhere(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for i := range 5 {
		queue := fmt.Sprint("queue-", i)
		s.create(queue, nil, nil)
		s.send(queue, "nothing", nil)
	}
	s.create("empty", nil, nil)
	s.sendMany("queue-1", 4_000) // more than one answer looks at
	first := s.send("queue-1", `{"order": "42-A"}`, nil)
	s.send("queue-3", `{"order": "42-A", "copy": 1}`, nil)
	s.send("queue-3", `{"order": "42-A", "copy": 2}`, nil)
	b := s.open(t, "#/")
	b.sees("queue-4")
	b.press("/")
	b.until("the search has the focus", `document.activeElement.id === "search"`)
	eval[bool](b, `(document.activeElement.value = "42-A", true)`)
	b.press("\r")
	b.sees("Nothing is known of this work")
	b.click(".search button", "Search the bodies of all queues")
	b.sees("Scanned 4,008 messages of 5 queues.")
	b.until("both queues are listed", `[...document.querySelectorAll(".search li")].map((e) => e.innerText.trim()).join() === `+quoted("queue-1: 1 message "+first[:8]+",queue-3: 2 messages ")+` + [...document.querySelectorAll(".search li:last-child .mono")].map((e) => e.innerText).join(" ")`)
	b.judged("everywhere")
	b.click(".search li a", "queue-3")
	b.sees("2 of 3 messages loaded")
}

// The reasons of a long queue are grouped page by page without being asked, and a link to a kind
// opens it. [NACK-15]
func TestManyReasons(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("late-dlq", nil, nil)
	s.create("late", object{"RedrivePolicy": redriveTo("late-dlq", 3)}, nil)
	s.sendMany("late-dlq", 2_500)
	s.send("late", "poison", nil)
	s.nack("late", s.receive("late", nil)[0].ReceiptHandle, "poison", "CardDeclined", "card declined")
	s.receive("late", nil) // moves what is poison, behind all others
	b := s.open(t, "#/q/late-dlq/dead")
	b.sees("2 kinds of failure in all 2,501 messages")
	b.click(".kindhead", "CardDeclined")
	b.until("the kind has an address", `location.hash.includes("kind=")`)
	b.do(chromedp.Reload())
	b.until("the kind is open", `document.querySelector(".kindhead[aria-expanded=true]")?.innerText.includes("CardDeclined")`)
	b.press("r")
	b.until("it stays open while all are grouped again", `document.querySelector(".kindbody") && document.querySelector(".lead")?.innerText.includes("all 2,501")`)
}

// One message is sent back or deleted from its own page, and an edit shows what it changes.
// [CONSOLE-15, CONSOLE-16]
func TestOneMessage(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.failing("orders")
	var list struct{ Messages []struct{ MessageID string } }
	s.ask("/v1/queues/orders-dlq/messages", nil, &list)
	back, gone := list.Messages[0].MessageID, list.Messages[1].MessageID
	b := s.open(t, "#/m/"+back)
	b.asks(".message button", "Edit and send", "Edit and send")
	b.fill("Body", `{"order": 10}`)
	b.until("the changed line is shown", `document.querySelector("dialog[open] .diff")?.innerText.split("\n").filter((l) => l).join("|") === '−   "order": 0|+   "order": 10'`)
	b.judged("diff")
	b.fill("Body", `{"order":0}`)
	b.until("it says that nothing else changes", `document.querySelector("dialog[open]").innerText.includes("only white space")`)
	b.press("\x1b")
	b.closes()
	b.asks(".message button", "Send it back", "Send back: message "+back[:8])
	b.until("it counts", `document.querySelector("dialog[open] .counted")?.innerText.startsWith("1 message ")`)
	b.submit()
	b.sees("completed")
	if got := s.depth("orders"); got != "1 0 0" {
		t.Errorf("after one was sent back the queue has %s", got)
	}
	b.goTo("#/m/" + gone)
	b.asks(".message button", "Delete it", "Delete: message "+gone[:8])
	b.until("it counts", `document.querySelector("dialog[open] .counted")?.innerText.startsWith("1 message ")`)
	b.fill("To confirm", "1")
	b.submit()
	b.sees("completed")
	if got := s.depth("orders-dlq"); got != "1 0 0" {
		t.Errorf("after one was deleted the queue has %s", got)
	}
	b.goTo("#/m/" + gone)
	b.sees("No queue has this message now")
}

// A body and an attribute of bytes are downloaded as they were sent, also while the page has only
// the beginning. [CONSOLE-6]
func TestDownload(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("orders", nil, nil)
	raw := strings.Repeat("\x00\xff\x7f", 300)
	body := `{"id":` + exact + `, "text": "grüße 🎉", "pad":"` + strings.Repeat("x", 200_000) + `"}`
	id := s.send("orders", body, object{"MessageAttributes": object{"raw": object{"DataType": "Binary", "BinaryValue": []byte(raw)}}})
	b := s.blank(t)
	dir := t.TempDir()
	if _, err := chromedp.Call(b.ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID, DownloadPath: dir,
	}); err != nil {
		t.Fatal(err)
	}
	b.visit(s.URL() + "/console/#/m/" + id)
	b.sees("Only the beginning is shown")
	for _, file := range [][3]string{{"Download the body", id + ".txt", body}, {"Download attribute raw", id + "-raw", raw}} {
		b.click(fmt.Sprintf("button[aria-label=%q]", file[0]), "")
		var got []byte
		for end := time.Now().Add(time.Minute); len(got) == 0; time.Sleep(20 * time.Millisecond) {
			got, _ = os.ReadFile(filepath.Join(dir, file[1])) // it has another name until it is whole
			if time.Now().After(end) {
				t.Fatalf("%s is not there", file[1])
			}
		}
		if string(got) != file[2] {
			t.Errorf("%s: %d bytes that begin with %q, want %d", file[0], len(got), got[:min(len(got), 40)], len(file[2]))
		}
	}
}
