package cli

import (
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"tenaq/internal/observe/metric"
)

func TestMetricsListen(t *testing.T) {
	t.Setenv("TENAQ_METRICS_LISTEN", "")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for _, test := range []struct {
		flag, environment string
		host              string // empty is none
		bad               string
		code              int
	}{
		{"", "", "", "", ExitOK},
		{"off", "127.0.0.1:0", "", "", ExitOK},
		{"", "off", "", "", ExitOK},
		{":0", "", "127.0.0.1", "", ExitOK},
		{"", ":0", "127.0.0.1", "", ExitOK},
		{"localhost:0", "", "127.0.0.1", "", ExitOK},
		{":" + port, "", "", "--metrics-listen: address 127.0.0.1:" + port + " is in use", ExitRefused},
		{"", ":" + port, "", "TENAQ_METRICS_LISTEN: address 127.0.0.1:" + port + " is in use", ExitRefused},
		{"9326", "", "", "--metrics-listen: \"9326\" is not an address with a port", ExitUsage},
		{"192.0.2.1:1", "", "", "--metrics-listen: cannot listen on 192.0.2.1:1", ExitUsage},
	} {
		t.Setenv("TENAQ_METRICS_LISTEN", test.environment)
		s, err := (&MetricsFlags{test.flag}).Listen()
		host := ""
		if s != nil {
			host, _, _ = net.SplitHostPort(s.listener.Addr().String())
		}
		s.Close()
		if ExitCode(err) != test.code || err != nil && !strings.HasPrefix(err.Error(), test.bad) || host != test.host {
			t.Errorf("%q and %q listen on %q with error %v, want %q and %q", test.flag, test.environment, host, err, test.host, test.bad)
		}
	}
}

func TestMetricsHandler(t *testing.T) {
	h := metricsHandler(func(w *metric.Writer) {
		w.Begin(metric.Family{Name: "a", Help: "A", Kind: metric.KindGauge})
		w.Value(1)
	})
	for _, test := range []struct {
		method, path string
		code         int
		kind         string
		body         string // in it
	}{
		{"GET", "/metrics", 200, metric.ContentType, "# HELP a A\n# TYPE a gauge\na 1\n# HELP tenaq_build_info "},
		{"GET", "/livez", 200, "text/plain; charset=utf-8", "ok\n"},
		{"POST", "/metrics", 405, "text/plain; charset=utf-8", ""},
		{"GET", "/", 404, "text/plain; charset=utf-8", ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(test.method, test.path, nil))
		if kind := w.Header().Get("Content-Type"); w.Code != test.code || kind != test.kind || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%s %s: got %d %q %q, want %d %q %q", test.method, test.path, w.Code, kind, w.Body, test.code, test.kind, test.body)
		}
	}
}
