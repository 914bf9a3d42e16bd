package v1

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/door/auth"
)

// A browser has a page of the console, with its cookies and what the page keeps.
type browser struct {
	*keyed
	cookies map[string]string
	proof   string
	remote  string
	host    string
	site    string // Sec-Fetch-Site
	origin  string
	set     *http.Cookie // that came last
}

func (k *keyed) browse(t *testing.T, cfg auth.Config) *browser {
	t.Helper()
	cfg.Credentials, cfg.Account, cfg.Region, cfg.Sessions = k.set, account, "us-east-1", true
	k.cfg.Door = auth.New(cfg)
	k.cfg.SQS = func(_ context.Context, _ http.ResponseWriter, _ *http.Request, _ auth.Principal, action string, body []byte) ([]byte, error) {
		return json.Marshal(map[string]string{"did": action, "with": string(body)})
	}
	return &browser{keyed: k, cookies: make(map[string]string), remote: "127.0.0.1:5000", host: "127.0.0.1:9324", site: "same-origin"}
}

// of is the same browser with something else about it.
func (b browser) of(change func(b *browser)) *browser {
	change(&b)
	return &b
}

func (b *browser) does(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, "http://"+b.host+path, strings.NewReader(body))
	r.RemoteAddr = b.remote
	r.Header.Set("Content-Type", "application/json")
	if b.site != "" {
		r.Header.Set("Sec-Fetch-Site", b.site)
	}
	if b.origin != "" {
		r.Header.Set("Origin", b.origin)
	}
	if b.proof != "" {
		r.Header.Set(auth.ProofHeader, b.proof)
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	if set := w.Result().Cookies(); len(set) > 0 {
		b.set = set[0]
		b.cookies[b.set.Name] = b.set.Value
		if b.set.MaxAge < 0 {
			delete(b.cookies, b.set.Name)
		}
	}
	return w.Code, w.Body.String()
}

func (b *browser) signsIn(t *testing.T, key string) session {
	t.Helper()
	status, body := b.does(t, "POST", "/v1/session", signIn(key))
	var s session
	if err := json.Unmarshal([]byte(body), &s); err != nil || status != 200 || s.Proof == "" || b.set == nil {
		t.Fatalf("%s signs in: %d %s", key, status, body)
	}
	b.proof = s.Proof
	return s
}

func signIn(key string) string {
	return fmt.Sprintf(`{"id": %q, "secret": "the-secret-of-%[1]s"}`, key)
}

// A session has the rights of its key, and its cookie is kept from scripts. It makes no token.
// [CONSOLE-10]
func TestSession(t *testing.T) {
	b := newKeyed(t, keyOf("TQSEES01", "tenaq:ListQueues", ""), keyOf("TQALL001", "*", "")).browse(t, auth.Config{})
	s := b.signsIn(t, "TQSEES01")
	if got := b.set.String(); !strings.HasPrefix(got, "tenaq-session-9324=") || !strings.HasSuffix(got, "; Path=/; HttpOnly; SameSite=Strict") {
		t.Errorf("the cookie is %s", got)
	}
	if s.Open || s.ReadOnly || s.Ends == nil || s.Caller.Key != "TQSEES01" || !slices.Equal(s.Allowed, []string{"tenaq:ListQueues"}) {
		t.Errorf("the session is %+v", s)
	}
	for path, want := range map[string]int{"GET /v1/queues": 200, "GET /v1": 200, "GET /v1/session": 200, "GET /v1/tasks": 403, "POST /v1/tokens": 403} {
		method, path, _ := strings.Cut(path, " ")
		if status, body := b.does(t, method, path, "{}"); status != want {
			t.Errorf("%s %s: got %d %s, want %d", method, path, status, body, want)
		}
	}
	all := newKeyed(t, keyOf("TQALL001", "*", "")).browse(t, auth.Config{})
	all.signsIn(t, "TQALL001")
	if status, body := all.does(t, "POST", "/v1/tokens", "{}"); status != 403 || !strings.Contains(body, "session cannot make a token") {
		t.Errorf("a token: got %d %s", status, body)
	}
	if _, body := all.does(t, "GET", "/v1/actions", ""); !strings.Contains(body, `"by":"TQALL001","action":"SignIn","about":"console"`) {
		t.Errorf("the action log has %s", body)
	}
	if status, _ := all.does(t, "DELETE", "/v1/session", ""); status != 200 || all.set.MaxAge >= 0 {
		t.Errorf("signing out: %d, %v", status, all.set)
	}
}

// Neither the cookie nor the proof is enough, and both serve only pages of the very same origin.
// Another server on the same host cannot use the cookie that it is sent, and cannot make a page use
// a session of its own. [CONSOLE-11]
func TestSessionFromElsewhere(t *testing.T) {
	k := newKeyed(t, keyOf("TQALL001", "*", ""), keyOf("TQEVIL01", "*", ""))
	b := k.browse(t, auth.Config{})
	b.signsIn(t, "TQALL001")
	evil := &browser{keyed: k, cookies: make(map[string]string), remote: b.remote, host: b.host, site: b.site}
	evil.signsIn(t, "TQEVIL01")
	name := "tenaq-session-9324"
	mine := b.cookies[name]
	for what, other := range map[string]*browser{
		"the cookie alone":         b.of(func(b *browser) { b.proof = "" }),
		"the proof alone":          b.of(func(b *browser) { b.cookies = map[string]string{} }),
		"a cookie that was set":    b.of(func(b *browser) { b.cookies = evil.cookies }),
		"a proof of another":       b.of(func(b *browser) { b.proof = evil.proof }),
		"the cookie as proof":      b.of(func(b *browser) { b.proof = mine }),
		"another port":             b.of(func(b *browser) { b.host = "127.0.0.1:9999" }),
		"cross-site":               b.of(func(b *browser) { b.site = "cross-site" }),
		"same-site":                b.of(func(b *browser) { b.site = "same-site" }),
		"the address line":         b.of(func(b *browser) { b.site = "none" }),
		"no browser":               b.of(func(b *browser) { b.site = "" }),
		"another origin":           b.of(func(b *browser) { b.site, b.origin = "", "http://evil.example" }),
		"another port, by origin":  b.of(func(b *browser) { b.site, b.origin = "", "http://127.0.0.1:8000" }),
		"the origin of a sandbox":  b.of(func(b *browser) { b.site, b.origin = "", "null" }),
		"a prefix of the name":     b.of(func(b *browser) { b.cookies = map[string]string{"__Host-" + name: "x", name: mine} }),
		"a cookie without a value": b.of(func(b *browser) { b.cookies = map[string]string{name: ""} }),
	} {
		for _, ask := range []string{"GET /v1/queues", "POST /v1/do/PurgeQueue", "DELETE /v1/session"} {
			method, path, _ := strings.Cut(ask, " ")
			if status, body := other.does(t, method, path, "{}"); status != 401 && status != 403 {
				t.Errorf("%s, %s: got %d %s", what, ask, status, body)
			}
		}
	}
	twice := httptest.NewRequest("GET", "http://127.0.0.1:9324/v1/queues", nil)
	twice.Header.Set("Sec-Fetch-Site", "same-origin")
	twice.Header.Set(auth.ProofHeader, b.proof)
	twice.Header.Set("Cookie", name+"="+evil.cookies[name]+"; "+name+"="+mine)
	w := httptest.NewRecorder()
	if k.ServeHTTP(w, twice); w.Code != 401 {
		t.Errorf("two cookies of one name: got %d", w.Code)
	}
	ok := b.of(func(b *browser) { b.site, b.origin = "", "http://127.0.0.1:9324" })
	if status, body := ok.does(t, "POST", "/v1/do/PurgeQueue", "{}"); status != 200 {
		t.Errorf("the page itself: got %d %s", status, body)
	}
}

// A page of another origin cannot sign a browser in, and a sign-in needs an address that others
// cannot eavesdrop on. [CONSOLE-11, CONSOLE-12]
func TestSignInFromElsewhere(t *testing.T) {
	b := newKeyed(t, keyOf("TQALL001", "*", "")).browse(t, auth.Config{})
	for what, test := range map[string]struct {
		*browser
		want int
	}{
		"cross-site":      {b.of(func(b *browser) { b.site = "cross-site" }), 403},
		"same-site":       {b.of(func(b *browser) { b.site = "same-site" }), 403},
		"no browser":      {b.of(func(b *browser) { b.site = "" }), 403},
		"another origin":  {b.of(func(b *browser) { b.site, b.origin = "", "http://127.0.0.1:8000" }), 403},
		"another machine": {b.of(func(b *browser) { b.host = "queue.example.com:9324" }), 403},
		"a container":     {b.of(func(b *browser) { b.remote = "172.17.0.1:5000" }), 200},
		"a rebound name":  {b.of(func(b *browser) { b.host = "evil.example:9324" }), 403},
		"TLS ended by a proxy": {b.of(func(b *browser) {
			b.host, b.origin, b.remote = "q.example.com", "https://q.example.com", "192.0.2.1:5000"
		}), 200},
		"another name of it":    {b.of(func(b *browser) { b.host = "localhost:9324" }), 200},
		"its origin, no header": {b.of(func(b *browser) { b.site, b.origin = "", "http://127.0.0.1:9324" }), 200},
	} {
		test.cookies, test.set = make(map[string]string), nil
		if status, body := test.does(t, "POST", "/v1/session", signIn("TQALL001")); status != test.want {
			t.Errorf("%s: got %d %s, want %d", what, status, body, test.want)
		}
		if (test.set != nil) != (test.want == 200) {
			t.Errorf("%s: the cookie is %v", what, test.set)
		}
		if test.origin == "https://q.example.com" && (!strings.HasPrefix(test.set.String(), "__Host-tenaq-session=") || !test.set.Secure) {
			t.Errorf("over TLS the cookie is %v", test.set)
		}
	}
	r := httptest.NewRequest("POST", "http://127.0.0.1:9324/v1/session", strings.NewReader(signIn("TQALL001")))
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", "text/plain") // as a form could send it
	w := httptest.NewRecorder()
	if b.ServeHTTP(w, r); w.Code != 400 {
		t.Errorf("a sign-in as plain text: got %d %s", w.Code, w.Body)
	}
}

// A session ends without use, after hours, at its end, and with its key. [CONSOLE-13]
func TestSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, temporary := keyOf("TQALL001", "*", ""), keyOf("TQTEMP01", "*", `, "expires": "`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"`)
		k := newKeyed(t, all, temporary)
		b := k.browse(t, auth.Config{})
		check := func(when string, b *browser, want int) {
			t.Helper()
			if status, body := b.does(t, "GET", "/v1/queues", ""); status != want || want == 401 && !strings.Contains(body, `"SessionEnded"`) {
				t.Errorf("%s: got %d %s, want %d", when, status, body, want)
			}
		}
		fresh := func(key string) *browser {
			t.Helper()
			other := &browser{keyed: k, cookies: make(map[string]string), remote: b.remote, host: b.host, site: b.site}
			other.signsIn(t, key)
			return other
		}
		idle := fresh("TQALL001")
		time.Sleep(30*time.Minute - time.Second)
		check("in use", idle, 200)
		time.Sleep(30 * time.Minute)
		check("without use", idle, 401)
		long := fresh("TQALL001")
		for range 24 {
			time.Sleep(20*time.Minute - time.Millisecond)
			check("within eight hours", long, 200)
		}
		time.Sleep(time.Second)
		check("after eight hours", long, 401)
		one, two := fresh("TQALL001"), fresh("TQALL001")
		one.does(t, "DELETE", "/v1/session", "")
		check("signed out", one.of(func(b *browser) { b.cookies = two.cookies }), 401)
		check("the other session", two, 200)
		three := fresh("TQALL001")
		two.does(t, "DELETE", "/v1/session?all=1", "")
		check("signed out everywhere", three, 401)
		changed := fresh("TQALL001")
		k.write(t, strings.Replace(all, "the-secret-of-TQALL001", "another-secret-0123", 1))
		check("its key has another secret", changed, 401)
		k.write(t, all)
		check("its key has the old secret again", changed, 401)
		removed := fresh("TQALL001")
		k.write(t, keyOf("TQOTHER1", "*", ""))
		check("its key is gone", removed, 401)
		k.write(t, all)
		check("its key is there again", removed, 401)
		narrowed := fresh("TQALL001")
		k.write(t, keyOf("TQALL001", "tenaq:ListTasks", ""))
		check("its key may do less", narrowed, 403)
		k.write(t, all)
		var many []*browser
		for range 21 {
			time.Sleep(time.Second)
			many = append(many, fresh("TQALL001"))
		}
		check("the first of 21 sessions", many[0], 401)
		check("the second", many[1], 200)
	})
}

// The session of a key that expires ends with it. [CONSOLE-13]
func TestSessionOfTemporaryKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newKeyed(t, keyOf("TQTEMP01", "*", `, "expires": "`+time.Now().Add(10*time.Minute).UTC().Format(time.RFC3339)+`"`)).browse(t, auth.Config{})
		if s := b.signsIn(t, "TQTEMP01"); time.Until(*s.Ends) > 10*time.Minute {
			t.Errorf("the session says that it ends at %v", s.Ends)
		}
		time.Sleep(10 * time.Minute)
		if status, body := b.does(t, "GET", "/v1/queues", ""); status != 401 {
			t.Errorf("got %d %s", status, body)
		}
	})
}

// After five wrong secrets in a minute an address, or a key, must wait for one. An unknown key
// looks like a wrong secret. [CONSOLE-12]
func TestFailedSignIns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newKeyed(t, keyOf("TQALL001", "*", ""), keyOf("TQTWO001", "*", "")).browse(t, auth.Config{})
		from := func(address string) *browser {
			return b.of(func(b *browser) {
				b.remote, b.origin, b.cookies = address, "https://127.0.0.1:9324", map[string]string{}
			})
		}
		expect := func(b *browser, body string, want int, part string) {
			t.Helper()
			if status, got := b.does(t, "POST", "/v1/session", body); status != want || !strings.Contains(got, part) {
				t.Errorf("got %d %s, want %d", status, got, want)
			}
		}
		wrong := `{"id": "TQALL001", "secret": "no"}`
		for i := range 5 {
			expect(from("192.0.2.1:1"), []string{wrong, `{"id": "TQNONE01", "secret": ""}`}[i%2], 401, "do not belong to a key")
		}
		expect(from("192.0.2.1:2"), signIn("TQTWO001"), 429, "in a minute")
		expect(from("192.0.2.2:2"), signIn("TQTWO001"), 200, "")
		expect(from("[2001:db8::1]:1"), wrong, 401, "")
		expect(from("[2001:db8::2]:1"), wrong, 401, "")
		expect(from("192.0.2.3:1"), signIn("TQALL001"), 429, "") // it is the key that waits
		time.Sleep(time.Minute)
		expect(from("192.0.2.1:2"), signIn("TQALL001"), 200, "")
		for _, body := range []string{"", "[]", `{"id": "TQALL001"`, `{"id": ""}`, `{"id":"TQALL001","secret":"the-secret-of-TQALL001","x":1}`, signIn("TQALL001") + signIn("TQALL001"), `"` + strings.Repeat("x", 5000)} {
			expect(from("192.0.2.9:1"), body, 400, "A sign-in is JSON")
		}
	})
}

// Guesses that come at once count each. [CONSOLE-12]
func TestFailedSignInsAtOnce(t *testing.T) {
	b := newKeyed(t, keyOf("TQALL001", "*", "")).browse(t, auth.Config{})
	var wait sync.WaitGroup
	var mu sync.Mutex
	got := make(map[int]int)
	for range 50 {
		wait.Go(func() {
			status, _ := b.of(func(b *browser) { b.cookies = map[string]string{} }).does(t, "POST", "/v1/session", `{"id":"TQALL001","secret":"no"}`)
			mu.Lock()
			got[status]++
			mu.Unlock()
		})
	}
	wait.Wait()
	if got[401] != 5 || got[429] != 45 {
		t.Errorf("50 guesses: %v", got)
	}
}

// No other API takes a session. [CONSOLE-10]
func TestSessionIsForV1(t *testing.T) {
	b := newKeyed(t, keyOf("TQALL001", "*", "")).browse(t, auth.Config{})
	b.signsIn(t, "TQALL001")
	r := httptest.NewRequest("POST", "http://127.0.0.1:9324/", nil)
	r.Header.Set(auth.ProofHeader, b.proof)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.AddCookie(&http.Cookie{Name: b.set.Name, Value: b.set.Value})
	for _, service := range []string{"sqs", "monitoring", "sts"} {
		if _, err := b.cfg.Door.Authenticate(r, service); err == nil {
			t.Errorf("%s takes a session", service)
		}
	}
}

// If pages are read-only, no session can change anything, whatever its key allows; on a server
// without keys, no page can. Commands still can. [CONSOLE-14]
func TestReadOnlyPages(t *testing.T) {
	b := newKeyed(t, keyOf("TQALL001", "*", "")).browse(t, auth.Config{ReadOnlyPages: true})
	if s := b.signsIn(t, "TQALL001"); !s.ReadOnly {
		t.Error("the session does not say so")
	}
	open := newWorld(t)
	open.cfg.Door, open.cfg.SQS = auth.New(auth.Config{Account: account, Sessions: true, ReadOnlyPages: true}), b.cfg.SQS
	changing := 0
	for _, route := range routes {
		if route.method == "GET" || !b.has(route) {
			continue
		}
		path := root + strings.NewReplacer("{queue}", "q", "{task}", "q:1", "{key}", "k", "{action}", "PurgeQueue").Replace(route.path)
		refuses := func(status int, body string) bool { return status == 403 && strings.Contains(body, "read-only") }
		status, body := 0, ""
		if path != "/v1/session" {
			status, body = b.does(t, route.method, path, "{}")
		}
		page := httptest.NewRequest(route.method, "http://localhost"+path, strings.NewReader("{}"))
		page.Header.Set("Content-Type", "application/json")
		page.Header.Set("Sec-Fetch-Site", "same-origin")
		w := httptest.NewRecorder()
		open.ServeHTTP(w, page)
		command, _ := open.ask(route.method, path, "application/json", "{}")
		if got := refuses(status, body); got != route.changes() {
			t.Errorf("%s %s of a session: %d %s", route.method, path, status, body)
		}
		if got := refuses(w.Code, w.Body.String()); got != route.changes() {
			t.Errorf("%s %s of a page without keys: %d %s", route.method, path, w.Code, w.Body)
		}
		if command == 403 && route.changes() {
			t.Errorf("%s %s of a command: %d", route.method, path, command)
		}
		if route.changes() {
			changing++
		}
	}
	if changing < 15 {
		t.Errorf("only %d routes change something", changing)
	}
}

// On a read-only server without keys, what a browser sends is refused by the other APIs, and by /v1
// if it changes something, also if the browser names only the page that it comes from. Programs are
// not affected, and neither are browsers where pages may change something. [CONSOLE-14]
func TestReadOnlyBrowsers(t *testing.T) {
	for _, readOnly := range []bool{true, false} {
		w := newWorld(t)
		w.cfg.Door = auth.New(auth.Config{Account: account, Sessions: true, ReadOnlyPages: readOnly})
		w.cfg.SQS = func(context.Context, http.ResponseWriter, *http.Request, auth.Principal, string, []byte) ([]byte, error) {
			return nil, nil
		}
		for _, header := range [][2]string{{"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}, {"Origin", "http://localhost"}, {"Referer", "http://localhost/console/"}, {"X", ""}} {
			browser := header[0] != "X"
			for _, service := range []string{"sqs", "monitoring", "sts"} {
				for _, method := range []string{"GET", "POST"} {
					r := httptest.NewRequest(method, "http://localhost/?Action=CreateQueue&QueueName=x", nil)
					r.Header.Set(header[0], header[1])
					if _, err := w.cfg.Door.Authenticate(r, service); (err != nil) != (readOnly && browser) {
						t.Errorf("read-only %v: %s of %s with %q: got %v", readOnly, method, service, header, err)
					}
				}
			}
			for does, changes := range map[string]bool{"POST /v1/do/PurgeQueue": true, "GET /v1/queues": false} {
				method, path, _ := strings.Cut(does, " ")
				r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader("{}"))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set(header[0], header[1])
				got := httptest.NewRecorder()
				if w.ServeHTTP(got, r); (got.Code == 403) != (readOnly && browser && changes) || got.Code != 403 && got.Code != 200 {
					t.Errorf("read-only %v: %s with %q: got %d %s", readOnly, does, header, got.Code, got.Body)
				}
			}
		}
	}
}

// Without keys a page of another origin changes nothing, whatever it can make a browser send.
// [CONSOLE-11]
func TestChangeFromElsewhereWithoutKeys(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		header, value string
		want          int
	}{
		{"Sec-Fetch-Site", "same-origin", 200}, {"Sec-Fetch-Site", "cross-site", 403}, {"Sec-Fetch-Site", "same-site", 403},
		{"Origin", "http://localhost:8000", 403}, {"Origin", "http://localhost", 200}, {"Origin", "null", 403}, {"X", "", 200},
	} {
		w.cfg.SQS = func(context.Context, http.ResponseWriter, *http.Request, auth.Principal, string, []byte) ([]byte, error) {
			return nil, nil
		}
		r := httptest.NewRequest("POST", "http://localhost/v1/do/PurgeQueue", strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(test.header, test.value)
		got := httptest.NewRecorder()
		if w.ServeHTTP(got, r); got.Code != test.want {
			t.Errorf("%s %s: got %d %s, want %d", test.header, test.value, got.Code, got.Body, test.want)
		}
	}
	if status, body := w.ask("GET", "/v1/session", "", ""); status != 200 || !strings.Contains(body, `"open":true`) {
		t.Errorf("the session without keys: %d %s", status, body)
	}
	if status, body := w.ask("POST", "/v1/session", "application/json", `{"id":"x","secret":"y"}`); status != 400 || !strings.Contains(body, "nothing to sign in to") {
		t.Errorf("a sign-in without keys: %d %s", status, body)
	}
}

// A door without sessions has no such routes, and takes none. [CONSOLE-10]
func TestNoSessions(t *testing.T) {
	k := newKeyed(t, keyOf("TQALL001", "*", ""))
	if status, _ := k.as(t, "key TQALL001", "GET", "/v1/session", ""); status != 404 {
		t.Errorf("without a console /v1/session answers %d", status)
	}
	r := httptest.NewRequest("POST", "http://localhost/v1/session", strings.NewReader(signIn("TQALL001")))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	if k.ServeHTTP(w, r); w.Code != 403 {
		t.Errorf("without a console a sign-in answers %d", w.Code)
	}
}
