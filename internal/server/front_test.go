package server

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// front asks for / of an address.
func front(t *testing.T, change func(r *http.Request), address string) (status int, kind, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
}

// The page at each of the two addresses says what runs there, and what to do next. [WIRE-33]
func TestFrontPage(t *testing.T) {
	s, stop := run(t, config(t))
	defer func() { _ = stop() }()
	admin := "http://" + s.AdminAddr()
	for _, address := range []string{s.URL(), s.URL() + "/", admin, admin + "/"} {
		status, kind, body := front(t, nil, address)
		if status != 200 || kind != "text/plain; charset=utf-8" {
			t.Errorf("%s: got %d %s", address, status, kind)
		}
		for _, part := range []string{"tenaq v1.2.3: ", "SQS API:  " + s.URL() + "\n", s.URL() + "/v1/queues", admin + "/livez", admin + "/readyz", admin + "/metrics"} {
			if !strings.Contains(body, part) {
				t.Errorf("%s: no %q in %s", address, part, body)
			}
		}
		for line := range strings.Lines(body) { // every link leads somewhere
			if i := strings.Index(line, "http://"); i > 0 && strings.HasPrefix(line, "  ") {
				if status, _, _ := front(t, nil, strings.TrimSpace(line[i:])); status != 200 {
					t.Errorf("the link %s answers %d", line[i:], status)
				}
			}
		}
	}
	if status, _, _ := front(t, nil, admin+"/other"); status != 404 {
		t.Errorf("another page of the admin address answers %d", status)
	}
}

// The page takes nothing from the API: a GET with a query is of the Query protocol, and whatever
// else it was stays what it was. [WIRE-33, WIRE-24, XML-1]
func TestFrontPageIsNoCall(t *testing.T) {
	s, stop := run(t, config(t))
	defer func() { _ = stop() }()
	if status, kind, body := front(t, nil, s.URL()+"/?Action=ListQueues&Version=2012-11-05"); status != 200 || kind != "text/xml" || !strings.Contains(body, "<ListQueuesResponse") {
		t.Errorf("ListQueues by GET: got %d %s %s", status, kind, body)
	}
	for name, change := range map[string]func(r *http.Request){
		"a query":      func(r *http.Request) { r.URL.RawQuery = "x=y" },
		"a target":     func(r *http.Request) { r.Header.Set("X-Amz-Target", "AmazonSQS.ListQueues") },
		"a signature":  func(r *http.Request) { r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a") },
		"another way":  func(r *http.Request) { r.Method = http.MethodDelete },
		"another path": func(r *http.Request) { r.URL.Path = "/other" },
	} {
		if status, kind, body := front(t, change, s.URL()+"/"); status != 404 || strings.HasPrefix(kind, "text/plain") {
			t.Errorf("with %s: got %d %s %s, want what is not found", name, status, kind, body)
		}
	}
	if status, _, _ := front(t, func(r *http.Request) { r.Host = "evil.example" }, s.URL()+"/"); status != 403 {
		t.Errorf("for a web page of elsewhere: got %d, want 403", status)
	}
}

// If requests must be signed, the page that anyone may read says nothing that only the operator
// should know.
func TestFrontPageWithKeys(t *testing.T) {
	cfg := config(t)
	cfg.Credentials = twoAccounts(t)
	s, stop := run(t, cfg)
	defer func() { _ = stop() }()
	status, _, body := front(t, nil, s.URL())
	at, _ := url.Parse("http://" + s.AdminAddr())
	if status != 200 || strings.Contains(body, "v1.2.3") || strings.Contains(body, at.Port()) || !strings.Contains(body, s.URL()) {
		t.Errorf("got %d %s, want the page without version and admin address", status, body)
	}
	if _, _, body := front(t, nil, "http://"+s.AdminAddr()); !strings.Contains(body, "v1.2.3") {
		t.Errorf("the admin address says %s, want the version in it", body)
	}
}
