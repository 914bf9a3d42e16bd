package auth

import (
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// [AUTH-2]
func TestAllowedHost(t *testing.T) {
	hosts := []string{"queue.example.com", "fe80::1"}
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:1": true, "a.localhost": true, "a.b.localhost:80": true,
		"127.0.0.1": true, "127.9.9.9:80": true, "[::1]": true, "[::1]:80": true, "::1": true,
		"queue.example.com": true, "QUEUE.example.com:8080": true, "[fe80::1]:80": true,
		"": false, ":80": false, "example.com": false, "a.queue.example.com": false, "queue.example.com.": false,
		"localhost.example.com": false, "notlocalhost": false, ".localhost.": false, "127.0.0.1.example.com": false,
		"10.0.0.1": false, "0.0.0.0": false, "[::]": false, "2130706433": false, "0x7f.1": false,
	} {
		if got := allowedHost(hosts, host); got != want {
			t.Errorf("allowedHost(%q): got %v, want %v", host, got, want)
		}
	}
	if !allowedHost(nil, "anything") {
		t.Error("allowedHost without a list: got false, want true")
	}
}

// The headers in which a browser names the page of a request decide, whatever the request is. Other
// clients do not send them. [AUTH-3, XML-37]
func TestPageOfAnotherOrigin(t *testing.T) {
	const site, origin, referer = "Sec-Fetch-Site", "Origin", "Referer"
	for _, test := range []struct {
		host    string
		headers []string
		want    bool
	}{
		{"localhost:9324", nil, true},
		{"localhost:9324", []string{origin, "http://localhost:9324"}, true},
		{"localhost:9324", []string{origin, "http://LOCALHOST:9324"}, true},
		{"localhost", []string{origin, "http://localhost"}, true},
		{"[::1]:9324", []string{origin, "http://[::1]:9324"}, true},
		{"localhost:9324", []string{referer, "http://localhost:9324/console/"}, true},
		{"localhost:9324", []string{referer, "about:blank"}, true},
		{"localhost:9324", []string{site, "same-origin", origin, "http://localhost:9324"}, true},
		{"localhost:9324", []string{site, "same-origin", origin, "http://localhost:3000"}, true}, // a proxy has changed Host
		{"localhost:9324", []string{site, "none"}, true},

		{"localhost:9324", []string{origin, "http://localhost:3000"}, false},
		{"localhost:9324", []string{origin, "http://localhost"}, false},
		{"localhost", []string{origin, "http://localhost:3000"}, false},
		{"[::1]:9324", []string{origin, "http://[::1]:3000"}, false},
		{"localhost:9324", []string{origin, "http://127.0.0.1:9324"}, false},
		{"localhost:9324", []string{origin, "http://localhost.example.com:9324"}, false},
		{"localhost:9324", []string{origin, "null"}, false},
		{"localhost:9324", []string{origin, "http://%zz"}, false},
		{"localhost:9324", []string{referer, "http://localhost:3000/"}, false},
		{"localhost:9324", []string{origin, "http://localhost:3000", referer, "http://localhost:9324/"}, false},
		{"localhost:9324", []string{site, "same-site"}, false},
		{"localhost:9324", []string{site, "same-site", origin, "http://localhost:3000"}, false},
		{"localhost:9324", []string{site, "same-site", origin, "http://localhost:9324"}, false},
		{"localhost:9324", []string{site, "cross-site", origin, "null"}, false},
		{"localhost:9324", []string{site, "same-origin", origin, "http://example.com:9324"}, false},
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "OPTIONS"} {
			r := httptest.NewRequest(method, "/", nil)
			r.Host = test.host
			for i := 0; i < len(test.headers); i += 2 {
				r.Header.Set(test.headers[i], test.headers[i+1])
			}
			if err := refuseWebPages(r, []string{}, new(atomic.Pointer[string])); (err == nil) != test.want {
				t.Errorf("%s to %s with %q: got %v, want it taken: %v", method, test.host, test.headers, err, test.want)
			}
		}
	}
}
