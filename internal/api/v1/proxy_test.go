package v1

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/door/auth"
)

// A visitor uses a page behind a proxy at 127.0.0.9, which names the user.
type visitor struct {
	*keyed
	user, remote string
}

const proxyRules = `{"user": "ann@example.com", "key": "TQALL001"}, {"user": "*", "key": "TQSEES01"}`

func visit(t *testing.T, cfg auth.Config) *visitor {
	t.Helper()
	k := newKeyed(t, keyOf("TQALL001", "*", ""), keyOf("TQSEES01", "tenaq:List*", ""))
	b := k.browse(t, cfg)
	v := &visitor{b.keyed, "ann@example.com", "127.0.0.9:5000"}
	v.rules(t, proxyRules)
	return v
}

// rules writes the file of keys again, with these rules for the users of the proxy.
func (v *visitor) rules(t *testing.T, rules string) {
	t.Helper()
	keys := keyOf("TQALL001", "*", "") + "," + keyOf("TQSEES01", "tenaq:List*", "")
	text := fmt.Sprintf(`{"credentials": [%s], "proxy": {"user-header": "X-Forwarded-User", "peers": ["127.0.0.9"], "rules": [%s]}}`, keys, rules)
	if err := os.WriteFile(v.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := v.set.Reload(); err != nil {
		t.Fatal(err)
	}
}

func (v *visitor) does(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, "http://queue.example.com"+path, strings.NewReader(body))
	r.RemoteAddr = v.remote
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("X-Forwarded-User", v.user)
	w := httptest.NewRecorder()
	v.ServeHTTP(w, r)
	if set := w.Result().Cookies(); len(set) > 0 {
		t.Errorf("%s %s sets the cookie %v", method, path, set)
	}
	return w.Code, w.Body.String()
}

// as is the same proxy with another user.
func (v visitor) as(user string) *visitor { v.user = user; return &v }

// A user of the proxy has the rights of a key and no session: it makes no token and ends no session
// of others. The action log has both names. [CONSOLE-19, CONSOLE-21]
func TestProxyUser(t *testing.T) {
	v := visit(t, auth.Config{})
	status, body := v.does(t, "GET", "/v1/session", "")
	var s session
	if err := json.Unmarshal([]byte(body), &s); err != nil || status != 200 {
		t.Fatalf("got %d %s", status, body)
	}
	if s.Open || s.Ends != nil || s.Proof != "" || s.Caller.Session || s.Caller.ProxyUser != "ann@example.com" || s.Caller.Key != "TQALL001" {
		t.Errorf("the session is %+v", s)
	}
	for _, test := range []struct {
		user, ask string
		want      int
		part      string
	}{
		{"ann@example.com", "POST /v1/do/PurgeQueue", 200, `"did"`},
		{"bob@example.com", "POST /v1/tasks", 403, "user/TQSEES01 is not authorized to perform: tenaq:managetasks"},
		{"bob@example.com", "GET /v1/queues", 200, `"queues"`},
		{"ann@example.com", "POST /v1/tokens", 403, "cannot make a token"},
		{"ann@example.com", "DELETE /v1/session", 400, "sign out at the proxy"},
		{"ann@example.com", "DELETE /v1/session?all=1", 400, "sign out at the proxy"},
		{"", "GET /v1/queues", 400, "The proxy must name the user in one header"},
	} {
		method, path, _ := strings.Cut(test.ask, " ")
		if status, body := v.as(test.user).does(t, method, path, "{}"); status != test.want || !strings.Contains(body, test.part) {
			t.Errorf("%s, %s: got %d %s, want %d and %s", test.user, test.ask, status, body, test.want, test.part)
		}
	}
	if _, body := v.does(t, "GET", "/v1/actions", ""); !strings.Contains(body, `"by":"TQALL001 (ann@example.com)","action":"PurgeQueue"`) ||
		!strings.Contains(body, `"proxyUser":"ann@example.com"`) {
		t.Errorf("the action log has %s", body)
	}
	for by, want := range map[string]string{"ops": "", "ops (ann)": "ann", "ops (ann))": "ann)", "ops ((x)": "(x", "unsigned": ""} {
		if got := proxyUserOf(by); got != want {
			t.Errorf("%s: the user is %q, want %q", by, got, want)
		}
	}
}

// A header of another peer is refused, whatever it says, and nothing is changed. [CONSOLE-19]
func TestProxyHeaderOfAnotherPeer(t *testing.T) {
	v := visit(t, auth.Config{})
	for _, peer := range []string{"127.0.0.1:5000", "127.0.0.8:5000", "192.0.2.1:5000", "[::1]:5000", "[fe80::1%lo]:5000", "", "pipe"} {
		v.remote = peer
		for _, ask := range []string{"GET /v1/session", "GET /v1/queues", "POST /v1/do/PurgeQueue"} {
			method, path, _ := strings.Cut(ask, " ")
			if status, body := v.does(t, method, path, "{}"); status != 400 || !strings.Contains(body, `"ProxyNotTrusted"`) || !strings.Contains(body, "add the address to peers of proxy") {
				t.Errorf("%s from %q: got %d %s", ask, peer, status, body)
			}
		}
	}
}

// The rules that hold now decide: a user whose rule was removed is refused at the next request, and
// a stream of events ends when the user acts as another key. [CONSOLE-19, CONSOLE-21]
func TestProxyRulesChange(t *testing.T) {
	v := visit(t, auth.Config{})
	v.rules(t, `{"user": "bob@example.com", "key": "TQSEES01"}`)
	if status, body := v.does(t, "GET", "/v1/queues", ""); status != 403 || !strings.Contains(body, "The user ann@example.com may not use this server: add the user") {
		t.Errorf("without its rule: got %d %s", status, body)
	}
	synctest.Test(t, func(t *testing.T) {
		v := visit(t, auth.Config{})
		defer v.Drain()
		from := time.Now()
		time.AfterFunc(15*time.Second, func() { v.rules(t, `{"user": "*", "key": "TQSEES01"}`) })
		status, body := v.does(t, "GET", "/v1/live", "")
		if took := time.Since(from); status != 200 || !strings.Contains(body, `"reason":"rights"`) || took < 15*time.Second || took > 30*time.Second {
			t.Errorf("the stream ended after %v: %d %.300s", took, status, body)
		}
	})
}

// If pages are read-only, users of the proxy change nothing, whatever their keys allow.
// [CONSOLE-14]
func TestProxyReadOnly(t *testing.T) {
	v := visit(t, auth.Config{ReadOnlyPages: true})
	if status, body := v.does(t, "POST", "/v1/do/PurgeQueue", "{}"); status != 403 || !strings.Contains(body, "read-only") {
		t.Errorf("got %d %s", status, body)
	}
}

// A user whom no rule lets in can sign in with a key, and then the session counts. [CONSOLE-19]
func TestProxyUserWithKey(t *testing.T) {
	v := visit(t, auth.Config{})
	v.rules(t, `{"user": "ann@example.com", "key": "TQALL001"}`)
	ask := func(method, path, body, proof string, cookies []*http.Cookie) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://queue.example.com"+path, strings.NewReader(body))
		r.RemoteAddr = v.remote
		for name, value := range map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin", "Origin": "https://queue.example.com", "X-Forwarded-User": "eve"} {
			r.Header.Set(name, value)
		}
		if proof != "" {
			r.Header.Set(auth.ProofHeader, proof)
		}
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		v.ServeHTTP(w, r)
		return w
	}
	if w := ask("GET", "/v1/queues", "", "", nil); w.Code != 403 {
		t.Fatalf("without a rule: got %d %s", w.Code, w.Body)
	}
	in := ask("POST", "/v1/session", signIn("TQSEES01"), "", nil)
	var s session
	if err := json.Unmarshal(in.Body.Bytes(), &s); err != nil || in.Code != 200 {
		t.Fatalf("the sign-in: %d %s", in.Code, in.Body)
	}
	w := ask("GET", "/v1", "", s.Proof, in.Result().Cookies())
	if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, `"key":"TQSEES01"`) || strings.Contains(body, "proxyUser") {
		t.Errorf("in the session: got %d %s", w.Code, body)
	}
}
