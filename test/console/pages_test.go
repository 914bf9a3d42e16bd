package console_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

func setScheme(ctx context.Context, name string) error {
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	return err
}

// axe is axe-core, which knows the rules of accessibility.
var axe = sync.OnceValues(func() (string, error) {
	packed, err := os.ReadFile("testdata/axe.min.js.gz")
	if err != nil {
		return "", err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
})

const audit = `axe.run(document, {resultTypes: ["violations"], %s}).then((r) =>
	r.violations.flatMap((v) => v.nodes.map((n) => v.id + " at " + n.target.join(" ") + ": " + n.failureSummary)))`

// The other scheme has the same rules, but other colours.
var rules = map[string]string{
	"light": `runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]`,
	"dark":  `runOnly: {type: "rule", values: ["color-contrast", "link-in-text-block"]}`,
}

// judged checks a page in both schemes and both sizes: no violation of WCAG 2.2 AA, nothing wider
// than the window.
func (b *tab) judged(name string) {
	b.t.Helper()
	if eval[bool](b, "typeof axe === 'undefined'") {
		text, err := axe()
		if err != nil {
			b.t.Fatal(err)
		}
		eval[bool](b, text+";true")
	}
	for _, size := range [][2]int64{{1920, 1080}, {360, 640}} {
		b.size(size[0], size[1])
		for _, scheme := range []string{"light", "dark"} {
			b.scheme(scheme)
			eval[bool](b, "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
			for _, violation := range eval[[]string](b, fmt.Sprintf(audit, rules[scheme])) {
				b.t.Errorf("%s, %s, %d wide: %s", name, scheme, size[0], violation)
			}
			if wide := eval[int64](b, "document.documentElement.scrollWidth"); wide > size[0] {
				widest := eval[string](b, `[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + "." + e.className).slice(0, 5).join(", ")`)
				b.t.Errorf("%s, %s: the page is %d wide in a window of %d: %s", name, scheme, wide, size[0], widest)
			}
			b.shoot(fmt.Sprintf("%s-%s-%d", name, scheme, size[0]))
		}
	}
	b.size(1920, 1080)
	b.scheme("light")
}

// Every page keeps the rules of WCAG 2.2 AA and fits, in both schemes, on a phone and on a large
// screen. None changes anything. [CONSOLE-4, CONSOLE-8]
func TestPages(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	before := s.state()
	b := s.open(t, "")
	for _, p := range []struct{ name, address, sees string }{
		{"overview", "#/", "invoices.fifo"},
		{"queue", "#/q/orders", "After 3 receives"},
		{"messages", "#/q/orders/messages", "loaded"},
		{"groups", "#/q/invoices.fifo/groups", "customer-3"},
		{"dead", "#/q/orders-dlq/dead", "CardDeclined"},
		{"history", "#/q/orders/history", "messages kept"},
		{"no-history", "#/q/mails/history", "keeps no history"},
		{"settings", "#/q/orders/settings", "payments"},
		{"dead-queues", "#/dead", "orders-dlq"},
		{"tasks", "#/tasks", "orders-dlq:1"},
		{"log", "#/log", "asked the warehouse"},
		{"message", "#/m/" + s.dead, "Latest attempts"},
		{"gone", "#/m/00000000-0000-4000-8000-000000000000", "No queue has this message now"},
		{"alarms", "#/alarms", "Alarms"},
		{"health", "#/health", "commits reach the disk"},
		{"none", "#/nowhere", "There is no such page"},
	} {
		b.goTo(p.address)
		b.sees(p.sees)
		switch p.name {
		case "queue":
			b.until("the chart is there", "document.querySelectorAll('.plot canvas').length === 2")
		case "messages":
			b.click("a[data-row]", "")
			b.sees("Timeline")
		case "dead":
			b.click(".kindhead", "CardDeclined")
			b.sees("dead park orders-dlq")
		}
		b.judged(p.name)
	}
	b.goTo("#/q/orders-dlq/dead")
	b.sees("CardDeclined")
	b.press("c")
	b.sees("Commands for this screen")
	b.judged("commands")
	b.press("\x1b", "?")
	b.sees("Single-key commands")
	b.judged("keys")
	b.content()
	if after := s.state(); after != before {
		t.Errorf("looking has changed the queues:\n%s\nwas\n%s", after, before)
	}
}

// state is what looking must not change: where messages are, and how often each was received.
func (s *server) state() string {
	s.t.Helper()
	var text strings.Builder
	for _, queue := range []string{"orders", "orders-dlq", "invoices.fifo", "returns"} {
		var list struct {
			Messages []struct {
				MessageID    string
				State        string
				ReceiveCount int
			}
		}
		s.ask("/v1/queues/"+queue+"/messages?limit=100", nil, &list)
		fmt.Fprintln(&text, queue, list.Messages)
	}
	return text.String()
}

// A server without queues says how to begin.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := s.open(t, "")
	b.sees("There is no queue yet")
	b.judged("empty")
	s.create("orders", nil, nil)
	s.send("orders", `{"id": 1}`, nil)
	b.click("button", "Refresh")
	b.click("a[data-row]", "orders") // one
	b.click(".tabs a", "Messages")   // two
	b.click("a[data-row]", "")       // three
	b.until("the body is there", `document.querySelector(".message pre")?.innerText.includes('"id": 1')`)
}
