// Package metrictest reads what a metric writer has written, for tests: the value of each name with
// its labels. It checks nothing about the format; package metric does that.
package metrictest

import (
	"strings"
	"testing"

	"tenaq/internal/observe/metric"
)

// Values is what is written, by name and labels.
func Values(t *testing.T, write func(*metric.Writer)) map[string]string {
	t.Helper()
	var b strings.Builder
	w := metric.NewWriter(&b)
	write(w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	values := make(map[string]string)
	for line := range strings.Lines(b.String()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok &&
			!strings.HasPrefix(line, "#") {
			values[name+"}"] = value
		} else if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			values[name] = value
		}
	}
	return values
}

func Want(t *testing.T, got map[string]string, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
}
