package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// ask asks for a path of the console.
func ask(method, path string, header http.Header) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	r.Header = header
	w := httptest.NewRecorder()
	Serve(w, r)
	return w.Result()
}

func bodyOf(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The page is revalidated each time, and the files that it loads are cached forever. [CONSOLE-2]
func TestFiles(t *testing.T) {
	page := ask("GET", "/console/", nil)
	text := bodyOf(t, page)
	if page.StatusCode != 200 || page.Header.Get("Cache-Control") != "no-cache" ||
		page.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("the page: %d %v", page.StatusCode, page.Header)
	}
	files := regexp.MustCompile(`(?:src|href)="\./([^"]+)"`).FindAllStringSubmatch(text, -1)
	if len(files) < 3 {
		t.Fatalf("the page loads %v, want a style, an icon and a script", files)
	}
	for _, m := range files {
		file := ask("GET", "/console/"+m[1], http.Header{"Accept-Encoding": {"br, gzip;q=0.9"}})
		if file.StatusCode != 200 || !strings.Contains(file.Header.Get("Cache-Control"), "immutable") ||
			file.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %d %v", m[1], file.StatusCode, file.Header)
		}
		packed := bodyOf(t, file)
		plain := ask("GET", "/console/"+m[1], http.Header{"Accept-Encoding": {"gzip;q=0"}})
		if got := bodyOf(t, plain); plain.Header.Get("Content-Encoding") != "" || len(got) <= len(packed) {
			t.Errorf("%s without gzip: %d bytes, %v", m[1], len(got), plain.Header)
		}
		if head := ask("HEAD", "/console/"+m[1], nil); head.ContentLength <= 0 || bodyOf(t, head) != "" {
			t.Errorf("HEAD %s: %d bytes", m[1], head.ContentLength)
		}
	}
	for _, want := range []string{"<noscript>", "tenaq peek", "tenaq alarms"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if strings.Contains(text, "style=") || regexp.MustCompile(`<script[^>]*>[^<]`).MatchString(text) {
		t.Error("the page has an inline style or script, which its policy forbids")
	}
}

// Every answer has the headers, also a refusal. [CONSOLE-4]
func TestHeaders(t *testing.T) {
	want := [][2]string{ // not the list of the product, so that a header that is lost there is missed here
		{"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
			"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
			"require-trusted-types-for 'script'; trusted-types 'none'"},
		{"X-Frame-Options", "DENY"},
		{"Referrer-Policy", "no-referrer"},
		{"X-Content-Type-Options", "nosniff"},
		{"Cross-Origin-Opener-Policy", "same-origin"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{"Permissions-Policy", "clipboard-write=(self), geolocation=(), camera=(), microphone=()"},
	}
	for _, r := range []*http.Response{ask("GET", "/console/", nil), ask("GET", "/console", nil),
		ask("POST", "/console/", nil), ask("GET", "/console/none.js", nil)} {
		for _, pair := range want {
			if got := r.Header.Values(pair[0]); len(got) != 1 || got[0] != pair[1] {
				t.Errorf("%d: %s is %q, want %q", r.StatusCode, pair[0], got, pair[1])
			}
		}
	}
}

// The console refuses every request except a GET of one of its files. [CONSOLE-3]
func TestRefused(t *testing.T) {
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH"} {
		if r := ask(method, "/console/", nil); r.StatusCode != 405 || r.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d", method, r.StatusCode)
		}
	}
	for _, path := range []string{"/console/none.js", "/console/../console.go", "/console/a/b", "/console/index.html.gz", "/console//"} {
		if r := ask("GET", path, nil); r.StatusCode != 404 || strings.Contains(r.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", path, r.StatusCode, r.Header)
		}
	}
	if r := ask("GET", "/console", nil); r.StatusCode != 308 || r.Header.Get("Location") != "console/" {
		t.Errorf("/console: %d %q", r.StatusCode, r.Header.Get("Location"))
	}
}

func TestIs(t *testing.T) {
	for path, want := range map[string][2]bool{
		"/console": {true, true}, "/console/": {true, true}, "/console/app.js": {true, false},
		"/consoles": {}, "/": {}, "/v1/console/": {}, "/000000000000/console": {},
	} {
		r := httptest.NewRequest("GET", path, nil)
		if Is(r) != want[0] || IsPage(r) != want[1] {
			t.Errorf("%s: got %v, %v, want %v", path, Is(r), IsPage(r), want)
		}
	}
	if IsPage(httptest.NewRequest("POST", "/console/", nil)) {
		t.Error("a POST is for the page")
	}
}
