package redrive

import (
	"testing"
	"time"

	"tenaq/redrive/breaker"
)

// The reason why a message failed can be read from the reason why it was parked, for every reason
// to park.
func TestCause(t *testing.T) {
	var p Policy
	if err := p.setDefaults(); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	s := first(&p)
	s.Well = []Span{{now.Add(-48 * time.Hour), now.Add(time.Minute)}}
	const broadReason = "the shipper answers: 503\nand a trace"
	s.Kinds = []Kind{{
		Fingerprint: FingerprintOf(broadReason), Lineages: []string{"a", "b", "c"}, Since: now.Add(-p.HoldMax - time.Hour),
		Breaker: breaker.Breaker{State: breaker.Closed},
	}}
	for _, test := range []struct {
		name   string
		letter Letter
	}{
		{"poison", Letter{Poison: true, Reason: "it is no JSON: x"}},
		{"strikes", Letter{Strikes: p.Redrives, Reason: broadReason}},
		{"nearly alone", Letter{Strikes: p.Strikes, Reason: "no customer: 7"}},
		{"long held", Letter{Sends: 1, Died: now, Reason: broadReason}},
		{"no reason", Letter{Poison: true}},
	} {
		why := s.parks(&p, now, test.letter, test.letter.Strikes)
		if why == "" {
			t.Errorf("%s: it was not parked", test.name)
			continue
		}
		gotWhy, got := cause(why)
		if got != test.letter.Reason || gotWhy == "" {
			t.Errorf("%s: %q is for %q because of %q, want because of %q", test.name, why, gotWhy, got, test.letter.Reason)
		}
	}
	if why, failure := cause("no customer: 7"); why != "" || failure != "no customer: 7" {
		t.Errorf("what a person parked is for %q because of %q", why, failure)
	}
}
