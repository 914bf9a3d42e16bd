package settings

import (
	"slices"
	"testing"

	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
)

// Commands get the address of the records without a password. [V1-15]
func TestRecordsAddress(t *testing.T) {
	for address, want := range map[string]string{
		"server":                     "server",
		"sqlite:/var/lib/records.db": "sqlite:/var/lib/records.db",
		"dynamodb:arn:aws:dynamodb:eu:1:table/a:b": "dynamodb:arn:aws:dynamodb:eu:1:table/a:b",
		"postgres://app@db/app?tenaq_table=a.b":    "postgres://app@db/app?tenaq_table=a.b",
		"postgres://app:s3cret@db/app":             "postgres://app@db/app",
		"postgres://db/app?user=app&password=s3":   "postgres://db/app?user=app",
		"postgres://app:%s@db/app":                 "postgres:",
	} {
		s := &RedriveSection{Records: cli.RecordsFlags{Address: address}}
		if got := s.RecordsAddress(func(string) string { return "sqlite:other.db" }); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
	s := &RedriveSection{}
	if got := s.RecordsAddress(func(string) string { return "postgres://a:b@c/d" }); got != "postgres://a@c/d" {
		t.Errorf("from the environment: got %s", got)
	}
}

// The ledger of a section is among the flags of its redrivers.
func TestRedriveFlags(t *testing.T) {
	spec := redrivehost.Spec{Policy: redrivehost.DefaultPolicy()}
	spec.Schedule, _ = redrivehost.ParseSchedule(redrivehost.ScheduleDefault)
	s := &RedriveSection{Ledger: "jobs/", NoClaims: true}
	if got, want := s.Flags(&spec), []string{"--ledger", "jobs/", "--no-claims"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
