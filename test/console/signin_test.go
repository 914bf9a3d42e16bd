package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"tenaq/internal/child"
	"tenaq/internal/testing/built"
	"tenaq/internal/testing/proof"
)

const opsID, opsSecret = "TQOPS00001", "a-secret-of-thirty-characters.."

// keyed starts a server whose keys are in a file.
func keyed(t *testing.T, keys string, args ...string) (s *server, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys.json")
	writeKeys(t, path, keys)
	return serve(t, []string{"TENAQ_CREDENTIALS=" + path}, args...), path
}

func writeKeys(t *testing.T, path, keys string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(`{"credentials": [`+keys+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
}

// opsKey is a key with some rights.
func opsKey(allow string) string {
	return fmt.Sprintf(`{"id": %q, "secret": %q, "name": "ops", "allow": [%s]}`, opsID, opsSecret, allow)
}

// fill types into the field of the page, or of the dialog, that has a label.
func (b *tab) fill(label, text string) {
	b.t.Helper()
	field := fmt.Sprintf(`[...(document.querySelector("dialog[open]") ?? document).querySelectorAll("label.field")].find((l) => l.querySelector("span").innerText.startsWith(%s))?.querySelector("input, textarea, select")`, quoted(label))
	b.until("there is a field "+label, field)
	eval[bool](b, fmt.Sprintf(`((f) => { f.value = %s; f.dispatchEvent(new Event("input", {bubbles: true})); f.dispatchEvent(new Event("change", {bubbles: true})); return true })(%s)`, quoted(text), field))
}

// asks clicks what opens a dialog, and waits for it.
func (b *tab) asks(selector, text, title string) {
	b.t.Helper()
	b.click(selector, text)
	b.until("the dialog "+title, fmt.Sprintf(`document.querySelector("dialog[open] h2")?.innerText.includes(%s)`, quoted(title)))
}

// closes waits until no dialog is open and the page knows it. A click before that opens none.
func (b *tab) closes() {
	b.t.Helper()
	b.until("the dialog closes", `!document.querySelector("dialog[open], dialog.act, dialog .commands")`)
}

// submit waits until the dialog, or the form of the page, can be sent, and sends it.
func (b *tab) submit() {
	b.t.Helper()
	const button = `(document.querySelector("dialog[open]") ?? document).querySelector("button[type=submit]")`
	b.until("it can be sent", button+" && !"+button+".disabled")
	eval[bool](b, "("+button+".click(), true)")
}

func (b *tab) signIn(id, secret string) {
	b.t.Helper()
	b.fill("Access key id", id)
	b.fill("Secret access key", secret)
	b.submit()
}

// If requests must be signed, a person signs in with a key. The browser keeps no secret. The
// session survives a reload and ends at sign-out. [CONSOLE-7, CONSOLE-10, CONSOLE-13]
func TestSignIn(t *testing.T) {
	t.Parallel()
	s, path := keyed(t, opsKey(`"*"`))
	b := s.open(t, "#/health")
	b.sees("This server requires an access key")
	b.judged("sign-in")
	b.signIn(opsID, "nonsense-nonsense")
	b.sees("do not belong to a key")
	b.signIn(opsID, opsSecret)
	b.sees("commits reach the disk") // the live stream has the session too
	stored := eval[string](b, `JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage), document.cookie, location.href, document.documentElement.outerHTML])`)
	if strings.Contains(stored, opsSecret) || eval[string](b, "document.cookie") != "" {
		t.Errorf("a script can read the secret or the cookie: %s", stored)
	}
	b.do(chromedp.Reload())
	b.sees("commits reach the disk")
	b.click(".account summary", "ops")
	b.judged("account")
	b.goTo("#/log")
	b.sees("SignIn")
	b.click(".account .menu button", "Sign out")
	b.sees("You have signed out")
	if cookies := eval[string](b, `fetch("../v1/session").then((r) => r.json()).then((p) => p.code)`); cookies != "MissingAuthenticationToken" {
		t.Errorf("after a sign-out the server says %s", cookies)
	}
	b.signIn(opsID, opsSecret)
	b.sees("SignOut")
	writeKeys(t, path, strings.Replace(opsKey(`"*"`), opsID, "TQOTHER001", 1))
	if err := syscall.Kill(s.PID(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	b.sees("The session has ended, or its key has") // by itself
	b.sees("Access key id")
}

// A page on another port of the same host is of the same site, so the browser sends it the cookie
// of the console, and sends the cookie along with its requests. It can do nothing with either.
// [CONSOLE-11]
func TestOtherPort(t *testing.T) {
	t.Parallel()
	open := newShop(t)
	dir := open.DataDir()
	if err := open.Stop(); err != nil {
		t.Fatal(err)
	}
	s, _ := keyed(t, opsKey(`"*"`), "--data-dir", dir)
	seen := make(chan string, 100)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Cookie")
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<link rel=icon href=data:,><p>evil</p>`)
	}))
	defer evil.Close()
	b := s.open(t, "")
	b.signIn(opsID, opsSecret)
	b.sees("mails")
	own := b.beside() // has the session
	own.visit(s.URL() + "/console/")
	own.sees("mails")
	ask := func(path string, _, out any) {
		text := eval[string](own, fmt.Sprintf(`fetch(%q, {headers: {"Tenaq-Session": localStorage.getItem("tenaq.proof")}}).then((r) => r.text())`, path))
		if err := json.Unmarshal([]byte(text), out); err != nil {
			t.Fatalf("%s: %v, %s", path, err, text)
		}
	}
	same := s.still(ask)

	b.visit(evil.URL)
	b.sees("evil")
	cookie := ""
	for len(seen) > 0 {
		cookie = max(cookie, <-seen)
	}
	if !strings.HasPrefix(cookie, "tenaq-session-") {
		t.Fatalf("the rig is blind: the other port got no cookie, but %q", cookie)
	}
	b.attacks(s.URL(), evil.URL)
	// what the other server can do itself, with the cookie that it was sent
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL()+"/v1/do/DeleteQueue", strings.NewReader(`{"QueueUrl":"orders"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", cookie)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Tenaq-Session", strings.SplitN(cookie, "=", 2)[1])
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 401 {
		t.Errorf("the cookie alone: got %d", res.StatusCode)
	}
	same() // as the session says, so it is still there
	own.end()
	b.visit(s.URL() + "/console/#/q/orders")
	b.sees("Send a message")
	b.mu.Lock()
	b.complaints = nil
	b.mu.Unlock()

	// a session of another key, put into the browser from the other port, is not used
	eval[bool](b, `(history.pushState, true)`)
	name := strings.SplitN(cookie, "=", 2)[0]
	if err := setCookie(b.ctx, name, "another-session", s.URL()); err != nil {
		t.Fatal(err)
	}
	// unless the page has asked meanwhile
	eval[bool](b, `([...document.querySelectorAll("button")].find((e) => e.innerText.includes("Refresh"))?.click(), true)`)
	b.sees("The session has ended")
}

// Two servers on one host are two consoles: a browser that has signed in to both keeps both
// sessions, one ends without the other, and neither server takes that of the other. [CONSOLE-11]
func TestTwoServers(t *testing.T) {
	t.Parallel()
	one, _ := keyed(t, opsKey(`"*"`))
	two, _ := keyed(t, opsKey(`"*"`))
	b := one.open(t, "#/health")
	b.signIn(opsID, opsSecret)
	b.sees("commits reach the disk")
	other := b.beside()
	other.origin = two.URL()
	other.visit(two.URL() + "/console/#/health")
	other.sees("This server requires an access key") // though the browser sends it the cookie of the first
	other.signIn(opsID, opsSecret)
	other.sees("commits reach the disk")
	const proof = `localStorage.getItem("tenaq.proof")`
	session := func(of *tab, proof string) string {
		return eval[string](of, fmt.Sprintf(`fetch("../v1/session", {headers: {"Tenaq-Session": %s}}).then((r) => r.status + "")`, proof))
	}
	first, second := quoted(eval[string](b, proof)), quoted(eval[string](other, proof))
	for _, ask := range []struct {
		of          *tab
		proof, want string
	}{{b, first, "200"}, {other, second, "200"}, {b, second, "401"}, {other, first, "401"}} {
		if got := session(ask.of, ask.proof); got != ask.want {
			t.Errorf("a server answers %s to a session, want %s", got, ask.want)
		}
	}
	b.click(".account summary", "ops")
	b.click(".account .menu button", "Sign out")
	b.sees("You have signed out")
	if got := session(b, first); got != "401" {
		t.Errorf("after the sign-out the first server answers %s", got)
	}
	other.do(chromedp.Reload())
	other.sees("commits reach the disk")
	if got := session(other, second); got != "200" {
		t.Errorf("after a sign-out from the first server the second one answers %s", got)
	}
}

func setCookie(ctx context.Context, name, value, url string) error {
	_, err := chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{Name: name, Value: value, URL: url, HTTPOnly: new(true), SameSite: network.CookieSameSiteStrict})
	return err
}

// The leader keeps the session. So it continues whichever node a balancer asks, and when another
// node is lost. When the leader is lost, the page asks to sign in again, and then shows the same
// view. [CONSOLE-10, V1-23, V1-24]
func TestSessionInCluster(t *testing.T) {
	t.Parallel()
	chromium(t)
	if proof.Short() {
		t.Skip("SKIPPED: elections take seconds of real time; make whole runs it")
	}
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys.json")
	all := opsKey(`"*"`)
	for i := range 3 {
		all += fmt.Sprintf(`, {"id": "TQNODE000%d", "secret": "a-secret-of-node-%[1]d", "allow": ["sqs:*"]}`, i)
	}
	writeKeys(t, keys, all)
	c, err := child.NewCluster(child.Config{Program: built.Program(t), Dir: dir, Env: []string{"TENAQ_CREDENTIALS=" + keys}}, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	started := make(chan error, len(c.Nodes))
	for _, n := range c.Nodes {
		go func() { _, err := n.Start(t.Context()); started <- err }()
	}
	for range c.Nodes {
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
	at := balance(t, c.URLs())
	b := blank(t, at.URL)
	b.visit(at.URL + "/console/")
	b.signIn(opsID, opsSecret)
	b.asks("button", "Create a queue", "Create a queue")
	b.fill("Name", "orders")
	b.submit()
	b.until("the queue is there", `document.querySelector("h1")?.innerText.includes("orders") && document.querySelector(".connection.good")`)
	term := func() (term uint64) {
		t.Helper()
		var s struct{ Term uint64 }
		if err := json.Unmarshal(signs(t, at.URL, opsID, opsSecret, "cluster", "status", "--json"), &s); err != nil {
			t.Fatal(err)
		}
		return s.Term
	}
	signedIn := term()
	// If another node has taken the lead, as on a busy machine, the session has ended.
	again := func() (moved bool) {
		t.Helper()
		for range 50 { // a node may hear of it late
			if now := term(); now != signedIn {
				signedIn = now
				b.signIn(opsID, opsSecret)
				return true
			}
			time.Sleep(100 * time.Millisecond)
		}
		return false
	}
	const signIn = `document.querySelector('input[name="secret"]')`
	reloads := func(when, expression string) {
		t.Helper()
		for range 2 * len(c.Nodes) { // so each node is asked
			b.do(chromedp.Reload())
			b.until(when, "("+expression+") || "+signIn)
			if eval[bool](b, "!!"+signIn) {
				again()
			}
			b.until(when, expression)
		}
	}
	asks := func(path, of string) string {
		t.Helper()
		for {
			got := eval[string](b, fmt.Sprintf(`fetch("../v1/%s", {headers: {"Tenaq-Session": localStorage.getItem("tenaq.proof")}}).then((r) => r.ok ? r.json().then((l) => String(%s)) : "")`, path, of))
			if got != "" {
				return got
			}
			b.until("the session has ended", signIn)
			if !again() {
				t.Fatalf("/v1/%s is refused", path)
			}
			b.until("it is signed in", "!"+signIn)
		}
	}
	shows := func(when string) {
		t.Helper()
		reloads(when, `document.querySelector("h1")?.innerText.includes("orders") && document.querySelector(".figure .value")?.innerText === "0"`)
	}
	shows("each node shows the queue")
	for i := range at.asked {
		if at.asked[i].Load() == 0 {
			t.Errorf("node %d was never asked", i)
		}
	}
	for i, url := range c.URLs() {
		signs(t, url, fmt.Sprintf("TQNODE000%d", i), fmt.Sprintf("a-secret-of-node-%d", i), "queue", "list")
	}
	for range c.Nodes { // each knows all uses, whatever node they were at [V1-23]
		if unused := asks("keys", `l.keys.filter((k) => !k.lastUse).length`); unused != "0" && term() == signedIn {
			t.Errorf("%s keys were used, and a node does not show it", unused)
		}
	}
	b.goTo("#/health")
	reloads("each node shows the cluster", `document.querySelectorAll("main tbody tr").length === 3 && document.querySelector("main").innerText.includes("leader")`)
	b.judged("cluster")
	b.goTo("#/q/orders")
	leader := func() int {
		t.Helper()
		leads := asks("cluster", `l.members.find((m) => m.role === "leader").address`)
		i := slices.IndexFunc(c.Nodes, func(n *child.Node) bool { return n.Address == leads })
		if i < 0 {
			t.Fatalf("%s leads, which is no node", leads)
		}
		return i
	}
	i := leader()
	for range c.Nodes { // each shows the settings of the leader [V1-24]
		if at := asks("settings", `l.settings.find((s) => s.name === "cluster-advertise").value`); at != c.Nodes[i].Address && term() == signedIn {
			t.Errorf("a node shows the settings of %s, and %s leads", at, c.Nodes[i].Address)
		}
	}
	other := c.Nodes[(i+1)%len(c.Nodes)]
	if err := other.Kill(); err != nil {
		t.Fatal(err)
	}
	shows("two nodes show the queue")
	if _, err := other.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Nodes[leader()].Kill(); err != nil {
		t.Fatal(err)
	}
	b.sees("The session has ended") // by itself
	b.signIn(opsID, opsSecret)
	b.until("it shows the queue again", `document.querySelector("h1")?.innerText.includes("orders")`)
	shows("the other nodes show the queue")
}

// A balancer passes each request on to the next node that can be reached.
type balancer struct {
	*httptest.Server
	nodes []string // their addresses
	next  atomic.Uint64
	asked []atomic.Int64
}

func balance(t *testing.T, urls []string) *balancer {
	t.Helper()
	b := &balancer{asked: make([]atomic.Int64, len(urls))}
	for _, u := range urls {
		b.nodes = append(b.nodes, strings.TrimPrefix(u, "http://"))
	}
	b.Server = httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Host },
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
			for range b.nodes {
				i := int(b.next.Add(1)) % len(b.nodes)
				if conn, err = new(net.Dialer).DialContext(ctx, network, b.nodes[i]); err == nil {
					b.asked[i].Add(1)
					break
				}
			}
			return conn, err
		}}})
	t.Cleanup(b.CloseClientConnections)
	return b
}

// If the console is read-only, or the key lacks a right, the buttons are absent, and the server
// refuses the requests of pages in any case. [CONSOLE-14]
func TestNoRight(t *testing.T) {
	t.Parallel()
	const looks = `"tenaq:List*", "tenaq:Get*", "tenaq:Peek*", "tenaq:Search*"`
	for _, test := range []struct {
		name, allow string
		args        []string
		refusal     string
	}{
		{"read-only", `"*"`, []string{"--console-read-only"}, "The console of this server is read-only"},
		{"rights", looks, nil, "is not authorized to perform"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, nil)
			s.shopOf()
			dir := s.DataDir()
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			k, _ := keyed(t, opsKey(test.allow), append(test.args, "--data-dir", dir)...)
			b := k.open(t, "")
			b.signIn(opsID, opsSecret)
			for _, page := range [][2]string{{"#/", "orders"}, {"#/q/orders", "Where messages go"}, {"#/q/orders/settings", "VisibilityTimeout"}, {"#/q/orders-dlq/dead", "kinds of failure"}, {"#/tasks/mails:2", "Which messages"}, {"#/alarms", "Alarms"}, {"#/q/orders/messages", "loaded"}} {
				b.goTo(page[0])
				b.sees(page[1])
				switch page[0] {
				case "#/q/orders": // which begins to measure its handling times, as a look does [V1-22]
					b.until("it is measured", `/Deletes are measured from now on|messages? since/.test(document.querySelector("section[aria-labelledby=handling]")?.innerText)`)
				case "#/q/orders-dlq/dead":
					b.click(".kindhead", "CardDeclined")
				case "#/q/orders/messages":
					b.click("a[data-row]", "")
					b.sees("Timeline")
				}
				if found := eval[string](b, `[...document.querySelectorAll("main button:not(.sort)")].map((e) => e.innerText).filter((t) => /Send|Pause|Resume|Purge|Delete|Create|Park|Move|Edit|Change|Set|Cancel|Acknowledge|Silence|Note/.test(t)).join(", ")`); found != "" {
					t.Errorf("%s has %s", page[0], found)
				}
			}
			for path, body := range map[string]string{
				"do/SendMessage": `{"QueueUrl":"orders","MessageBody":"x"}`, "do/PurgeQueue": `{"QueueUrl":"orders"}`, "do/DeleteQueue": `{"QueueUrl":"orders"}`, "do/CreateQueue": `{"QueueName":"new"}`,
				"do/TagQueue": `{"QueueUrl":"orders","Tags":{"a":"b"}}`, "do/UntagQueue": `{"QueueUrl":"orders","TagKeys":["a"]}`, "do/SetQueueAttributes": `{"QueueUrl":"orders","Attributes":{"DelaySeconds":"1"}}`,
				"tasks": `{"queue":"orders-dlq","do":"delete","confirm":1}`, "tasks/mails:2/cancel": `{}`, "tasks/mails:2/pause": `{}`, "tasks/mails:2/rate": `{"rate":1}`,
				"replace": `{"queue":"orders-dlq","place":"x"}`, "alarms/silence": `{"match":"*","for":"1h"}`, "alarms/acknowledge": `{"alarm":"x"}`,
				"queues/orders-dlq/reasons/unknown/note": `{"text":"x"}`,
			} {
				got := eval[string](b, fmt.Sprintf(`fetch("../v1/%s", {method: "POST", body: %s, headers: {"Content-Type": "application/json", "Tenaq-Session": localStorage.getItem("tenaq.proof")}}).then(async (r) => r.status + " " + (await r.json()).message)`, path, quoted(body)))
				if !strings.HasPrefix(got, "403 ") || !strings.Contains(got, test.refusal) {
					t.Errorf("%s: got %s", path, got)
				}
			}
		})
	}
}
