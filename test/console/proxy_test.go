package console_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

// A gate is a proxy that has authenticated its user. It replaces the header with the user, whatever
// the client says, and has an address of its own. Without a user it answers 401. It may change the
// lines of live streams.
type gate struct {
	*httptest.Server
	user   atomic.Pointer[string]
	change atomic.Pointer[func(line string) string]
}

func (g *gate) signIn(user string) { g.user.Store(&user) }

// changes makes the gate change each line of live streams from now on.
func (g *gate) changes(change func(line string) string) { g.change.Store(&change) }

// A gatedStream is a live stream as a gate passes it on.
type gatedStream struct {
	io.Closer
	gate  *gate
	lines *bufio.Reader
	rest  string // of the line that is passed on
}

func (s *gatedStream) Read(p []byte) (n int, err error) {
	for s.rest == "" {
		if s.rest, err = s.lines.ReadString('\n'); err != nil {
			return 0, err
		}
		if change := s.gate.change.Load(); change != nil {
			s.rest = (*change)(s.rest)
		}
	}
	n = copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func gateTo(t *testing.T, server, address, user string) *gate {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{}
	g.signIn(user)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	through := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Transport: &http.Transport{DialContext: dialer.DialContext},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.Out.Header.Set("X-Forwarded-Email", *g.user.Load())
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Path == "/v1/live" {
				r.Body = &gatedStream{r.Body, g, bufio.NewReader(r.Body), ""}
			}
			return nil
		}}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if *g.user.Load() == "" {
			http.Error(w, "sign in first", http.StatusUnauthorized)
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { g.CloseClientConnections(); g.Close() })
	return g
}

// writeProxied writes keys, and the rules of a proxy at 127.0.0.2.
func writeProxied(t *testing.T, path, rules string) {
	t.Helper()
	view := `{"id": "TQVIEW0001", "secret": "another-secret-of-some-length", "name": "viewer", "allow": ["tenaq:List*", "tenaq:Get*", "tenaq:Peek*"]}`
	text := fmt.Sprintf(`{"credentials": [%s, %s], "proxy": {"user-header": "X-Forwarded-Email", "peers": ["127.0.0.2"], "rules": [%s]}}`, opsKey(`"*"`), view, rules)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// purge asks the server in the name of the page to purge a queue, with more headers.
func purge(b *tab, headers string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`fetch("../v1/do/PurgeQueue", {method: "POST", body: '{"QueueUrl":"orders"}', headers: {"Content-Type": "application/json", %s}}).then(async (r) => r.status + " " + (await r.json()).message)`, headers))
}

// Behind an authenticating proxy, a person needs no key: the page shows the name, and the action
// log has it. Each acts as the key of a rule. A header of any other peer is not believed.
// [CONSOLE-19, CONSOLE-20, CONSOLE-21]
func TestProxySignIn(t *testing.T) {
	t.Parallel()
	chromium(t)
	path := filepath.Join(t.TempDir(), "keys.json")
	const ann, bob = `{"user": "ann@example.com", "key": "TQOPS00001"}`, `{"user": "*@example.com", "key": "TQVIEW0001"}`
	writeProxied(t, path, ann+","+bob)
	s := serve(t, []string{"TENAQ_CREDENTIALS=" + path})
	right, wrong := gateTo(t, s.URL(), "127.0.0.2", "ann@example.com"), gateTo(t, s.URL(), "127.0.0.1", "ann@example.com")

	b := blank(t, right.URL)
	b.visit(right.URL + "/console/")
	b.asks("button", "Create a queue", "Create a queue") // without a form before
	b.fill("Name", "orders")
	b.submit()
	b.until("numbers are live", `document.querySelector(".connection.good") && document.querySelector("h1")?.innerText.includes("orders")`)
	if name := b.text(".account summary"); name != "ann@example.com" {
		t.Errorf("the page shows the user %q", name)
	}
	b.click(".account summary", "ann@example.com")
	b.sees("A proxy has signed you in. Sign out there.")
	if buttons := b.text(".account button"); buttons != "" {
		t.Errorf("the page has the button %q, but there is no session to end", buttons)
	}
	b.judged("proxy")
	b.goTo("#/log")
	b.sees("ops (ann@example.com)")
	b.sees("CreateQueue")
	b.do(chromedp.Reload())
	b.sees("ops (ann@example.com)")

	looks := blank(t, right.URL)
	right.signIn("bob@example.com")
	looks.visit(right.URL + "/console/")
	looks.sees("orders")
	looks.goTo("#/q/orders")
	looks.sees("Where messages go")
	if found := eval[string](looks, `[...document.querySelectorAll("main button:not(.sort)")].map((e) => e.innerText).filter((t) => /Send|Pause|Purge|Delete|Create|Change|Set/.test(t)).join(", ")`); found != "" {
		t.Errorf("without the right, the page has %s", found)
	}
	for _, headers := range []string{``, `"X-Forwarded-Email": "ann@example.com"`, `"X_Forwarded_Email": "ann@example.com"`} {
		if got := purge(looks, headers); !strings.HasPrefix(got, "403 ") || !strings.Contains(got, "user/viewer is not authorized to perform: sqs:purgequeue") {
			t.Errorf("a purge of bob with the headers {%s}: got %s", headers, got)
		}
	}

	other := blank(t, wrong.URL)
	other.visit(wrong.URL + "/console/")
	other.sees("The header that names the user came from 127.0.0.1, which is not a proxy of this server")
	other.sees("Access key id")
	if got := purge(other, ``); !strings.HasPrefix(got, "400 ") {
		t.Errorf("a purge through another proxy: got %s", got)
	}
	direct := s.open(t, "")
	direct.sees("Access key id")
	if got := purge(direct, `"X-Forwarded-Email": "ann@example.com"`); !strings.HasPrefix(got, "400 ") {
		t.Errorf("a purge of a page that sends the header itself: got %s", got)
	}

	writeProxied(t, path, ann)
	if err := syscall.Kill(s.PID(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	looks.sees("The user bob@example.com may not use this server") // by itself
	right.signIn("ann@example.com")
	looks.do(chromedp.Reload())
	looks.sees("Where messages go")
	right.signIn("") // at the proxy, the session has ended
	looks.press("r") // unless the page has noticed
	looks.sees("The server answered 401: reload the page.")
}
