package fingerprint_test

import (
	"testing"

	"tenaq/internal/work/fingerprint"
)

// Failures that differ only in what varies have the same fingerprint, and others have not.
// [NACK-15]
func TestOf(t *testing.T) {
	for _, tt := range []struct {
		name, a, b string
		same       bool
	}{
		{"numbers", "no answer after 30 s", "no answer after 1.5 s", true},
		{"quotations", `no customer "anna"`, `no customer "otto"`, true},
		{"UUIDs", "order 00112233-4455-4677-8899-aabbccddeeff", "order ffeeddcc-4455-4677-8899-aabbccddee00", true},
		{"hexadecimal", "commit 0xab failed", "commit 0xcd failed", true},
		{"addresses", "GET https://a.example/1", "GET https://b.example/2", true},
		{"letter case and blanks", "Not  Found", "not found", true},
		{"later lines", "panic\nstack 1", "panic\nother", true},
		{"words", "card declined", "card expired", false},
		{"classes", "Timeout: no", "Refused: no", false},
		{"numbers in classes", "HTTP503: no", "HTTP504: no", true},
	} {
		a, b := fingerprint.Of(tt.a), fingerprint.Of(tt.b)
		if a == fingerprint.Unknown || (a == b) != tt.same {
			t.Errorf("%s: %s and %s have the fingerprints %s and %s", tt.name, tt.a, tt.b, a, b)
		}
	}
	if got := fingerprint.Of(" \n "); got != fingerprint.Unknown {
		t.Errorf("a blank text has the fingerprint %s, want %s", got, fingerprint.Unknown)
	}
	// Redrivers keep this one in their state.
	if got := fingerprint.Of("the shipper answers 503"); got != "3764as6844zsj" {
		t.Errorf("the fingerprint of a known text is %s", got)
	}
}
