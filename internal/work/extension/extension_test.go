package extension

import (
	"testing"

	"tenaq/internal/testing/proof"
)

// Values are what the tables say, and words say what they are.
// [EXT-7, EXT-10, EXT-12, EXT-17, EXT-24, EXT-29, EXT-47, HIST-3]
func TestExplain(t *testing.T) {
	for _, test := range []struct{ tag, value, want string }{
		{DedupWindowTag, "5m", "a deduplication id is remembered for 5 m"},
		{DedupWindowTag, "4m", ""},
		{DedupWindowTag, "365d", "a deduplication id is remembered for 365 d"},
		{DedupWindowTag, "8761h", ""},
		{DedupWindowTag, "300", ""},
		{History, "7d", "messages that have ended are kept for 7 d"},
		{History, "90m", "messages that have ended are kept for 90 m"},
		{History, "48h", "messages that have ended are kept for 2 d"},
		{History, "1GiB", "messages that have ended are kept up to 1 GiB"},
		{History, "7d/64MiB", "messages that have ended are kept for 7 d, up to 64 MiB"},
		{MaxInFlight, "1", "at most 1 message is in flight"},
		{MaxInFlight, "120000", "at most 120000 messages are in flight"},
		{MaxInFlight, "120001", ""},
		{MaxInFlight, "01", ""},
		{MaxInFlightPerGroup, "1", "at most 1 message of a group is in flight"},
		{MaxInFlightPerGroup, "9", "at most 9 messages of a group are in flight"},
		{MaxInFlightPerGroup, "120000", "at most 120000 messages of a group are in flight"},
		{MaxInFlightPerGroup, "120001", ""},
		{Fair, "true", "fair: the groups with the fewest messages in flight are served first"},
		{Fair, "1", ""},
		{Paused, "true", "paused: no message is delivered"},
		{Paused, "True", ""},
		{Priority, "1m", "urgent messages come first, and 1 m of waiting is worth one level"},
		{Priority, "90s", "urgent messages come first, and 90 s of waiting is worth one level"},
		{Priority, "24h", "urgent messages come first, and 1 d of waiting is worth one level"},
		{Priority, "14d", "urgent messages come first, and 14 d of waiting is worth one level"},
		{Priority, "337h", ""},
		{Priority, "0s", ""},
		{Priority, "500ms", ""},
		{Priority, "true", ""},
		{RateTag, "50", "at most 50 deliveries a second"},
		{RateTag, "1/s", "at most 1 delivery a second"},
		{RateTag, "6/m", "at most 6 deliveries a minute"},
		{RateTag, "100000/h", "at most 100000 deliveries an hour"},
		{RateTag, "100001/h", ""},
		{RateTag, "6/min", ""},
		{RateTag, "/s", ""},
		{RateTag, "6/", ""},
		{RateTag, "6/s/s", ""},
		{DelayMaxTag, "90d", "attributes of a message delay it for up to 90 d"},
		{DelayMaxTag, "8760h", "attributes of a message delay it for up to 365 d"},
		{DelayMaxTag, "8761h", ""},
		{DelayMaxTag, "30s", ""},
		{RetryTag, "10s", "a failed attempt is repeated after 10 s"},
		{RetryTag, "10s..10s", "a failed attempt is repeated after 10 s"},
		{RetryTag, "90s..15m", "a failed attempt is repeated after 90 s, and then after pauses that double up to 15 m"},
		{RetryTag, "60s..12h/x10", "a failed attempt is repeated after 1 m, and then after pauses 10 times as long, up to 12 h"},
		{RetryTag, "10s/x3", ""},
		{RetryTag, "10s..5s", ""},
		{RetryTag, "10s..13h", ""},
		{RetryTag, "500ms", ""},
		{RetryTag, "10", ""},
		{RetryTag, "10s..15m/x1", ""},
		{RetryTag, "10s..15m/x11", ""},
		{RetryTag, "10s..", ""},
		{RetryTag, "..10s", ""},
		{RetryTag, "10s..15m/x", ""},
		{RetryTag, "10s..15m..1h", ""},
		{"team", "payments", ""},
	} {
		if got := Explain(test.tag, test.value); got != test.want {
			t.Errorf("%s=%s is explained as %q, want %q", test.tag, test.value, got, test.want)
		}
	}
}

// In any period, a rate allows what it says for that period, plus one second's worth or one
// message, however consumers arrive. Consumers that wait to be served get all of it. [EXT-13]
func TestRate(t *testing.T) {
	random := proof.Random(t)
	for range proof.Count(100, 1_000, 20_000, 200_000) {
		r := Rate{1 + random.Int64N(1+random.Int64N(rateMax)), periods[random.IntN(len(periods))].size}
		type hand struct{ at, messages int64 }
		var hands []hand
		level, at := r.Period, int64(0)
		for range 1 + random.IntN(40) {
			wait := r.Wait(level)
			if wait > 0 && r.Refill(level, wait-1) >= r.Period || r.Refill(level, wait) < r.Period {
				t.Fatalf("%s with %d units: the next token is said to come after %d ms", r, level, wait)
			}
			elapsed := []int64{wait, random.Int64N(4), random.Int64N(2000),
				random.Int64N(1 << 50)}[random.IntN(4)]
			at += elapsed
			level = r.Refill(level, elapsed)
			n := min(level/r.Period, 1+random.Int64N(10))
			level -= n * r.Period
			hands = append(hands, hand{at, n})
		}
		for i := range hands {
			sum := int64(0)
			for _, h := range hands[i:] {
				sum += h.messages
				units, elapsed := sum*r.Period-r.Full(), h.at-hands[i].at
				if units > 0 && units > r.Messages*min(elapsed, 1<<40) {
					t.Fatalf("%s: %d messages in %d ms", r, sum, elapsed)
				}
			}
		}
	}
}

// Pauses grow by the factor up to the longest, and jitter adds up to a tenth: nothing to some
// messages and nearly a tenth to others. [EXT-17, EXT-20]
func TestPause(t *testing.T) {
	for _, test := range []struct {
		value string
		want  []int64 // seconds
	}{
		{"10s", []int64{10, 10, 10}},
		{"10s..15m", []int64{10, 20, 40, 80, 160, 320, 640, 900, 900}},
		{"1s..1m/x10", []int64{1, 10, 60, 60}},
		{"12h..12h/x10", []int64{43200, 43200}},
	} {
		var s Set
		s.Add(RetryTag, test.value)
		for i, seconds := range test.want {
			least, most, sum := int64(1)<<62, int64(0), 0.0
			const messages = 1000
			for m := range uint64(messages) {
				part := float64(s.Retry.Pause(uint32(i)+1, m+1)-seconds*1000) / float64(seconds*1000)
				if part < 0 || part > 0.1 {
					t.Fatalf("%s: attempt %d of message %d waits for %d s and %f of it", test.value, i+1, m+1,
						seconds, part)
				}
				least, most, sum = min(least, int64(part*1000)), max(most, int64(part*1000)), sum+part
			}
			if mean := sum / messages; least > 1 || most < 99 || mean < 0.045 || mean > 0.055 {
				t.Errorf("%s: attempt %d: jitter from %d to %d thousandths, on average %f", test.value, i+1,
					least, most, mean)
			}
		}
	}
	b := Backoff{1000, pauseMax, 2}
	for _, attempt := range []uint32{0, 1 << 31, 1<<32 - 1} {
		if got := b.Pause(attempt, 1<<63); got < 1000 || got > pauseMax*11/10 {
			t.Errorf("attempt %d waits for %d ms", attempt, got)
		}
	}
}
