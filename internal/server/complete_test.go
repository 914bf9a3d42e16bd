package server

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCompleteDefaults(t *testing.T) {
	c := Config{DataDir: "d"}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:9324" || c.AdminListen != "127.0.0.1:9325" || c.Account != "000000000000" || c.Region != "us-east-1" {
		t.Errorf("addresses and names: got %q, %q, %q, %q", c.Listen, c.AdminListen, c.Account, c.Region)
	}
	// [QUEUE-19, PURGE-4, CLOCK-11, LIM-1, DUR-20]
	if c.RecreateDelay != time.Minute || c.PurgeInterval != time.Minute || c.VisibilityGrace != time.Minute ||
		c.InFlightMax != 120_000 || c.DiskReserve != 512<<20 || c.TimeScale != 1 {
		t.Errorf("rules: got %v, %v, %v, %v, %v, %v", c.RecreateDelay, c.PurgeInterval, c.VisibilityGrace, c.InFlightMax, c.DiskReserve, c.TimeScale)
	}
	if c.Logger == nil || c.Fatal == nil {
		t.Error("no logger or no fatal function")
	}
	// A rule of the clock can be switched off, which zero cannot say. [CLOCK-13, QUEUE-19, PURGE-4]
	off := Config{DataDir: "d", VisibilityGrace: -1, PurgeInterval: -1, RecreateDelay: -1, DiskReserve: -1}
	if err := off.complete(); err != nil {
		t.Fatal(err)
	}
	if off.VisibilityGrace != 0 || off.PurgeInterval != 0 || off.RecreateDelay != 0 || off.DiskReserve != 0 {
		t.Errorf("switched off: got %v, %v, %v, %v, want zeros", off.VisibilityGrace, off.PurgeInterval, off.RecreateDelay, off.DiskReserve)
	}
}

func TestCompleteRefuses(t *testing.T) {
	proxied := keysOf(t, `{"credentials": [{"id": "TQOPS00001", "secret": "0123456789abcdef", "allow": ["*"]}],
		"proxy": {"user-header": "X-Forwarded-Email", "peers": ["127.0.0.1"], "rules": [{"user": "*", "key": "TQOPS00001"}]}}`)
	for _, test := range []struct {
		name   string
		config Config
		want   string // part of the sentence; empty when accepted
	}{
		{"no directory", Config{}, "--data-dir"},
		{"short account", Config{DataDir: "d", Account: "123"}, "--account"},
		{"account with a letter", Config{DataDir: "d", Account: "00000x000000"}, "--account"},
		{"negative scale", Config{DataDir: "d", TimeScale: -1}, "--time-scale"},
		{"no scale", Config{DataDir: "d", TimeScale: math.NaN()}, "--time-scale"},
		{"endless scale", Config{DataDir: "d", TimeScale: math.Inf(1)}, "--time-scale"},
		{"negative limit", Config{DataDir: "d", InFlightMax: -1}, "--in-flight-max"},
		{"address without a port", Config{DataDir: "d", Listen: "localhost"}, "--listen"},
		{"public URL without a scheme", Config{DataDir: "d", PublicURL: "queue.example.com"}, "--public-url"},
		{"public URL of another scheme", Config{DataDir: "d", PublicURL: "ftp://queue.example.com"}, "--public-url"},
		{"public URL without a host", Config{DataDir: "d", PublicURL: "https:///x"}, "--public-url"},
		{"public URL with a query", Config{DataDir: "d", PublicURL: "https://queue.example.com/?a=b"}, "--public-url"},
		{"public URL with a path", Config{DataDir: "d", PublicURL: "https://queue.example.com/sqs/"}, ""},

		// [CONSOLE-20]
		{"a proxy, no console", Config{DataDir: "d", Listen: "0.0.0.0:9324", Credentials: proxied}, "set --console to on"},
		{"a proxy, a console", Config{DataDir: "d", Listen: "0.0.0.0:9324", Credentials: proxied, Console: "on"}, ""},
		{"a proxy, surely no console", Config{DataDir: "d", Listen: "0.0.0.0:9324", Credentials: proxied, Console: "off"}, ""},
		{"a proxy on this machine", Config{DataDir: "d", Credentials: proxied}, ""},

		// [AUTH-1]
		{"everybody", Config{DataDir: "d", Listen: "0.0.0.0:9324"}, "--allow-unauthenticated"},
		{"everybody, unsaid", Config{DataDir: "d", Listen: ":9324"}, "--allow-unauthenticated"},
		{"everybody of IPv6", Config{DataDir: "d", Listen: "[::]:9324"}, "--allow-unauthenticated"},
		{"a name that may be anything", Config{DataDir: "d", Listen: "queue.example.com:9324"}, "--allow-unauthenticated"},
		{"everybody, wanted", Config{DataDir: "d", Listen: "0.0.0.0:9324", AllowUnauthenticated: true}, ""},
		{"loopback", Config{DataDir: "d", Listen: "127.0.0.9:9324"}, ""},
		{"loopback of IPv6", Config{DataDir: "d", Listen: "[::1]:9324"}, ""},
		{"loopback by name", Config{DataDir: "d", Listen: "localhost:9324"}, ""},

		// [CLOCK-15]
		{"scaled for everybody", Config{DataDir: "d", Listen: "0.0.0.0:9324", AllowUnauthenticated: true, TimeScale: 2}, "--time-scale"},
		{"scaled on loopback", Config{DataDir: "d", TimeScale: 100}, ""},
	} {
		err := test.config.complete()
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: got %v, want it accepted", test.name, err)
		case test.want != "" && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want ErrConfig and a sentence that names %s", test.name, err, test.want)
		}
	}
}

// [AUTH-2]
func TestHosts(t *testing.T) {
	for _, test := range []struct {
		config Config
		want   []string
	}{
		{Config{Listen: "127.0.0.1:9324"}, []string{"127.0.0.1"}},
		{Config{Listen: ":9324"}, []string{}},
		{Config{Listen: "[fe80::1]:9324"}, []string{"fe80::1"}},
		{Config{Listen: "Queue.Example.com:1"}, []string{"queue.example.com"}},
		{Config{Listen: ":1", AllowedHosts: []string{"Tenaq", "queue.example.com:9324", "[fd00::1]:80", "[fd00::2]", "fd00::3"}},
			[]string{"tenaq", "queue.example.com", "fd00::1", "fd00::2", "fd00::3"}},
		{Config{Listen: ":1", PublicURL: "https://Queue.Example.com:8443/sqs"}, []string{"queue.example.com"}},
	} {
		got := test.config.hosts()
		if got == nil || !slices.Equal(got, test.want) {
			t.Errorf("hosts of %q, %q, %q: got %q, want %q", test.config.Listen, test.config.AllowedHosts, test.config.PublicURL, got, test.want)
		}
	}
}
