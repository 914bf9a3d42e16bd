package policy

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// Dates mean what package time says that they mean.
func TestParseDate(t *testing.T) {
	for range 20_000 {
		at := time.Unix(rand.Int64N(253402300799), rand.Int64N(1e9)).In(time.FixedZone("", (rand.IntN(2*1439)-1439)*60))
		for _, layout := range []string{time.RFC3339, time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02"} {
			text := at.Format(layout)
			want, err := time.Parse(layout, text)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := parseDate(text)
			if want.Unix() < 0 {
				if ok {
					t.Fatalf("%s: got %s, want it refused", text, got)
				}
				continue
			}
			if !ok || compareDecimals(got, fmt.Sprintf("%d.%09d", want.Unix(), want.Nanosecond())) != 0 {
				t.Fatalf("%s: got %s, %v, want %d.%09d", text, got, ok, want.Unix(), want.Nanosecond())
			}
		}
	}
	for _, text := range []string{
		"", "2026", "2026-11", "2026-13-01", "2026-00-01", "2026-02-29", "2100-02-29", "2026-11-31", "2026-11-00", "1969-12-31", "2026-1-1",
		"2026-11-22T24:00:00Z", "2026-11-22T12:60:00Z", "2026-11-22T12:00:60Z", "2026-11-22T12:00:00", "2026-11-22 12:00:00Z", "2026-11-22T12Z",
		"2026-11-22T12:00:00+24:00", "2026-11-22T12:00:00+01:60", "2026-11-22T12:00:00.Z", "2026-11-22T12:00:00+0100", "1970-01-01T00:00:00+00:01",
	} {
		if got, ok := parseDate(text); ok {
			t.Errorf("%q: got %s, want it refused", text, got)
		}
	}
	for text, want := range map[string]string{"1970-01-01": "0", "2024-02-29": "1709164800", "9999-12-31T23:59:59.5Z": "253402300799.5"} {
		if got, ok := parseDate(text); !ok || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, ok, want)
		}
	}
}

// Decimals compare as package big compares them.
func TestCompareDecimals(t *testing.T) {
	texts := []string{"0", "-0", "0.0", "-0.00", "1", "01", "1.0", "-1", "10", "9", "-10", "-9", "1.5", "1.50", "1.05", "-1.5", "-1.05", "0.1", "-0.1", "1795348800", "99999999999999999999999999999999999.9"}
	for _, x := range texts {
		for _, y := range texts {
			a, _ := new(big.Rat).SetString(x)
			b, _ := new(big.Rat).SetString(y)
			if got, want := compareDecimals(x, y), a.Cmp(b); got != want {
				t.Errorf("%s to %s: got %d, want %d", x, y, got, want)
			}
		}
	}
}
