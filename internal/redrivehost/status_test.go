package redrivehost

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"tenaq/redrive"
	"tenaq/redrive/breaker"
)

// Usual: a fixed number of messages per run; messages expire before the operator knows that the run
// is too slow. Ours: the status says how long the dead letters take, and warns if that is longer
// than the queue keeps them.
func TestRetentionWarning_FB11(t *testing.T) {
	p := DefaultPolicy()
	closed := redrive.State{Breaker: breaker.Breaker{State: breaker.Closed}}
	open, paused := closed, closed
	open.Breaker = breaker.Breaker{State: breaker.Open, LastChange: time.Now(), Trips: 1}
	paused.Paused = "by somebody"
	for _, test := range []struct {
		name  string
		state redrive.State
		rate  drainRate
		age   string // of the oldest, in seconds
		kept  string
		drain time.Duration
		warn  string // "" for no warning
	}{
		{"in time", closed, drainRate{60, time.Hour}, "", "1209600", 1000 * time.Hour / 60, ""},
		{"too slow", closed, drainRate{2, time.Hour}, "", "345600", 500 * time.Hour, "that takes about 20 days, and the oldest has at most 4 days left; keep messages for longer"},
		{"too slow for any retention", closed, drainRate{1, time.Hour}, "", "1209600", 1000 * time.Hour, "that takes about 41 days, and the oldest has at most 14 days left; raise --rate-max"},
		{"too old", closed, drainRate{60, time.Hour}, "1206000", "1209600", 1000 * time.Hour / 60, "that takes about 16 h, and the oldest has 1 h left; raise --rate-max"},
		{"nobody knows", closed, drainRate{}, "", "345600", 0, ""},
		{"open", open, drainRate{2, time.Hour}, "", "345600", 0, ""},
		{"paused", paused, drainRate{2, time.Hour}, "", "345600", 0, ""},
	} {
		attributes := map[string]string{
			"ApproximateNumberOfMessages": "900", "ApproximateNumberOfMessagesNotVisible": "100", "MessageRetentionPeriod": test.kept,
		}
		var oldest *float64
		if age, err := strconv.ParseFloat(test.age, 64); err == nil {
			oldest = &age
		}
		s := newStatus("dead", &test.state, test.rate, attributes, oldest, &p)
		var drain time.Duration
		if s.Drain != nil {
			drain = time.Duration(*s.Drain * float64(time.Second)).Round(time.Second)
		}
		if s.Depth != 1000 || drain != test.drain.Round(time.Second) {
			t.Errorf("%s: %d dead letters take %v, want 1000 and %v", test.name, s.Depth, drain, test.drain)
		}
		if got := strings.Join(s.Warnings, "\n"); (got == "") != (test.warn == "") || !strings.Contains(got, test.warn) {
			t.Errorf("%s: warned %q, want %q", test.name, got, test.warn)
		}
	}
}
