package fingerprint_test

import (
	"testing"

	"tenaq/internal/work/fingerprint"
)

// Failures that differ only in what varies have the same fingerprint, and others have not.
// [NACK-15]
func TestOf(t *testing.T) {
	type failure struct{ class, text string }
	for _, tt := range []struct {
		name string
		a, b failure
		same bool
	}{
		{"numbers", failure{"", "no answer after 30 s"}, failure{"", "no answer after 1.5 s"}, true},
		{"quotations", failure{"", `no customer "anna"`}, failure{"", `no customer "otto"`}, true},
		{"UUIDs", failure{"", "order 00112233-4455-4677-8899-aabbccddeeff"}, failure{"", "order ffeeddcc-4455-4677-8899-aabbccddee00"}, true},
		{"hexadecimal", failure{"", "commit 0xab failed"}, failure{"", "commit 0xcd failed"}, true},
		{"addresses", failure{"", "GET https://a.example/1"}, failure{"", "GET https://b.example/2"}, true},
		{"letter case and blanks", failure{"", "Not  Found"}, failure{"", "not found"}, true},
		{"later lines", failure{"", "panic\nstack 1"}, failure{"", "panic\nother"}, true},
		{"words", failure{"", "card declined"}, failure{"", "card expired"}, false},
		{"classes", failure{"Timeout", "no"}, failure{"Refused", "no"}, false},
		{"class alone", failure{"Timeout", ""}, failure{"Timeout", ""}, true},
		{"class and text", failure{"Timeout", ""}, failure{"", "Timeout"}, false},
	} {
		a, b := fingerprint.Of(tt.a.class, tt.a.text), fingerprint.Of(tt.b.class, tt.b.text)
		if a == fingerprint.Unknown || (a == b) != tt.same {
			t.Errorf("%s: %+v and %+v have the fingerprints %s and %s", tt.name, tt.a, tt.b, a, b)
		}
	}
	if got := fingerprint.Of("", " \n "); got != fingerprint.Unknown {
		t.Errorf("a blank text has the fingerprint %s, want %s", got, fingerprint.Unknown)
	}
	// Redrivers keep this one in their state.
	if got := fingerprint.Of("", "the shipper answers 503"); got != "3764as6844zsj" {
		t.Errorf("the fingerprint of a known text is %s", got)
	}
}
