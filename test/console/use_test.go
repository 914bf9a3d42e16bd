package console_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evanw/esbuild/pkg/api"

	"tenaq/internal/testing/built"
)

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

// Each task of a user takes at most three clicks. A key counts as a click.
func TestJobs(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--config", redriving(t)).shopOf()
	s.create("orders-parking", nil, nil)
	s.fails("order-42", "{}")
	b := s.open(t, "")
	b.sees("invoices.fifo")
	eval[bool](b, `(window.clicks = 0, ["click", "keydown"].forEach((what) => addEventListener(what, () => window.clicks++, true)), true)`)
	for _, job := range []struct {
		name   string
		clicks int
		do     func()
	}{
		{"why messages fail", 1, func() {
			b.click("a.dead", "10 dead letters")
			b.sees("CardDeclined")
		}},
		{"what happened to a piece of work", 2, func() {
			b.press("/")
			b.until("the search has the focus", `document.activeElement.id === "search"`)
			eval[bool](b, `(document.activeElement.value = "order-42", true)`)
			b.press("\r")
			b.sees("Life of order-42")
		}},
		{"what is worked on", 2, func() {
			b.click("button.sort", "In flight")
			b.until("it is sorted", `document.querySelector("a[data-row]")?.innerText === "orders"`)
			b.click("a[data-row]", "orders")
			b.sees("Send a message")
		}},
		{"stop sending dead letters back", 2, func() {
			b.click("nav a", "Redrivers")
			b.click(".alarmbox:last-child button", "Pause")
			b.sees("Resume")
		}},
		{"what a message carries", 3, func() {
			b.click("a[data-row]", "mails")
			b.click(".tabs a", "Messages")
			b.click("a[data-row]", "")
			b.sees("Dear customer")
		}},
	} {
		b.goTo("#/")
		b.sees("invoices.fifo")
		eval[bool](b, "(window.clicks = 0, true)")
		job.do()
		if got := eval[int](b, "window.clicks"); got != job.clicks {
			t.Errorf("%s: %d clicks, want %d", job.name, got, job.clicks)
		}
	}
	if got := s.paused("orders-dlq"); got == "" {
		t.Error("the redriver is not paused")
	}
}

// A page with charts has the most scripts. Their bounds, and those of all files, are in the tests
// of internal/console/build.
func TestScripts(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("orders", nil, nil)
	b := s.open(t, "#/q/orders")
	b.until("the charts are there", "document.querySelectorAll('.plot canvas').length === 3")
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
	for range 10_000 {
		texts = append(texts, document(random, 4))
	}
	texts = append(texts, strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000), `"`+long+`"`)
	for some := range slices.Chunk(texts, 2_500) {
		wrong := eval[[]string](b, fmt.Sprintf(`%s.filter((text) => { const p = json.indent(text); if (!p) return true;
			const bare = (t) => t.replace(/"(?:[^"\\]|\\.)*"|\s+/g, (m) => (m[0] === '"' ? m : ""));
			return bare(p.map((x) => x.text).join("")) !== bare(text) }).map((t) => t.slice(0, 300))`, must(json.Marshal(some))))
		for _, text := range wrong {
			t.Errorf("changed: %s", text)
		}
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
