package console_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

func corpus(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/hostile.json")
	if err == nil {
		err = json.Unmarshal(text, &lines)
	}
	if err != nil || len(lines) < 60 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	return lines
}

// foreign is what the page has that came from a message and is no text.
const foreign = `(window.pwned !== undefined || {}.pwned !== undefined ? "it ran" :
	[...document.querySelectorAll("body img, body script, body iframe, body svg:not(.spark), body object, body embed, body video, body audio, body base, body link, body meta, body style")].map((e) => e.outerHTML).join(" ") +
	[...document.querySelectorAll("a[href]")].map((e) => e.getAttribute("href")).filter((h) => !/^(#|\.\/licences)/.test(h)).join(" "))`

// harmless fails unless the page has nothing that came from a message but text.
func (b *tab) harmless(where string) {
	b.t.Helper()
	if found := eval[string](b, foreign); found != "" {
		b.t.Errorf("%s: %s", where, found)
	}
	b.content()
}

var unseen = regexp.MustCompile(`[\x{200b}-\x{200f}\x{2028}-\x{202e}\x{2060}-\x{206f}\x{feff}\r]`)

// shownAs is a text as the console shows it.
func shownAs(text string) string {
	return unseen.ReplaceAllStringFunc(text, func(c string) string { return fmt.Sprintf(`\u%04x`, []rune(c)[0]) })
}

// addHostile adds a dead letter for each line, which is its body, attributes and reason. It returns
// the lines by the ids of the letters. A FIFO queue has groups with those lines that can name one.
func (s *server) addHostile(lines []string) (bodies map[string]string) {
	s.t.Helper()
	s.create("hostile-dlq", nil, nil)
	s.create("hostile", object{"RedrivePolicy": redriveTo("hostile-dlq", 9), "VisibilityTimeout": "900"},
		object{"tenaq:history": "7d", "note": "javascript:pwned=1"})
	s.create("hostile.fifo", object{"FifoQueue": "true", "ContentBasedDeduplication": "true"}, nil)
	attributes := func(line string) object {
		return object{"MessageAttributes": object{"__proto__": object{"DataType": "String", "StringValue": line}, "constructor": object{"DataType": "String.x", "StringValue": line}}}
	}
	bodies = make(map[string]string)
	for _, line := range lines {
		bodies[s.send("hostile", line, attributes(line))] = line
		if !strings.ContainsAny(line, " \t\r\n") && strings.Trim(line, "\x20\x21\x22\x23\x24\x25\x26'()*+,-./:;<=>?@[]\\^_`{|}~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
			s.send("hostile.fifo", line, object{"MessageGroupId": line})
		}
	}
	for i := 0; i < len(lines); {
		for _, m := range s.receive("hostile", nil) {
			s.nack("hostile", m.ReceiptHandle, "poison", m.Body[:min(len(m.Body), 20)], m.Body)
			i++
		}
	}
	s.receive("hostile", object{"MaxNumberOfMessages": 1})
	return bodies
}

// The content of a message stays text, wherever the console shows it: nothing runs, nothing is
// loaded, nothing becomes a link. [CONSOLE-6]
func TestHostile(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	lines := corpus(t)
	bodies := s.addHostile(lines)
	s.receive("hostile.fifo", object{"MaxNumberOfMessages": 1, "VisibilityTimeout": 900})
	s.ask("/v1/tasks", object{"queue": "hostile-dlq", "do": "move", "to": "hostile", "filter": object{"text": lines[0]}, "note": lines[0]}, nil)

	b := s.open(t, "#/")
	for _, p := range [][2]string{
		{"#/q/hostile/settings", "javascript:pwned=1"}, {"#/q/hostile-dlq/messages", "loaded"}, {"#/q/hostile-dlq/dead", "kinds of failure"},
		{"#/q/hostile/history", "messages kept"}, {"#/q/hostile.fifo/groups", "locked"}, {"#/tasks", "hostile-dlq:1"}, {"#/log", "onerror"},
		{"#/?text=" + strings.ReplaceAll(lines[0], " ", "%20"), "No queue matches"}, {"#/q/%3Cimg%20src=x%20onerror=pwned=1%3E", "img"},
		{"#/m/javascript:pwned=1", "javascript:pwned=1"}, {"#/%zz/<img src=x onerror=pwned=1>", "no such page"},
	} {
		b.goTo(p[0])
		b.sees(p[1])
		b.harmless(p[0])
	}
	b.goTo("#/q/hostile-dlq/messages")
	b.sees("loaded")

	// each message by itself, and what it has copied
	var ids []string
	for id := range bodies {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	shown := eval[map[string][3]string](b, fmt.Sprintf(`(async () => { const all = {}; for (const id of %s) {
		location.hash = "#/m/" + id;
		for (let i = 0; i < 400 && document.querySelector(".message .id")?.textContent !== id; i++) await new Promise((d) => setTimeout(d, 10));
		[...document.querySelectorAll(".body button")].find((e) => e.textContent === "Text").click();
		await new Promise((d) => setTimeout(d, 10));
		all[id] = [document.querySelector(".message pre").textContent, [...document.querySelectorAll(".message .value")].map((e) => e.textContent).join("|"), document.querySelector("p.why")?.textContent ?? ""];
	} return all })()`, must(json.Marshal(ids))))
	b.harmless("the messages")
	for id, line := range bodies {
		want := shownAs(line)
		if got := shown[id]; got[0] != want || got[1] != want+"|"+want || !strings.Contains(got[2], want) {
			t.Errorf("%q is shown as %q", line, got)
		}
	}

	// a command that was copied is the words that it shows: no shell makes anything else of them
	b.goTo("#/q/hostile.fifo/groups")
	b.sees("locked")
	b.press("c")
	b.sees("Commands for this screen")
	commands := eval[[]string](b, `[...document.querySelectorAll("dialog[open] .line code")].map((e) => e.textContent)`)
	if words := b.words(commands); !slices.Contains(words, "hostile.fifo") {
		t.Errorf("the words of %q are %q", commands, words)
	}
}

// So do the reasons of silences. [CONSOLE-6]
func TestHostileSilences(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	lines := slices.DeleteFunc(corpus(t), func(line string) bool { return strings.ContainsFunc(line, unicode.IsControl) }) // refused
	for i, line := range lines {
		s.ask("/v1/alarms/silence", object{"match": fmt.Sprintf("hostile-%d/*", i), "for": "1h", "reason": line}, nil)
	}
	b := s.open(t, "#/alarms")
	const reasons = `[...document.querySelectorAll("main table")].find((e) => e.caption.textContent === "Silences")?.querySelectorAll("td[data-name=Reason]")`
	b.until("all silences are there", fmt.Sprintf("%s?.length === %d", reasons, len(lines)))
	says := eval[[]string](b, "[..."+reasons+"].map((e) => e.textContent)")
	for _, line := range lines {
		if want := shownAs(line); !slices.Contains(says, want) {
			t.Errorf("the reason %q of a silence is not shown as %q", line, want)
		}
	}
	b.harmless("the silences")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The policy of the page stops what its scripts would do wrong: code from text, markup from text,
// inline scripts, other hosts. [CONSOLE-4]
func TestPolicy(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := s.open(t, "")
	b.sees("There is no queue yet")
	strict := func(p *runtime.EvaluateParams) { p.AllowUnsafeEvalBlockedByCSP = new(bool) }
	for _, forbidden := range []string{
		`eval("1")`, `Function("return 1")()`, `document.body.innerHTML = "<b>x</b>"`,
		`document.createElement("script").src = "./x.js"`, `document.body.insertAdjacentHTML("beforeend", "<b>x</b>")`,
		`new Worker("./x.js")`, `trustedTypes.createPolicy("x", {})`,
	} {
		if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[any](forbidden, strict)); err == nil {
			t.Errorf("%s is allowed", forbidden)
		}
	}
	for _, forbidden := range []string{
		`fetch("http://127.0.0.1:1/").then(() => "loaded", () => "refused")`,
		`new Promise((done) => { const i = new Image(); i.onload = () => done("loaded"); i.onerror = () => done("refused"); i.src = "data:image/gif;base64,R0lGODlhAQABAAAAACw="; })`,
		`new Promise((done) => { const f = document.createElement("iframe"); f.src = "./"; document.body.append(f); setTimeout(() => { let at = ""; try { at = f.contentDocument ? "loaded" : "refused" } catch { at = "refused" } done(f.contentDocument?.body?.innerText ? "loaded" : "refused") }, 300) })`,
	} {
		if got := eval[string](b, forbidden); got != "refused" {
			t.Errorf("%s: %s", forbidden, got)
		}
	}
	// the rig notices a violation, or these tests would be blind
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		b.mu.Lock()
		heard := strings.Join(b.complaints, "\n")
		b.complaints = nil
		b.mu.Unlock()
		if strings.Contains(heard, "Content Security Policy") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the rig heard of no violation, only of: %s", heard)
		}
	}
}

// No page of another origin can show the console in a frame, where a person would click on it
// unknowingly. A server with keys answers a request for a frame, so the headers have to stop it,
// and each of the two does so alone. [CONSOLE-4]
func TestFramed(t *testing.T) {
	t.Parallel()
	s, _ := keyed(t, opsKey(`"*"`))
	to, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, without string
		runs          bool
	}{
		{"as the server answers", "", false},
		{"without X-Frame-Options", "X-Frame-Options", false},
		{"without frame-ancestors", "Content-Security-Policy", false},
		{"without both", "X-Frame-Options Content-Security-Policy", true}, // or the test would be blind
	} {
		t.Run(test.name, func(t *testing.T) {
			var asked sync.Map // the files of the console that a browser has asked for
			through := httptest.NewServer(&httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0),
				Rewrite: func(r *httputil.ProxyRequest) {
					r.SetURL(to)
					r.Out.Host = r.In.Host
					asked.Store(path.Ext(r.In.URL.Path), true)
				},
				ModifyResponse: func(r *http.Response) error {
					for _, name := range strings.Fields(test.without) {
						r.Header.Del(name)
					}
					return nil
				}})
			t.Cleanup(through.Close)
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprintf(w, `<link rel=icon href=data:,><script>addEventListener("load", () => window.loaded = true)</script><iframe src="%s/console/"></iframe>`, through.URL)
			}))
			t.Cleanup(other.Close)
			// the same site on another port, and another site
			for _, elsewhere := range []string{other.URL, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)} {
				asked.Clear()
				b := blank(t, through.URL)
				b.visit(elsewhere)
				b.until("the frame has loaded or failed", "window.loaded") // after the script of the frame
				b.mu.Lock()
				b.complaints = nil // those of the other page
				b.mu.Unlock()
				if _, ok := asked.Load(""); !ok {
					t.Fatalf("the browser did not ask for the page in the frame of %s", elsewhere)
				}
				if _, runs := asked.Load(".js"); runs != test.runs {
					t.Errorf("in a frame of %s the console runs: %v", elsewhere, runs)
				}
			}
		})
	}
}

// pageTricks are what a page of another origin can make a browser ask the server at %[1]s. None is
// answered in a way that the page can read, and none changes anything.
var pageTricks = []string{
	`fetch("%[1]s/v1/queues", {credentials: "include"})`,
	`fetch("%[1]s/v1/queues", {mode: "no-cors", credentials: "include"}).then((r) => { if (r.type === "opaque") throw 1 })`,
	`fetch("%[1]s/v1/tasks", {method: "POST", body: "{}", headers: {"Content-Type": "application/json"}})`,
	`fetch("%[1]s/v1/do/DeleteQueue", {method: "POST", credentials: "include", body: '{"QueueUrl":"orders"}', headers: {"Content-Type": "application/json"}})`,
	`fetch("%[1]s/v1/do/DeleteQueue", {method: "POST", mode: "no-cors", credentials: "include", body: '{"QueueUrl":"orders"}'}).then((r) => { if (r.type === "opaque") throw 1 })`,
	`fetch("%[1]s/v1/session", {method: "POST", mode: "no-cors", credentials: "include", body: '{"id":"TQOPS00001","secret":"x"}'}).then((r) => { if (r.type === "opaque") throw 1 })`,
	`fetch("%[1]s/v1/session", {method: "DELETE", credentials: "include"})`,
	socket("/v1/live"), socket("/?Action=PurgeQueue&QueueUrl=orders"),
	`new Promise((done, fail) => { const e = new EventSource("%[1]s/v1/live?queue=orders", {withCredentials: true}); e.onopen = done; e.onerror = () => { e.close(); fail() } })`,
	image("/v1/queues"), image("/?Action=DeleteQueue&QueueUrl=orders"), image("/?Action=PurgeQueue&QueueUrl=orders"),
	form(`method="post" enctype="text/plain" action="%[1]s/v1/do/DeleteQueue"`, `{"QueueUrl":"orders","x":"`, `"}`),
	form(`action="%[1]s/"`, "Action", "PurgeQueue", "QueueUrl", "orders"),
	form(`action="%[1]s/v1/queues"`, "sort", "name"),
	form(`method="post" action="%[1]s/?Action=DeleteQueue&QueueUrl=orders"`, "x", ""),
	form(`method="post" action="%[1]s/"`, "Action", "PurgeQueue", "QueueUrl", "mails"),
}

func socket(path string) string {
	return `new Promise((done, fail) => { const s = new WebSocket("%[1]s` + path + `".replace("http", "ws")); s.onopen = done; s.onerror = fail })`
}

func image(path string) string {
	return `new Promise((done, fail) => { const i = new Image(); i.onload = done; i.onerror = fail; i.src = "%[1]s` + path + `" })`
}

// form sends a form to a frame, and waits for the answer in it.
func form(how string, fields ...string) string {
	var inputs string
	for i := 0; i < len(fields); i += 2 {
		inputs += fmt.Sprintf(`<input name="%s" value="%s">`, html.EscapeString(fields[i]), html.EscapeString(fields[i+1]))
	}
	return `new Promise((done, fail) => { const d = document.createElement("div"); d.innerHTML = '<iframe name="to"></iframe><form target="to" ` + how + `>` + inputs +
		`</form>'; document.body.append(d); d.firstChild.onload = () => { let text = ""; try { text = d.firstChild.contentDocument?.body.innerText ?? "" } catch {} d.remove(); text ? done() : fail() }; d.lastChild.submit() })`
}

// attacks lets a page of another origin try its tricks, and navigate to the server.
func (b *tab) attacks(server, page string) {
	b.t.Helper()
	b.visit(page)
	for _, trick := range pageTricks {
		trick = fmt.Sprintf(trick, server)
		if got := eval[string](b, "("+trick+").then(() => 'answered', () => 'refused')"); got != "refused" {
			b.t.Errorf("%s: %s", trick, got)
		}
	}
	for _, path := range []string{"/v1/queues", "/?Action=PurgeQueue&QueueUrl=orders", "/?Action=ListQueues"} {
		b.visit(page)
		eval[bool](b, fmt.Sprintf("(setTimeout(() => location = %q), true)", server+path))
		b.until("the server has answered "+path, fmt.Sprintf("location.href === %q && document.readyState === 'complete'", server+path))
		if text := b.text("body"); text == "" || strings.Contains(text, "orders") {
			b.t.Errorf("a navigation to %s shows %q", path, text)
		}
	}
	b.mu.Lock()
	b.complaints = nil // those of the other page
	b.mu.Unlock()
}

var ages = regexp.MustCompile(`"(oldestAgeMs|ageMs)":\d+`)

// still notes everything, and returns a function that fails the test if it is not the same later.
func (s *server) still(ask func(path string, in, out any)) (same func()) {
	s.t.Helper()
	look := func() map[string]string {
		s.t.Helper()
		texts := make(map[string]string)
		for path, answer := range s.everything(ask).all {
			texts[path] = ages.ReplaceAllString(string(must(json.Marshal(answer))), "")
		}
		return texts
	}
	look() // the first look begins to measure handling times
	before := look()
	return func() {
		s.t.Helper()
		after := look()
		for path := range before {
			if after[path] != before[path] {
				s.t.Errorf("a page of another origin has changed %s from\n%s\nto\n%s", path, before[path], after[path])
			}
		}
		if len(after) != len(before) {
			s.t.Errorf("a page of another origin has made %d answers of %d", len(after), len(before))
		}
	}
}

// A link on a page of another origin opens the console, but that page can neither read nor change
// anything, on another port of the same host or on another site. [CONSOLE-5, AUTH-3]
func TestElsewhere(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<link rel=icon href=data:,><a id=link href="%s/console/#/q/orders">look</a>`, s.URL())
	}))
	defer other.Close()
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1) // another site than that of the server
	same := s.still(s.ask)
	b := s.blank(t)
	b.attacks(s.URL(), other.URL)
	b.attacks(s.URL(), elsewhere)
	same()
	b.visit(elsewhere)
	b.mu.Lock()
	b.complaints = nil // those of the other page
	b.mu.Unlock()
	b.do(chromedp.Click(chromedp.ID("link")))
	b.until("the console is there", `document.querySelector("h1")?.innerText.includes("orders")`)
	b.mu.Lock()
	b.complaints = nil
	b.mu.Unlock()
}

// Without scripts the page names the commands. [CONSOLE-2]
func TestNoScript(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := s.blank(t)
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.visit(s.URL() + "/console/")
	b.sees("tenaq dead list orders-dlq")
}
