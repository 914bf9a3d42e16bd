package auth

import "testing"

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

// [AUTH-3]
func TestSameHost(t *testing.T) {
	for _, test := range []struct {
		origin, host string
		want         bool
	}{
		{"localhost:3000", "localhost:9324", true},
		{"LOCALHOST", "localhost:9324", true},
		{"[::1]:3000", "[::1]:9324", true},
		{"example.com", "localhost:9324", false},
		{"localhost.example.com", "localhost", false},
		{"127.0.0.1:9324", "localhost:9324", false},
		{"", "localhost:9324", false},
	} {
		if got := sameHost(test.origin, test.host); got != test.want {
			t.Errorf("sameHost(%q, %q): got %v, want %v", test.origin, test.host, got, test.want)
		}
	}
}
