package auth

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tenaq/internal/door/credentials"
)

// proxyDoor is a door with three keys behind a proxy at 10.1.2.3.
func proxyDoor(t testing.TB) *Door {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, []byte(`{"credentials": [
		{"id": "OPS1", "secret": "the-secret-of-the-operators", "allow": ["*"]},
		{"id": "VIEW", "secret": "the-secret-of-the-others", "allow": ["tenaq:List*"]},
		{"id": "GONE", "secret": "the-secret-of-those-before", "allow": ["*"], "expires": "2020-01-01T00:00:00Z"}],
		"proxy": {"user-header": "X-Forwarded-Email", "groups-header": "X-Forwarded-Groups", "peers": ["10.1.2.3"],
			"rules": [{"group": "ops", "key": "OPS1"}, {"user": "old@example.com", "key": "GONE"}, {"user": "*@example.com", "key": "VIEW"}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := credentials.Open(credentials.Config{File: path})
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Credentials: set, Account: "000000000000", Region: "us-east-1", Sessions: true})
}

// askProxied authenticates a request of a page from a peer. Each header is a line. The answer is
// the key and the user, or the code of the error.
func askProxied(d *Door, peer string, lines ...string) string {
	r := httptest.NewRequest("GET", "http://queue.example.com/v1/queues", nil)
	r.RemoteAddr = peer
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if value == "-" {
			r.Header.Del(name)
			continue
		}
		r.Header.Add(name, value)
	}
	pending, err := d.AuthenticateV1(r)
	if err == nil {
		var who Principal
		if who, err = pending.Finish(nil); err == nil {
			return who.key.ID + " " + who.ProxyUser()
		}
	}
	return err.(*Error).Code
}

// A header of the proxy is believed from the proxy alone, and only in a form that no client can
// have added to. [CONSOLE-19, CONSOLE-20]
func TestProxyHeader(t *testing.T) {
	d := proxyDoor(t)
	const peer, ann = "10.1.2.3:5000", "X-Forwarded-Email: ann@example.com"
	for _, test := range []struct {
		name, peer string
		lines      []string
		want       string
	}{
		{"a user", peer, []string{ann}, "VIEW ann@example.com"},
		{"any case of the name", peer, []string{"x-forwarded-EMAIL: ann@example.com"}, "VIEW ann@example.com"},
		{"an IPv4 peer of an IPv6 socket", "[::ffff:10.1.2.3]:5000", []string{ann}, "VIEW ann@example.com"},
		{"a group", peer, []string{ann, "X-Forwarded-Groups: dev, ops ,qa"}, "OPS1 ann@example.com"},
		{"a stranger in a group", peer, []string{"X-Forwarded-Email: eve@evil.example", "X-Forwarded-Groups: ops"}, "OPS1 eve@evil.example"},
		{"no group", peer, []string{ann, "X-Forwarded-Groups: "}, "VIEW ann@example.com"},
		{"a group of another name", peer, []string{ann, "X-Forwarded-Groups: ops2,o,ps,öps"}, "VIEW ann@example.com"},
		{"no rule", peer, []string{"X-Forwarded-Email: eve@evil.example"}, "ProxyUserUnknown"},
		{"an expired key", peer, []string{"X-Forwarded-Email: old@example.com"}, "ProxyUserUnknown"},

		{"another peer", "10.1.2.4:5000", []string{ann}, "ProxyNotTrusted"},
		{"this machine", "127.0.0.1:5000", []string{ann}, "ProxyNotTrusted"},
		{"no address", "pipe", []string{ann}, "ProxyNotTrusted"},
		{"another peer that names the proxy", "192.0.2.1:5000", []string{ann, "X-Forwarded-For: 10.1.2.3", "Forwarded: for=10.1.2.3", "Tenaq-Client: 10.1.2.3:1"}, "ProxyNotTrusted"},
		{"groups alone", "192.0.2.1:5000", []string{"X-Forwarded-Groups: ops"}, "MissingAuthenticationToken"},
		{"groups alone, from the proxy", peer, []string{"X-Forwarded-Groups: ops"}, "MissingAuthenticationToken"},
		{"no header", peer, nil, "MissingAuthenticationToken"},
		{"an underscore", peer, []string{"X_Forwarded_Email: ann@example.com"}, "MissingAuthenticationToken"},

		{"twice", peer, []string{ann, ann}, "ProxyHeaderInvalid"},
		{"twice, the first empty", peer, []string{"X-Forwarded-Email: ", ann}, "ProxyHeaderInvalid"},
		{"joined", peer, []string{"X-Forwarded-Email: eve@example.com, ann@example.com"}, "ProxyHeaderInvalid"},
		{"empty", peer, []string{"X-Forwarded-Email: "}, "ProxyHeaderInvalid"},
		{"a space", peer, []string{"X-Forwarded-Email: ann @example.com"}, "ProxyHeaderInvalid"},
		{"a control character", peer, []string{"X-Forwarded-Email: ann\t@example.com"}, "ProxyHeaderInvalid"},
		{"a line", peer, []string{"X-Forwarded-Email: ann\n@example.com"}, "ProxyHeaderInvalid"},
		{"an escape", peer, []string{"X-Forwarded-Email: ann\x1b[0m@example.com"}, "ProxyHeaderInvalid"},
		{"UTF-8", peer, []string{"X-Forwarded-Email: jürgen@example.com"}, "ProxyHeaderInvalid"},
		{"Latin-1", peer, []string{"X-Forwarded-Email: j\xfcrgen@example.com"}, "ProxyHeaderInvalid"},
		{"256 bytes", peer, []string{"X-Forwarded-Email: " + strings.Repeat("x", 244) + "@example.com"}, "VIEW " + strings.Repeat("x", 244) + "@example.com"},
		{"257 bytes", peer, []string{"X-Forwarded-Email: " + strings.Repeat("x", 245) + "@example.com"}, "ProxyHeaderInvalid"},
		{"groups twice", peer, []string{ann, "X-Forwarded-Groups: dev", "X-Forwarded-Groups: ops"}, "ProxyHeaderInvalid"},
		{"too many groups", peer, []string{ann, "X-Forwarded-Groups: " + strings.Repeat("g,", 4096) + "ops"}, "ProxyHeaderInvalid"},

		{"cross-site", peer, []string{ann, "Sec-Fetch-Site: -", "Sec-Fetch-Site: cross-site"}, "AccessDenied"},
		{"same-site", peer, []string{ann, "Sec-Fetch-Site: -", "Sec-Fetch-Site: same-site"}, "AccessDenied"},
		{"the address line", peer, []string{ann, "Sec-Fetch-Site: -", "Sec-Fetch-Site: none"}, "AccessDenied"},
		{"no browser", peer, []string{ann, "Sec-Fetch-Site: -"}, "AccessDenied"},
		{"another origin", peer, []string{ann, "Sec-Fetch-Site: -", "Origin: https://evil.example"}, "AccessDenied"},
		{"another port", peer, []string{ann, "Sec-Fetch-Site: -", "Origin: https://queue.example.com:8443"}, "AccessDenied"},
		{"its own origin", peer, []string{ann, "Sec-Fetch-Site: -", "Origin: https://queue.example.com"}, "VIEW ann@example.com"},

		{"a password of the proxy", peer, []string{ann, "Authorization: Basic YW5uOnNlY3JldA=="}, "VIEW ann@example.com"},
		{"a token of the proxy", peer, []string{ann, "Authorization: Bearer eyJhbGciOi.e30.x"}, "VIEW ann@example.com"},
		{"a token of this server", peer, []string{ann, "Authorization: bearer tqt1.NONE.99999999999.x"}, "InvalidClientTokenId"},
		{"a signature", peer, []string{ann, "Authorization: AWS4-HMAC-SHA256 x"}, "IncompleteSignature"},
		{"a session", peer, []string{ann, "Tenaq-Session: x"}, "SessionEnded"},
	} {
		if got := askProxied(d, test.peer, test.lines...); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

// No API but /v1 believes the header, nor does a door without pages. [CONSOLE-19]
func TestProxyHeaderIsForV1(t *testing.T) {
	d := proxyDoor(t)
	r := httptest.NewRequest("POST", "http://queue.example.com/", nil)
	r.RemoteAddr = "10.1.2.3:5000"
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("X-Forwarded-Email", "ann@example.com")
	if _, err := d.AuthenticateV1(r); err != nil {
		t.Fatalf("the rig is blind: %v", err)
	}
	for _, service := range []string{"sqs", "monitoring", "sts"} {
		if _, err := d.Authenticate(r, service); err == nil {
			t.Errorf("%s believes the header", service)
		}
	}
	d.cfg.Sessions = false
	if _, err := d.AuthenticateV1(r); err == nil {
		t.Error("a server without a console believes the header")
	}
}

// FuzzProxyHeader holds the door to: nothing but a header of the proxy alone names a user, that
// user is the text of the header, and the text is safe to log.
func FuzzProxyHeader(f *testing.F) {
	f.Add("10.1.2.3:5000", "ann@example.com", "", "ops", "")
	f.Add("[::ffff:10.1.2.3]:1", "ann@example.com,eve", "x", "a,ops, b", "")
	f.Add("10.1.2.4:5000", "ann@example.com", "", "ops", "Basic x")
	f.Add("10.1.2.3%eth0:1", "j\xfc@example.com", "", "", "Bearer tqt1.a.b.c")
	d := proxyDoor(f)
	f.Fuzz(func(t *testing.T, peer, user, second, groups, authorization string) {
		r := httptest.NewRequest("GET", "http://queue.example.com/v1/queues", nil)
		r.RemoteAddr = peer
		r.Header = http.Header{"Sec-Fetch-Site": {"same-origin"}, "X-Forwarded-Email": {user}, "X-Forwarded-Groups": {groups}}
		if second != "" {
			r.Header.Add("X-Forwarded-Email", second)
		}
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		pending, err := d.AuthenticateV1(r)
		if err != nil {
			return
		}
		who, err := pending.Finish(nil)
		switch {
		case err != nil:
		case second != "" || who.ProxyUser() != user || len(user) > 256 || strings.Trim(user, "!\"#$%&'()*+-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~") != "":
			t.Errorf("%q and %q name %q", user, second, who.ProxyUser())
		case !strings.Contains(peer, "10.1.2.3"):
			t.Errorf("%q is believed", peer)
		case who.key.ID == "OPS1" && !strings.Contains(groups, "ops"), who.key.ID == "GONE",
			who.key.ID == "VIEW" && !strings.HasSuffix(user, "@example.com"):
			t.Errorf("%q of %q acts as %s", user, groups, who.key.ID)
		}
	})
}
