package v1

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHealth(t *testing.T) {
	var silence time.Duration
	var trouble string
	cfg := Health{
		Silence: func() time.Duration { return silence },
		Trouble: func() string { return trouble },
		Version: "v1.2.3",
	}
	for _, test := range []struct {
		name    string
		silence time.Duration
		trouble string
		livez   string // the body; ok is 200 and everything else 503
		readyz  string
		state   string
	}{
		{"well", 5 * time.Second, "", "ok", "ok", "running"},
		{"slow", silenceMax, "", "ok", "ok", "running"},
		{"in trouble", 0, "the server is stopping", "ok", "the server is stopping", "error"},
		{"stuck", silenceMax + time.Second, "", "no turn has reached the disk for 16s: check the latency of the disk, then restart the server",
			"no turn has reached the disk for 16s: check the latency of the disk, then restart the server", "error"},
		{"stuck and in trouble", time.Minute, "the server is stopping", "no turn has reached the disk for 1m0s: check the latency of the disk, then restart the server",
			"no turn has reached the disk for 1m0s: check the latency of the disk, then restart the server", "error"},
	} {
		silence, trouble = test.silence, test.trouble
		for path, want := range map[string]string{"/livez": test.livez, "/readyz": test.readyz} {
			status := http.StatusServiceUnavailable
			if want == "ok" {
				status = http.StatusOK
			}
			got := ask(Admin(cfg), "GET", path)
			if got.Code != status || got.Body.String() != want+"\n" {
				t.Errorf("%s: %s answers %d %q, want %d %q", test.name, path, got.Code, got.Body, status, want+"\n")
			}
			if h := got.Header(); h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %s has headers %v", test.name, path, h)
			}
		}
		got := ask(LocalStackHealth(cfg), "GET", "/_localstack/health")
		want := `{"edition":"tenaq","services":{"sqs":"` + test.state + `"},"version":"v1.2.3"}` + "\n"
		if got.Code != http.StatusOK || got.Body.String() != want || got.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: LocalStack's health is %d %q, want %q", test.name, got.Code, got.Body, want)
		}
	}
}

func TestNothingElse(t *testing.T) {
	h := Admin(Health{Silence: func() time.Duration { return 0 }, Trouble: func() string { return "" }})
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{"HEAD", "/livez", http.StatusOK},
		{"POST", "/livez", http.StatusMethodNotAllowed},
		{"GET", "/", http.StatusNotFound},
		{"GET", "/livez/x", http.StatusNotFound},
	} {
		if got := ask(h, test.method, test.path).Code; got != test.want {
			t.Errorf("%s %s: got %d, want %d", test.method, test.path, got, test.want)
		}
	}
}

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader("")))
	return w
}
