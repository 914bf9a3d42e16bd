package extension

import (
	"testing"

	"tenaq/internal/testing/proof"
)

// Values are what the tables say, and words say what they are. [EXT-7, EXT-10, EXT-12, HIST-3]
func TestExplain(t *testing.T) {
	for _, test := range []struct{ tag, value, want string }{
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
		{MaxInFlightPerGroup, "10", ""},
		{Paused, "true", "paused: no message is delivered"},
		{Paused, "True", ""},
		{RateTag, "50", "at most 50 deliveries a second"},
		{RateTag, "1/s", "at most 1 delivery a second"},
		{RateTag, "6/m", "at most 6 deliveries a minute"},
		{RateTag, "100000/h", "at most 100000 deliveries an hour"},
		{RateTag, "100001/h", ""},
		{RateTag, "6/min", ""},
		{RateTag, "/s", ""},
		{RateTag, "6/", ""},
		{RateTag, "6/s/s", ""},
		{"team", "payments", ""},
	} {
		if got := Explain(test.tag, test.value); got != test.want {
			t.Errorf("%s=%s is explained as %q, want %q", test.tag, test.value, got, test.want)
		}
	}
}

// However consumers come, in any time a rate allows what it says for that time, and one second's
// worth or one message more. Consumers that wait until they are told get all of it. [EXT-13]
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
