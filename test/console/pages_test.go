package console_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
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

// A zoom of 400 percent leaves a window of 1,280 by 1,024 pixels with this size.
const zoomedWidth, zoomedHeight = 320, 256

// fits fails the test if the page is wider than its window.
func (b *tab) fits(name string, width int64) {
	b.t.Helper()
	if wide := eval[int64](b, "document.documentElement.scrollWidth"); wide > width {
		widest := eval[string](b, `[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + "." + e.className).slice(0, 5).join(", ")`)
		b.t.Errorf("%s: the page is %d wide in a window of %d: %s", name, wide, width, widest)
	}
}

// tables fails the test unless a screen reader has each table of the page with a name and a cell
// for each of its columns in each row. Behind a dialog there is none.
func (b *tab) tables(name string) {
	b.t.Helper()
	const shown = `document.querySelector("dialog:modal") ? 0 : [...document.querySelectorAll("main table, main [role=table], main [role=grid]")].filter((e) => e.checkVisibility()).length`
	want := eval[int](b, shown)
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		b.t.Fatal(err)
	}
	nodes := make(map[accessibility.NodeID]*accessibility.Node)
	for _, n := range tree.Nodes {
		nodes[n.NodeID] = n
	}
	text := func(v *accessibility.Value) (s string) {
		if v != nil {
			_ = json.Unmarshal(v.Value, &s) // of another type: no text
		}
		return s
	}
	// below are the closest nodes with some roles
	var below func(n *accessibility.Node, roles ...string) []*accessibility.Node
	below = func(n *accessibility.Node, roles ...string) (all []*accessibility.Node) {
		for _, id := range n.ChildIDs {
			if child := nodes[id]; child == nil {
				continue
			} else if slices.Contains(roles, text(child.Role)) {
				all = append(all, child)
			} else {
				all = append(all, below(child, roles...)...)
			}
		}
		return all
	}
	found := 0
	for _, n := range tree.Nodes {
		if role := text(n.Role); n.Ignored || role != "table" && role != "grid" {
			continue
		}
		found++
		rows := below(n, "row")
		if text(n.Name) == "" || len(rows) < 2 {
			b.t.Errorf("%s: a table is called %q and has %d rows", name, text(n.Name), len(rows))
			continue
		}
		heads := len(below(rows[0], "columnheader"))
		for i, row := range rows[1:] {
			if cells := len(below(row, "cell", "gridcell", "rowheader")); cells != heads || heads == 0 {
				b.t.Errorf("%s: row %d of the table %q has %d cells, and the table has %d columns", name, i+1, text(n.Name), cells, heads)
				break
			}
		}
	}
	if found != want {
		b.t.Errorf("%s: a screen reader has %d of %d tables", name, found, want)
	}
}

// judged checks a page in both schemes and both sizes: no violation of WCAG 2.2 AA, nothing wider
// than the window, also with a zoom of 400 percent, and tables that a screen reader can read.
func (b *tab) judged(name string) {
	b.t.Helper()
	if eval[bool](b, "typeof axe === 'undefined'") {
		text, err := axe()
		if err != nil {
			b.t.Fatal(err)
		}
		eval[bool](b, text+";true")
	}
	const drawn = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
	for _, size := range [][2]int64{{1920, 1080}, {360, 640}} {
		b.size(size[0], size[1])
		for _, scheme := range []string{"light", "dark"} {
			b.scheme(scheme)
			eval[bool](b, drawn)
			for _, violation := range eval[[]string](b, fmt.Sprintf(audit, rules[scheme])) {
				b.t.Errorf("%s, %s, %d wide: %s", name, scheme, size[0], violation)
			}
			b.fits(name+", "+scheme, size[0])
			b.shoot(fmt.Sprintf("%s-%s-%d", name, scheme, size[0]))
		}
	}
	b.size(zoomedWidth, zoomedHeight)
	eval[bool](b, drawn)
	b.fits(name+", zoomed", zoomedWidth)
	b.size(1920, 1080)
	b.scheme("light")
	b.tables(name)
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
		{"health", "#/health", "This is a single server"},
		{"without-keys", "#/keys", "This server has no keys"},
		{"none", "#/nowhere", "There is no such page"},
	} {
		b.goTo(p.address)
		b.sees(p.sees)
		switch p.name {
		case "queue":
			b.until("the chart is there", "document.querySelectorAll('.plot canvas').length === 3")
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

// A server without queues says how to begin. From there, two clicks make a queue and show a first
// message in it. One that a program has sent is three clicks away.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := s.open(t, "")
	b.sees("There is no queue yet")
	b.judged("empty")
	eval[bool](b, `(window.clicks = 0, addEventListener("click", () => window.clicks++, true), true)`)
	shows := func(clicks int, body string) {
		t.Helper()
		b.until("the body is there", fmt.Sprintf(`document.querySelector(".message pre")?.innerText.includes(%s)`, quoted(body)))
		if got := eval[int](b, "window.clicks"); got != clicks {
			t.Errorf("%s was shown after %d clicks, want %d", body, got, clicks)
		}
		eval[bool](b, "(window.clicks = 0, true)")
	}
	b.asks("button.primary", "Send a message", "Send a message")
	b.submit()
	shows(2, `"id": 1`)
	b.sees("orders")
	b.content()

	s.create("mails", nil, nil)
	s.send("mails", `{"id": 2}`, nil)
	b.goTo("#/")
	b.click("a[data-row]", "mails")
	b.click(".tabs a", "Messages")
	b.click("a[data-row]", "")
	shows(3, `"id": 2`)
}
